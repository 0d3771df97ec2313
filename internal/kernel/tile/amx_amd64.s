#include "textflag.h"
#include "amx_amd64.h"

// The kernels for AMX. A tile register has 16 rows of 64 bytes. Four of them hold
// 32 x 32 elements of C, two hold A (16 rows of 64 bytes along k each) and two hold
// B (16 steps along k of 16 columns each). A step loads the four tiles of A and B,
// 8 cycles each if they are in the first-level cache, and makes four products of 16
// cycles each.

// tileShape is the operand of LDTILECFG: palette 1, then the bytes per row of each
// register (from byte 16 on, 16 bits each) and the rows (from byte 48 on).
DATA  ·tileShape+0(SB)/8, $1
DATA  ·tileShape+8(SB)/8, $0
DATA  ·tileShape+16(SB)/8, $0x0040004000400040
DATA  ·tileShape+24(SB)/8, $0x0040004000400040
DATA  ·tileShape+32(SB)/8, $0
DATA  ·tileShape+40(SB)/8, $0
DATA  ·tileShape+48(SB)/8, $0x1010101010101010
DATA  ·tileShape+56(SB)/8, $0
GLOBL ·tileShape(SB), RODATA, $64

// A kernel of type func(t *Args).
//
// Every call configures the tile registers and releases them again: the next call
// may run on another thread, and switching a thread that holds them is slow. A call
// covers a whole panel of B, so this costs little.
//
// R9 is the strip of A (32 rows, R8 apart, with 64 bytes for every 16 steps, R13 apart), DX the tile of C,
// SI and R12 the two tiles of A, BX the panel of B (16 steps of 128 bytes), AX 16
// rows of C further down, CX counts steps and R15 strips.
//
// Strips of A are loaded with the hint that they will not be used soon (tileloaddt1),
// so that the panel of B stays in the first-level cache: 269 us become 210 us for
// 512 x 512 x 512. Explicit prefetching of the next panel made it slower.
#define KERNEL(b6, b7, op) \
	LEAQ ·tileShape(SB), DI; \
	LDTILECFG_DI; \
	MOVQ t+0(FP), DI; \
	MOVQ 0(DI), R9; \
	MOVQ 16(DI), DX; \
	MOVQ 32(DI), R8; \
	MOVQ 40(DI), R13; \
	MOVQ $128, R10; \
	MOVQ 56(DI), R11; \
	MOVQ 88(DI), R15; \
tile: \
	MOVQ R9, SI; \
	MOVQ R8, R12; \
	SHLQ $4, R12; \
	ADDQ R9, R12; \
	MOVQ R11, AX; \
	SHLQ $4, AX; \
	ADDQ DX, AX; \
	MOVQ 8(DI), BX; \
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
	TILEZERO_3; \
step: \
	LOAD_A4; \
	LOAD_B6; \
	LOAD_B7; \
	LOAD_A5; \
	DOT_0(b6, op); \
	DOT_1(b7, op); \
	DOT_2(b6, op); \
	DOT_3(b7, op); \
	ADDQ R13, SI; \
	ADDQ R13, R12; \
	ADDQ $2048, BX; \
	DECQ CX; \
	JNE  step; \
	STORE_C0; \
	STORE_C1; \
	STORE_C2; \
	STORE_C3; \
	MOVQ R11, AX; \
	SHLQ $5, AX; \
	ADDQ AX, DX; \
	ADDQ 96(DI), R9; \
	DECQ R15; \
	JNE  tile; \
	TILERELEASE; \
	RET

// HALF is KERNEL for at most 16 rows.
#define HALF(b6, b7, op) \
	LEAQ ·tileShape(SB), DI; \
	LDTILECFG_DI; \
	MOVQ t+0(FP), DI; \
	MOVQ 0(DI), SI; \
	MOVQ 8(DI), BX; \
	MOVQ 16(DI), DX; \
	MOVQ 24(DI), CX; \
	SHRQ $4, CX; \
	MOVQ $64, R8; \
	MOVQ $128, R10; \
	MOVQ 56(DI), R11; \
	CMPB 80(DI), $0; \
	JEQ  zero; \
	LOAD_C0; \
	LOAD_C1; \
	JMP  step; \
zero: \
	TILEZERO_0; \
	TILEZERO_1; \
step: \
	LOAD_A4; \
	LOAD_B6; \
	LOAD_B7; \
	DOT_0(b6, op); \
	DOT_1(b7, op); \
	ADDQ $2048, SI; \
	ADDQ $2048, BX; \
	DECQ CX; \
	JNE  step; \
	STORE_C0; \
	STORE_C1; \
	TILERELEASE; \
	RET

// DRAIN copies a row of the previous block of C from AX to R14, past the caches.
#define DRAIN \
	VMOVDQU64 (AX), Z0; \
	VMOVDQU64 64(AX), Z1; \
	VMOVNTDQ Z0, (R14); \
	VMOVNTDQ Z1, 64(R14); \
	ADDQ $128, AX; \
	ADDQ 56(DI), R14; \
	DECQ R15

// ACROSS multiplies one strip of A with Tiles panels of B, ATile apart. The strip stays in
// the first-level cache, and the panels pass through it (tileloaddt1).
//
// With Room, a block of C is stored there and copied to C past the caches while the next
// panel is multiplied. There is room for two blocks. Otherwise it is stored in C.
//
// 0(SP) is the panel, 8(SP) the number of panels left, 16(SP) the block of C, 24(SP) the
// half of Room in use and 32(SP) the sums so far. SI and R12 are the two tiles of A, which
// move by R9, BX the panel of B, CX counts steps, R13 is the address to prefetch, DX and AX
// are the rows of C to load or store, and R15 counts the rows to copy from AX to R14.
#define ACROSS(b6, b7, op) \
	LEAQ ·tileShape(SB), DI; \
	LDTILECFG_DI; \
	MOVQ t+0(FP), DI; \
	MOVQ 32(DI), R8; \
	MOVQ 40(DI), R9; \
	MOVQ 104(DI), R13; \
	MOVQ $128, R10; \
	MOVQ 8(DI), AX; \
	MOVQ AX, 0(SP); \
	MOVQ 88(DI), AX; \
	MOVQ AX, 8(SP); \
	MOVQ 16(DI), AX; \
	MOVQ AX, 16(SP); \
	MOVQ 128(DI), AX; \
	MOVQ AX, 24(SP); \
	MOVQ 112(DI), AX; \
	MOVQ AX, 32(SP); \
	XORQ R15, R15; \
panel: \
	MOVQ 0(DI), SI; \
	MOVQ R8, R12; \
	SHLQ $4, R12; \
	ADDQ SI, R12; \
	MOVQ 0(SP), BX; \
	MOVQ 24(DI), CX; \
	SHRQ $4, CX; \
	CMPB 80(DI), $0; \
	JEQ  zero; \
	MOVQ 32(SP), DX; \
	ADDQ $128, 32(SP); \
	MOVQ 120(DI), R11; \
	MOVQ R11, AX; \
	SHLQ $4, AX; \
	ADDQ DX, AX; \
	LOAD_C0; \
	LOAD_C1; \
	LOAD_C2; \
	LOAD_C3; \
	JMP  begin; \
zero: \
	TILEZERO_0; \
	TILEZERO_1; \
	TILEZERO_2; \
	TILEZERO_3; \
begin: \
	MOVQ 24(SP), AX; \
	XORQ $4096, AX; \
step: \
	REUSE_A4; \
	PASS_B6; \
	PASS_B7; \
	REUSE_A5; \
	DOT_0(b6, op); \
	DOT_1(b7, op); \
	DOT_2(b6, op); \
	DOT_3(b7, op); \
	TESTQ R15, R15; \
	JEQ  drained; \
	DRAIN; \
drained: \
	PREFETCHT1 (R13); \
	PREFETCHT1 64(R13); \
	PREFETCHT1 128(R13); \
	PREFETCHT1 192(R13); \
	ADDQ $256, R13; \
	ADDQ R9, SI; \
	ADDQ R9, R12; \
	ADDQ $2048, BX; \
	DECQ CX; \
	JNE  step; \
	TESTQ R15, R15; \
	JEQ  store; \
rest: \
	DRAIN; \
	JNE  rest; \
store: \
	MOVQ 16(SP), DX; \
	MOVQ 56(DI), R11; \
	CMPQ 128(DI), $0; \
	JEQ  direct; \
	MOVQ DX, R14; \
	MOVQ $32, R15; \
	MOVQ 24(SP), DX; \
	MOVQ $128, R11; \
	XORQ $4096, 24(SP); \
direct: \
	MOVQ R11, AX; \
	SHLQ $4, AX; \
	ADDQ DX, AX; \
	STORE_C0; \
	STORE_C1; \
	STORE_C2; \
	STORE_C3; \
	ADDQ $128, 16(SP); \
	MOVQ 96(DI), AX; \
	ADDQ AX, 0(SP); \
	DECQ 8(SP); \
	JNE  panel; \
	MOVQ DX, AX; \
	TESTQ R15, R15; \
	JEQ  end; \
last: \
	DRAIN; \
	JNE  last; \
	SFENCE; \
end: \
	TILERELEASE; \
	VZEROUPPER; \
	RET

// PEAK runs n rounds of four products without memory access.
#define PEAK(b6, b7, op) \
	MOVQ n+0(FP), CX; \
	LEAQ ·tileShape(SB), DI; \
	LDTILECFG_DI; \
round: \
	DOT_0(b6, op); \
	DOT_1(b7, op); \
	DOT_2(b6, op); \
	DOT_3(b7, op); \
	DECQ CX; \
	JNE  round; \
	TILERELEASE; \
	RET

// func tileAMXBF16(t *Args)
TEXT ·tileAMXBF16(SB), NOSPLIT, $0-8
	KERNEL(0x4a, 0x42, 0x5c)

// func tileAMXI8(t *Args)
TEXT ·tileAMXI8(SB), NOSPLIT, $0-8
	KERNEL(0x4b, 0x43, 0x5e)

// func tileAMXI8U8(t *Args)
TEXT ·tileAMXI8U8(SB), NOSPLIT, $0-8
	KERNEL(0x4a, 0x42, 0x5e)

// func tileAMXU8(t *Args)
TEXT ·tileAMXU8(SB), NOSPLIT, $0-8
	KERNEL(0x48, 0x40, 0x5e)

// func tileAMXU8I8(t *Args)
TEXT ·tileAMXU8I8(SB), NOSPLIT, $0-8
	KERNEL(0x49, 0x41, 0x5e)

// func halfAMXBF16(t *Args)
TEXT ·halfAMXBF16(SB), NOSPLIT, $0-8
	HALF(0x4a, 0x42, 0x5c)

// func halfAMXI8(t *Args)
TEXT ·halfAMXI8(SB), NOSPLIT, $0-8
	HALF(0x4b, 0x43, 0x5e)

// func halfAMXI8U8(t *Args)
TEXT ·halfAMXI8U8(SB), NOSPLIT, $0-8
	HALF(0x4a, 0x42, 0x5e)

// func halfAMXU8(t *Args)
TEXT ·halfAMXU8(SB), NOSPLIT, $0-8
	HALF(0x48, 0x40, 0x5e)

// func halfAMXU8I8(t *Args)
TEXT ·halfAMXU8I8(SB), NOSPLIT, $0-8
	HALF(0x49, 0x41, 0x5e)

// func acrossAMXBF16(t *Args)
TEXT ·acrossAMXBF16(SB), NOSPLIT, $40-8
	ACROSS(0x4a, 0x42, 0x5c)

// func acrossAMXI8(t *Args)
TEXT ·acrossAMXI8(SB), NOSPLIT, $40-8
	ACROSS(0x4b, 0x43, 0x5e)

// func acrossAMXI8U8(t *Args)
TEXT ·acrossAMXI8U8(SB), NOSPLIT, $40-8
	ACROSS(0x4a, 0x42, 0x5e)

// func acrossAMXU8(t *Args)
TEXT ·acrossAMXU8(SB), NOSPLIT, $40-8
	ACROSS(0x48, 0x40, 0x5e)

// func acrossAMXU8I8(t *Args)
TEXT ·acrossAMXU8I8(SB), NOSPLIT, $40-8
	ACROSS(0x49, 0x41, 0x5e)

// func peakAMXBF16(n int)
TEXT ·peakAMXBF16(SB), NOSPLIT, $0-8
	PEAK(0x4a, 0x42, 0x5c)

// func peakAMXI8(n int)
TEXT ·peakAMXI8(SB), NOSPLIT, $0-8
	PEAK(0x4b, 0x43, 0x5e)
