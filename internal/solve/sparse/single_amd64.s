#include "textflag.h"
#include "go_asm.h"
#include "kernels_amd64.h"
#include "single_amd64.h"

// Kernels for vectors in single precision. Products are rounded before they are added, as in the kernels for doubles.

// func axpbySingle(dst, x, y *float32, a, b float32, n int)
// dst = a*x + b*y
TEXT ·axpbySingle(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         y+16(FP), DX
	VBROADCASTSS a+24(FP), Z30
	VBROADCASTSS b+28(FP), Z31
	MOVQ         n+32(FP), CX

four:
	CMPQ    CX, $64
	JLT     one
	PREFETCHT0 AHEAD(SI)
	PREFETCHT0 AHEAD+64(SI)
	PREFETCHT0 AHEAD+128(SI)
	PREFETCHT0 AHEAD+192(SI)
	PREFETCHT0 AHEAD(DX)
	PREFETCHT0 AHEAD+64(DX)
	PREFETCHT0 AHEAD+128(DX)
	PREFETCHT0 AHEAD+192(DX)
	VMULPS  (SI), Z30, Z0
	VMULPS  64(SI), Z30, Z1
	VMULPS  128(SI), Z30, Z2
	VMULPS  192(SI), Z30, Z3
	VMULPS  (DX), Z31, Z4
	VMULPS  64(DX), Z31, Z5
	VMULPS  128(DX), Z31, Z6
	VMULPS  192(DX), Z31, Z7
	VADDPS  Z4, Z0, Z0
	VADDPS  Z5, Z1, Z1
	VADDPS  Z6, Z2, Z2
	VADDPS  Z7, Z3, Z3
	VMOVUPS Z0, (DI)
	VMOVUPS Z1, 64(DI)
	VMOVUPS Z2, 128(DI)
	VMOVUPS Z3, 192(DI)
	ADDQ    $256, SI
	ADDQ    $256, DX
	ADDQ    $256, DI
	SUBQ    $64, CX
	JMP     four

one:
	TESTQ     CX, CX
	JLE       done
	TAIL16
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS.Z (DX), K1, Z4
	VMULPS    Z0, Z30, Z0
	VMULPS    Z4, Z31, Z4
	VADDPS    Z4, Z0, Z0
	VMOVUPS   Z0, K1, (DI)
	ADDQ      $64, SI
	ADDQ      $64, DX
	ADDQ      $64, DI
	SUBQ      $16, CX
	JMP       one

done:
	VZEROUPPER
	RET

// func timesSingle(dst, x, y *float32, n int)
// dst = x*y, element by element
TEXT ·timesSingle(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ n+24(FP), CX

one:
	TESTQ     CX, CX
	JLE       done
	PREFETCHT0 AHEAD(SI)
	PREFETCHT0 AHEAD(DX)
	TAIL16
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS.Z (DX), K1, Z1
	VMULPS    Z1, Z0, Z0
	VMOVUPS   Z0, K1, (DI)
	ADDQ      $64, SI
	ADDQ      $64, DX
	ADDQ      $64, DI
	SUBQ      $16, CX
	JMP       one

done:
	VZEROUPPER
	RET

// func dotSingle(x, y *float32, n int) float64
// Lane l adds up the products l, l+8, l+16, ... in double precision, in which a product of singles is exact. Then the
// lanes are added by halves.
TEXT ·dotSingle(SB), NOSPLIT, $0-32
	MOVQ   x+0(FP), SI
	MOVQ   y+8(FP), DX
	MOVQ   n+16(FP), CX
	VXORPD X0, X0, X0

four:
	CMPQ      CX, $32
	JLT       one
	VCVTPS2PD (SI), Z1
	VCVTPS2PD 32(SI), Z2
	VCVTPS2PD 64(SI), Z3
	VCVTPS2PD 96(SI), Z4
	VCVTPS2PD (DX), Z5
	VCVTPS2PD 32(DX), Z6
	VCVTPS2PD 64(DX), Z7
	VCVTPS2PD 96(DX), Z8
	VFMADD231PD Z1, Z5, Z0
	VFMADD231PD Z2, Z6, Z0
	VFMADD231PD Z3, Z7, Z0
	VFMADD231PD Z4, Z8, Z0
	ADDQ    $128, SI
	ADDQ    $128, DX
	SUBQ    $32, CX
	JMP     four

one:
	TESTQ     CX, CX
	JLE       fold
	TAIL
	VCVTPS2PD.Z (SI), K1, Z1
	VCVTPS2PD.Z (DX), K1, Z2
	VFMADD231PD Z1, Z2, Z0
	ADDQ      $32, SI
	ADDQ      $32, DX
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

// func constantSingle(dst, x *float32, offs *int, coefs *float64, width, n int)
// dst[i] = sum over k of coefs[k] * x[i+offs[k]], width >= 1. The offsets are in bytes of doubles.
TEXT ·constantSingle(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ offs+16(FP), R8
	MOVQ coefs+24(FP), R9
	MOVQ width+32(FP), R10
	MOVQ n+40(FP), CX
	MOVQ $0x80000000, AX
	VPBROADCASTD AX, Z31

four:
	CMPQ    CX, $64
	JLT     one
	VMOVAPS Z31, Z0
	VMOVAPS Z31, Z1
	VMOVAPS Z31, Z2
	VMOVAPS Z31, Z3
	XORQ    R11, R11

fourterm:
	MOVQ         (R8)(R11*8), R12
	SARQ         $1, R12
	ADDQ         SI, R12
	VCVTSD2SS    (R9)(R11*8), X30, X30
	VBROADCASTSS X30, Z30
	VMULPS       (R12), Z30, Z4
	VMULPS       64(R12), Z30, Z5
	VMULPS       128(R12), Z30, Z6
	VMULPS       192(R12), Z30, Z7
	VADDPS       Z4, Z0, Z0
	VADDPS       Z5, Z1, Z1
	VADDPS       Z6, Z2, Z2
	VADDPS       Z7, Z3, Z3
	INCQ         R11
	CMPQ         R11, R10
	JLT          fourterm
	VMOVUPS      Z0, (DI)
	VMOVUPS      Z1, 64(DI)
	VMOVUPS      Z2, 128(DI)
	VMOVUPS      Z3, 192(DI)
	ADDQ         $256, SI
	ADDQ         $256, DI
	SUBQ         $64, CX
	JMP          four

one:
	TESTQ   CX, CX
	JLE     done
	TAIL16
	VMOVAPS Z31, Z0
	XORQ    R11, R11

oneterm:
	MOVQ         (R8)(R11*8), R12
	SARQ         $1, R12
	VCVTSD2SS    (R9)(R11*8), X30, X30
	VBROADCASTSS X30, Z30
	VMOVUPS.Z    (SI)(R12*1), K1, Z4
	VMULPS       Z4, Z30, Z4
	VADDPS       Z4, Z0, Z0
	INCQ         R11
	CMPQ         R11, R10
	JLT          oneterm
	VMOVUPS      Z0, K1, (DI)
	ADDQ         $64, SI
	ADDQ         $64, DI
	SUBQ         $16, CX
	JMP          one

done:
	VZEROUPPER
	RET

// func varyingSingle(dst, x *float32, offs *int, vals *float32, stride, width, n int)
// dst[i] = sum over k of vals[k*stride+i] * x[i+offs[k]], width >= 1. The offsets are in bytes of doubles.
TEXT ·varyingSingle(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ offs+16(FP), R8
	MOVQ vals+24(FP), R9
	MOVQ stride+32(FP), R13
	SHLQ $2, R13
	MOVQ width+40(FP), R10
	MOVQ n+48(FP), CX
	MOVQ $0x80000000, AX
	VPBROADCASTD AX, Z31

one:
	TESTQ   CX, CX
	JLE     done
	TAIL16
	VMOVAPS Z31, Z0
	MOVQ    R9, R14
	XORQ    R11, R11

term:
	MOVQ      (R8)(R11*8), R12
	SARQ      $1, R12
	VMOVUPS.Z (SI)(R12*1), K1, Z1
	VMOVUPS.Z (R14), K1, Z2
	VMULPS    Z1, Z2, Z1
	VADDPS    Z1, Z0, Z0
	ADDQ      R13, R14
	INCQ      R11
	CMPQ      R11, R10
	JLT       term
	VMOVUPS   Z0, K1, (DI)
	ADDQ      $64, SI
	ADDQ      $64, DI
	ADDQ      $64, R9
	SUBQ      $16, CX
	JMP       one

done:
	VZEROUPPER
	RET

#define SINGLECOLS32 VMOVDQU (R8), Y1
#define SINGLECOLS16 VPMOVSXWD (R8), Y1
#define SINGLEVALS32 VMOVUPS (R9), Y2
#define SINGLEVALS8  VPMOVZXBD (R9), Y4; KXNORB K3, K3, K3; VXORPD X6, X6, X6; VGATHERDPD (R13)(Y4*8), K3, Z6; VCVTPD2PS Z6, Y2

// func wide32Single(dst, x *float32, cols *int32, vals *float32, masks *uint8, starts *start, n int)
TEXT ·wide32Single(SB), NOSPLIT, $0-56
	SCATTERED32(SINGLECOLS32, 4, SINGLEVALS32, 4, 0)

// func near32Single(dst, x *float32, cols *int16, vals *float32, masks *uint8, starts *start, n int)
TEXT ·near32Single(SB), NOSPLIT, $0-56
	SCATTERED32(SINGLECOLS16, 2, SINGLEVALS32, 4, 32)

// func wide8Single(dst, x *float32, cols *int32, vals *uint8, masks *uint8, starts *start, n int, dict *float64)
TEXT ·wide8Single(SB), NOSPLIT, $0-64
	MOVQ dict+56(FP), R13
	SCATTERED32(SINGLECOLS32, 4, SINGLEVALS8, 1, 0)

// func near8Single(dst, x *float32, cols *int16, vals *uint8, masks *uint8, starts *start, n int, dict *float64)
TEXT ·near8Single(SB), NOSPLIT, $0-64
	MOVQ dict+56(FP), R13
	SCATTERED32(SINGLECOLS16, 2, SINGLEVALS8, 1, 32)
