package nccl

import "unsafe"

// initRank passes the id by value, which for a struct of that size is an address.
func (l *Library) initRank(comm *uintptr, ranks, rank int, id ID, c *config) uintptr {
	held := &id
	return l.f.commInit.Call(uintptr(unsafe.Pointer(comm)), uintptr(ranks), uintptr(unsafe.Pointer(held)), uintptr(rank),
		uintptr(unsafe.Pointer(c)))
}
