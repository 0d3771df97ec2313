#include "textflag.h"
#include "amx_amd64.h"

// Kernels for up to 16 rows of C, which read B where it is. The tile registers multiply
// groups of elements that are adjacent along k (2 of bf16, 4 of bytes), but in a row of B
// the adjacent elements belong to different columns. So A is expanded: one tile has each
// element of A in the first place of a group, with zeros in the other places, and so on
// for every place. The product with the first tile has the sums of columns 0, 2, 4...
// (bf16) or 0, 4, 8... (bytes). This makes 2 or 4 products of one, but B needs no packing,
// which takes longer than reading it.
//
// Args has the expanded A (2 KiB for every 16 rows of B with bf16, 4 KiB with bytes), B
// with BStep, K rows (a multiple of 16), the sums at C (4 KiB for each of Tiles groups of
// 64 columns), the rows of C in Mask, and in Next the rows to prefetch: one for
// each step.

// CONFIGURE sets the rows of A and C, because products with fewer rows are faster.
#define CONFIGURE \
	MOVQ t+0(FP), DI; \
	VMOVDQU64 ·tileShape(SB), Z0; \
	VMOVDQU64 Z0, 0(SP); \
	MOVL 64(DI), AX; \
	IMULL $0x01010101, AX; \
	MOVL AX, 48(SP); \
	MOVW AX, 52(SP); \
	VZEROUPPER; \
	LEAQ 0(SP), DI; \
	LDTILECFG_DI; \
	MOVQ t+0(FP), DI

#define ARGUMENTS \
	MOVQ 0(DI), R9; \
	MOVQ 8(DI), R14; \
	MOVQ 16(DI), DX; \
	MOVQ 48(DI), R10; \
	MOVQ 88(DI), R15; \
	MOVQ 72(DI), R13; \
	MOVQ $64, R8; \
	MOVQ $128, R11

// SUMS loads or clears the sums. SI and R12 become the first two tiles of A, BX the first
// row of B and CX the number of steps.
#define SUMS \
	MOVQ R9, SI; \
	LEAQ 1024(R9), R12; \
	LEAQ 2048(DX), AX; \
	MOVQ R14, BX; \
	MOVQ 24(DI), CX; \
	SHRQ $4, CX; \
	CMPB 80(DI), $0; \
	JEQ  zero; \
	LOAD_C0; \
	LOAD_C1; \
	LOAD_C2; \
	LOAD_C3; \
	JMP  step; \
zero: \
	TILEZERO_0; \
	TILEZERO_1; \
	TILEZERO_2; \
	TILEZERO_3

// FETCH prefetches 8 lines of the row at R13 into the second-level cache. In the first
// one, the rows of a matrix whose width is a power of two would displace each other.
#define FETCH(at) \
	PREFETCHT1 at+0(R13); \
	PREFETCHT1 at+64(R13); \
	PREFETCHT1 at+128(R13); \
	PREFETCHT1 at+192(R13); \
	PREFETCHT1 at+256(R13); \
	PREFETCHT1 at+320(R13); \
	PREFETCHT1 at+384(R13); \
	PREFETCHT1 at+448(R13)

// NEXTSTEP moves 16 rows down.
#define NEXTSTEP(bytes) \
	ADDQ $bytes, SI; \
	ADDQ $bytes, R12; \
	ADDQ R10, R13; \
	MOVQ R10, AX; \
	SHLQ $4, AX; \
	ADDQ AX, BX; \
	DECQ CX

#define NEXTGROUP(bytes) \
	LEAQ 2048(DX), AX; \
	STORE_C0; \
	STORE_C1; \
	STORE_C2; \
	STORE_C3; \
	ADDQ $4096, DX; \
	ADDQ $bytes, R14; \
	DECQ R15

// func rowsAMXBF16(t *Args)
TEXT ·rowsAMXBF16(SB), NOSPLIT, $64-8
	CONFIGURE
	ARGUMENTS

group:
	SUMS

step:
	REUSE_A4
	LOAD_B6
	DOT_0(0x4a, 0x5c)
	FETCH(0)
	REUSE_A5
	DOT_2(0x4a, 0x5c)
	FETCH(512)
	LOAD_B7
	DOT_1(0x42, 0x5c)
	FETCH(1024)
	DOT_3(0x42, 0x5c)
	FETCH(1536)
	NEXTSTEP(2048)
	JNE  step
	NEXTGROUP(128)
	JNE  group
	TILERELEASE
	RET

// BYTES is a kernel for bytes: four products of the same tile of B.
#define BYTES(b6, b7) \
	CONFIGURE; \
	ARGUMENTS; \
group: \
	SUMS; \
step: \
	REUSE_A4; \
	LOAD_B6; \
	DOT_0(b6, 0x5e); \
	FETCH(0); \
	REUSE_A5; \
	DOT_2(b6, 0x5e); \
	FETCH(512); \
	ADDQ $2048, SI; \
	ADDQ $2048, R12; \
	REUSE_A4; \
	SAME_B7; \
	DOT_1(b7, 0x5e); \
	REUSE_A5; \
	DOT_3(b7, 0x5e); \
	NEXTSTEP(2048); \
	JNE  step; \
	NEXTGROUP(64); \
	JNE  group; \
	TILERELEASE; \
	RET

// func rowsAMXI8(t *Args)
TEXT ·rowsAMXI8(SB), NOSPLIT, $64-8
	BYTES(0x4b, 0x43)

// func rowsAMXI8U8(t *Args)
TEXT ·rowsAMXI8U8(SB), NOSPLIT, $64-8
	BYTES(0x4a, 0x42)

// func rowsAMXU8(t *Args)
TEXT ·rowsAMXU8(SB), NOSPLIT, $64-8
	BYTES(0x48, 0x40)

// func rowsAMXU8I8(t *Args)
TEXT ·rowsAMXU8I8(SB), NOSPLIT, $64-8
	BYTES(0x49, 0x41)
