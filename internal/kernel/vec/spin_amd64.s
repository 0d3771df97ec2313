#include "textflag.h"

TEXT ·Pause(SB), NOSPLIT, $0-0
	PAUSE
	RET

TEXT ·Fence(SB), NOSPLIT, $0-0
	SFENCE
	RET

TEXT ·Own(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX

line:
	CMPQ AX, CX
	JGE  done
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know
	ADDQ $64, AX
	JMP  line

done:
	RET
