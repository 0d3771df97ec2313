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

// func peakAMXBF16(n int)
TEXT ·peakAMXBF16(SB), NOSPLIT, $0-8
	PEAK(0x4a, 0x42, 0x5c)

// func peakAMXI8(n int)
TEXT ·peakAMXI8(SB), NOSPLIT, $0-8
	PEAK(0x4b, 0x43, 0x5e)
