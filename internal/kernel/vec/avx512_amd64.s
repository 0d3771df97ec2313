#include "textflag.h"
#include "avx512_amd64.h"

// The types whose elements are combined without conversion.
#define LOAD(from, acc, high)   VMOVDQU64 from, acc
#define STORE(to, acc, high)    VMOVDQU64 acc, to
#define STREAM(to, acc, high)   VMOVNTDQ acc, to
#define WHOLE(out, acc, high)   VMOVDQA64 acc, out
#define PLAIN(LOADER, OP)       KERNEL(64, Z22, LOADER, OP, STORE, STREAM, WHOLE)

// f16: one half of a vector widens to a whole one.
#define LOAD_F16(from, acc, high)   VCVTPH2PS from, acc
#define STORE_F16(to, acc, high)    VCVTPS2PH $0, acc, to
#define STREAM_F16(to, acc, high)   VCVTPS2PH $0, acc, Y16; VMOVNTDQ Y16, to
#define HALF(LOADER, OP)            KERNEL(32, Y22, LOADER, OP, STORE_F16, STREAM_F16, STORE_F16)

// bf16: the even elements of a vector go to one accumulator, the odd ones to
// the other, which needs no shuffles. The upper halves of both are the truncated
// elements, the lower halves the remainders. Rounding to nearest even adds one if the
// remainder is more than a half, or exactly a half and the element is odd. That is the
// same as a remainder above a half after the last bit of the element is OR-ed into the
// last bit of the remainder. A NaN needs no special care:
// the lower halves of a widened element, of the processor's own NaN and of the
// scale's NaN are zero. (0xf8 is acc | (out & Z29); 6 is greater.)
#define BF16_CONSTANTS \
	MOVL $0xffff0000, R8;           VPBROADCASTD R8, Z30; \
	MOVL $0x00010001, R8;           VPBROADCASTD R8, Z29; \
	MOVL $0x80008000, R8;           VPBROADCASTD R8, Z28; \
	MOVQ $0x3333333333333333, R8;   KMOVQ R8, K4;         \
	KNOTQ K4, K5;                                         \
	VBROADCASTI32X4 upperHalves<>(SB), Z27;               \
	VBROADCASTI32X4 lowerHalves<>(SB), Z26

// The bytes of each double word's upper half, and of its lower one, twice.
DATA upperHalves<>+0(SB)/8, $0x0706070603020302
DATA upperHalves<>+8(SB)/8, $0x0f0e0f0e0b0a0b0a
GLOBL upperHalves<>(SB), RODATA|NOPTR, $16
DATA lowerHalves<>+0(SB)/8, $0x0504050401000100
DATA lowerHalves<>+8(SB)/8, $0x0d0c0d0c09080908
GLOBL lowerHalves<>(SB), RODATA|NOPTR, $16

#define LOAD_BF16(from, acc, high) \
	VMOVDQU64 from, Z16;       \
	VPSLLD    $16, Z16, acc;   \
	VPANDD    Z30, Z16, high

#define NARROW_BF16(out, acc, high) \
	VMOVDQA64  high, out;            \
	VPSHUFB    Z27, acc, K4, out;    \
	VPSHUFB    Z26, high, K5, acc;   \
	VPTERNLOGD $0xf8, Z29, out, acc; \
	VPCMPUW    $6, Z28, acc, K2;     \
	VPADDW     Z29, out, K2, out

#define STORE_BF16(to, acc, high)  NARROW_BF16(Z18, acc, high); VMOVDQU64 Z18, to
#define STREAM_BF16(to, acc, high) NARROW_BF16(Z18, acc, high); VMOVNTDQ Z18, to
#define BFLOAT(LOADER, OP)         KERNEL(64, Z22, LOADER, OP, STORE_BF16, STREAM_BF16, NARROW_BF16)

// VRANGE orders -0 before +0 but drops a NaN if the other operand is a number; the
// sum restores it. Selector 4 is the minimum, 5 the maximum.
#define RANGE_F32(which, from, acc) \
	VCMPPS   $3, from, acc, K2;      \
	VADDPS   from, acc, Z19;         \
	VRANGEPS $which, from, acc, acc; \
	VMOVAPS  Z19, K2, acc

#define RANGE_F64(which, from, acc) \
	VCMPPD   $3, from, acc, K2;      \
	VADDPD   from, acc, Z19;         \
	VRANGEPD $which, from, acc, acc; \
	VMOVAPD  Z19, K2, acc

#define SUM_F32(from, acc, high)  VADDPS from, acc, acc
#define PROD_F32(from, acc, high) VMULPS from, acc, acc
#define MIN_F32(from, acc, high)  RANGE_F32(4, from, acc)
#define MAX_F32(from, acc, high)  RANGE_F32(5, from, acc)

#define SUM_F64(from, acc, high)  VADDPD from, acc, acc
#define PROD_F64(from, acc, high) VMULPD from, acc, acc
#define MIN_F64(from, acc, high)  RANGE_F64(4, from, acc)
#define MAX_F64(from, acc, high)  RANGE_F64(5, from, acc)

#define OP_F16(OP, from, acc, high) VCVTPH2PS from, Z16; OP(Z16, acc, high)
#define SUM_F16(from, acc, high)    OP_F16(SUM_F32, from, acc, high)
#define PROD_F16(from, acc, high)   OP_F16(PROD_F32, from, acc, high)
#define MIN_F16(from, acc, high)    OP_F16(MIN_F32, from, acc, high)
#define MAX_F16(from, acc, high)    OP_F16(MAX_F32, from, acc, high)

// The assembler does not know VADDPH Z16, Z17, Z17. Moving the accumulator there and
// back occupies no execution unit.
#define ADD_F16(from, acc, high) \
	VMOVDQU64 from, Z16; \
	VMOVDQA64 acc, Z17;  \
	LONG      $0x4074a562; WORD $0xc858; \
	VMOVDQA64 Z17, acc

#define OP_BF16(OP, from, acc, high) LOAD_BF16(from, Z17, Z18); OP(Z17, acc, high); OP(Z18, high, acc)
#define SUM_BF16(from, acc, high)    OP_BF16(SUM_F32, from, acc, high)
#define PROD_BF16(from, acc, high)   OP_BF16(PROD_F32, from, acc, high)
#define MIN_BF16(from, acc, high)    OP_BF16(MIN_F32, from, acc, high)
#define MAX_BF16(from, acc, high)    OP_BF16(MAX_F32, from, acc, high)

#define SUM_I32(from, acc, high)  VPADDD from, acc, acc
#define PROD_I32(from, acc, high) VPMULLD from, acc, acc
#define MIN_I32(from, acc, high)  VPMINSD from, acc, acc
#define MAX_I32(from, acc, high)  VPMAXSD from, acc, acc

#define SUM_I64(from, acc, high)  VPADDQ from, acc, acc
#define PROD_I64(from, acc, high) VPMULLQ from, acc, acc
#define MIN_I64(from, acc, high)  VPMINSQ from, acc, acc
#define MAX_I64(from, acc, high)  VPMAXSQ from, acc, acc

#define SUM_U8(from, acc, high) VPADDB from, acc, acc
#define MIN_U8(from, acc, high) VPMINUB from, acc, acc
#define MAX_U8(from, acc, high) VPMAXUB from, acc, acc

// The scaled sums multiply the first source while loading it.
#define SCALE_F32 VCVTSD2SS scale+48(FP), X16, X16; VBROADCASTSS X16, Z31
#define SCALE_F64 VBROADCASTSD scale+48(FP), Z31

#define LOAD_SCALED_F32(from, acc, high)  VMULPS from, Z31, acc
#define LOAD_SCALED_F64(from, acc, high)  VMULPD from, Z31, acc
#define LOAD_SCALED_F16(from, acc, high)  VCVTPH2PS from, acc; VMULPS acc, Z31, acc
#define LOAD_SCALED_BF16(from, acc, high) LOAD_BF16(from, acc, high); VMULPS acc, Z31, acc; VMULPS high, Z31, high

TEXT ·sumF64AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_F64)

TEXT ·prodF64AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, PROD_F64)

TEXT ·minF64AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_F64)

TEXT ·maxF64AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_F64)

TEXT ·scaledSumF64AVX512(SB), NOSPLIT, $0-73
	SCALE_F64
	PLAIN(LOAD_SCALED_F64, SUM_F64)

TEXT ·sumF32AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_F32)

TEXT ·prodF32AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, PROD_F32)

TEXT ·minF32AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_F32)

TEXT ·maxF32AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_F32)

TEXT ·scaledSumF32AVX512(SB), NOSPLIT, $0-73
	SCALE_F32
	PLAIN(LOAD_SCALED_F32, SUM_F32)

TEXT ·sumF16AVX512(SB), NOSPLIT, $0-73
	HALF(LOAD_F16, SUM_F16)

TEXT ·sumOfTwoF16AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, ADD_F16)

TEXT ·prodF16AVX512(SB), NOSPLIT, $0-73
	HALF(LOAD_F16, PROD_F16)

TEXT ·minF16AVX512(SB), NOSPLIT, $0-73
	HALF(LOAD_F16, MIN_F16)

TEXT ·maxF16AVX512(SB), NOSPLIT, $0-73
	HALF(LOAD_F16, MAX_F16)

TEXT ·scaledSumF16AVX512(SB), NOSPLIT, $0-73
	SCALE_F32
	HALF(LOAD_SCALED_F16, SUM_F16)

TEXT ·sumBF16AVX512(SB), NOSPLIT, $0-73
	BF16_CONSTANTS
	BFLOAT(LOAD_BF16, SUM_BF16)

TEXT ·prodBF16AVX512(SB), NOSPLIT, $0-73
	BF16_CONSTANTS
	BFLOAT(LOAD_BF16, PROD_BF16)

TEXT ·minBF16AVX512(SB), NOSPLIT, $0-73
	BF16_CONSTANTS
	BFLOAT(LOAD_BF16, MIN_BF16)

TEXT ·maxBF16AVX512(SB), NOSPLIT, $0-73
	BF16_CONSTANTS
	BFLOAT(LOAD_BF16, MAX_BF16)

TEXT ·scaledSumBF16AVX512(SB), NOSPLIT, $0-73
	SCALE_F32
	BF16_CONSTANTS
	BFLOAT(LOAD_SCALED_BF16, SUM_BF16)

TEXT ·sumI64AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_I64)

TEXT ·prodI64AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, PROD_I64)

TEXT ·minI64AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_I64)

TEXT ·maxI64AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_I64)

TEXT ·sumI32AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_I32)

TEXT ·prodI32AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, PROD_I32)

TEXT ·minI32AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_I32)

TEXT ·maxI32AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_I32)

TEXT ·sumU8AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, SUM_U8)

TEXT ·minU8AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MIN_U8)

TEXT ·maxU8AVX512(SB), NOSPLIT, $0-73
	PLAIN(LOAD, MAX_U8)
