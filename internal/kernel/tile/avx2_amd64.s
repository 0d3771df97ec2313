#include "textflag.h"

// Tiles of 6 rows and two vectors use 15 of the 16 registers: 12 hold C, two a row
// of B, and one an element of A. General registers are as in the AVX-512 frame. In
// addition, R13 is the first row of A of the tile, R15 the number of tiles left,
// and AX the address to prefetch.
#define ROWS(OP) \
	OP((SI), Y4, Y5);          \
	OP((SI)(R8*1), Y6, Y7);    \
	OP((SI)(R8*2), Y8, Y9);    \
	OP((R12), Y10, Y11);       \
	OP((R12)(R8*1), Y12, Y13); \
	OP((R12)(R8*2), Y14, Y15)

#define CLEAR(at, lo, hi) VXORPS lo, lo, lo; VXORPS hi, hi, hi
#define FETCH(at, lo, hi) PREFETCHT0 (DI); ADDQ R11, DI

#define KERNEL(STEP, ADD) \
	MOVQ       t+0(FP), DI;     \
	MOVQ       0(DI), R13;      \
	MOVQ       16(DI), DX;      \
	MOVQ       32(DI), R8;      \
	MOVQ       40(DI), R9;      \
	MOVQ       48(DI), R10;     \
	MOVQ       56(DI), R11;     \
	MOVQ       72(DI), AX;      \
	MOVQ       88(DI), R15;     \
tile:                               \
	MOVQ       R13, SI;         \
	LEAQ       (SI)(R8*2), R12; \
	ADDQ       R8, R12;         \
	MOVQ       8(DI), BX;       \
	MOVQ       24(DI), CX;      \
	ROWS(CLEAR);                \
	PREFETCHT1 (AX);            \
	PREFETCHT1 64(AX);          \
	PREFETCHT1 128(AX);         \
	PREFETCHT1 192(AX);         \
	PREFETCHT1 256(AX);         \
	PREFETCHT1 320(AX);         \
	PREFETCHT1 384(AX);         \
	PREFETCHT1 448(AX);         \
	ADDQ       $512, AX;        \
	MOVQ       DX, DI;          \
	ROWS(FETCH);                \
	PCALIGN    $32;             \
step:                               \
	VMOVUPS    (BX), Y0;        \
	VMOVUPS    32(BX), Y1;      \
	ADDQ       R10, BX;         \
	ROWS(STEP);                 \
	ADDQ       R9, SI;          \
	ADDQ       R9, R12;         \
	DECQ       CX;              \
	JNE        step;            \
	MOVQ       t+0(FP), DI;     \
	CMPB       80(DI), $0;      \
	JEQ        store;           \
	MOVQ       DX, BX;          \
	ROWS(ADD);                  \
store:                              \
	ROWS(STORE);                \
	ADDQ       96(DI), R13;     \
	DECQ       R15;             \
	JNE        tile;            \
	VZEROUPPER;                 \
	RET

#define STORE(at, lo, hi)    VMOVUPS lo, (DX); VMOVUPS hi, 32(DX); ADDQ R11, DX
#define STEP_F32(at, lo, hi) VBROADCASTSS at, Y2; VFMADD231PS Y0, Y2, lo; VFMADD231PS Y1, Y2, hi
#define STEP_F64(at, lo, hi) VBROADCASTSD at, Y2; VFMADD231PD Y0, Y2, lo; VFMADD231PD Y1, Y2, hi
#define ADD_F32(at, lo, hi)  VADDPS (BX), lo, lo; VADDPS 32(BX), hi, hi; ADDQ R11, BX
#define ADD_F64(at, lo, hi)  VADDPD (BX), lo, lo; VADDPD 32(BX), hi, hi; ADDQ R11, BX

TEXT ·tileAVX2F32(SB), NOSPLIT, $0-8
	KERNEL(STEP_F32, ADD_F32)

TEXT ·tileAVX2F64(SB), NOSPLIT, $0-8
	KERNEL(STEP_F64, ADD_F64)

// Measures the rate of the arithmetic, as in the AVX-512 frame.
#define MULADD_F32(at, lo, hi) VFMADD231PS Y0, Y2, lo; VFMADD231PS Y0, Y2, hi
#define MULADD_F64(at, lo, hi) VFMADD231PD Y0, Y2, lo; VFMADD231PD Y0, Y2, hi
#define PEAK(MULADD) \
	CLEAR(0, Y0, Y2); \
	ROWS(CLEAR);      \
round:                    \
	ROWS(MULADD);     \
	DECQ CX;          \
	JNE  round;       \
	VZEROUPPER;       \
	RET

// func peakAVX2F32(n int)
TEXT ·peakAVX2F32(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	PEAK(MULADD_F32)

// func peakAVX2F64(n int)
TEXT ·peakAVX2F64(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	PEAK(MULADD_F64)
