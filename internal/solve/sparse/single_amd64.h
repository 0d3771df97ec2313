// Frames of the kernels for vectors in single precision. Each kernel inserts the loads of one storage form.

// TAIL16 sets K1 to the mask of the last CX (1..15) elements, or of all 16.
#define TAIL16 \
	MOVQ    CX, R15;       \
	MOVQ    $16, AX;       \
	CMPQ    R15, AX;       \
	CMOVQGT AX, R15;       \
	MOVQ    $-1, AX;       \
	BZHIQ   R15, AX, AX;   \
	KMOVW   AX, K1

// SCATTERED32 is SCATTERED for a vector in single precision, without the prefetch of the result.
#define SCATTERED32(COLS, COLSIZE, VALS, VALSIZE, STEP) \
	MOVQ dst+0(FP), DI;    \
	MOVQ x+8(FP), SI;      \
	MOVQ cols+16(FP), R8;  \
	MOVQ vals+24(FP), R9;  \
	MOVQ masks+32(FP), R10; \
	MOVQ starts+40(FP), R11; \
	MOVQ n+48(FP), CX;     \
	MOVQ $0x80000000, AX;  \
	VPBROADCASTD AX, Y29;  \
	VMOVDQU32 ·iota(SB), Y28; \
slice:                     \
	TESTQ   CX, CX;        \
	JLE     done;          \
	VMOVAPS Y29, Y0;       \
	MOVL    12(R11), R12;  \
	SUBL    4(R11), R12;   \
	ADDQ    $8, R11;       \
term:                      \
	DECQ    R12;           \
	JLT     store;         \
	MOVBLZX (R10), AX;     \
	INCQ    R10;           \
	PREFETCHT0 AHEAD(R9);  \
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
	VMULPS  (SI)(DX*4), Y2, Y2; \
	VADDPS  Y2, Y0, Y0;    \
	ADDQ    $(8*COLSIZE), R8; \
	ADDQ    $(8*VALSIZE), R9; \
	JMP     term;          \
some:                      \
	KMOVB   AX, K1;        \
	KMOVB   AX, K2;        \
	POPCNTL AX, AX;        \
	VPEXPANDD.Z Y1, K1, Y1; \
	VEXPANDPS.Z Y2, K1, Y2; \
	VXORPS  X3, X3, X3;    \
	VGATHERDPS (SI)(Y1*4), K2, Y3; \
	VMULPS  Y3, Y2, Y2;    \
	VADDPS  Y2, Y0, K1, Y0; \
	LEAQ    (R8)(AX*COLSIZE), R8; \
	LEAQ    (R9)(AX*VALSIZE), R9; \
	JMP     term;          \
store:                     \
	VMOVUPS Y0, (DI);      \
	ADDQ    $32, DI;       \
	ADDQ    $STEP, SI;     \
	DECQ    CX;            \
	JMP     slice;         \
done:                      \
	VZEROUPPER;            \
	RET
