// The frame of every AVX-512 kernel: a loop that is instantiated with the macros
// of one element type. The macros work on an accumulator, or on a pair of them if
// one vector in memory widens into two. "from" is memory or a register.
//
//	LOAD(from, acc, high)    set the accumulator from the first source
//	OP(from, acc, high)      combine the next source into it
//	STORE(to, acc, high)     write it; STREAM does so past the caches
//	NARROW(out, acc, high)   bring it into its memory form in a register
//
// The accumulators of one block stay in registers while the loop walks over
// the sources. That costs five scalar instructions per source and block, so
// one loop serves any number of sources. The rest after the last whole block
// is processed one vector at a time under a byte mask, so nothing outside the
// range is touched.
//
// Registers:
//
//	DI              destination
//	SI, CX          first slice header of the sources (three words each), and their end
//	AX, DX          position in the arrays, and the end of the range, in bytes
//	BX              not 0 for streaming stores
//	R8, R9, R10     address of a source, next position, current slice header
//	Z0-Z7, Z8-Z15   accumulators, and their high halves
//	Z16-Z21, K2-K3  for use by the macros
//	Z22 or Y22      the last vector, in its memory form
//	Z26-Z31, K4-K5  constants

#define EACH(M, UNIT) \
	M(0*UNIT(R8), Z0, Z8);  \
	M(1*UNIT(R8), Z1, Z9);  \
	M(2*UNIT(R8), Z2, Z10); \
	M(3*UNIT(R8), Z3, Z11); \
	M(4*UNIT(R8), Z4, Z12); \
	M(5*UNIT(R8), Z5, Z13); \
	M(6*UNIT(R8), Z6, Z14); \
	M(7*UNIT(R8), Z7, Z15)

#define KERNEL(UNIT, TAIL, LOAD, OP, STORE, STREAM, NARROW) \
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
	LEAQ       8*UNIT(AX), R9;             \
	CMPQ       R9, DX;                     \
	JLE        block;                      \
	MOVL       $UNIT, R9;                  \
tail:                                          \
	MOVQ       DX, R11;                    \
	SUBQ       AX, R11;                    \
	JLE        done;                       \
	CMPQ       R11, R9;                    \
	CMOVQGT    R9, R11;                    \
	MOVQ       $-1, R12;                   \
	BZHIQ      R11, R12, R12;              \
	KMOVQ      R12, K1;                    \
	MOVQ       (SI), R8;                   \
	VMOVDQU8.Z (R8)(AX*1), K1, TAIL;       \
	LOAD(TAIL, Z0, Z8);                    \
	LEAQ       24(SI), R10;                \
	JMP        last;                       \
next:                                          \
	MOVQ       (R10), R8;                  \
	VMOVDQU8.Z (R8)(AX*1), K1, TAIL;       \
	OP(TAIL, Z0, Z8);                      \
	ADDQ       $24, R10;                   \
last:                                          \
	CMPQ       R10, CX;                    \
	JNE        next;                       \
	NARROW(TAIL, Z0, Z8);                  \
	VMOVDQU8   TAIL, K1, (DI)(AX*1);       \
	ADDQ       R9, AX;                     \
	JMP        tail;                       \
done:                                          \
	VZEROUPPER;                            \
	RET
