package cuda

import (
	"runtime"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// Pointer is an address in device memory. The host cannot follow it.
type Pointer uint64

// Alloc gives device memory, aligned to 256 bytes or more, with any content.
func (c *Context) Alloc(bytes int) (Pointer, error) {
	p := new(uint64)
	err := c.driver.check("cuMemAlloc", c.driver.f.memAlloc.Call(uintptr(unsafe.Pointer(p)), uintptr(bytes)))
	return Pointer(*p), err
}

// Free gives back what Alloc gave.
func (c *Context) Free(p Pointer) error {
	return c.driver.check("cuMemFree", c.driver.f.memFree.Call(uintptr(p)))
}

// Memory is how much device memory is free, and how much there is.
func (c *Context) Memory() (free, total uint64, err error) {
	both := make([]uint64, 2)
	err = c.driver.check("cuMemGetInfo",
		c.driver.f.memGetInfo.Call(uintptr(unsafe.Pointer(&both[0])), uintptr(unsafe.Pointer(&both[1]))))
	return both[0], both[1], err
}

// settled waits for what the default stream still does: the driver returns from a
// short copy, or from setting bytes, before they are there, and other streams do not
// wait for it.
func (c *Context) settled() error {
	return c.driver.check("cuStreamSynchronize", c.driver.f.streamSynchronize.Call(0))
}

// Write copies host memory to the device and returns when it is there.
func (c *Context) Write(to Pointer, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	err := c.driver.check("cuMemcpyHtoD",
		c.driver.f.copyToDevice.Call(uintptr(to), uintptr(unsafe.Pointer(&from[0])), uintptr(len(from))))
	runtime.KeepAlive(from)
	if err != nil {
		return err
	}
	return c.settled()
}

// Read copies device memory to the host.
func (c *Context) Read(to []byte, from Pointer) error {
	if len(to) == 0 {
		return nil
	}
	err := c.driver.check("cuMemcpyDtoH",
		c.driver.f.copyToHost.Call(uintptr(unsafe.Pointer(&to[0])), uintptr(from), uintptr(len(to))))
	runtime.KeepAlive(to)
	return err
}

// Fill sets every byte and returns when they are set.
func (c *Context) Fill(p Pointer, value byte, bytes int) error {
	if bytes == 0 {
		return nil
	}
	if err := c.driver.check("cuMemsetD8",
		c.driver.f.setBytes.Call(uintptr(p), uintptr(value), uintptr(bytes))); err != nil {
		return err
	}
	return c.settled()
}

// Copy starts a copy within the device, or between devices that reach each other.
func (s *Stream) Copy(to, from Pointer, bytes int) error {
	return s.driver.check("cuMemcpyDtoDAsync",
		s.driver.f.copyWithin.Call(uintptr(to), uintptr(from), uintptr(bytes), s.handle))
}

// Shared is pinned host memory that kernels reach too: what a kernel reports
// while it runs, or before it is broken off.
type Shared struct {
	context *Context
	at      uintptr
	Bytes   []byte
	Device  Pointer
}

const hostDeviceMapped = 2 // CU_MEMHOSTALLOC_DEVICEMAP

// Share gives zeroed pinned memory.
func (c *Context) Share(bytes int) (*Shared, error) {
	at, device := new(uintptr), new(uint64)
	if err := c.driver.check("cuMemHostAlloc",
		c.driver.f.memHostAlloc.Call(uintptr(unsafe.Pointer(at)), uintptr(bytes), hostDeviceMapped)); err != nil {
		return nil, err
	}
	s := &Shared{context: c, at: *at, Bytes: dynlib.Bytes(*at, bytes)}
	clear(s.Bytes)
	if err := c.driver.check("cuMemHostGetDevicePointer",
		c.driver.f.memHostGetDevicePointer.Call(uintptr(unsafe.Pointer(device)), *at, 0)); err != nil {
		return nil, err
	}
	s.Device = Pointer(*device)
	return s, nil
}

// Free gives the memory back.
func (s *Shared) Free() error {
	s.Bytes = nil
	return s.context.driver.check("cuMemFreeHost", s.context.driver.f.memFreeHost.Call(s.at))
}

// HandleBytes is the size of a handle to device memory.
const HandleBytes = 64

// Handle names an allocation of this process to others of the same host.
type Handle [HandleBytes]byte

// Export gives the handle of an allocation, which must be one that Alloc gave.
func (c *Context) Export(p Pointer) (Handle, error) {
	h := new(Handle)
	err := c.driver.check("cuIpcGetMemHandle", c.driver.f.ipcGetMemHandle.Call(uintptr(unsafe.Pointer(h)), uintptr(p)))
	return *h, err
}

const lazyPeerAccess = 1 // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

// Import opens another process's allocation. It must be closed before that
// process frees it.
func (c *Context) Import(h Handle) (Pointer, error) {
	p := new(uint64)
	err := c.driver.check("cuIpcOpenMemHandle", c.callWithHandle(p, h))
	return Pointer(*p), err
}

// CloseImport gives up what Import gave.
func (c *Context) CloseImport(p Pointer) error {
	return c.driver.check("cuIpcCloseMemHandle", c.driver.f.ipcCloseMem.Call(uintptr(p)))
}
