#include "textflag.h"
#include "go_asm.h"
#include "kernels_amd64.h"
#include "block_amd64.h"

// Kernels for block vectors. A call processes a panel of at most 16 columns: two registers, whose unused elements are
// masked off by K1 and K2.

// func combineAVX512(dst, base, src, coef *float64, rows, k, n, cols int)
// dst[i][j] = base[i][j] + sum over l of src[i][l] * coef[l][j] for cols columns; base may be nil. Rows of src have k
// elements; rows of dst, base and coef have n. 8 rows at a time stay in registers. Each term prefetches one of the cache
// lines of src and of base that the next call will need: 8 rows have as many lines as columns.
TEXT ·combineAVX512(SB), NOSPLIT, $0-64
	MOVQ cols+56(FP), CX
	PANEL(CX)
	MOVQ dst+0(FP), DI
	MOVQ base+8(FP), R15
	MOVQ src+16(FP), SI
	MOVQ rows+32(FP), CX
	MOVQ k+40(FP), R8
	MOVQ n+48(FP), R12
	SHLQ $3, R8              // bytes of a row of src
	SHLQ $3, R12             // bytes of a row of dst, base and coef
	LEAQ (R8)(R8*2), R9      // 3 rows
	LEAQ (R8)(R8*4), R10     // 5 rows
	LEAQ (R9)(R8*4), R11     // 7 rows

eight:
	CMPQ CX, $8
	JLT  one
	MOVQ SI, R14             // prefetched instead of base if there is none
	TESTQ R15, R15
	JNE  load
	FOREACH(ZERO2)
	JMP  begin

load:
	MOVQ R15, R14
	MOVQ R15, AX
	FOREACH(LOAD2)
	MOVQ AX, R15

begin:
	MOVQ coef+24(FP), DX
	MOVQ k+40(FP), R13
	MOVQ SI, BX
	MOVQ SI, AX

term:
	VMOVUPD.Z (DX), K1, Z16
	VMOVUPD.Z 64(DX), K2, Z17
	PREFETCHT0 NEXTROWS(AX)
	PREFETCHT0 NEXTROWS(R14)
	TERM2((BX), Z0, Z1)
	TERM2((BX)(R8*1), Z2, Z3)
	TERM2((BX)(R8*2), Z4, Z5)
	TERM2((BX)(R9*1), Z6, Z7)
	TERM2((BX)(R8*4), Z8, Z9)
	TERM2((BX)(R10*1), Z10, Z11)
	TERM2((BX)(R9*2), Z12, Z13)
	TERM2((BX)(R11*1), Z14, Z15)
	ADDQ R12, DX
	ADDQ $8, BX
	ADDQ $64, AX
	ADDQ $64, R14
	DECQ R13
	JNE  term
	MOVQ DI, AX
	FOREACH(STORE2)
	MOVQ AX, DI
	LEAQ (SI)(R8*8), SI
	SUBQ $8, CX
	JMP  eight

one:
	TESTQ CX, CX
	JLE   done
	ZERO2(Z0, Z1)
	TESTQ R15, R15
	JEQ   onebegin
	MOVQ  R15, AX
	LOAD2(Z0, Z1)
	MOVQ  AX, R15

onebegin:
	MOVQ coef+24(FP), DX
	MOVQ k+40(FP), R13
	MOVQ SI, BX

oneterm:
	VMOVUPD.Z (DX), K1, Z16
	VMOVUPD.Z 64(DX), K2, Z17
	TERM2((BX), Z0, Z1)
	ADDQ R12, DX
	ADDQ $8, BX
	DECQ R13
	JNE  oneterm
	MOVQ DI, AX
	STORE2(Z0, Z1)
	ADDQ R12, DI
	ADDQ R8, SI
	DECQ CX
	JMP  one

done:
	VZEROUPPER
	RET

// func gramTriangleAVX512(sums, a, b *float64, rows int)
// sums[l][j] += sum over i of a[i][l] * b[i][j] for 16 columns, without l >= 8 and j < 8. All sums stay in registers.
TEXT ·gramTriangleAVX512(SB), NOSPLIT, $0-32
	MOVQ sums+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ rows+24(FP), CX
	TRIANGLE(BOTHLOAD, LASTLOAD)

row:
	VMOVUPD (DX), Z24
	VMOVUPD 64(DX), Z25
	PREFETCHT0 NEXTROWS(SI)
	PREFETCHT0 NEXTROWS+64(SI)
	PREFETCHT0 NEXTROWS(DX)
	PREFETCHT0 NEXTROWS+64(DX)
	TRIANGLE(BOTHTERM, LASTTERM)
	ADDQ $128, SI
	ADDQ $128, DX
	DECQ CX
	JNE  row
	TRIANGLE(BOTHSTORE, LASTSTORE)
	VZEROUPPER
	RET

// func gramAVX512(sums, a, b *float64, rows, strideA, strideB, k, cols int)
// sums[l][j] += sum over i of a[i][l] * b[i][j] for k <= 8 columns of a and cols columns of b.
TEXT ·gramAVX512(SB), NOSPLIT, $0-64
	MOVQ cols+56(FP), CX
	PANEL(CX)
	MOVQ sums+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ rows+24(FP), CX
	MOVQ strideA+32(FP), R8
	MOVQ strideB+40(FP), R12
	MOVQ k+48(FP), R14
	SHLQ $3, R8
	SHLQ $3, R12
	MOVQ DI, AX
	CMPQ R14, $8
	JLT  partload
	FOREACH(LOAD2)

row:
	VMOVUPD.Z (DX), K1, Z16
	VMOVUPD.Z 64(DX), K2, Z17
	TERM2((SI), Z0, Z1)
	TERM2(8(SI), Z2, Z3)
	TERM2(16(SI), Z4, Z5)
	TERM2(24(SI), Z6, Z7)
	TERM2(32(SI), Z8, Z9)
	TERM2(40(SI), Z10, Z11)
	TERM2(48(SI), Z12, Z13)
	TERM2(56(SI), Z14, Z15)
	ADDQ R8, SI
	ADDQ R12, DX
	DECQ CX
	JNE  row
	MOVQ DI, AX
	FOREACH(STORE2)
	VZEROUPPER
	RET

partload:
	PARTLOAD(0, Z0, Z1)
	PARTLOAD(1, Z2, Z3)
	PARTLOAD(2, Z4, Z5)
	PARTLOAD(3, Z6, Z7)
	PARTLOAD(4, Z8, Z9)
	PARTLOAD(5, Z10, Z11)
	PARTLOAD(6, Z12, Z13)

partrow:
	VMOVUPD.Z (DX), K1, Z16
	VMOVUPD.Z 64(DX), K2, Z17
	PART2(0, Z0, Z1)
	PART2(1, Z2, Z3)
	PART2(2, Z4, Z5)
	PART2(3, Z6, Z7)
	PART2(4, Z8, Z9)
	PART2(5, Z10, Z11)
	PART2(6, Z12, Z13)

partnext:
	ADDQ R8, SI
	ADDQ R12, DX
	DECQ CX
	JNE  partrow
	MOVQ DI, AX
	PARTSTORE(0, Z0, Z1)
	PARTSTORE(1, Z2, Z3)
	PARTSTORE(2, Z4, Z5)
	PARTSTORE(3, Z6, Z7)
	PARTSTORE(4, Z8, Z9)
	PARTSTORE(5, Z10, Z11)
	PARTSTORE(6, Z12, Z13)

partdone:
	VZEROUPPER
	RET

// func blockVarying64AVX512(dst, x *float64, offs *int, vals *float64, stride, entries, n, width, cols int)
TEXT ·blockVarying64AVX512(SB), NOSPLIT, $0-72
	BLOCKVARYING(BROADCAST64, 8)

// func blockVarying32AVX512(dst, x *float64, offs *int, vals *float32, stride, entries, n, width, cols int)
TEXT ·blockVarying32AVX512(SB), NOSPLIT, $0-72
	BLOCKVARYING(BROADCAST32, 4)

// func blockWide64AVX512(dst, x *float64, cs *int32, vals *float64, masks *uint8, starts *start, n, width, cols int)
TEXT ·blockWide64AVX512(SB), NOSPLIT, $0-72
	BLOCKSCATTERED(COL32, COLS32, 4, BROADCAST64, 8, 0)

// func blockWide32AVX512(dst, x *float64, cs *int32, vals *float32, masks *uint8, starts *start, n, width, cols int)
TEXT ·blockWide32AVX512(SB), NOSPLIT, $0-72
	BLOCKSCATTERED(COL32, COLS32, 4, BROADCAST32, 4, 0)

// func blockNear64AVX512(dst, x *float64, cs *int16, vals *float64, masks *uint8, starts *start, n, width, cols int)
TEXT ·blockNear64AVX512(SB), NOSPLIT, $0-72
	BLOCKSCATTERED(COL16, COLS16, 2, BROADCAST64, 8, 1)

// func blockNear32AVX512(dst, x *float64, cs *int16, vals *float32, masks *uint8, starts *start, n, width, cols int)
TEXT ·blockNear32AVX512(SB), NOSPLIT, $0-72
	BLOCKSCATTERED(COL16, COLS16, 2, BROADCAST32, 4, 1)

// func blockWide8AVX512(dst, x *float64, cs *int32, vals *uint8, masks *uint8, starts *start, n, width, cols int,
//	dict *float64)
TEXT ·blockWide8AVX512(SB), NOSPLIT, $0-80
	MOVQ dict+72(FP), R13
	BLOCKSCATTERED(COL32, COLS32, 4, BROADCAST8, 1, 0)

// func blockNear8AVX512(dst, x *float64, cs *int16, vals *uint8, masks *uint8, starts *start, n, width, cols int,
//	dict *float64)
TEXT ·blockNear8AVX512(SB), NOSPLIT, $0-80
	MOVQ dict+72(FP), R13
	BLOCKSCATTERED(COL16, COLS16, 2, BROADCAST8, 1, 1)
