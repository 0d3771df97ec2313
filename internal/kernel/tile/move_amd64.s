#include "textflag.h"

// func transpose8(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, blocks int)
//
// Transposes blocks of 8 x 8 units of 4 bytes: it interleaves pairs of lines, then
// pairs of pairs, and then exchanges the 128-bit halves.
TEXT ·transpose8(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStride+24(FP), R9
	MOVQ blocks+32(FP), CX
	LEAQ (R9)(R9*2), R10
	LEAQ (R8)(R8*2), R11
block:
	LEAQ       (SI)(R9*4), R12
	VMOVUPS    (SI), Y0
	VMOVUPS    (SI)(R9*1), Y1
	VMOVUPS    (SI)(R9*2), Y2
	VMOVUPS    (SI)(R10*1), Y3
	VMOVUPS    (R12), Y4
	VMOVUPS    (R12)(R9*1), Y5
	VMOVUPS    (R12)(R9*2), Y6
	VMOVUPS    (R12)(R10*1), Y7
	VUNPCKLPS  Y1, Y0, Y8
	VUNPCKHPS  Y1, Y0, Y9
	VUNPCKLPS  Y3, Y2, Y10
	VUNPCKHPS  Y3, Y2, Y11
	VUNPCKLPS  Y5, Y4, Y12
	VUNPCKHPS  Y5, Y4, Y13
	VUNPCKLPS  Y7, Y6, Y14
	VUNPCKHPS  Y7, Y6, Y15
	VUNPCKLPD  Y10, Y8, Y0
	VUNPCKHPD  Y10, Y8, Y1
	VUNPCKLPD  Y11, Y9, Y2
	VUNPCKHPD  Y11, Y9, Y3
	VUNPCKLPD  Y14, Y12, Y4
	VUNPCKHPD  Y14, Y12, Y5
	VUNPCKLPD  Y15, Y13, Y6
	VUNPCKHPD  Y15, Y13, Y7
	VPERM2F128 $0x20, Y4, Y0, Y8
	VPERM2F128 $0x20, Y5, Y1, Y9
	VPERM2F128 $0x20, Y6, Y2, Y10
	VPERM2F128 $0x20, Y7, Y3, Y11
	VPERM2F128 $0x31, Y4, Y0, Y12
	VPERM2F128 $0x31, Y5, Y1, Y13
	VPERM2F128 $0x31, Y6, Y2, Y14
	VPERM2F128 $0x31, Y7, Y3, Y15
	LEAQ       (DI)(R8*4), R12
	VMOVUPS    Y8, (DI)
	VMOVUPS    Y9, (DI)(R8*1)
	VMOVUPS    Y10, (DI)(R8*2)
	VMOVUPS    Y11, (DI)(R11*1)
	VMOVUPS    Y12, (R12)
	VMOVUPS    Y13, (R12)(R8*1)
	VMOVUPS    Y14, (R12)(R8*2)
	VMOVUPS    Y15, (R12)(R11*1)
	ADDQ       $32, SI
	LEAQ       (R12)(R8*4), DI
	DECQ       CX
	JNE        block
	VZEROUPPER
	RET

// func transpose4(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, blocks int)
//
// Transposes blocks of 4 x 4 units of 8 bytes.
TEXT ·transpose4(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStride+24(FP), R9
	MOVQ blocks+32(FP), CX
	LEAQ (R9)(R9*2), R10
	LEAQ (R8)(R8*2), R11
block:
	VMOVUPD    (SI), Y0
	VMOVUPD    (SI)(R9*1), Y1
	VMOVUPD    (SI)(R9*2), Y2
	VMOVUPD    (SI)(R10*1), Y3
	VUNPCKLPD  Y1, Y0, Y4
	VUNPCKHPD  Y1, Y0, Y5
	VUNPCKLPD  Y3, Y2, Y6
	VUNPCKHPD  Y3, Y2, Y7
	VPERM2F128 $0x20, Y6, Y4, Y0
	VPERM2F128 $0x20, Y7, Y5, Y1
	VPERM2F128 $0x31, Y6, Y4, Y2
	VPERM2F128 $0x31, Y7, Y5, Y3
	VMOVUPD    Y0, (DI)
	VMOVUPD    Y1, (DI)(R8*1)
	VMOVUPD    Y2, (DI)(R8*2)
	VMOVUPD    Y3, (DI)(R11*1)
	ADDQ       $32, SI
	LEAQ       (DI)(R8*4), DI
	DECQ       CX
	JNE        block
	VZEROUPPER
	RET

// func interleave16(dst, even, odd unsafe.Pointer, blocks int)
TEXT ·interleave16(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ even+8(FP), SI
	MOVQ odd+16(FP), DX
	MOVQ blocks+24(FP), CX
block:
	VMOVDQU    (SI), Y0
	VMOVDQU    (DX), Y1
	VPUNPCKLWD Y1, Y0, Y2
	VPUNPCKHWD Y1, Y0, Y3
	VPERM2I128 $0x20, Y3, Y2, Y0
	VPERM2I128 $0x31, Y3, Y2, Y1
	VMOVDQU    Y0, (DI)
	VMOVDQU    Y1, 32(DI)
	ADDQ       $32, SI
	ADDQ       $32, DX
	ADDQ       $64, DI
	DECQ       CX
	JNE        block
	VZEROUPPER
	RET

// func copyBlocks(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lines, blocks, ahead int)
//
// Copies lines of 32-byte blocks. It prefetches each block ahead bytes before its
// turn, because the hardware prefetcher does not anticipate a new line.
TEXT ·copyBlocks(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStride+24(FP), R9
	MOVQ lines+32(FP), CX
	MOVQ blocks+40(FP), R10
	MOVQ ahead+48(FP), R11
line:
	MOVQ SI, R12
	MOVQ DI, R13
	MOVQ R10, DX
	SUBQ $4, DX
	JLT  rest
four:
	PREFETCHT0 (R12)(R11*1)
	PREFETCHT0 64(R12)(R11*1)
	VMOVDQU (R12), Y0
	VMOVDQU 32(R12), Y1
	VMOVDQU 64(R12), Y2
	VMOVDQU 96(R12), Y3
	VMOVDQU Y0, (R13)
	VMOVDQU Y1, 32(R13)
	VMOVDQU Y2, 64(R13)
	VMOVDQU Y3, 96(R13)
	ADDQ $128, R12
	ADDQ $128, R13
	SUBQ $4, DX
	JGE  four
rest:
	ADDQ $4, DX
	JEQ  next
one:
	PREFETCHT0 (R12)(R11*1)
	VMOVDQU (R12), Y0
	VMOVDQU Y0, (R13)
	ADDQ $32, R12
	ADDQ $32, R13
	DECQ DX
	JNE  one
next:
	ADDQ R9, SI
	ADDQ R8, DI
	DECQ CX
	JNE  line
	VZEROUPPER
	RET
