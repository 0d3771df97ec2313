#include "textflag.h"

TEXT ·Pause(SB), NOSPLIT, $0-0
	YIELD
	RET

// A barrier for stores in the inner shareable domain, which all cores are in.
TEXT ·Fence(SB), NOSPLIT, $0-0
	DMB $10
	RET

TEXT ·Own(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	ADD  R0, R1, R1
	AND  $~63, R0, R0

line:
	CMP  R1, R0
	BGE  done
	PRFM (R0), PSTL1KEEP
	ADD  $64, R0, R0
	B    line

done:
	RET
