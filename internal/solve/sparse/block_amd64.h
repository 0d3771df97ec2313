// Frames of the kernels for block vectors. Each kernel inserts the loads of one storage form.

// PANEL sets K1 and K2 to the masks of the columns in reg (1 to 16). It overwrites AX.
#define PANEL(reg) \
	MOVQ  $-1, AX;         \
	BZHIQ reg, AX, AX;     \
	KMOVB AX, K1;          \
	SHRQ  $8, AX;          \
	KMOVB AX, K2

// NEXTROWS is the prefetch distance in bytes of the kernels that do not use the matrix. Their caller works on a page of
// each vector after the other, and the processor prefetches only within a page.
#define NEXTROWS 4096

// FOREACH applies DO to the two accumulators of each of 8 rows.
#define FOREACH(DO) \
	DO(Z0, Z1); DO(Z2, Z3); DO(Z4, Z5); DO(Z6, Z7); \
	DO(Z8, Z9); DO(Z10, Z11); DO(Z12, Z13); DO(Z14, Z15)

#define ZERO2(a, b) VPXORQ a, a, a; VPXORQ b, b, b
#define NEGZERO2(a, b) VMOVAPD Z29, a; VMOVAPD Z29, b
#define LOAD2(a, b) VMOVUPD.Z (AX), K1, a; VMOVUPD.Z 64(AX), K2, b; ADDQ R12, AX
#define STORE2(a, b) VMOVUPD a, K1, (AX); VMOVUPD b, K2, 64(AX); ADDQ R12, AX

// TERM2 adds at*coef to the two accumulators of a row. Z16 and Z17 hold a row of coef.
#define TERM2(at, a, b) \
	VBROADCASTSD at, Z18;      \
	VFMADD231PD  Z16, Z18, a;  \
	VFMADD231PD  Z17, Z18, b

// PART2 is TERM2 unless there are at most at columns on the left.
#define PART2(at, a, b) \
	CMPQ R14, $at;             \
	JLE  partnext;             \
	TERM2((8*at)(SI), a, b)

// TRIANGLE applies BOTH to each row l < 8 of the sums of all columns and its two accumulators, and LAST to each row
// l >= 8 and the accumulator of its last 8 columns.
#define TRIANGLE(BOTH, LAST) \
	BOTH(0, Z0, Z1); BOTH(1, Z2, Z3); BOTH(2, Z4, Z5); BOTH(3, Z6, Z7); \
	BOTH(4, Z8, Z9); BOTH(5, Z10, Z11); BOTH(6, Z12, Z13); BOTH(7, Z14, Z15); \
	LAST(8, Z16); LAST(9, Z17); LAST(10, Z18); LAST(11, Z19); \
	LAST(12, Z20); LAST(13, Z21); LAST(14, Z22); LAST(15, Z23)

#define BOTHLOAD(l, a, b) VMOVUPD 128*l(DI), a; VMOVUPD (128*l+64)(DI), b
#define LASTLOAD(l, b) VMOVUPD (128*l+64)(DI), b
#define BOTHSTORE(l, a, b) VMOVUPD a, 128*l(DI); VMOVUPD b, (128*l+64)(DI)
#define LASTSTORE(l, b) VMOVUPD b, (128*l+64)(DI)

// BOTHTERM and LASTTERM add a row of a times a row of b, which Z24 and Z25 hold.
#define BOTHTERM(l, a, b) \
	VBROADCASTSD 8*l(SI), Z26; \
	VFMADD231PD  Z24, Z26, a;  \
	VFMADD231PD  Z25, Z26, b
#define LASTTERM(l, b) VFMADD231PD.BCST 8*l(SI), Z25, b

#define PARTLOAD(at, a, b) CMPQ R14, $at; JLE partrow; LOAD2(a, b)
#define PARTSTORE(at, a, b) CMPQ R14, $at; JLE partdone; STORE2(a, b)


// The frame of the products whose rows share their offsets but not their values, one row at a time. LOAD broadcasts
// the value at an address; SIZE is the size of a value.
#define BLOCKVARYING(LOAD, SIZE) \
	MOVQ cols+64(FP), CX;    \
	PANEL(CX);               \
	MOVQ dst+0(FP), DI;      \
	MOVQ x+8(FP), SI;        \
	MOVQ offs+16(FP), R8;    \
	MOVQ vals+24(FP), R9;    \
	MOVQ stride+32(FP), R13; \
	IMUL3Q $SIZE, R13, R13;  \
	MOVQ entries+40(FP), R10; \
	MOVQ n+48(FP), CX;       \
	MOVQ width+56(FP), R12;  \
	MOVQ $0x8000000000000000, AX; \
	VPBROADCASTQ AX, Z29;    \
row:                         \
	TESTQ   CX, CX;          \
	JLE     done;            \
	NEGZERO2(Z0, Z1);        \
	MOVQ    R9, R14;         \
	XORQ    R11, R11;        \
term:                        \
	MOVQ    (R8)(R11*8), DX; \
	IMULQ   R12, DX;         \
	LOAD(0, R14);            \
	VMULPD.Z (SI)(DX*1), Z18, K1, Z19; \
	VMULPD.Z 64(SI)(DX*1), Z18, K2, Z20; \
	VADDPD  Z19, Z0, Z0;     \
	VADDPD  Z20, Z1, Z1;     \
	ADDQ    R13, R14;        \
	INCQ    R11;             \
	CMPQ    R11, R10;        \
	JLT     term;            \
	VMOVUPD Z0, K1, (DI);    \
	VMOVUPD Z1, K2, 64(DI);  \
	LEAQ    (SI)(R12*8), SI; \
	LEAQ    (DI)(R12*8), DI; \
	ADDQ    $SIZE, R9;       \
	DECQ    CX;              \
	JMP     row;             \
done:                        \
	VZEROUPPER;              \
	RET


// LANE adds the entry of one row of a slice to its accumulators, if the mask in AX says that there is one.
#define LANE(l, a, b, next, COL, COLSIZE, LOAD, VALSIZE) \
	BTL     $l, AX;          \
	JCC     next;            \
	COL;                     \
	LOAD(0, R9);             \
	IMULQ   R12, DX;         \
	VMULPD.Z (SI)(DX*1), Z18, K1, Z19; \
	VMULPD.Z 64(SI)(DX*1), Z18, K2, Z20; \
	VADDPD  Z19, a, a;       \
	VADDPD  Z20, b, b;       \
	ADDQ    $COLSIZE, R8;    \
	ADDQ    $VALSIZE, R9;    \
next:

// NEXTROW adds the entry of one row of a slice to its accumulators, where the rows of x follow each other. l is the offset
// of the value in bytes.
#define NEXTROW(l, a, b, LOAD) \
	LOAD(l, R9);             \
	VMULPD.Z (DX), Z18, K1, Z19; \
	VMULPD.Z 64(DX), Z18, K2, Z20; \
	VADDPD  Z19, a, a;       \
	VADDPD  Z20, b, b;       \
	ADDQ    R12, DX

// The frame of the products with scattered rows, a slice of 8 rows at a time. If all rows have an entry and the columns
// are consecutive, as on grids, only the first column is looked at. SHIFT is 1 if columns are relative to
// the first row of the slice.
#define BLOCKSCATTERED(COL, COLS, COLSIZE, LOAD, VALSIZE, SHIFT) \
	MOVQ cols+64(FP), CX;    \
	PANEL(CX);               \
	MOVQ dst+0(FP), DI;      \
	MOVQ x+8(FP), SI;        \
	MOVQ cs+16(FP), R8;      \
	MOVQ vals+24(FP), R9;    \
	MOVQ masks+32(FP), R10;  \
	MOVQ starts+40(FP), R11; \
	MOVQ n+48(FP), CX;       \
	MOVQ width+56(FP), R12;  \
	SHLQ $3, R12;            \
	MOVQ $0x8000000000000000, AX; \
	VPBROADCASTQ AX, Z29;    \
	VMOVDQU32 ·iota(SB), Y28; \
slice:                       \
	TESTQ   CX, CX;          \
	JLE     done;            \
	FOREACH(NEGZERO2);       \
	MOVL    12(R11), R14;    \
	SUBL    4(R11), R14;     \
	ADDQ    $8, R11;         \
term:                        \
	DECQ    R14;             \
	JLT     store;           \
	MOVBLZX (R10), AX;       \
	INCQ    R10;             \
	PREFETCHT0 2*AHEAD(R9);  \
	PREFETCHT0 AHEAD(R8);    \
	CMPQ    AX, $0xff;       \
	JNE     some;            \
	COLS;                    \
	VPBROADCASTD X21, Y22;   \
	VPADDD  Y28, Y22, Y22;   \
	VPCMPEQD Y22, Y21, K3;   \
	KMOVB   K3, DX;          \
	CMPQ    DX, AX;          \
	JNE     some;            \
	COL;                     \
	IMULQ   R12, DX;         \
	ADDQ    SI, DX;          \
	NEXTROW(0, Z0, Z1, LOAD); \
	NEXTROW(VALSIZE, Z2, Z3, LOAD); \
	NEXTROW(2*VALSIZE, Z4, Z5, LOAD); \
	NEXTROW(3*VALSIZE, Z6, Z7, LOAD); \
	NEXTROW(4*VALSIZE, Z8, Z9, LOAD); \
	NEXTROW(5*VALSIZE, Z10, Z11, LOAD); \
	NEXTROW(6*VALSIZE, Z12, Z13, LOAD); \
	NEXTROW(7*VALSIZE, Z14, Z15, LOAD); \
	ADDQ    $(8*COLSIZE), R8; \
	ADDQ    $(8*VALSIZE), R9; \
	JMP     term;            \
some:                        \
	LANE(0, Z0, Z1, n0, COL, COLSIZE, LOAD, VALSIZE) \
	LANE(1, Z2, Z3, n1, COL, COLSIZE, LOAD, VALSIZE) \
	LANE(2, Z4, Z5, n2, COL, COLSIZE, LOAD, VALSIZE) \
	LANE(3, Z6, Z7, n3, COL, COLSIZE, LOAD, VALSIZE) \
	LANE(4, Z8, Z9, n4, COL, COLSIZE, LOAD, VALSIZE) \
	LANE(5, Z10, Z11, n5, COL, COLSIZE, LOAD, VALSIZE) \
	LANE(6, Z12, Z13, n6, COL, COLSIZE, LOAD, VALSIZE) \
	LANE(7, Z14, Z15, n7, COL, COLSIZE, LOAD, VALSIZE) \
	JMP     term;            \
store:                       \
	MOVQ    DI, AX;          \
	FOREACH(STORE2);         \
	MOVQ    AX, DI;          \
	MOVQ    R12, DX;         \
	IMUL3Q  $(8*SHIFT), DX, DX; \
	ADDQ    DX, SI;          \
	DECQ    CX;              \
	JMP     slice;           \
done:                        \
	VZEROUPPER;              \
	RET

#define BROADCAST64(at, from) VBROADCASTSD (at)(from), Z18
#define BROADCAST32(at, from) VCVTSS2SD (at)(from), X18, X18; VBROADCASTSD X18, Z18
#define BROADCAST8(at, from) MOVBLZX (at)(from), BX; VBROADCASTSD (R13)(BX*8), Z18

#define COL32 MOVLQSX (R8), DX
#define COL16 MOVWQSX (R8), DX
#define COLS32 VMOVDQU32 (R8), Y21
#define COLS16 VPMOVSXWD (R8), Y21
