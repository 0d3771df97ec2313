#include "textflag.h"

TEXT ·Pause(SB), NOSPLIT, $0-0
	PAUSE
	RET

TEXT ·Fence(SB), NOSPLIT, $0-0
	SFENCE
	RET
