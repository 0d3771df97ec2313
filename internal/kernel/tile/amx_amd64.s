#include "textflag.h"

// The bf16 kernel for AMX. A tile register has 16 rows of 64 bytes. Four of them
// hold 32 x 32 elements of C, two hold A (16 rows of 32 elements along k each) and
// two hold B (16 pairs along k of 16 columns each). A step loads the four tiles of
// A and B, 8 cycles each, and makes four products of 16 cycles each, so it is
// limited by the products. The assembler does not know these instructions, so
// their bytes are written out.
#define LDTILECFG_DI BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x07 // ldtilecfg (DI)
#define TILEZERO_0 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc0
#define TILEZERO_1 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc8
#define TILEZERO_2 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd0
#define TILEZERO_3 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd8
#define LOAD_C0 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x04; BYTE $0x1a // tileloadd (DX)(R11*1), tmm0
#define LOAD_C1 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x4c; BYTE $0x1a; BYTE $0x40 // tileloadd 64(DX)(R11*1), tmm1
#define LOAD_C2 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x14; BYTE $0x18 // tileloadd (AX)(R11*1), tmm2
#define LOAD_C3 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x5c; BYTE $0x18; BYTE $0x40 // tileloadd 64(AX)(R11*1), tmm3
#define LOAD_A4 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x24; BYTE $0x06 // tileloadd (SI)(R8*1), tmm4
#define LOAD_A5 BYTE $0xc4; BYTE $0x82; BYTE $0x7b; BYTE $0x4b; BYTE $0x2c; BYTE $0x04 // tileloadd (R12)(R8*1), tmm5
#define LOAD_B6 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x34; BYTE $0x13 // tileloadd (BX)(R10*1), tmm6
#define LOAD_B7 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x7c; BYTE $0x13; BYTE $0x40 // tileloadd 64(BX)(R10*1), tmm7
#define DOT_0 BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4 // tdpbf16ps tmm6, tmm4, tmm0
#define DOT_1 BYTE $0xc4; BYTE $0xe2; BYTE $0x42; BYTE $0x5c; BYTE $0xcc // tdpbf16ps tmm7, tmm4, tmm1
#define DOT_2 BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xd5 // tdpbf16ps tmm6, tmm5, tmm2
#define DOT_3 BYTE $0xc4; BYTE $0xe2; BYTE $0x42; BYTE $0x5c; BYTE $0xdd // tdpbf16ps tmm7, tmm5, tmm3
#define STORE_C0 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x04; BYTE $0x1a // tilestored tmm0, (DX)(R11*1)
#define STORE_C1 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x4c; BYTE $0x1a; BYTE $0x40 // tilestored tmm1, 64(DX)(R11*1)
#define STORE_C2 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x14; BYTE $0x18 // tilestored tmm2, (AX)(R11*1)
#define STORE_C3 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x5c; BYTE $0x18; BYTE $0x40 // tilestored tmm3, 64(AX)(R11*1)
#define TILERELEASE BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0

// shape is the operand of LDTILECFG: palette 1, then the bytes per row of each
// register (from byte 16 on, 16 bits each) and the rows (from byte 48 on).
DATA  shape<>+0(SB)/8, $1
DATA  shape<>+8(SB)/8, $0
DATA  shape<>+16(SB)/8, $0x0040004000400040
DATA  shape<>+24(SB)/8, $0x0040004000400040
DATA  shape<>+32(SB)/8, $0
DATA  shape<>+40(SB)/8, $0
DATA  shape<>+48(SB)/8, $0x1010101010101010
DATA  shape<>+56(SB)/8, $0
GLOBL shape<>(SB), RODATA, $64

// func tileAMX(t *Args)
//
// Every call configures the tile registers and releases them again: the next call
// may run on another thread, and switching a thread that holds them is slow.
// General registers are as in the AVX-512 frame. In addition, R9 is the first row
// of A of the tile, R12 and AX point 16 rows further in A and C, R13 is the size
// of 16 steps of B, and R15 is the number of tiles left.
TEXT ·tileAMX(SB), NOSPLIT, $0-8
	LEAQ shape<>(SB), DI
	LDTILECFG_DI
	MOVQ t+0(FP), DI
	MOVQ 0(DI), R9
	MOVQ 16(DI), DX
	MOVQ 32(DI), R8
	MOVQ 48(DI), R10
	MOVQ 56(DI), R11
	MOVQ 88(DI), R15
	MOVQ R10, R13
	SHLQ $4, R13

tile:
	MOVQ R9, SI
	MOVQ R8, R12
	SHLQ $4, R12
	ADDQ SI, R12
	MOVQ R11, AX
	SHLQ $4, AX
	ADDQ DX, AX
	MOVQ 8(DI), BX
	MOVQ 24(DI), CX
	SHRQ $4, CX
	CMPB 80(DI), $0
	JEQ  zero
	LOAD_C0
	LOAD_C1
	LOAD_C2
	LOAD_C3
	JMP  step

zero:
	TILEZERO_0
	TILEZERO_1
	TILEZERO_2
	TILEZERO_3

step:
	LOAD_A4
	LOAD_B6
	LOAD_B7
	LOAD_A5
	DOT_0
	DOT_1
	DOT_2
	DOT_3
	ADDQ $64, SI
	ADDQ $64, R12
	ADDQ R13, BX
	DECQ CX
	JNE  step
	STORE_C0
	STORE_C1
	STORE_C2
	STORE_C3
	MOVQ R11, AX
	SHLQ $5, AX
	ADDQ AX, DX
	ADDQ 96(DI), R9
	DECQ R15
	JNE  tile
	TILERELEASE
	RET

// func peakAMX(n int)
//
// Runs n rounds of four products without memory access.
TEXT ·peakAMX(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	LEAQ shape<>(SB), DI
	LDTILECFG_DI
round:
	DOT_0
	DOT_1
	DOT_2
	DOT_3
	DECQ CX
	JNE  round
	TILERELEASE
	RET
