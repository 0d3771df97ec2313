#include "textflag.h"

// Copies between matrices and the layouts of the AMX kernels. Every processor with
// AMX has the instructions of AVX-512 that they use.

// The order of 64-bit words that makes unpacking of lanes give adjacent columns.
DATA  evenodd<>+0(SB)/8, $0
DATA  evenodd<>+8(SB)/8, $4
DATA  evenodd<>+16(SB)/8, $1
DATA  evenodd<>+24(SB)/8, $5
DATA  evenodd<>+32(SB)/8, $2
DATA  evenodd<>+40(SB)/8, $6
DATA  evenodd<>+48(SB)/8, $3
DATA  evenodd<>+56(SB)/8, $7
GLOBL evenodd<>(SB), RODATA, $64

// The bytes of column c of four rows: c, c+32, c+64, c+96. Rows 0 and 1 are in the
// first source of the permutation, rows 2 and 3 in the second.
DATA  quads<>+0(SB)/8, $0x6141210160402000
DATA  quads<>+8(SB)/8, $0x6343230362422202
DATA  quads<>+16(SB)/8, $0x6545250564442404
DATA  quads<>+24(SB)/8, $0x6747270766462606
DATA  quads<>+32(SB)/8, $0x6949290968482808
DATA  quads<>+40(SB)/8, $0x6b4b2b0b6a4a2a0a
DATA  quads<>+48(SB)/8, $0x6d4d2d0d6c4c2c0c
DATA  quads<>+56(SB)/8, $0x6f4f2f0f6e4e2e0e
GLOBL quads<>(SB), RODATA, $64
DATA  quads16<>+0(SB)/8, $0x1010101010101010
GLOBL quads16<>(SB), RODATA, $8

// func interleavePanels(rows *Gather)
//
// Interleaves 2 rows of 16-bit elements or 4 rows of bytes, for several steps and
// panels of 32 columns. The mask has the existing columns of the panels.
TEXT ·interleavePanels(SB), NOSPLIT, $0-8
	MOVQ rows+0(FP), DI
	MOVQ 0(DI), R8   // dst
	MOVQ 8(DI), R9   // distance between panels in dst
	MOVQ 16(DI), SI  // src
	MOVQ 24(DI), R10 // distance between rows
	MOVQ 32(DI), CX  // steps
	MOVQ 40(DI), R11 // panels
	MOVL 56(DI), AX
	KMOVD AX, K1
	CMPQ 48(DI), $4
	JEQ  bytes
	VMOVDQU64 evenodd<>(SB), Z31
	LEAQ (R10)(R10*1), R13 // distance between steps
	LEAQ (R13*4), R15      // four steps ahead

step2:
	MOVQ SI, AX
	MOVQ R8, BX
	MOVQ R11, DX

panel2:
	PREFETCHT0 (AX)(R15*1)
	LEAQ (AX)(R10*1), R12
	VMOVDQU16.Z (AX), K1, Z0
	VMOVDQU16.Z (R12), K1, Z1
	PREFETCHT0 (R12)(R15*1)
	VPERMQ Z0, Z31, Z0
	VPERMQ Z1, Z31, Z1
	VPUNPCKLWD Z1, Z0, Z2
	VPUNPCKHWD Z1, Z0, Z3
	VMOVDQU64 Z2, (BX)
	VMOVDQU64 Z3, 64(BX)
	ADDQ $64, AX
	ADDQ R9, BX
	DECQ DX
	JNE  panel2
	ADDQ R13, SI
	ADDQ $128, R8
	DECQ CX
	JNE  step2
	VZEROUPPER
	RET

bytes:
	VMOVDQU64 quads<>(SB), Z30
	VPBROADCASTQ quads16<>(SB), Z31
	VPADDB Z30, Z31, Z31
	LEAQ (R10*4), R13
	LEAQ (R13*4), R15

step4:
	MOVQ SI, AX
	MOVQ R8, BX
	MOVQ R11, DX

panel4:
	LEAQ (AX)(R10*1), R12
	PREFETCHT0 (AX)(R15*1)
	PREFETCHT0 (R12)(R15*1)
	VMOVDQU8.Z (AX), K1, Y0
	VMOVDQU8.Z (R12), K1, Y1
	VMOVDQU8.Z (AX)(R10*2), K1, Y2
	VMOVDQU8.Z (R12)(R10*2), K1, Y3
	VINSERTI64X4 $1, Y1, Z0, Z0
	VINSERTI64X4 $1, Y3, Z2, Z2
	VMOVDQA64 Z30, Z4
	VMOVDQA64 Z31, Z5
	VPERMI2B Z2, Z0, Z4
	VPERMI2B Z2, Z0, Z5
	VMOVDQU64 Z4, (BX)
	VMOVDQU64 Z5, 64(BX)
	ADDQ $32, AX
	ADDQ R9, BX
	DECQ DX
	JNE  panel4
	ADDQ R13, SI
	ADDQ $128, R8
	DECQ CX
	JNE  step4
	VZEROUPPER
	RET

// func copyStrip(dst, src unsafe.Pointer, srcStride, rows, size int)
//
// Copies rows of size bytes into a strip: 64 bytes of row r go to dst + 64*r, the next
// 64 bytes 2048 bytes further. The last 64 bytes are padded with zeros. It takes 256 bytes
// of every row at a time: with more, lines of the strip would displace each other in the
// first-level cache before the next row completes their neighbours.
TEXT ·copyStrip(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ srcStride+16(FP), R9
	MOVQ rows+24(FP), R10
	MOVQ size+32(FP), R11

four:
	CMPQ R11, $256
	JLT  one
	MOVQ SI, AX
	MOVQ DI, BX
	MOVQ R10, CX

row4:
	VMOVDQU64 (AX), Z0
	VMOVDQU64 64(AX), Z1
	VMOVDQU64 128(AX), Z2
	VMOVDQU64 192(AX), Z3
	PREFETCHT0 256(AX)
	PREFETCHT0 320(AX)
	PREFETCHT0 384(AX)
	PREFETCHT0 448(AX)
	VMOVDQU64 Z0, (BX)
	VMOVDQU64 Z1, 2048(BX)
	VMOVDQU64 Z2, 4096(BX)
	VMOVDQU64 Z3, 6144(BX)
	ADDQ R9, AX
	ADDQ $64, BX
	DECQ CX
	JNE  row4
	ADDQ $256, SI
	ADDQ $8192, DI
	SUBQ $256, R11
	JMP  four

one:
	TESTQ R11, R11
	JLE  done
	MOVQ $-1, AX
	KMOVQ AX, K1
	CMPQ R11, $64
	JGE  rows
	MOVQ R11, CX
	SHLQ CX, AX
	NOTQ AX
	KMOVQ AX, K1 // the last bytes

rows:
	MOVQ SI, AX
	MOVQ DI, BX
	MOVQ R10, CX

row1:
	VMOVDQU8.Z (AX), K1, Z0
	VMOVDQU64 Z0, (BX)
	ADDQ R9, AX
	ADDQ $64, BX
	DECQ CX
	JNE  row1
	ADDQ $64, SI
	ADDQ $2048, DI
	SUBQ $64, R11
	JMP  one

done:
	VZEROUPPER
	RET

// func copyOut(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows int, mask uint32, stream bool)
//
// Copies rows of up to 32 elements of 4 bytes from a block with 128 bytes per row.
// With stream it bypasses the caches; dst is then aligned to 64 bytes and the mask full.
TEXT ·copyOut(SB), NOSPLIT, $0-37
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ rows+24(FP), CX
	MOVL mask+32(FP), AX
	CMPB stream+36(FP), $0
	JNE  stream
	KMOVW AX, K1
	SHRL $16, AX
	KMOVW AX, K2

row:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU32 Z0, K1, (DI)
	VMOVDQU32 Z1, K2, 64(DI)
	ADDQ $128, SI
	ADDQ R8, DI
	DECQ CX
	JNE  row
	VZEROUPPER
	RET

stream:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVNTDQ Z0, (DI)
	VMOVNTDQ Z1, 64(DI)
	ADDQ $128, SI
	ADDQ R8, DI
	DECQ CX
	JNE  stream
	SFENCE
	VZEROUPPER
	RET

// func scaleOut(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows int, mask uint32, byRow, byCol unsafe.Pointer)
//
// Like copyOut, and converts i32 to f32 and multiplies by the scales of row and column.
// byCol has as many scales as the mask has bits.
TEXT ·scaleOut(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ rows+24(FP), CX
	MOVL mask+32(FP), AX
	MOVQ byRow+40(FP), R9
	MOVQ byCol+48(FP), R10
	KMOVW AX, K1
	SHRL $16, AX
	KMOVW AX, K2
	VMOVUPS.Z (R10), K1, Z4
	VMOVUPS.Z 64(R10), K2, Z5

row:
	VCVTDQ2PS (SI), Z0
	VCVTDQ2PS 64(SI), Z1
	VBROADCASTSS (R9), Z2
	VMULPS Z2, Z0, Z0
	VMULPS Z2, Z1, Z1
	VMULPS Z4, Z0, Z0
	VMULPS Z5, Z1, Z1
	VMOVUPS Z0, K1, (DI)
	VMOVUPS Z1, K2, 64(DI)
	ADDQ $128, SI
	ADDQ $4, R9
	ADDQ R8, DI
	DECQ CX
	JNE  row
	VZEROUPPER
	RET

// func expandRows(dst, src unsafe.Pointer, srcStride, rows, groups, places int)
//
// Expands rows of A for the kernels that read B in place: each element becomes 4 bytes,
// with zeros in the other places of its group. Tiles for the other places follow.
TEXT ·expandRows(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ srcStride+16(FP), R8
	MOVQ rows+24(FP), R9
	MOVQ groups+32(FP), R10
	CMPQ places+40(FP), $4
	JEQ  bytes

row2:
	MOVQ SI, AX
	MOVQ DI, BX
	MOVQ R10, CX

group2:
	VPMOVZXWD (AX), Z0
	VMOVDQU64 Z0, (BX)
	VPSLLD $16, Z0, Z1
	VMOVDQU64 Z1, 1024(BX)
	ADDQ $32, AX
	ADDQ $2048, BX
	DECQ CX
	JNE  group2
	ADDQ R8, SI
	ADDQ $64, DI
	DECQ R9
	JNE  row2
	VZEROUPPER
	RET

bytes:
	MOVQ SI, AX
	MOVQ DI, BX
	MOVQ R10, CX

group4:
	VPMOVZXBD (AX), Z0
	VMOVDQU64 Z0, (BX)
	VPSLLD $8, Z0, Z1
	VMOVDQU64 Z1, 1024(BX)
	VPSLLD $16, Z0, Z2
	VMOVDQU64 Z2, 2048(BX)
	VPSLLD $24, Z0, Z3
	VMOVDQU64 Z3, 3072(BX)
	ADDQ $16, AX
	ADDQ $4096, BX
	DECQ CX
	JNE  group4
	ADDQ R8, SI
	ADDQ $64, DI
	DECQ R9
	JNE  bytes
	VZEROUPPER
	RET

// The even and odd elements of two vectors, alternately.
DATA  merge<>+0(SB)/8, $0x0000001000000000
DATA  merge<>+8(SB)/8, $0x0000001100000001
DATA  merge<>+16(SB)/8, $0x0000001200000002
DATA  merge<>+24(SB)/8, $0x0000001300000003
DATA  merge<>+32(SB)/8, $0x0000001400000004
DATA  merge<>+40(SB)/8, $0x0000001500000005
DATA  merge<>+48(SB)/8, $0x0000001600000006
DATA  merge<>+56(SB)/8, $0x0000001700000007
GLOBL merge<>(SB), RODATA, $64
DATA  merge8<>+0(SB)/4, $8
GLOBL merge8<>(SB), RODATA, $4

// MERGE replaces x and y by their elements in alternation.
#define MERGE(x, y) \
	VMOVDQA64 Z30, Z4; \
	VMOVDQA64 Z31, Z5; \
	VPERMI2D y, x, Z4; \
	VPERMI2D y, x, Z5; \
	VMOVDQA64 Z4, x; \
	VMOVDQA64 Z5, y

// func mergeRows(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows, groups, places int) (nan bool)
//
// Writes the sums of the kernels that read B in place to rows of C, and reports whether one
// of them is not a number.
TEXT ·mergeRows(SB), NOSPLIT, $0-49
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ groups+32(FP), R10
	MOVQ places+40(FP), R11
	VMOVDQU64 merge<>(SB), Z30
	VPBROADCASTD merge8<>(SB), Z31
	VPADDD Z30, Z31, Z31
	KXORW K1, K1, K1

group:
	MOVQ DI, BX
	MOVQ SI, AX
	MOVQ rows+24(FP), CX

row:
	VMOVDQU64 (AX), Z0
	VMOVDQU64 64(AX), Z1
	VMOVDQU64 2048(AX), Z2
	VMOVDQU64 2112(AX), Z3
	CMPQ R11, $2
	JEQ  pairs
	MERGE(Z0, Z1)
	MERGE(Z2, Z3)
	JMP  both

pairs:
	VCMPPS $3, Z0, Z0, K2
	VCMPPS $3, Z1, Z1, K3
	VCMPPS $3, Z2, Z2, K4
	VCMPPS $3, Z3, Z3, K5
	KORW K2, K3, K2
	KORW K4, K5, K4
	KORW K1, K2, K1
	KORW K1, K4, K1

both:
	MERGE(Z0, Z2)
	MERGE(Z1, Z3)
	VMOVDQU64 Z0, (BX)
	VMOVDQU64 Z2, 64(BX)
	VMOVDQU64 Z1, 128(BX)
	VMOVDQU64 Z3, 192(BX)
	ADDQ R8, BX
	ADDQ $128, AX
	DECQ CX
	JNE  row
	ADDQ $256, DI
	ADDQ $4096, SI
	DECQ R10
	JNE  group
	KMOVW K1, AX
	TESTL AX, AX
	SETNE nan+48(FP)
	VZEROUPPER
	RET
