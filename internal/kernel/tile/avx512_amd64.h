// The frame of every AVX-512 tile kernel: up to 14 rows of C, each of one or two
// vectors, stay in registers while the loop walks along k. A step loads one row
// of B's panel and multiplies it with a broadcast element of every row of A.
//
// With 14 rows and two vectors, a step has 28 multiply-adds and 16 loads. Two
// arithmetic units need 14 cycles for the former, and two load units 8 cycles for
// the latter. So arithmetic is the limit, even if rows and steps of A are far
// apart in memory: A need not be packed, and neither does a small B.
//
// Three vectors with up to nine rows take 12 loads for 27 multiply-adds and four
// with up to six rows 10 for 24. That matters if two threads share a core with its
// load units. These kernels are used for B in place: panels of that width would
// be of no use to the other kernels.
//
// General registers:
//
//	SI                    element of row 0 of A at this step; R9 is the distance to the next step
//	R8, R13, R15, AX,     distances from row 0 of A to rows 1, 3, 5, 7, 9, 11 and 13;
//	R12, DX, R11          the other rows are multiples of these
//	BX                    row of B, R10 the distance to the next; after the loop, row of C
//	CX                    steps left; after the loop, the distance between rows of C
//	DI                    the arguments; during the loop DI and R14 are addresses to prefetch
//
// Vector registers, by the number of vectors in a row of C:
//
//	        row of B    element of A    rows of C
//	1 or 2  Z0-Z1       Z2              Z4-Z31
//	3       Z0-Z2       Z3              Z5-Z31
//	4       Z0-Z3       Z4              Z8-Z31
//
// K1 and K2 mask the columns that exist.

#define ROWS1(OP)  OP((SI), Z4, Z5)
#define ROWS2(OP)  ROWS1(OP); OP((SI)(R8*1), Z6, Z7)
#define ROWS3(OP)  ROWS2(OP); OP((SI)(R8*2), Z8, Z9)
#define ROWS4(OP)  ROWS3(OP); OP((SI)(R13*1), Z10, Z11)
#define ROWS5(OP)  ROWS4(OP); OP((SI)(R8*4), Z12, Z13)
#define ROWS6(OP)  ROWS5(OP); OP((SI)(R15*1), Z14, Z15)
#define ROWS7(OP)  ROWS6(OP); OP((SI)(R13*2), Z16, Z17)
#define ROWS8(OP)  ROWS7(OP); OP((SI)(AX*1), Z18, Z19)
#define ROWS9(OP)  ROWS8(OP); OP((SI)(R8*8), Z20, Z21)
#define ROWS10(OP) ROWS9(OP); OP((SI)(R12*1), Z22, Z23)
#define ROWS11(OP) ROWS10(OP); OP((SI)(R15*2), Z24, Z25)
#define ROWS12(OP) ROWS11(OP); OP((SI)(DX*1), Z26, Z27)
#define ROWS13(OP) ROWS12(OP); OP((SI)(R13*4), Z28, Z29)
#define ROWS14(OP) ROWS13(OP); OP((SI)(R11*1), Z30, Z31)

#define THREE1(OP) OP((SI), Z5, Z6, Z7)
#define THREE2(OP) THREE1(OP); OP((SI)(R8*1), Z8, Z9, Z10)
#define THREE3(OP) THREE2(OP); OP((SI)(R8*2), Z11, Z12, Z13)
#define THREE4(OP) THREE3(OP); OP((SI)(R13*1), Z14, Z15, Z16)
#define THREE5(OP) THREE4(OP); OP((SI)(R8*4), Z17, Z18, Z19)
#define THREE6(OP) THREE5(OP); OP((SI)(R15*1), Z20, Z21, Z22)
#define THREE7(OP) THREE6(OP); OP((SI)(R13*2), Z23, Z24, Z25)
#define THREE8(OP) THREE7(OP); OP((SI)(AX*1), Z26, Z27, Z28)
#define THREE9(OP) THREE8(OP); OP((SI)(R8*8), Z29, Z30, Z31)

#define FOUR1(OP) OP((SI), Z8, Z9, Z10, Z11)
#define FOUR2(OP) FOUR1(OP); OP((SI)(R8*1), Z12, Z13, Z14, Z15)
#define FOUR3(OP) FOUR2(OP); OP((SI)(R8*2), Z16, Z17, Z18, Z19)
#define FOUR4(OP) FOUR3(OP); OP((SI)(R13*1), Z20, Z21, Z22, Z23)
#define FOUR5(OP) FOUR4(OP); OP((SI)(R8*4), Z24, Z25, Z26, Z27)
#define FOUR6(OP) FOUR5(OP); OP((SI)(R15*1), Z28, Z29, Z30, Z31)

// Prefetches into the second-level cache, a little with every four steps, because
// a burst of prefetches would delay the loads of operands. The data are the rows
// of C, for this tile and then for the tiles below, and the next panel of B.
#define FETCH \
	TESTQ      R14, R14;         \
	JEQ        near;             \
	PREFETCHT1 (DI);             \
	PREFETCHT1 64(DI);           \
	PREFETCHT1 (R14);            \
	PREFETCHT1 64(R14);          \
	ADDQ       rowC-40(SP), DI;  \
	ADDQ       $128, R14;        \
near:

#define ADVANCE ADDQ R10, BX; ADDQ R9, SI

#define KERNEL(ROWS, LOAD, FIRST, STEPS, ADD, STORE) \
	MOVQ       t+0(FP), DI;       \
	MOVQ       32(DI), R8;        \
	MOVQ       40(DI), R9;        \
	MOVQ       48(DI), R10;       \
	KMOVW      64(DI), K1;        \
	KMOVW      68(DI), K2;        \
	LEAQ       (R8)(R8*2), R13;   \
	LEAQ       (R8)(R8*4), R15;   \
	LEAQ       (R8)(R13*2), AX;   \
	LEAQ       (R8)(R8*8), R12;   \
	LEAQ       (R8)(R15*2), DX;   \
	LEAQ       (R8)(R13*4), R11;  \
	MOVQ       88(DI), BX;        \
	MOVQ       BX, tiles-16(SP);  \
	MOVQ       56(DI), BX;        \
	MOVQ       BX, rowC-40(SP);   \
	MOVQ       72(DI), R14;       \
	MOVQ       R14, next-8(SP);   \
	MOVQ       0(DI), SI;         \
	MOVQ       24(DI), CX;        \
	MOVQ       8(DI), BX;         \
	MOVQ       16(DI), DI;        \
tile:                                 \
	MOVQ       SI, a-24(SP);      \
	MOVQ       DI, c-32(SP);      \
	LOAD;                         \
	FIRST;                        \
	ADVANCE;                      \
	SUBQ       $5, CX;            \
	JLT        rest;              \
	PCALIGN    $32;               \
four:                                 \
	FETCH;                        \
	LOAD;                         \
	STEPS;                        \
	ADVANCE;                      \
	LOAD;                         \
	STEPS;                        \
	ADVANCE;                      \
	LOAD;                         \
	STEPS;                        \
	ADVANCE;                      \
	LOAD;                         \
	STEPS;                        \
	ADVANCE;                      \
	SUBQ       $4, CX;            \
	JGE        four;              \
rest:                                 \
	ADDQ       $4, CX;            \
	JEQ        end;               \
step:                                 \
	LOAD;                         \
	STEPS;                        \
	ADVANCE;                      \
	DECQ       CX;                \
	JNE        step;              \
end:                                  \
	MOVQ       t+0(FP), DI;       \
	MOVQ       rowC-40(SP), CX;   \
	MOVQ       c-32(SP), BX;      \
	CMPB       80(DI), $0;        \
	JEQ        store;             \
	ROWS(ADD);                    \
	MOVQ       c-32(SP), BX;      \
store:                                \
	ROWS(STORE);                  \
	DECQ       tiles-16(SP);      \
	JEQ        done;              \
	MOVQ       a-24(SP), SI;      \
	ADDQ       96(DI), SI;        \
	MOVQ       24(DI), CX;        \
	MOVQ       next-8(SP), R14;   \
	TESTQ      R14, R14;          \
	JEQ        below;             \
	ADDQ       $2048, R14;        \
	MOVQ       R14, next-8(SP);   \
below:                                \
	XCHGQ      BX, DI;            \
	MOVQ       8(BX), BX;         \
	JMP        tile;              \
done:                                 \
	VZEROUPPER;                   \
	RET

// Macros for each element type: loading a row of B, the first step, the other
// steps, adding and storing C.
#define LOAD_F32               VMOVUPS (BX), Z0; VMOVUPS 64(BX), Z1
#define SOME_F32               VMOVUPS.Z (BX), K1, Z0; VMOVUPS.Z 64(BX), K2, Z1
#define FIRST_F32(at, lo, hi) VBROADCASTSS at, Z2; VMULPS Z0, Z2, lo; VMULPS Z1, Z2, hi
#define STEP_F32(at, lo, hi)  VBROADCASTSS at, Z2; VFMADD231PS Z0, Z2, lo; VFMADD231PS Z1, Z2, hi
#define ADD_F32(at, lo, hi)   VMOVUPS.Z (BX), K1, Z0; VMOVUPS.Z 64(BX), K2, Z1; VADDPS Z0, lo, lo; VADDPS Z1, hi, hi; ADDQ CX, BX
#define STORE_F32(at, lo, hi) VMOVUPS lo, K1, (BX); VMOVUPS hi, K2, 64(BX); ADDQ CX, BX

#define LOAD_F32_1               VMOVUPS (BX), Z0
#define SOME_F32_1               VMOVUPS.Z (BX), K1, Z0
#define FIRST_F32_1(at, lo, hi) VMULPS.BCST at, Z0, lo
#define STEP_F32_1(at, lo, hi)  VFMADD231PS.BCST at, Z0, lo
#define ADD_F32_1(at, lo, hi)   VMOVUPS.Z (BX), K1, Z0; VADDPS Z0, lo, lo; ADDQ CX, BX
#define STORE_F32_1(at, lo, hi) VMOVUPS lo, K1, (BX); ADDQ CX, BX

#define LOAD_F32_3             VMOVUPS (BX), Z0; VMOVUPS 64(BX), Z1; VMOVUPS 128(BX), Z2
#define FIRST_F32_3(at, p, q, r) VBROADCASTSS at, Z3; VMULPS Z0, Z3, p; VMULPS Z1, Z3, q; VMULPS Z2, Z3, r
#define STEP_F32_3(at, p, q, r)  VBROADCASTSS at, Z3; VFMADD231PS Z0, Z3, p; VFMADD231PS Z1, Z3, q; VFMADD231PS Z2, Z3, r
#define ADD_F32_3(at, p, q, r)   VADDPS (BX), p, p; VADDPS 64(BX), q, q; VADDPS 128(BX), r, r; ADDQ CX, BX
#define STORE_F32_3(at, p, q, r) VMOVUPS p, (BX); VMOVUPS q, 64(BX); VMOVUPS r, 128(BX); ADDQ CX, BX

#define LOAD_F32_4                VMOVUPS (BX), Z0; VMOVUPS 64(BX), Z1; VMOVUPS 128(BX), Z2; VMOVUPS 192(BX), Z3
#define FIRST_F32_4(at, p, q, r, s) VBROADCASTSS at, Z4; VMULPS Z0, Z4, p; VMULPS Z1, Z4, q; VMULPS Z2, Z4, r; VMULPS Z3, Z4, s
#define STEP_F32_4(at, p, q, r, s)  VBROADCASTSS at, Z4; VFMADD231PS Z0, Z4, p; VFMADD231PS Z1, Z4, q; VFMADD231PS Z2, Z4, r; VFMADD231PS Z3, Z4, s
#define ADD_F32_4(at, p, q, r, s)   VADDPS (BX), p, p; VADDPS 64(BX), q, q; VADDPS 128(BX), r, r; VADDPS 192(BX), s, s; ADDQ CX, BX
#define STORE_F32_4(at, p, q, r, s) VMOVUPS p, (BX); VMOVUPS q, 64(BX); VMOVUPS r, 128(BX); VMOVUPS s, 192(BX); ADDQ CX, BX

#define LOAD_F64               VMOVUPD (BX), Z0; VMOVUPD 64(BX), Z1
#define SOME_F64               VMOVUPD.Z (BX), K1, Z0; VMOVUPD.Z 64(BX), K2, Z1
#define FIRST_F64(at, lo, hi) VBROADCASTSD at, Z2; VMULPD Z0, Z2, lo; VMULPD Z1, Z2, hi
#define STEP_F64(at, lo, hi)  VBROADCASTSD at, Z2; VFMADD231PD Z0, Z2, lo; VFMADD231PD Z1, Z2, hi
#define ADD_F64(at, lo, hi)   VMOVUPD.Z (BX), K1, Z0; VMOVUPD.Z 64(BX), K2, Z1; VADDPD Z0, lo, lo; VADDPD Z1, hi, hi; ADDQ CX, BX
#define STORE_F64(at, lo, hi) VMOVUPD lo, K1, (BX); VMOVUPD hi, K2, 64(BX); ADDQ CX, BX

#define LOAD_F64_1               VMOVUPD (BX), Z0
#define SOME_F64_1               VMOVUPD.Z (BX), K1, Z0
#define FIRST_F64_1(at, lo, hi) VMULPD.BCST at, Z0, lo
#define STEP_F64_1(at, lo, hi)  VFMADD231PD.BCST at, Z0, lo
#define ADD_F64_1(at, lo, hi)   VMOVUPD.Z (BX), K1, Z0; VADDPD Z0, lo, lo; ADDQ CX, BX
#define STORE_F64_1(at, lo, hi) VMOVUPD lo, K1, (BX); ADDQ CX, BX

#define LOAD_F64_3             VMOVUPD (BX), Z0; VMOVUPD 64(BX), Z1; VMOVUPD 128(BX), Z2
#define FIRST_F64_3(at, p, q, r) VBROADCASTSD at, Z3; VMULPD Z0, Z3, p; VMULPD Z1, Z3, q; VMULPD Z2, Z3, r
#define STEP_F64_3(at, p, q, r)  VBROADCASTSD at, Z3; VFMADD231PD Z0, Z3, p; VFMADD231PD Z1, Z3, q; VFMADD231PD Z2, Z3, r
#define ADD_F64_3(at, p, q, r)   VADDPD (BX), p, p; VADDPD 64(BX), q, q; VADDPD 128(BX), r, r; ADDQ CX, BX
#define STORE_F64_3(at, p, q, r) VMOVUPD p, (BX); VMOVUPD q, 64(BX); VMOVUPD r, 128(BX); ADDQ CX, BX

#define LOAD_F64_4                VMOVUPD (BX), Z0; VMOVUPD 64(BX), Z1; VMOVUPD 128(BX), Z2; VMOVUPD 192(BX), Z3
#define FIRST_F64_4(at, p, q, r, s) VBROADCASTSD at, Z4; VMULPD Z0, Z4, p; VMULPD Z1, Z4, q; VMULPD Z2, Z4, r; VMULPD Z3, Z4, s
#define STEP_F64_4(at, p, q, r, s)  VBROADCASTSD at, Z4; VFMADD231PD Z0, Z4, p; VFMADD231PD Z1, Z4, q; VFMADD231PD Z2, Z4, r; VFMADD231PD Z3, Z4, s
#define ADD_F64_4(at, p, q, r, s)   VADDPD (BX), p, p; VADDPD 64(BX), q, q; VADDPD 128(BX), r, r; VADDPD 192(BX), s, s; ADDQ CX, BX
#define STORE_F64_4(at, p, q, r, s) VMOVUPD p, (BX); VMOVUPD q, 64(BX); VMOVUPD r, 128(BX); VMOVUPD s, 192(BX); ADDQ CX, BX

// LOAD reads whole vectors of B, SOME only the columns that exist. SOME
// occupies an arithmetic unit for each load, which costs 7 % of a whole tile.
#define F32(ROWS, LOAD) KERNEL(ROWS, LOAD, ROWS(FIRST_F32), ROWS(STEP_F32), ADD_F32, STORE_F32)
#define F32_1(ROWS, LOAD) KERNEL(ROWS, LOAD, ROWS(FIRST_F32_1), ROWS(STEP_F32_1), ADD_F32_1, STORE_F32_1)
#define F32_3(ROWS) KERNEL(ROWS, LOAD_F32_3, ROWS(FIRST_F32_3), ROWS(STEP_F32_3), ADD_F32_3, STORE_F32_3)
#define F32_4(ROWS) KERNEL(ROWS, LOAD_F32_4, ROWS(FIRST_F32_4), ROWS(STEP_F32_4), ADD_F32_4, STORE_F32_4)
#define F64(ROWS, LOAD) KERNEL(ROWS, LOAD, ROWS(FIRST_F64), ROWS(STEP_F64), ADD_F64, STORE_F64)
#define F64_1(ROWS, LOAD) KERNEL(ROWS, LOAD, ROWS(FIRST_F64_1), ROWS(STEP_F64_1), ADD_F64_1, STORE_F64_1)
#define F64_3(ROWS) KERNEL(ROWS, LOAD_F64_3, ROWS(FIRST_F64_3), ROWS(STEP_F64_3), ADD_F64_3, STORE_F64_3)
#define F64_4(ROWS) KERNEL(ROWS, LOAD_F64_4, ROWS(FIRST_F64_4), ROWS(STEP_F64_4), ADD_F64_4, STORE_F64_4)

// Measures the rate of the arithmetic: every register of C is used, and none waits
// for another. All operands are zero, because subnormal numbers would be slow.
#define ZERO(at, lo, hi)       VPXORD lo, lo, lo; VPXORD hi, hi, hi
#define MULADD_F32(at, lo, hi) VFMADD231PS Z0, Z2, lo; VFMADD231PS Z0, Z2, hi
#define MULADD_F64(at, lo, hi) VFMADD231PD Z0, Z2, lo; VFMADD231PD Z0, Z2, hi
#define PEAK(MULADD) \
	ZERO(0, Z0, Z2); \
	ROWS14(ZERO);    \
round:                   \
	ROWS14(MULADD);  \
	DECQ CX;         \
	JNE  round;      \
	VZEROUPPER;      \
	RET
