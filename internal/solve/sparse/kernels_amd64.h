// Frames of the kernels. Each kernel inserts the loads of one storage form.

// AHEAD is the prefetch distance in bytes. The kernels work block by block, on one page of each vector after the other,
// and the hardware prefetcher stops at the end of a page. Without this prefetch every block would start with a wait for
// memory.
#define AHEAD 1024

// PREFETCHW AHEAD(DI) prefetches for writing. The assembler does not know the instruction.
#define PREFETCHW_DI BYTE $0x0f; BYTE $0x0d; BYTE $0x8f; LONG $AHEAD

// TAIL sets K1 to the mask of the last CX (1..7) elements, or of all 8.
#define TAIL \
	MOVQ    CX, R15;       \
	MOVQ    $8, AX;        \
	CMPQ    R15, AX;       \
	CMOVQGT AX, R15;       \
	MOVQ    $-1, AX;       \
	BZHIQ   R15, AX, AX;   \
	KMOVB   AX, K1

// The frame of the kernels whose rows share their offsets but not their values:
// dst[i] = sum over k of vals[k*stride+i] * x[i+offs[k]], width >= 1. Offsets
// are in bytes, the stride in elements. LOAD brings 8 masked values into a
// register as doubles; SHIFT is the binary logarithm of the size of a value.
// FIRST loads the values of the first term into Z2, and the address of the second term into R14. FIRST2 and LOAD2 load
// the values of 16 rows into Z2 and Z3.
#define VARYING(FIRST2, LOAD2, FIRST, LOAD, SHIFT) \
	MOVQ dst+0(FP), DI;    \
	MOVQ x+8(FP), SI;      \
	MOVQ offs+16(FP), R8;  \
	MOVQ vals+24(FP), R9;  \
	MOVQ stride+32(FP), R13; \
	SHLQ $SHIFT, R13;      \
	MOVQ width+40(FP), R10; \
	MOVQ n+48(FP), CX;     \
two:                       \
	CMPQ    CX, $16;       \
	JLT     one;           \
	MOVQ    (R8), R12;     \
	ADDQ    SI, R12;       \
	FIRST2;                \
	VMULPD  (R12), Z2, Z0; \
	VMULPD  64(R12), Z3, Z4; \
	MOVQ    $1, R11;       \
	JMP     check2;        \
term2:                     \
	MOVQ    (R8)(R11*8), R12; \
	ADDQ    SI, R12;       \
	LOAD2(R14);            \
	ADDQ    R13, R14;      \
	VMULPD  (R12), Z2, Z2; \
	VMULPD  64(R12), Z3, Z3; \
	VADDPD  Z2, Z0, Z0;    \
	VADDPD  Z3, Z4, Z4;    \
	INCQ    R11;           \
check2:                    \
	CMPQ    R11, R10;      \
	JLT     term2;         \
	VMOVUPD Z0, (DI);      \
	VMOVUPD Z4, 64(DI);    \
	ADDQ    $128, SI;      \
	ADDQ    $128, DI;      \
	ADDQ    $(16<<SHIFT), R9; \
	SUBQ    $16, CX;       \
	JMP     two;           \
one:                       \
	TESTQ     CX, CX;      \
	JLE       done;        \
	TAIL;                  \
	MOVQ      (R8), R12;   \
	VMOVUPD.Z (SI)(R12*1), K1, Z1; \
	FIRST;                 \
	VMULPD    Z1, Z2, Z0;  \
	MOVQ      $1, R11;     \
	JMP       check;       \
term:                      \
	MOVQ      (R8)(R11*8), R12; \
	VMOVUPD.Z (SI)(R12*1), K1, Z1; \
	LOAD(R14, Z2);         \
	ADDQ      R13, R14;    \
	VMULPD    Z1, Z2, Z1;  \
	VADDPD    Z1, Z0, Z0;  \
	INCQ      R11;         \
check:                     \
	CMPQ    R11, R10;      \
	JLT     term;          \
	VMOVUPD Z0, K1, (DI);  \
	ADDQ    $64, SI;       \
	ADDQ    $64, DI;       \
	ADDQ    $(8<<SHIFT), R9; \
	SUBQ    $8, CX;        \
	JMP     one;           \
done:                      \
	VZEROUPPER;            \
	RET

// The frame of the scattered kernels. They process 8 rows at a time, whose k-th entries are adjacent. A mask per k tells
// which rows have a k-th entry. Only those entries are stored, so the kernel loads 8 values (the data is padded) and
// expands them to their lanes. If all rows have an entry and the columns are consecutive, as on grids, a plain load of x
// replaces the gather. starts holds the numbers of the first entry and the first mask of each slice, and one more pair
// for the end. STEP is the distance in bytes by which the base of the columns moves from slice to slice. BEGIN starts
// the sums in Z0.
#define SCATTERED(BEGIN, COLS, COLSIZE, VALS, VALSIZE, STEP) \
	MOVQ dst+0(FP), DI;    \
	MOVQ x+8(FP), SI;      \
	MOVQ cols+16(FP), R8;  \
	MOVQ vals+24(FP), R9;  \
	MOVQ masks+32(FP), R10; \
	MOVQ starts+40(FP), R11; \
	MOVQ n+48(FP), CX;     \
	MOVQ $0x8000000000000000, AX; \
	VPBROADCASTQ AX, Z29;  \
	VMOVDQU32 ·iota(SB), Y28; \
slice:                     \
	TESTQ   CX, CX;        \
	JLE     done;          \
	MOVL    12(R11), R12;  \
	SUBL    4(R11), R12;   \
	ADDQ    $8, R11;       \
	BEGIN;                 \
term:                      \
	DECQ    R12;           \
	JLT     store;         \
	MOVBLZX (R10), AX;     \
	INCQ    R10;           \
	PREFETCHT0 2*AHEAD(R9); \
	PREFETCHT0 AHEAD(R8);  \
	COLS;                  \
	VALS;                  \
	CMPQ    AX, $0xff;     \
	JNE     some;          \
	VPBROADCASTD X1, Y5;   \
	VPADDD  Y28, Y5, Y5;   \
	VPCMPEQD Y5, Y1, K3;   \
	KMOVB   K3, DX;        \
	CMPQ    DX, AX;        \
	JNE     some;          \
	VMOVD   X1, DX;        \
	MOVLQSX DX, DX;        \
	VMULPD  (SI)(DX*8), Z2, Z2; \
	VADDPD  Z2, Z0, Z0;    \
	ADDQ    $(8*COLSIZE), R8; \
	ADDQ    $(8*VALSIZE), R9; \
	JMP     term;          \
some:                      \
	KMOVB   AX, K1;        \
	KMOVB   AX, K2;        \
	POPCNTL AX, AX;        \
	VPEXPANDD.Z Y1, K1, Y1; \
	VEXPANDPD.Z Z2, K1, Z2; \
	VXORPD  X3, X3, X3;    \
	VGATHERDPD (SI)(Y1*8), K2, Z3; \
	VMULPD  Z3, Z2, Z2;    \
	VADDPD  Z2, Z0, K1, Z0; \
	LEAQ    (R8)(AX*COLSIZE), R8; \
	LEAQ    (R9)(AX*VALSIZE), R9; \
	JMP     term;          \
store:                     \
	VMOVUPD Z0, (DI);      \
	PREFETCHW_DI;          \
	ADDQ    $64, DI;       \
	ADDQ    $STEP, SI;     \
	DECQ    CX;            \
	JMP     slice;         \
done:                      \
	VZEROUPPER;            \
	RET

// Macros for a pass over the rows of vectors (Sweep).

// ROWS applies DO to the sums of 128 rows, which are in 16 registers.
#define ROWS(DO) \
	DO(0, Z16);   DO(64, Z17);  DO(128, Z18); DO(192, Z19); \
	DO(256, Z20); DO(320, Z21); DO(384, Z22); DO(448, Z23); \
	DO(512, Z24); DO(576, Z25); DO(640, Z26); DO(704, Z27); \
	DO(768, Z28); DO(832, Z29); DO(896, Z30); DO(960, Z31)

#define CLEAR(at, sum) VPXORQ sum, sum, sum
#define LOAD(at, sum) VMOVUPD at(SI), sum
#define LOADSCALED(at, sum) VMULPD at(SI), Z4, sum
#define LOADBY(at, sum) VMOVUPD at(SI), sum; VMULPD at(DX), sum, sum; VMULPD Z4, sum, sum
#define ADD(at, sum) VADDPD at(SI), sum, sum
#define ADDSCALED(at, sum) VMULPD at(SI), Z4, Z0; VADDPD Z0, sum, sum
#define ADDBY(at, sum) VMOVUPD at(SI), Z0; VMULPD at(DX), Z0, Z0; VMULPD Z4, Z0, Z0; VADDPD Z0, sum, sum
#define STORE(at, sum) VMOVUPD sum, at(DX)
#define FETCH(at, sum) PREFETCHT0 AHEAD+at(SI)

// DOT adds the products of 32 rows to the lanes.
#define DOT(at, a, b, c, d) \
	VMULPD at(SI), a, Z4;     \
	VMULPD at+64(SI), b, Z5;  \
	VMULPD at+128(SI), c, Z6; \
	VMULPD at+192(SI), d, Z7; \
	VADDPD Z4, Z0, Z0;        \
	VADDPD Z5, Z1, Z1;        \
	VADDPD Z6, Z2, Z2;        \
	VADDPD Z7, Z3, Z3

// OP sets AX to the flags of an operation and SI to the address of its rows.
#define OP \
	MOVQ op_does(R8), AX;  \
	MOVQ op_x(R8), SI;     \
	ADDQ DI, SI

// OTHER sets DX to the address of the rows of another vector.
#define OTHER(of) \
	MOVQ of(R8), DX;       \
	ADDQ DI, DX
