package cuda

import "unsafe"

// openHandle passes the handle by value. The calling convention lets the caller copy a struct of
// 64 bytes and pass the copy's address.
func (c *Context) openHandle(p *uint64, h Handle) error {
	copied := new(Handle)
	*copied = h
	return c.driver.call("cuIpcOpenMemHandle_v2", uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(copied)),
		lazyPeerAccess)
}
