#include "textflag.h"
#include "avx512_amd64.h"

// The bf16 kernel of AVX512_BF16. A step takes two elements along k. The assembler
// does not know VDPBF16PS, so its bytes are written out: EVEX.512.F3.0F38.W0 52 /r.
// Rows differ only in the register of C, which is encoded in two bits of the second
// byte and in ModRM.
#define DOTS(at, reg, lo, hi) \
	BYTE $0x62; BYTE $reg; BYTE $0x6e; BYTE $0x48; BYTE $0x52; BYTE $lo; /* Z0, Z2, lo */ \
	BYTE $0x62; BYTE $reg; BYTE $0x6e; BYTE $0x48; BYTE $0x52; BYTE $hi  /* Z1, Z2, hi */

#define PAIR(at, reg, lo, hi) VBROADCASTSS at, Z2; DOTS(at, reg, lo, hi)

#define PAIRS14(OP) \
	OP((SI), 0xf2, 0xe0, 0xe9); \
	OP((SI)(R8*1), 0xf2, 0xf0, 0xf9); \
	OP((SI)(R8*2), 0x72, 0xc0, 0xc9); \
	OP((SI)(R13*1), 0x72, 0xd0, 0xd9); \
	OP((SI)(R8*4), 0x72, 0xe0, 0xe9); \
	OP((SI)(R15*1), 0x72, 0xf0, 0xf9); \
	OP((SI)(R13*2), 0xe2, 0xc0, 0xc9); \
	OP((SI)(AX*1), 0xe2, 0xd0, 0xd9); \
	OP((SI)(R8*8), 0xe2, 0xe0, 0xe9); \
	OP((SI)(R12*1), 0xe2, 0xf0, 0xf9); \
	OP((SI)(R15*2), 0x62, 0xc0, 0xc9); \
	OP((SI)(DX*1), 0x62, 0xd0, 0xd9); \
	OP((SI)(R13*4), 0x62, 0xe0, 0xe9); \
	OP((SI)(R11*1), 0x62, 0xf0, 0xf9)

#define FIRST_BF16 ROWS14(ZERO); PAIRS14(PAIR)

TEXT ·tileBF16(SB), NOSPLIT, $40-8
	KERNEL(ROWS14, LOAD_F32, FIRST_BF16, PAIRS14(PAIR), ADD_F32, STORE_F32)

// func peakBF16(n int)
//
// Runs n rounds of 28 products without memory access.
TEXT ·peakBF16(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	ZERO(0, Z0, Z1)
	VPXORD Z2, Z2, Z2
	ROWS14(ZERO)
round:
	PAIRS14(DOTS)
	DECQ CX
	JNE  round
	VZEROUPPER
	RET
