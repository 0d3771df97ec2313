#include "textflag.h"

TEXT ·Pause(SB), NOSPLIT, $0-0
	YIELD
	RET

// A barrier for stores in the inner shareable domain, which all cores are in.
TEXT ·Fence(SB), NOSPLIT, $0-0
	DMB $10
	RET
