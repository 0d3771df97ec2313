#include "textflag.h"
#include "avx2_amd64.h"

// The types whose elements are combined without conversion.
#define LOAD(from, acc, high)   VMOVDQU from, acc
#define STORE(to, acc, high)    VMOVDQU acc, to
#define STREAM(to, acc, high)   VMOVNTDQ acc, to
#define PLAIN(LOADER, OP)       KERNEL(EACH8, 8, 32, LOADER, OP, STORE, STREAM)

// f16: one half of a vector widens to a whole one.
#define LOAD_F16(from, acc, high)   VCVTPH2PS from, acc
#define STORE_F16(to, acc, high)    VCVTPS2PH $0, acc, to
#define STREAM_F16(to, acc, high)   VCVTPS2PH $0, acc, X8; VMOVNTDQ X8, to
#define HALF(LOADER, OP)            KERNEL(EACH8, 8, 16, LOADER, OP, STORE_F16, STREAM_F16)

// bf16: even and odd elements are processed separately. avx512_amd64.s explains
// that, and why a NaN needs no special care here. The constants are 0xffff0000,
// 0x7fff and 1.
#define BF16_CONSTANTS \
	VPCMPEQD Y15, Y15, Y15; \
	VPSLLD   $16, Y15, Y13; \
	VPSRLD   $17, Y15, Y14; \
	VPSRLD   $31, Y15, Y15

#define LOAD_BF16(from, acc, high) \
	VMOVDQU from, Y8;       \
	VPSLLD  $16, Y8, acc;   \
	VPAND   Y13, Y8, high

#define NARROW_BF16(acc, high) \
	VPSRLD   $16, acc, Y8;   \
	VPSRLD   $16, high, Y9;  \
	VPAND    Y15, Y8, Y8;    \
	VPAND    Y15, Y9, Y9;    \
	VPADDD   Y14, Y8, Y8;    \
	VPADDD   Y14, Y9, Y9;    \
	VPADDD   acc, Y8, Y8;    \
	VPADDD   high, Y9, Y9;   \
	VPSRLD   $16, Y8, Y8;    \
	VPBLENDW $0xaa, Y9, Y8, Y8

#define STORE_BF16(to, acc, high)  NARROW_BF16(acc, high); VMOVDQU Y8, to
#define STREAM_BF16(to, acc, high) NARROW_BF16(acc, high); VMOVNTDQ Y8, to
#define BFLOAT(LOADER, OP)         KERNEL(EACH4, 4, 32, LOADER, OP, STORE_BF16, STREAM_BF16)

// VMINPS and VMAXPS return their second operand if the operands are equal or one
// is a NaN. So the results of both orders differ only for -0 and +0, and if one
// operand is a NaN. For the minimum, the bitwise OR of both results is right: it
// is -0, or a NaN. For the maximum, the AND is right for +0, but a NaN needs the
// OR, which is selected where the operands are unordered.
#define MIN_F32(from, acc, high) \
	VMOVUPS from, Y10;      \
	VMINPS  acc, Y10, Y11;  \
	VMINPS  Y10, acc, acc;  \
	VORPS   Y11, acc, acc

#define MIN_F64(from, acc, high) \
	VMOVUPD from, Y10;      \
	VMINPD  acc, Y10, Y11;  \
	VMINPD  Y10, acc, acc;  \
	VORPD   Y11, acc, acc

#define MAX_F32(from, acc, high) \
	VMOVUPS   from, Y10;         \
	VCMPPS    $3, Y10, acc, Y12; \
	VMAXPS    acc, Y10, Y11;     \
	VMAXPS    Y10, acc, acc;     \
	VORPS     Y11, acc, Y10;     \
	VANDPS    Y11, acc, acc;     \
	VBLENDVPS Y12, Y10, acc, acc

#define MAX_F64(from, acc, high) \
	VMOVUPD   from, Y10;         \
	VCMPPD    $3, Y10, acc, Y12; \
	VMAXPD    acc, Y10, Y11;     \
	VMAXPD    Y10, acc, acc;     \
	VORPD     Y11, acc, Y10;     \
	VANDPD    Y11, acc, acc;     \
	VBLENDVPD Y12, Y10, acc, acc

#define SUM_F32(from, acc, high)  VADDPS from, acc, acc
#define PROD_F32(from, acc, high) VMULPS from, acc, acc

#define SUM_F64(from, acc, high)  VADDPD from, acc, acc
#define PROD_F64(from, acc, high) VMULPD from, acc, acc

#define OP_F16(OP, from, acc, high) VCVTPH2PS from, Y8; OP(Y8, acc, high)
#define SUM_F16(from, acc, high)    OP_F16(SUM_F32, from, acc, high)
#define PROD_F16(from, acc, high)   OP_F16(PROD_F32, from, acc, high)
#define MIN_F16(from, acc, high)    OP_F16(MIN_F32, from, acc, high)
#define MAX_F16(from, acc, high)    OP_F16(MAX_F32, from, acc, high)

#define OP_BF16(OP, from, acc, high) LOAD_BF16(from, Y9, Y8); OP(Y9, acc, high); OP(Y8, high, acc)
#define SUM_BF16(from, acc, high)    OP_BF16(SUM_F32, from, acc, high)
#define PROD_BF16(from, acc, high)   OP_BF16(PROD_F32, from, acc, high)
#define MIN_BF16(from, acc, high)    OP_BF16(MIN_F32, from, acc, high)
#define MAX_BF16(from, acc, high)    OP_BF16(MAX_F32, from, acc, high)

#define SUM_I32(from, acc, high)  VPADDD from, acc, acc
#define PROD_I32(from, acc, high) VPMULLD from, acc, acc
#define MIN_I32(from, acc, high)  VPMINSD from, acc, acc
#define MAX_I32(from, acc, high)  VPMAXSD from, acc, acc

#define SUM_I64(from, acc, high)  VPADDQ from, acc, acc

#define SUM_U8(from, acc, high) VPADDB from, acc, acc
#define MIN_U8(from, acc, high) VPMINUB from, acc, acc
#define MAX_U8(from, acc, high) VPMAXUB from, acc, acc

// The scaled sums multiply the first source while loading it.
#define SCALE_F32 VCVTSD2SS scale+48(FP), X8, X8; VBROADCASTSS X8, Y12
#define SCALE_F64 VBROADCASTSD scale+48(FP), Y12

#define LOAD_SCALED_F32(from, acc, high)  VMULPS from, Y12, acc
#define LOAD_SCALED_F64(from, acc, high)  VMULPD from, Y12, acc
#define LOAD_SCALED_F16(from, acc, high)  VCVTPH2PS from, acc; VMULPS acc, Y12, acc
#define LOAD_SCALED_BF16(from, acc, high) LOAD_BF16(from, acc, high); VMULPS acc, Y12, acc; VMULPS high, Y12, high

TEXT ·sumF64AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_F64)

TEXT ·prodF64AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, PROD_F64)

TEXT ·minF64AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_F64)

TEXT ·maxF64AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_F64)

TEXT ·scaledSumF64AVX2(SB), NOSPLIT, $0-73
	SCALE_F64
	PLAIN(LOAD_SCALED_F64, SUM_F64)

TEXT ·sumF32AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_F32)

TEXT ·prodF32AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, PROD_F32)

TEXT ·minF32AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_F32)

TEXT ·maxF32AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_F32)

TEXT ·scaledSumF32AVX2(SB), NOSPLIT, $0-73
	SCALE_F32
	PLAIN(LOAD_SCALED_F32, SUM_F32)

TEXT ·sumF16AVX2(SB), NOSPLIT, $0-73
	HALF(LOAD_F16, SUM_F16)

TEXT ·prodF16AVX2(SB), NOSPLIT, $0-73
	HALF(LOAD_F16, PROD_F16)

TEXT ·minF16AVX2(SB), NOSPLIT, $0-73
	HALF(LOAD_F16, MIN_F16)

TEXT ·maxF16AVX2(SB), NOSPLIT, $0-73
	HALF(LOAD_F16, MAX_F16)

TEXT ·scaledSumF16AVX2(SB), NOSPLIT, $0-73
	SCALE_F32
	HALF(LOAD_SCALED_F16, SUM_F16)

TEXT ·sumBF16AVX2(SB), NOSPLIT, $0-73
	BF16_CONSTANTS
	BFLOAT(LOAD_BF16, SUM_BF16)

TEXT ·prodBF16AVX2(SB), NOSPLIT, $0-73
	BF16_CONSTANTS
	BFLOAT(LOAD_BF16, PROD_BF16)

TEXT ·minBF16AVX2(SB), NOSPLIT, $0-73
	BF16_CONSTANTS
	BFLOAT(LOAD_BF16, MIN_BF16)

TEXT ·maxBF16AVX2(SB), NOSPLIT, $0-73
	BF16_CONSTANTS
	BFLOAT(LOAD_BF16, MAX_BF16)

TEXT ·scaledSumBF16AVX2(SB), NOSPLIT, $0-73
	SCALE_F32
	BF16_CONSTANTS
	BFLOAT(LOAD_SCALED_BF16, SUM_BF16)

TEXT ·sumI64AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_I64)

TEXT ·sumI32AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_I32)

TEXT ·prodI32AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, PROD_I32)

TEXT ·minI32AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_I32)

TEXT ·maxI32AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_I32)

TEXT ·sumU8AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_U8)

TEXT ·minU8AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_U8)

TEXT ·maxU8AVX2(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_U8)

// Four elements of 16 bits. WIDEN takes them from memory into four f32 in "to".
#define FOUR(WIDEN) \
	MOVQ   dst_base+0(FP), DI;   \
	MOVQ   srcs_base+24(FP), SI; \
	MOVQ   srcs_len+32(FP), CX;  \
	MOVQ   (SI), R8;             \
	WIDEN((R8), X0);             \
	JMP    more;                 \
next:                                \
	ADDQ   $24, SI;              \
	MOVQ   (SI), R8;             \
	WIDEN((R8), X1);             \
	VADDPS X1, X0, X0;           \
more:                                \
	DECQ   CX;                   \
	JNE    next

#define WIDEN_F16(from, to)  VCVTPH2PS from, to
#define WIDEN_BF16(from, to) VPMOVZXWD from, to; VPSLLD $16, to, to

TEXT ·sumFourF16(SB), NOSPLIT, $0-48
	FOUR(WIDEN_F16)
	VCVTPS2PH $0, X0, (DI)
	RET

TEXT ·sumFourBF16(SB), NOSPLIT, $0-48
	FOUR(WIDEN_BF16)
	VPCMPEQD  X2, X2, X2
	VPSRLD    $31, X2, X3 // 1
	VPSRLD    $17, X2, X2 // 0x7fff
	VPSRLD    $16, X0, X1
	VPAND     X3, X1, X1
	VPADDD    X2, X0, X0
	VPADDD    X1, X0, X0
	VPSRLD    $16, X0, X0
	VPACKUSDW X0, X0, X0
	VMOVQ     X0, (DI)
	RET

// The conversions take blocks of 8 elements, four at a time while there are four.
#define CONVERT4(STEP, in, out) \
	STEP(0*in(SI), 0*out(DI), Y0); \
	STEP(1*in(SI), 1*out(DI), Y1); \
	STEP(2*in(SI), 2*out(DI), Y2); \
	STEP(3*in(SI), 3*out(DI), Y3)

#define BLOCKS(FOUR, ONE, in, out) \
	SUBQ $4, CX;     \
	JLT  few;        \
four:                    \
	FOUR;            \
	ADDQ $4*in, SI;  \
	ADDQ $4*out, DI; \
	SUBQ $4, CX;     \
	JGE  four;       \
few:                     \
	ADDQ $4, CX;     \
	JEQ  done;       \
one:                     \
	ONE;             \
	ADDQ $in, SI;    \
	ADDQ $out, DI;   \
	DECQ CX;         \
	JNE  one;        \
done:                    \
	VZEROUPPER;      \
	RET

#define LONG_F16(from, to, y)  VCVTPH2PS from, y; VMOVUPS y, to
#define LONG_BF16(from, to, y) VPMOVZXWD from, y; VPSLLD $16, y, y; VMOVDQU y, to
#define SHORT_F16(from, to, y)  VMOVUPS from, y; VCVTPS2PH $0, y, to

// To bf16, rounding to nearest even: adds 0x7fff (half a step minus one), plus one
// if the last remaining bit is odd, and drops the lower half. A NaN, which could
// become an infinity that way, only gets its quiet bit set. Y12 is 1, Y13 is
// 0x7fff, and Y14 is the quiet bit.
#define SHORT_BF16(from, to, y) \
	VMOVDQU   from, y;      \
	VCMPPS    $3, y, y, Y4; \
	VPOR      Y14, y, Y5;   \
	VPSRLD    $16, y, Y6;   \
	VPAND     Y12, Y6, Y6;  \
	VPADDD    Y13, Y6, Y6;  \
	VPADDD    y, Y6, y;     \
	VPBLENDVB Y4, Y5, y, y; \
	VPSRLD    $16, y, y

#define SHORT4_BF16 \
	CONVERT4(SHORT_BF16, 32, 16); \
	VPACKUSDW Y1, Y0, Y0;     \
	VPACKUSDW Y3, Y2, Y2;     \
	VPERMQ    $0xd8, Y0, Y0;  \
	VPERMQ    $0xd8, Y2, Y2;  \
	VMOVDQU   Y0, (DI);       \
	VMOVDQU   Y2, 32(DI)

#define SHORT1_BF16 \
	SHORT_BF16((SI), (DI), Y0); \
	VEXTRACTI128 $1, Y0, X1;   \
	VPACKUSDW    X1, X0, X0;   \
	VMOVDQU      X0, (DI)

// func widenF16AVX2(dst *float32, src *byte, blocks int)
TEXT ·widenF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ blocks+16(FP), CX
	BLOCKS(CONVERT4(LONG_F16, 16, 32), LONG_F16((SI), (DI), Y0), 16, 32)

// func widenBF16AVX2(dst *float32, src *byte, blocks int)
TEXT ·widenBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ blocks+16(FP), CX
	BLOCKS(CONVERT4(LONG_BF16, 16, 32), LONG_BF16((SI), (DI), Y0), 16, 32)

// func narrowF16AVX2(dst *byte, src *float32, blocks int)
TEXT ·narrowF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ blocks+16(FP), CX
	BLOCKS(CONVERT4(SHORT_F16, 32, 16), SHORT_F16((SI), (DI), Y0), 32, 16)

// func narrowBF16AVX2(dst *byte, src *float32, blocks int)
TEXT ·narrowBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ blocks+16(FP), CX
	VPCMPEQD Y12, Y12, Y12
	VPSRLD   $17, Y12, Y13 // 0x7fff
	VPSRLD   $31, Y12, Y12 // 1
	VPSLLD   $22, Y12, Y14
	BLOCKS(SHORT4_BF16, SHORT1_BF16, 32, 16)
