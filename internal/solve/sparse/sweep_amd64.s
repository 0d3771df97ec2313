#include "textflag.h"
#include "go_asm.h"
#include "kernels_amd64.h"

// func sweepAVX512(ops *op, count int, sums *[lanes]float64, lo, n int, block *float64)
// DI is the offset of the rows in the vectors, R12 their offset in the block, R13 the offset of the lanes.
TEXT ·sweepAVX512(SB), NOSPLIT, $0-48
	MOVQ   ops+0(FP), R9
	MOVQ   count+8(FP), R10
	MOVQ   sums+16(FP), R11
	MOVQ   lo+24(FP), DI
	MOVQ   n+32(FP), CX
	MOVQ   block+40(FP), R12
	XORQ   R13, R13
	SHLQ   $3, DI
	IMUL3Q $op__size, R10, R10
	ADDQ   R9, R10

many:
	CMPQ CX, $128
	JLT  one
	MOVQ R9, R8

op:
	OP
	TESTB $(const_opBy|const_opDot|const_opBlock|const_opFresh|const_opZero), AX
	JNE   special

plain:
	TESTB $const_opAdd, AX
	JNE   add
	TESTB $const_opScale, AX
	JNE   scaled
	ROWS(LOAD)
	JMP   store

scaled:
	VBROADCASTSD op_coef(R8), Z4
	ROWS(LOADSCALED)
	JMP   store

add:
	TESTB $const_opScale, AX
	JNE   addscaled
	ROWS(ADD)
	JMP   store

addscaled:
	VBROADCASTSD op_coef(R8), Z4
	ROWS(ADDSCALED)

store:
	TESTB $const_opStore, AX
	JEQ   next
	OTHER(op_dst)
	ROWS(STORE)

next:
	ADDQ $op__size, R8
	CMPQ R8, R10
	JNE  op
	ADDQ $1024, DI
	ADDQ $1024, R12
	SUBQ $128, CX
	JMP  many

special:
	TESTB   $const_opDot, AX
	JNE     dot
	TESTB   $const_opZero, AX
	JNE     zero
	TESTB   $const_opBlock, AX
	CMOVQNE R12, SI
	TESTB   $const_opFresh, AX
	JEQ     near
	ROWS(FETCH)

near:
	TESTB $const_opBy, AX
	JEQ   plain
	OTHER(op_by)
	VBROADCASTSD op_coef(R8), Z4
	TESTB $const_opAdd, AX
	JNE   addby
	ROWS(LOADBY)
	JMP   store

addby:
	ROWS(ADDBY)
	JMP store

zero:
	ROWS(CLEAR)
	JMP store

dot:
	MOVQ op_sum(R8), DX
	ADDQ R11, DX
	VMOVUPD (DX), Z0
	VMOVUPD 64(DX), Z1
	VMOVUPD 128(DX), Z2
	VMOVUPD 192(DX), Z3
	DOT(0, Z16, Z17, Z18, Z19)
	DOT(256, Z20, Z21, Z22, Z23)
	DOT(512, Z24, Z25, Z26, Z27)
	DOT(768, Z28, Z29, Z30, Z31)
	VMOVUPD Z0, (DX)
	VMOVUPD Z1, 64(DX)
	VMOVUPD Z2, 128(DX)
	VMOVUPD Z3, 192(DX)
	JMP  next

one:
	TESTQ CX, CX
	JLE   done
	TAIL
	MOVQ  R9, R8

oneop:
	OP
	TESTB   $const_opZero, AX
	JNE     onezero
	TESTB   $const_opBlock, AX
	CMOVQNE R12, SI
	VMOVUPD.Z (SI), K1, Z0
	TESTB   $const_opDot, AX
	JNE     onedot
	TESTB   $const_opBy, AX
	JEQ     onescale
	OTHER(op_by)
	VMOVUPD.Z (DX), K1, Z1
	VMULPD  Z1, Z0, Z0

onescale:
	VBROADCASTSD op_coef(R8), Z4
	TESTB  $const_opAdd, AX
	JEQ    onefirst
	VMULPD Z0, Z4, Z0
	VADDPD Z0, Z16, Z16
	JMP    onestore

onefirst:
	VMULPD Z0, Z4, Z16

onestore:
	TESTB $const_opStore, AX
	JEQ   onenext
	OTHER(op_dst)
	VMOVUPD Z16, K1, (DX)

onenext:
	ADDQ $op__size, R8
	CMPQ R8, R10
	JNE  oneop
	ADDQ $64, DI
	ADDQ $64, R12
	ADDQ $64, R13
	ANDQ $255, R13
	SUBQ $8, CX
	JMP  one

onezero:
	VPXORQ Z16, Z16, Z16
	JMP onestore

onedot:
	MOVQ    op_sum(R8), DX
	ADDQ    R11, DX
	VMOVUPD (DX)(R13*1), Z1
	VMULPD  Z0, Z16, Z0
	VADDPD  Z0, Z1, K1, Z1
	VMOVUPD Z1, (DX)(R13*1)
	JMP     onenext

done:
	VZEROUPPER
	RET
