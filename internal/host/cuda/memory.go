package cuda

import (
	"runtime"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// Pointer is an address in device memory. The host cannot dereference it.
type Pointer uint64

// Alloc allocates device memory, aligned to at least 256 bytes. Its content is undefined.
func (c *Context) Alloc(bytes int) (Pointer, error) {
	p := new(uint64)
	err := c.driver.call("cuMemAlloc_v2", uintptr(unsafe.Pointer(p)), uintptr(bytes))
	return Pointer(*p), err
}

// Free releases memory from Alloc.
func (c *Context) Free(p Pointer) error {
	return c.driver.call("cuMemFree_v2", uintptr(p))
}

// Memory returns how much device memory is free, and how much there is in total, in bytes.
func (c *Context) Memory() (free, total uint64, err error) {
	both := make([]uint64, 2)
	err = c.driver.call("cuMemGetInfo_v2", uintptr(unsafe.Pointer(&both[0])), uintptr(unsafe.Pointer(&both[1])))
	return both[0], both[1], err
}

// settle waits for the default stream. The driver may return from a short copy, or from setting
// bytes, before the data have arrived, and other streams do not wait for the default stream.
func (c *Context) settle() error {
	return c.driver.call("cuStreamSynchronize", 0)
}

// Write copies host memory to the device and returns when the data have arrived.
func (c *Context) Write(to Pointer, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	err := c.driver.call("cuMemcpyHtoD_v2", uintptr(to), uintptr(unsafe.Pointer(&from[0])), uintptr(len(from)))
	runtime.KeepAlive(from)
	if err != nil {
		return err
	}
	return c.settle()
}

// Read copies device memory to the host.
func (c *Context) Read(to []byte, from Pointer) error {
	if len(to) == 0 {
		return nil
	}
	err := c.driver.call("cuMemcpyDtoH_v2", uintptr(unsafe.Pointer(&to[0])), uintptr(from), uintptr(len(to)))
	runtime.KeepAlive(to)
	return err
}

// Fill sets every byte and returns when it is done.
func (c *Context) Fill(p Pointer, value byte, bytes int) error {
	if bytes == 0 {
		return nil
	}
	if err := c.driver.call("cuMemsetD8_v2", uintptr(p), uintptr(value), uintptr(bytes)); err != nil {
		return err
	}
	return c.settle()
}

// Copy starts a copy within the device, or between devices that can access each other's memory.
func (s *Stream) Copy(to, from Pointer, bytes int) error {
	return s.driver.call("cuMemcpyDtoDAsync_v2", uintptr(to), uintptr(from), uintptr(bytes), s.handle)
}

// Upload starts a copy from host memory. From pinned memory the copy engine does it alone; other memory goes through
// the driver's own buffers. The slice must not change or be freed before the copy is done.
func (s *Stream) Upload(to Pointer, from []byte) error {
	return s.driver.call("cuMemcpyHtoDAsync_v2", uintptr(to), uintptr(unsafe.Pointer(unsafe.SliceData(from))),
		uintptr(len(from)), s.handle)
}

// Download starts a copy to host memory. See Upload.
func (s *Stream) Download(to []byte, from Pointer) error {
	return s.driver.call("cuMemcpyDtoHAsync_v2", uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(from),
		uintptr(len(to)), s.handle)
}

// Shared is pinned host memory that kernels can access too. Kernels report through it while they
// run, or before they are aborted.
type Shared struct {
	context *Context
	at      uintptr
	Bytes   []byte
	Device  Pointer
}

const hostDeviceMapped = 2 // CU_MEMHOSTALLOC_DEVICEMAP

// Share allocates zeroed pinned memory.
func (c *Context) Share(bytes int) (*Shared, error) {
	at, device := new(uintptr), new(uint64)
	if err := c.driver.call("cuMemHostAlloc", uintptr(unsafe.Pointer(at)), uintptr(bytes), hostDeviceMapped); err != nil {
		return nil, err
	}
	s := &Shared{context: c, at: *at, Bytes: dynlib.Bytes(*at, bytes)}
	clear(s.Bytes)
	if err := c.driver.call("cuMemHostGetDevicePointer_v2", uintptr(unsafe.Pointer(device)), *at, 0); err != nil {
		return nil, err
	}
	s.Device = Pointer(*device)
	return s, nil
}

// Free releases the memory.
func (s *Shared) Free() error {
	s.Bytes = nil
	return s.context.driver.call("cuMemFreeHost", s.at)
}

// HandleBytes is the size of a handle to device memory.
const HandleBytes = 64

// Handle identifies an allocation of this process to other processes on the same host.
type Handle [HandleBytes]byte

// Export returns the handle of an allocation from Alloc.
func (c *Context) Export(p Pointer) (Handle, error) {
	h := new(Handle)
	err := c.driver.call("cuIpcGetMemHandle", uintptr(unsafe.Pointer(h)), uintptr(p))
	return *h, err
}

const lazyPeerAccess = 1 // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

// Import maps another process's allocation. It must be closed before that process frees it.
func (c *Context) Import(h Handle) (Pointer, error) {
	p := new(uint64)
	err := c.openHandle(p, h)
	return Pointer(*p), err
}

// CloseImport unmaps memory from Import.
func (c *Context) CloseImport(p Pointer) error {
	return c.driver.call("cuIpcCloseMemHandle", uintptr(p))
}
