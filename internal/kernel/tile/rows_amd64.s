#include "textflag.h"

// Kernels of type func(t *Args) that add K rows of B, times f32 factors at A, to sums at
// C, for Tiles groups of 64 columns. ARow and CRow are the distances between the factors
// and sums of different rows. A vector of 32 bf16 elements is widened to two of f32: the
// even elements by a shift, the odd ones by clearing the lower half of each pair. The
// sums are stored in this order: 16 even and 16 odd elements of the first vector, then
// those of the second. BX is the first row of B, R10 the distance between its rows, DX
// the sums of the first row of C and R11 its factors.
#define LOAD(at, z0, z1, z2, z3) \
	VMOVUPS 0 at, z0; \
	VMOVUPS 64 at, z1; \
	VMOVUPS 128 at, z2; \
	VMOVUPS 192 at, z3

#define STORE(at, z0, z1, z2, z3) \
	VMOVUPS z0, 0 at; \
	VMOVUPS z1, 64 at; \
	VMOVUPS z2, 128 at; \
	VMOVUPS z3, 192 at

#define ADD(factor, z0, z1, z2, z3) \
	VFMADD231PS.BCST factor, Z18, z0; \
	VFMADD231PS.BCST factor, Z19, z1; \
	VFMADD231PS.BCST factor, Z20, z2; \
	VFMADD231PS.BCST factor, Z21, z3

#define ARGUMENTS \
	MOVQ t+0(FP), DI; \
	MOVQ 0(DI), R8; \
	MOVQ 8(DI), BX; \
	MOVQ 16(DI), DX; \
	MOVQ 24(DI), R9; \
	MOVQ 32(DI), R13; \
	MOVQ 48(DI), R10; \
	MOVQ 56(DI), R14; \
	MOVQ 88(DI), R15; \
	MOVL $0xffff0000, AX; \
	VPBROADCASTD AX, Z31

#define WIDEN \
	VMOVDQU64 (SI), Z16; \
	VMOVDQU64 64(SI), Z17; \
	PREFETCHT0 512(SI); \
	PREFETCHT0 576(SI); \
	VPSLLD $16, Z16, Z18; \
	VPANDD Z31, Z16, Z19; \
	VPSLLD $16, Z17, Z20; \
	VPANDD Z31, Z17, Z21

#define NEXTROW \
	ADDQ R10, SI; \
	ADDQ $4, R11; \
	DECQ CX

#define NEXTGROUP \
	ADDQ $128, BX; \
	ADDQ $256, DX; \
	DECQ R15

// func addRows1BF16(t *Args)
TEXT ·addRows1BF16(SB), NOSPLIT, $0-8
	ARGUMENTS

group:
	LOAD((DX), Z0, Z1, Z2, Z3)
	MOVQ BX, SI
	MOVQ R8, R11
	MOVQ R9, CX

row:
	WIDEN
	ADD((R11), Z0, Z1, Z2, Z3)
	NEXTROW
	JNE  row
	STORE((DX), Z0, Z1, Z2, Z3)
	NEXTGROUP
	JNE  group
	VZEROUPPER
	RET

// func addRows2BF16(t *Args)
TEXT ·addRows2BF16(SB), NOSPLIT, $0-8
	ARGUMENTS

group:
	LOAD((DX), Z0, Z1, Z2, Z3)
	LOAD((DX)(R14*1), Z4, Z5, Z6, Z7)
	MOVQ BX, SI
	MOVQ R8, R11
	MOVQ R9, CX

row:
	WIDEN
	ADD((R11), Z0, Z1, Z2, Z3)
	ADD((R11)(R13*1), Z4, Z5, Z6, Z7)
	NEXTROW
	JNE  row
	STORE((DX), Z0, Z1, Z2, Z3)
	STORE((DX)(R14*1), Z4, Z5, Z6, Z7)
	NEXTGROUP
	JNE  group
	VZEROUPPER
	RET
