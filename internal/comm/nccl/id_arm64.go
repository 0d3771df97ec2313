package nccl

import "unsafe"

// initRank passes the id by value, which the calling convention does by address for a struct of 128
// bytes.
func (l *Library) initRank(comm *uintptr, ranks, rank int, id ID, c *config) uintptr {
	held := &id
	return l.f.commInit.Call(uintptr(unsafe.Pointer(comm)), uintptr(ranks), uintptr(unsafe.Pointer(held)), uintptr(rank),
		uintptr(unsafe.Pointer(c)))
}
