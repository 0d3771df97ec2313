#include "textflag.h"
#include "kernels_amd64.h"

// Products are rounded before they are added (no fused multiply-add), so these kernels give the same bits as the
// portable kernels. The elements after the last whole vector are processed under a mask. So the kernels touch nothing
// outside the range, except for the padding that the scattered kernel loads.

// func axpbyAVX512(dst, x, y *float64, a, b float64, n int)
// dst = a*x + b*y
TEXT ·axpbyAVX512(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         y+16(FP), DX
	VBROADCASTSD a+24(FP), Z30
	VBROADCASTSD b+32(FP), Z31
	MOVQ         n+40(FP), CX

four:
	CMPQ    CX, $32
	JLT     one
	PREFETCHT0 AHEAD(SI)
	PREFETCHT0 AHEAD+64(SI)
	PREFETCHT0 AHEAD+128(SI)
	PREFETCHT0 AHEAD+192(SI)
	PREFETCHT0 AHEAD(DX)
	PREFETCHT0 AHEAD+64(DX)
	PREFETCHT0 AHEAD+128(DX)
	PREFETCHT0 AHEAD+192(DX)
	VMULPD  (SI), Z30, Z0
	VMULPD  64(SI), Z30, Z1
	VMULPD  128(SI), Z30, Z2
	VMULPD  192(SI), Z30, Z3
	VMULPD  (DX), Z31, Z4
	VMULPD  64(DX), Z31, Z5
	VMULPD  128(DX), Z31, Z6
	VMULPD  192(DX), Z31, Z7
	VADDPD  Z4, Z0, Z0
	VADDPD  Z5, Z1, Z1
	VADDPD  Z6, Z2, Z2
	VADDPD  Z7, Z3, Z3
	VMOVUPD Z0, (DI)
	VMOVUPD Z1, 64(DI)
	VMOVUPD Z2, 128(DI)
	VMOVUPD Z3, 192(DI)
	ADDQ    $256, SI
	ADDQ    $256, DX
	ADDQ    $256, DI
	SUBQ    $32, CX
	JMP     four

one:
	TESTQ     CX, CX
	JLE       done
	TAIL
	VMOVUPD.Z (SI), K1, Z0
	VMOVUPD.Z (DX), K1, Z4
	VMULPD    Z0, Z30, Z0
	VMULPD    Z4, Z31, Z4
	VADDPD    Z4, Z0, Z0
	VMOVUPD   Z0, K1, (DI)
	ADDQ      $64, SI
	ADDQ      $64, DX
	ADDQ      $64, DI
	SUBQ      $8, CX
	JMP       one

done:
	VZEROUPPER
	RET

// func timesAVX512(dst, x, y *float64, n int)
// dst = x*y, element by element
TEXT ·timesAVX512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ n+24(FP), CX

one:
	TESTQ     CX, CX
	JLE       done
	PREFETCHT0 AHEAD(SI)
	PREFETCHT0 AHEAD(DX)
	TAIL
	VMOVUPD.Z (SI), K1, Z0
	VMOVUPD.Z (DX), K1, Z1
	VMULPD    Z1, Z0, Z0
	VMOVUPD   Z0, K1, (DI)
	ADDQ      $64, SI
	ADDQ      $64, DX
	ADDQ      $64, DI
	SUBQ      $8, CX
	JMP       one

done:
	VZEROUPPER
	RET

// func dotAVX512(x, y *float64, n int) float64
// Lane l adds up the products l, l+8, l+16, ...; the lanes are added by halves.
TEXT ·dotAVX512(SB), NOSPLIT, $0-32
	MOVQ   x+0(FP), SI
	MOVQ   y+8(FP), DX
	MOVQ   n+16(FP), CX
	VXORPD X0, X0, X0

four:
	CMPQ    CX, $32
	JLT     one
	VMOVUPD (SI), Z1
	VMOVUPD 64(SI), Z2
	VMOVUPD 128(SI), Z3
	VMOVUPD 192(SI), Z4
	VMULPD  (DX), Z1, Z1
	VMULPD  64(DX), Z2, Z2
	VMULPD  128(DX), Z3, Z3
	VMULPD  192(DX), Z4, Z4
	VADDPD  Z1, Z0, Z0
	VADDPD  Z2, Z0, Z0
	VADDPD  Z3, Z0, Z0
	VADDPD  Z4, Z0, Z0
	ADDQ    $256, SI
	ADDQ    $256, DX
	SUBQ    $32, CX
	JMP     four

one:
	TESTQ     CX, CX
	JLE       fold
	TAIL
	VMOVUPD.Z (SI), K1, Z1
	VMOVUPD.Z (DX), K1, Z2
	VMULPD    Z1, Z2, Z1
	VADDPD    Z1, Z0, Z0
	ADDQ      $64, SI
	ADDQ      $64, DX
	SUBQ      $8, CX
	JMP       one

fold:
	VEXTRACTF64X4 $1, Z0, Y1
	VADDPD        Y1, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VADDPD        X1, X0, X0
	VPERMILPD     $1, X0, X1
	VADDSD        X1, X0, X0
	VMOVSD        X0, ret+24(FP)
	VZEROUPPER
	RET

// func constantAVX512(dst, x *float64, offs *int, coefs *float64, width, n int)
// dst[i] = sum over k of coefs[k] * x[i+offs[k]], width >= 1. The offsets are
// in bytes. For a coefficient of -1, x is subtracted instead of multiplied, which gives the same bits.
TEXT ·constantAVX512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ offs+16(FP), R8
	MOVQ coefs+24(FP), R9
	MOVQ width+32(FP), R10
	MOVQ n+40(FP), CX
	MOVQ $0xbff0000000000000, R13
	MOVQ $0x8000000000000000, AX
	VPBROADCASTQ AX, Z31

four:
	CMPQ         CX, $32
	JLT          one
	MOVQ         (R8), R12
	ADDQ         SI, R12
	MOVQ         $1, R11
	CMPQ         (R9), R13
	JEQ          fourfirst
	VBROADCASTSD (R9), Z30
	VMULPD       (R12), Z30, Z0
	VMULPD       64(R12), Z30, Z1
	VMULPD       128(R12), Z30, Z2
	VMULPD       192(R12), Z30, Z3
	JMP          fourcheck

fourfirst:
	VSUBPD (R12), Z31, Z0
	VSUBPD 64(R12), Z31, Z1
	VSUBPD 128(R12), Z31, Z2
	VSUBPD 192(R12), Z31, Z3
	JMP    fourcheck

fourless:
	VSUBPD (R12), Z0, Z0
	VSUBPD 64(R12), Z1, Z1
	VSUBPD 128(R12), Z2, Z2
	VSUBPD 192(R12), Z3, Z3
	INCQ   R11
	CMPQ   R11, R10
	JGE    fourstore

fourterm:
	MOVQ         (R8)(R11*8), R12
	ADDQ         SI, R12
	CMPQ         (R9)(R11*8), R13
	JEQ          fourless
	VBROADCASTSD (R9)(R11*8), Z30
	VMULPD       (R12), Z30, Z4
	VMULPD       64(R12), Z30, Z5
	VMULPD       128(R12), Z30, Z6
	VMULPD       192(R12), Z30, Z7
	VADDPD       Z4, Z0, Z0
	VADDPD       Z5, Z1, Z1
	VADDPD       Z6, Z2, Z2
	VADDPD       Z7, Z3, Z3
	INCQ         R11

fourcheck:
	CMPQ    R11, R10
	JLT     fourterm

fourstore:
	VMOVUPD Z0, (DI)
	VMOVUPD Z1, 64(DI)
	VMOVUPD Z2, 128(DI)
	VMOVUPD Z3, 192(DI)
	ADDQ    $256, SI
	ADDQ    $256, DI
	SUBQ    $32, CX
	JMP     four

one:
	TESTQ        CX, CX
	JLE          done
	TAIL
	MOVQ         (R8), R12
	VBROADCASTSD (R9), Z30
	VMOVUPD.Z    (SI)(R12*1), K1, Z0
	VMULPD       Z0, Z30, Z0
	MOVQ         $1, R11
	JMP          onecheck

oneterm:
	MOVQ         (R8)(R11*8), R12
	VBROADCASTSD (R9)(R11*8), Z30
	VMOVUPD.Z    (SI)(R12*1), K1, Z4
	VMULPD       Z4, Z30, Z4
	VADDPD       Z4, Z0, Z0
	INCQ         R11

onecheck:
	CMPQ    R11, R10
	JLT     oneterm
	VMOVUPD Z0, K1, (DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $8, CX
	JMP     one

done:
	VZEROUPPER
	RET

#define DOUBLES(from, to) VMOVUPD.Z (from), K1, to
#define FLOATS(from, to)  VCVTPS2PD.Z (from), K1, to
#define HALVES(from, to)  VPMOVZXWD.Z (from), K1, Y30; VPSLLD $16, Y30, Y30; VCVTPS2PD Y30, to

#define DOUBLES2(from) VMOVUPD (from), Z2; VMOVUPD 64(from), Z3
#define FLOATS2(from)  VCVTPS2PD (from), Z2; VCVTPS2PD 32(from), Z3
// HALVES2 also prefetches the same values of the next run, which lies DX bytes further.
#define HALVES2(from) \
	PREFETCHT0    (from)(DX*1); \
	VPMOVZXWD     (from), Z30; \
	VPSLLD        $16, Z30, Z30; \
	VEXTRACTF64X4 $1, Z30, Y31; \
	VCVTPS2PD     Y30, Z2; \
	VCVTPS2PD     Y31, Z3

#define DOUBLES02 DOUBLES2(R9); LEAQ (R9)(R13*1), R14
#define FLOATS02  FLOATS2(R9); LEAQ (R9)(R13*1), R14
#define DIAGONAL2 PREFETCHT0 (BX)(R13*2); FLOATS2(BX); ADDQ $64, BX; MOVQ R9, R14
#define DOUBLES0 DOUBLES(R9, Z2); LEAQ (R9)(R13*1), R14
#define FLOATS0  FLOATS(R9, Z2); LEAQ (R9)(R13*1), R14
#define DIAGONAL FLOATS(BX, Z2); ADDQ $32, BX; MOVQ R9, R14

// func varying64AVX512(dst, x *float64, offs *int, vals *float64, stride, width, n int)
TEXT ·varying64AVX512(SB), NOSPLIT, $0-56
	VARYING(DOUBLES02, DOUBLES2, DOUBLES0, DOUBLES, 3)

// func varying32AVX512(dst, x *float64, offs *int, vals *float32, stride, width, n int)
TEXT ·varying32AVX512(SB), NOSPLIT, $0-56
	VARYING(FLOATS02, FLOATS2, FLOATS0, FLOATS, 2)

// func varying16AVX512(dst, x *float64, offs *int, vals *uint16, stride, width, n int, first *float32)
// The first term has its own values, and vals holds the others.
TEXT ·varying16AVX512(SB), NOSPLIT, $0-64
	MOVQ first+56(FP), BX
	MOVQ width+40(FP), DX
	DECQ DX
	IMULQ stride+32(FP), DX
	SHLQ $1, DX
	VARYING(DIAGONAL2, HALVES2, DIAGONAL, HALVES, 1)

// iota holds the distances of consecutive columns from the first.
DATA ·iota+0(SB)/4, $0
DATA ·iota+4(SB)/4, $1
DATA ·iota+8(SB)/4, $2
DATA ·iota+12(SB)/4, $3
DATA ·iota+16(SB)/4, $4
DATA ·iota+20(SB)/4, $5
DATA ·iota+24(SB)/4, $6
DATA ·iota+28(SB)/4, $7
GLOBL ·iota(SB), RODATA|NOPTR, $32

// A sum starts with -0, because adding the first product to -0 does not change it. With bfloat16 values it starts with
// the first entries, which are on the diagonal: their columns are consecutive, and their values are at R13.
#define ZEROS VMOVAPD Z29, Z0
#define DIAGONAL32 MOVLQSX (R8), DX; FIRSTS(4)
#define DIAGONAL16 MOVWQSX (R8), DX; FIRSTS(2)
#define FIRSTS(COLSIZE) \
	MOVBLZX     (R10), AX;     \
	INCQ        R10;           \
	DECQ        R12;           \
	KMOVB       AX, K1;        \
	POPCNTL     AX, AX;        \
	VMOVUPD.Z   (SI)(DX*8), K1, Z0; \
	VCVTPS2PD.Z (R13), K1, Z2; \
	VMULPD      Z0, Z2, Z0;    \
	LEAQ        (R8)(AX*COLSIZE), R8; \
	ADDQ        $32, R13

#define COLS32 VMOVDQU (R8), Y1
#define COLS16 VPMOVSXWD (R8), Y1
#define VALS64 VMOVUPD (R9), Z2
#define VALS32 VCVTPS2PD (R9), Z2
#define VALS16 VPMOVZXWD (R9), Y30; VPSLLD $16, Y30, Y30; VCVTPS2PD Y30, Z2
#define VALS8  VPMOVZXBD (R9), Y4; KXNORB K3, K3, K3; VXORPD X2, X2, X2; VGATHERDPD (R13)(Y4*8), K3, Z2

// func wide64AVX512(dst, x *float64, cols *int32, vals *float64, masks *uint8, starts *start, n int)
TEXT ·wide64AVX512(SB), NOSPLIT, $0-56
	SCATTERED(ZEROS, COLS32, 4, VALS64, 8, 0)

// func wide32AVX512(dst, x *float64, cols *int32, vals *float32, masks *uint8, starts *start, n int)
TEXT ·wide32AVX512(SB), NOSPLIT, $0-56
	SCATTERED(ZEROS, COLS32, 4, VALS32, 4, 0)

// func near64AVX512(dst, x *float64, cols *int16, vals *float64, masks *uint8, starts *start, n int)
TEXT ·near64AVX512(SB), NOSPLIT, $0-56
	SCATTERED(ZEROS, COLS16, 2, VALS64, 8, 64)

// func near32AVX512(dst, x *float64, cols *int16, vals *float32, masks *uint8, starts *start, n int)
TEXT ·near32AVX512(SB), NOSPLIT, $0-56
	SCATTERED(ZEROS, COLS16, 2, VALS32, 4, 64)

// func wide16AVX512(dst, x *float64, cols *int32, vals *uint16, masks *uint8, starts *start, n int, first *float32)
TEXT ·wide16AVX512(SB), NOSPLIT, $0-64
	MOVQ first+56(FP), R13
	SCATTERED(DIAGONAL32, COLS32, 4, VALS16, 2, 0)

// func near16AVX512(dst, x *float64, cols *int16, vals *uint16, masks *uint8, starts *start, n int, first *float32)
TEXT ·near16AVX512(SB), NOSPLIT, $0-64
	MOVQ first+56(FP), R13
	SCATTERED(DIAGONAL16, COLS16, 2, VALS16, 2, 64)

// func wide8AVX512(dst, x *float64, cols *int32, vals *uint8, masks *uint8, starts *start, n int, dict *float64)
TEXT ·wide8AVX512(SB), NOSPLIT, $0-64
	MOVQ dict+56(FP), R13
	SCATTERED(ZEROS, COLS32, 4, VALS8, 1, 0)

// func near8AVX512(dst, x *float64, cols *int16, vals *uint8, masks *uint8, starts *start, n int, dict *float64)
TEXT ·near8AVX512(SB), NOSPLIT, $0-64
	MOVQ dict+56(FP), R13
	SCATTERED(ZEROS, COLS16, 2, VALS8, 1, 64)
