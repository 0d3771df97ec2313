#include "textflag.h"
#include "avx512_amd64.h"

// bf16 operands, two elements along k at a step. The assembler does not know
// VDPBF16PS, so its bytes are written out: EVEX.512.F3.0F38.W0 52 /r. Of a row
// only the register of C varies, in two bits of the second byte and in ModRM.
#define PAIR(at, reg, lo, hi) \
	VBROADCASTSS at, Z2;                                                              \
	BYTE $0x62; BYTE $reg; BYTE $0x6e; BYTE $0x48; BYTE $0x52; BYTE $lo; /* Z0, Z2, lo */ \
	BYTE $0x62; BYTE $reg; BYTE $0x6e; BYTE $0x48; BYTE $0x52; BYTE $hi  /* Z1, Z2, hi */

#define STEPS_BF16 \
	PAIR((SI), 0xf2, 0xe0, 0xe9); \
	PAIR((SI)(R8*1), 0xf2, 0xf0, 0xf9); \
	PAIR((SI)(R8*2), 0x72, 0xc0, 0xc9); \
	PAIR((R12), 0x72, 0xd0, 0xd9); \
	PAIR((R12)(R8*1), 0x72, 0xe0, 0xe9); \
	PAIR((R12)(R8*2), 0x72, 0xf0, 0xf9); \
	PAIR((AX), 0xe2, 0xc0, 0xc9); \
	PAIR((AX)(R8*1), 0xe2, 0xd0, 0xd9); \
	PAIR((AX)(R8*2), 0xe2, 0xe0, 0xe9); \
	PAIR((R15), 0xe2, 0xf0, 0xf9); \
	PAIR((R15)(R8*1), 0x62, 0xc0, 0xc9); \
	PAIR((R15)(R8*2), 0x62, 0xd0, 0xd9); \
	PAIR((R13), 0x62, 0xe0, 0xe9); \
	PAIR((R13)(R8*1), 0x62, 0xf0, 0xf9)

#define CLEAR(at, lo, hi) VPXORD lo, lo, lo; VPXORD hi, hi, hi
#define FIRST_BF16        ROWS14(CLEAR); STEPS_BF16

TEXT ·tileBF16(SB), NOSPLIT, $40-8
	KERNEL(ROWS14, LOAD_F32, FIRST_BF16, STEPS_BF16, ADD_F32, STORE_F32)
