package cuda

import (
	"encoding/binary"
	"unsafe"
)

// callWithHandle passes the handle by value. A struct of that size goes onto the
// stack, behind the six arguments that registers hold, of which the function has two.
func (c *Context) callWithHandle(p *uint64, h Handle) uintptr {
	word := func(i int) uintptr { return uintptr(binary.LittleEndian.Uint64(h[8*i:])) }
	return c.driver.f.ipcOpenMemHandle.Call(uintptr(unsafe.Pointer(p)), lazyPeerAccess, 0, 0, 0, 0,
		word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7))
}
