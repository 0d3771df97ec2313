// The frame of every AVX2 kernel, with the same macros and registers as the
// AVX-512 one, which explains it. AVX2 has no byte masks: the range must be a
// multiple of 32 bytes, and the caller does the rest in portable code.
//
// Y0-Y7 are the accumulators; types that need two per vector pair them as
// (Y0, Y4), (Y1, Y5), and so on. The macros may use Y8-Y12. Y12-Y15 hold
// constants, for types that have any.

#define EACH8(M, UNIT) \
	M(0*UNIT(R8), Y0, Y0); \
	M(1*UNIT(R8), Y1, Y1); \
	M(2*UNIT(R8), Y2, Y2); \
	M(3*UNIT(R8), Y3, Y3); \
	M(4*UNIT(R8), Y4, Y4); \
	M(5*UNIT(R8), Y5, Y5); \
	M(6*UNIT(R8), Y6, Y6); \
	M(7*UNIT(R8), Y7, Y7)

#define EACH4(M, UNIT) \
	M(0*UNIT(R8), Y0, Y4); \
	M(1*UNIT(R8), Y1, Y5); \
	M(2*UNIT(R8), Y2, Y6); \
	M(3*UNIT(R8), Y3, Y7)

#define KERNEL(EACH, COUNT, UNIT, LOAD, OP, STORE, STREAM) \
	MOVQ       dst_base+0(FP), DI;         \
	MOVQ       srcs_base+24(FP), SI;       \
	MOVQ       srcs_len+32(FP), CX;        \
	LEAQ       (CX)(CX*2), CX;             \
	LEAQ       (SI)(CX*8), CX;             \
	MOVQ       from+56(FP), AX;            \
	MOVQ       to+64(FP), DX;              \
	MOVBLZX    stream+72(FP), BX;          \
	JMP        more;                       \
block:                                         \
	MOVQ       (SI), R8;                   \
	ADDQ       AX, R8;                     \
	EACH(LOAD, UNIT);                      \
	LEAQ       24(SI), R10;                \
	CMPQ       R10, CX;                    \
	JEQ        write;                      \
source:                                        \
	MOVQ       (R10), R8;                  \
	ADDQ       AX, R8;                     \
	EACH(OP, UNIT);                        \
	ADDQ       $24, R10;                   \
	CMPQ       R10, CX;                    \
	JNE        source;                     \
write:                                         \
	LEAQ       (DI)(AX*1), R8;             \
	MOVQ       R9, AX;                     \
	TESTL      BX, BX;                     \
	JNE        past;                       \
	EACH(STORE, UNIT);                     \
	JMP        more;                       \
past:                                          \
	EACH(STREAM, UNIT);                    \
more:                                          \
	LEAQ       COUNT*UNIT(AX), R9;         \
	CMPQ       R9, DX;                     \
	JLE        block;                      \
tail:                                          \
	CMPQ       AX, DX;                     \
	JGE        done;                       \
	MOVQ       (SI), R8;                   \
	LOAD((R8)(AX*1), Y0, Y4);              \
	LEAQ       24(SI), R10;                \
	JMP        last;                       \
next:                                          \
	MOVQ       (R10), R8;                  \
	OP((R8)(AX*1), Y0, Y4);                \
	ADDQ       $24, R10;                   \
last:                                          \
	CMPQ       R10, CX;                    \
	JNE        next;                       \
	STORE((DI)(AX*1), Y0, Y4);             \
	ADDQ       $UNIT, AX;                  \
	JMP        tail;                       \
done:                                          \
	VZEROUPPER;                            \
	RET
