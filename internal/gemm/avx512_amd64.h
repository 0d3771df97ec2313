// The frame of every AVX-512 tile kernel: up to 14 rows of C, each of one or two
// vectors, stay in registers while the loop walks along k. A step loads one row
// of B's panel and multiplies it with a broadcast element of every row of A.
//
// With 14 rows and two vectors a step has 28 multiply-adds, which two units do
// in 14 cycles, against 16 loads, which two units do in 8: arithmetic is the
// limit, also with rows and steps of A at any distance. So A needs no order of
// its own, and a small B none either.
//
// Registers: SI, R12, AX, R15, R13 rows 0, 3, 6, 9 and 12 of A, R8 from row to
// row, R9 from step to step; BX row of B, R10 to the next; DX row of C, R11 to
// the next; CX steps left; DI the arguments; DI and R14 what to prefetch. Z0-Z1 row of
// B, Z2 element of A, Z4-Z31 rows of C; K1 and K2 the columns that exist.

#define ROWS1(OP)  OP((SI), Z4, Z5)
#define ROWS2(OP)  ROWS1(OP); OP((SI)(R8*1), Z6, Z7)
#define ROWS3(OP)  ROWS2(OP); OP((SI)(R8*2), Z8, Z9)
#define ROWS4(OP)  ROWS3(OP); OP((R12), Z10, Z11)
#define ROWS5(OP)  ROWS4(OP); OP((R12)(R8*1), Z12, Z13)
#define ROWS6(OP)  ROWS5(OP); OP((R12)(R8*2), Z14, Z15)
#define ROWS7(OP)  ROWS6(OP); OP((AX), Z16, Z17)
#define ROWS8(OP)  ROWS7(OP); OP((AX)(R8*1), Z18, Z19)
#define ROWS9(OP)  ROWS8(OP); OP((AX)(R8*2), Z20, Z21)
#define ROWS10(OP) ROWS9(OP); OP((R15), Z22, Z23)
#define ROWS11(OP) ROWS10(OP); OP((R15)(R8*1), Z24, Z25)
#define ROWS12(OP) ROWS11(OP); OP((R15)(R8*2), Z26, Z27)
#define ROWS13(OP) ROWS12(OP); OP((R13), Z28, Z29)
#define ROWS14(OP) ROWS13(OP); OP((R13)(R8*1), Z30, Z31)

// What is needed later is brought into the second cache, a little with every
// four steps: all at once would keep the operands from coming. That is the rows
// of C, of this tile and then of those below, and the next panel of B.
#define FETCH \
	PREFETCHT1 (DI);              \
	PREFETCHT1 64(DI);            \
	PREFETCHT1 (R14);             \
	PREFETCHT1 64(R14);           \
	ADDQ       fetchC-32(SP), DI; \
	ADDQ       fetchB-40(SP), R14

#define ADVANCE              ADDQ R10, BX; ADDQ R9, SI; ADDQ R9, R12; ADDQ R9, AX; ADDQ R9, R15; ADDQ R9, R13

#define KERNEL(ROWS, LOAD, FIRST, STEPS, ADD, STORE) \
	MOVQ       t+0(FP), DI;       \
	MOVQ       0(DI), SI;         \
	MOVQ       16(DI), DX;        \
	MOVQ       32(DI), R8;        \
	MOVQ       40(DI), R9;        \
	MOVQ       48(DI), R10;       \
	MOVQ       56(DI), R11;       \
	KMOVW      64(DI), K1;        \
	KMOVW      68(DI), K2;        \
	MOVQ       88(DI), R13;       \
	MOVQ       R13, tiles-16(SP); \
	MOVQ       R11, fetchC-32(SP); \
	MOVQ       $128, fetchB-40(SP); \
	MOVQ       72(DI), R13;       \
	MOVQ       R13, next-8(SP);   \
	TESTQ      R13, R13;          \
	JNE        tile;              \
	MOVQ       SI, next-8(SP);    \
	MOVQ       $0, fetchC-32(SP); \
	MOVQ       $0, fetchB-40(SP); \
tile:                                 \
	MOVQ       SI, a-24(SP);      \
	MOVQ       8(DI), BX;         \
	MOVQ       24(DI), CX;        \
	LEAQ       (R8)(R8*2), R13;   \
	LEAQ       (SI)(R13*1), R12;  \
	LEAQ       (SI)(R13*2), AX;   \
	LEAQ       (R12)(R13*2), R15; \
	LEAQ       (AX)(R13*2), R13;  \
	LOAD;                         \
	FIRST;                        \
	ADVANCE;                      \
	MOVQ       DX, DI;            \
	MOVQ       next-8(SP), R14;   \
	ADDQ       $2048, next-8(SP); \
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
	CMPB       80(DI), $0;        \
	JEQ        store;             \
	MOVQ       DX, BX;            \
	ROWS(ADD);                    \
store:                                \
	ROWS(STORE);                  \
	MOVQ       a-24(SP), SI;      \
	ADDQ       96(DI), SI;        \
	DECQ       tiles-16(SP);      \
	JNE        tile;              \
	VZEROUPPER;                   \
	RET

// The element types: how a row of B is loaded, the first step and the others
// made, C added and stored.
#define LOAD_F32               VMOVUPS (BX), Z0; VMOVUPS 64(BX), Z1
#define SOME_F32               VMOVUPS.Z (BX), K1, Z0; VMOVUPS.Z 64(BX), K2, Z1
#define FIRST_F32(at, lo, hi) VBROADCASTSS at, Z2; VMULPS Z0, Z2, lo; VMULPS Z1, Z2, hi
#define STEP_F32(at, lo, hi)  VBROADCASTSS at, Z2; VFMADD231PS Z0, Z2, lo; VFMADD231PS Z1, Z2, hi
#define ADD_F32(at, lo, hi)   VMOVUPS.Z (BX), K1, Z0; VMOVUPS.Z 64(BX), K2, Z1; VADDPS Z0, lo, lo; VADDPS Z1, hi, hi; ADDQ R11, BX
#define STORE_F32(at, lo, hi) VMOVUPS lo, K1, (DX); VMOVUPS hi, K2, 64(DX); ADDQ R11, DX

#define LOAD_F32_1               VMOVUPS (BX), Z0
#define SOME_F32_1               VMOVUPS.Z (BX), K1, Z0
#define FIRST_F32_1(at, lo, hi) VBROADCASTSS at, Z2; VMULPS Z0, Z2, lo
#define STEP_F32_1(at, lo, hi)  VBROADCASTSS at, Z2; VFMADD231PS Z0, Z2, lo
#define ADD_F32_1(at, lo, hi)   VMOVUPS.Z (BX), K1, Z0; VADDPS Z0, lo, lo; ADDQ R11, BX
#define STORE_F32_1(at, lo, hi) VMOVUPS lo, K1, (DX); ADDQ R11, DX

#define LOAD_F64               VMOVUPD (BX), Z0; VMOVUPD 64(BX), Z1
#define SOME_F64               VMOVUPD.Z (BX), K1, Z0; VMOVUPD.Z 64(BX), K2, Z1
#define FIRST_F64(at, lo, hi) VBROADCASTSD at, Z2; VMULPD Z0, Z2, lo; VMULPD Z1, Z2, hi
#define STEP_F64(at, lo, hi)  VBROADCASTSD at, Z2; VFMADD231PD Z0, Z2, lo; VFMADD231PD Z1, Z2, hi
#define ADD_F64(at, lo, hi)   VMOVUPD.Z (BX), K1, Z0; VMOVUPD.Z 64(BX), K2, Z1; VADDPD Z0, lo, lo; VADDPD Z1, hi, hi; ADDQ R11, BX
#define STORE_F64(at, lo, hi) VMOVUPD lo, K1, (DX); VMOVUPD hi, K2, 64(DX); ADDQ R11, DX

#define LOAD_F64_1               VMOVUPD (BX), Z0
#define SOME_F64_1               VMOVUPD.Z (BX), K1, Z0
#define FIRST_F64_1(at, lo, hi) VBROADCASTSD at, Z2; VMULPD Z0, Z2, lo
#define STEP_F64_1(at, lo, hi)  VBROADCASTSD at, Z2; VFMADD231PD Z0, Z2, lo
#define ADD_F64_1(at, lo, hi)   VMOVUPD.Z (BX), K1, Z0; VADDPD Z0, lo, lo; ADDQ R11, BX
#define STORE_F64_1(at, lo, hi) VMOVUPD lo, K1, (DX); ADDQ R11, DX

// LOAD reads whole vectors of B, SOME only the columns that exist. The second
// takes an arithmetic unit for each, which is 7 % of a whole tile.
#define F32(ROWS, LOAD) KERNEL(ROWS, LOAD, ROWS(FIRST_F32), ROWS(STEP_F32), ADD_F32, STORE_F32)
#define F32_1(ROWS, LOAD) KERNEL(ROWS, LOAD, ROWS(FIRST_F32_1), ROWS(STEP_F32_1), ADD_F32_1, STORE_F32_1)
#define F64(ROWS, LOAD) KERNEL(ROWS, LOAD, ROWS(FIRST_F64), ROWS(STEP_F64), ADD_F64, STORE_F64)
#define F64_1(ROWS, LOAD) KERNEL(ROWS, LOAD, ROWS(FIRST_F64_1), ROWS(STEP_F64_1), ADD_F64_1, STORE_F64_1)

// The rate of the arithmetic alone: every register of C is used, none waits for
// another. Zeros keep subnormal numbers, which are slow, out of it.
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
