package cuda

import "unsafe"

// callWithHandle passes the handle by value: a struct of that size is copied by
// the caller, which passes the copy's address.
func (c *Context) callWithHandle(p *uint64, h Handle) uintptr {
	copied := new(Handle)
	*copied = h
	return c.driver.f.ipcOpenMemHandle.Call(uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(copied)), lazyPeerAccess)
}
