package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"
)

// NoMulticast returns the reason why the device cannot take part in a multicast object, or nil if it
// can.
func (d *Device) NoMulticast() error {
	switch {
	case !d.Has(Multicast):
		return fmt.Errorf("GPU %d (%s) has no multicast memory", d.Ordinal, d.Name)
	case !d.Has(FileHandles):
		return fmt.Errorf("GPU %d (%s) has no memory that processes can pass each other as files", d.Ordinal, d.Name)
	case d.driver.noBlocks != nil:
		first, _, _ := strings.Cut(d.driver.noBlocks.Error(), "\n")
		return fmt.Errorf("the driver is too old for multicast memory: %s", first)
	}
	return nil
}

// Block is physical memory of this device, or a multicast object of several devices. It has no
// address until it is mapped, and can be passed to other processes as an open file. Blocks may only
// be used on devices for which [Device.NoMulticast] returns nil.
type Block struct {
	context *Context
	handle  uint64
	bytes   int
	Address Pointer // 0 until mapped
}

// The driver's CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE,
// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_ACCESS_FLAGS_PROT_READWRITE and
// CU_MULTICAST_GRANULARITY_MINIMUM.
const (
	memoryPinned, onDevice, fileDescriptor = 1, 1, 1
	readWrite                              = 3
	leastGranularity                       = 0
)

// allocationProp is CUmemAllocationProp, multicastProp CUmulticastObjectProp and
// accessDesc CUmemAccessDesc.
type (
	allocationProp struct {
		kind, handles    uint32
		location, device uint32
		_                uintptr // only used on Windows
		_                [8]byte // no compression, no access by network cards
	}
	multicastProp struct {
		devices, _     uint32
		bytes, handles uint64
		_              uint64 // flags
	}
	accessDesc struct{ location, device, flags uint32 }
)

// NewBlock allocates memory of the device that can be bound to a multicast object; see
// [Context.MulticastGranularity] for its size. The content is undefined.
func (c *Context) NewBlock(bytes int) (*Block, error) {
	p := &allocationProp{kind: memoryPinned, handles: fileDescriptor, location: onDevice, device: uint32(c.device.handle)}
	handle := new(uint64)
	err := c.driver.call("cuMemCreate", uintptr(unsafe.Pointer(handle)), uintptr(bytes), uintptr(unsafe.Pointer(p)), 0)
	return c.block(*handle, bytes, err)
}

// block wraps a new handle, unless there was an error.
func (c *Context) block(handle uint64, bytes int, err error) (*Block, error) {
	if err != nil {
		return nil, err
	}
	return &Block{context: c, handle: handle, bytes: bytes}, nil
}

func multicastOf(devices, bytes int) *multicastProp {
	return &multicastProp{devices: uint32(devices), bytes: uint64(bytes), handles: fileDescriptor}
}

// MulticastGranularity returns the granularity of a multicast object of that many devices: the size of the object, and
// the size of memory bound to it, must be multiples of the granularity.
func (c *Context) MulticastGranularity(devices, bytes int) (int, error) {
	n := new(uint64)
	err := c.driver.call("cuMulticastGetGranularity", uintptr(unsafe.Pointer(n)),
		uintptr(unsafe.Pointer(multicastOf(devices, bytes))), leastGranularity)
	if err == nil && *n == 0 {
		err = errors.New("cuMulticastGetGranularity: it is 0")
	}
	return int(*n), err
}

// NewMulticast creates a multicast object of that many devices. A multimem load from it returns the
// sum over the memory that all devices have bound to it, and a multimem store writes to all of it.
func (c *Context) NewMulticast(devices, bytes int) (*Block, error) {
	handle := new(uint64)
	err := c.driver.call("cuMulticastCreate", uintptr(unsafe.Pointer(handle)),
		uintptr(unsafe.Pointer(multicastOf(devices, bytes))))
	return c.block(*handle, bytes, err)
}

// File returns a file through which other processes can open the block.
func (b *Block) File() (*os.File, error) {
	fd := new(int32)
	err := b.context.driver.call("cuMemExportToShareableHandle", uintptr(unsafe.Pointer(fd)), uintptr(b.handle),
		fileDescriptor, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(*fd), "device memory"), nil
}

// OpenBlock opens a block of another process. The file may be closed afterwards.
func (c *Context) OpenBlock(f *os.File, bytes int) (*Block, error) {
	handle := new(uint64)
	err := c.driver.call("cuMemImportFromShareableHandle", uintptr(unsafe.Pointer(handle)), f.Fd(), fileDescriptor)
	return c.block(*handle, bytes, err)
}

// Join adds this device to a multicast object. Memory can be bound once all devices have joined.
func (b *Block) Join() error {
	return b.context.driver.call("cuMulticastAddDevice", uintptr(b.handle), uintptr(b.context.device.handle))
}

// Bind binds memory of this device to a multicast object.
func (b *Block) Bind(memory *Block) error {
	return b.context.driver.call("cuMulticastBindMem", uintptr(b.handle), 0, uintptr(memory.handle), 0, uintptr(b.bytes),
		0)
}

// Unbind undoes Bind.
func (b *Block) Unbind() error {
	return b.context.driver.call("cuMulticastUnbind", uintptr(b.handle), uintptr(b.context.device.handle), 0,
		uintptr(b.bytes))
}

// Map maps the block at an address that is a multiple of align, for kernels of this context.
func (b *Block) Map(align int) error {
	d := b.context.driver
	at := new(uint64)
	if err := d.call("cuMemAddressReserve", uintptr(unsafe.Pointer(at)), uintptr(b.bytes), uintptr(align), 0,
		0); err != nil {
		return err
	}
	if err := d.call("cuMemMap", uintptr(*at), uintptr(b.bytes), 0, uintptr(b.handle), 0); err != nil {
		return errors.Join(err, d.call("cuMemAddressFree", uintptr(*at), uintptr(b.bytes)))
	}
	b.Address = Pointer(*at)
	access := &accessDesc{location: onDevice, device: uint32(b.context.device.handle), flags: readWrite}
	return d.call("cuMemSetAccess", uintptr(*at), uintptr(b.bytes), uintptr(unsafe.Pointer(access)), 1)
}

// Release unmaps and releases the block. The memory is freed when the last process has released it.
func (b *Block) Release() error {
	d := b.context.driver
	var faults []error
	if b.Address != 0 {
		faults = append(faults, d.call("cuMemUnmap", uintptr(b.Address), uintptr(b.bytes)),
			d.call("cuMemAddressFree", uintptr(b.Address), uintptr(b.bytes)))
		b.Address = 0
	}
	return errors.Join(append(faults, d.call("cuMemRelease", uintptr(b.handle)))...)
}
