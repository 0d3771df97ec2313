package nccl

import (
	"encoding/binary"
	"unsafe"
)

// initRank passes the id by value. The calling convention puts a struct of 128 bytes on the stack,
// after the six register arguments; the function uses only four of these.
func (l *Library) initRank(comm *uintptr, ranks, rank int, id ID, c *config) uintptr {
	word := func(i int) uintptr { return uintptr(binary.LittleEndian.Uint64(id[8*i:])) }
	return l.f.commInit.Call(uintptr(unsafe.Pointer(comm)), uintptr(ranks), uintptr(rank), uintptr(unsafe.Pointer(c)), 0,
		0,
		word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7),
		word(8), word(9), word(10), word(11), word(12), word(13), word(14), word(15))
}
