package cuda

import (
	"encoding/binary"
	"unsafe"
)

// openHandle passes the handle by value. The calling convention puts a struct of 64 bytes on the
// stack, after the six register arguments; the function uses only two of these.
func (c *Context) openHandle(p *uint64, h Handle) error {
	word := func(i int) uintptr { return uintptr(binary.LittleEndian.Uint64(h[8*i:])) }
	return c.driver.call("cuIpcOpenMemHandle_v2", uintptr(unsafe.Pointer(p)), lazyPeerAccess, 0, 0, 0, 0,
		word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7))
}
