#include "textflag.h"

// The loops over a batch, with AVX2 and F16C. Each turn processes one group of
// 32 numbers as four vectors of eight. DI points to the destination, SI to the
// source, DX to the factor or scale of the group, and CX counts the groups left.

// EACH applies the macro M to the four vectors of a group. READ and WRITTEN are
// the sizes of a vector in bytes at the source and at the destination.
#define EACH(M, READ, WRITTEN) \
	M(0*READ(SI), 0*WRITTEN(DI), Y0); \
	M(1*READ(SI), 1*WRITTEN(DI), Y1); \
	M(2*READ(SI), 2*WRITTEN(DI), Y2); \
	M(3*READ(SI), 3*WRITTEN(DI), Y3)

#define NEXT(READ, WRITTEN, LOOP) \
	ADDQ $(4*READ), SI;    \
	ADDQ $(4*WRITTEN), DI; \
	DECQ CX;               \
	JNZ  LOOP;             \
	VZEROUPPER;            \
	RET

#define MAGNITUDE(from, to, y) VPAND from, Y15, y

TEXT ·absMaxAVX2(SB), NOSPLIT, $0-24
	MOVQ     absMaxes+0(FP), DI
	MOVQ     values+8(FP), SI
	MOVQ     groups+16(FP), CX
	VPCMPEQD Y15, Y15, Y15
	VPSRLD   $1, Y15, Y15 // all but the sign
loop:
	EACH(MAGNITUDE, 32, 0)
	VPMAXUD      Y1, Y0, Y0
	VPMAXUD      Y3, Y2, Y2
	VPMAXUD      Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0xb1, X0, X1
	VPMAXUD      X1, X0, X0
	VMOVD        X0, (DI)
	NEXT(32, 1, loop)

// VPACK works on each 128-bit half of a register separately, so the groups of
// four bytes come out interleaved. VPERMD with these indices restores their order.
DATA order<>+0(SB)/4, $0
DATA order<>+4(SB)/4, $4
DATA order<>+8(SB)/4, $1
DATA order<>+12(SB)/4, $5
DATA order<>+16(SB)/4, $2
DATA order<>+20(SB)/4, $6
DATA order<>+24(SB)/4, $3
DATA order<>+28(SB)/4, $7
GLOBL order<>(SB), RODATA|NOPTR, $32

// Y8 holds the factor. Y10 is a mask: all ones, or zero if the factor is 0, so
// that such a group becomes zeros even if it contains NaN or infinity.
#define QUANTISE(from, to, y) VMULPS from, Y8, y; VCVTPS2DQ y, y; VPAND Y10, y, y

TEXT ·quantiseAVX2(SB), NOSPLIT, $0-32
	MOVQ    integers+0(FP), DI
	MOVQ    values+8(FP), SI
	MOVQ    factors+16(FP), DX
	MOVQ    groups+24(FP), CX
	VMOVDQU order<>(SB), Y11
	VXORPS  Y9, Y9, Y9
loop:
	VBROADCASTSS (DX), Y8
	VCMPPS       $4, Y9, Y8, Y10
	EACH(QUANTISE, 32, 0)
	VPACKSSDW    Y1, Y0, Y0
	VPACKSSDW    Y3, Y2, Y2
	VPACKSSWB    Y2, Y0, Y0
	VPERMD       Y0, Y11, Y0
	VMOVDQU      Y0, (DI)
	ADDQ         $4, DX
	NEXT(32, 8, loop)

#define MULTIPLY(from, to, y)   VPMOVSXBD from, y; VCVTDQ2PS y, y; VMULPS y, Y8, y; VMOVUPS y, to
#define ACCUMULATE(from, to, y) VPMOVSXBD from, y; VCVTDQ2PS y, y; VMULPS y, Y8, y; VADDPS to, y, y; VMOVUPS y, to

TEXT ·multiplyAVX2(SB), NOSPLIT, $0-32
	MOVQ values+0(FP), DI
	MOVQ integers+8(FP), SI
	MOVQ scales+16(FP), DX
	MOVQ groups+24(FP), CX
loop:
	VBROADCASTSS (DX), Y8
	EACH(MULTIPLY, 8, 32)
	ADDQ         $4, DX
	NEXT(8, 32, loop)

TEXT ·accumulateAVX2(SB), NOSPLIT, $0-32
	MOVQ sum+0(FP), DI
	MOVQ integers+8(FP), SI
	MOVQ scales+16(FP), DX
	MOVQ groups+24(FP), CX
loop:
	VBROADCASTSS (DX), Y8
	EACH(ACCUMULATE, 8, 32)
	ADDQ         $4, DX
	NEXT(8, 32, loop)
