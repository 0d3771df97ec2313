package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// blockFunctions are those of memory that handles name, and of multicast objects. Drivers
// before 12.1 lack some of them, and then all that needs them.
type blockFunctions struct {
	memCreate, memRelease, memExport, memImport  dynlib.Func
	addressReserve, addressFree                  dynlib.Func
	memMap, memUnmap, memSetAccess               dynlib.Func
	multicastCreate, multicastAdd, multicastBind dynlib.Func
	multicastUnbind, multicastGranularity        dynlib.Func
}

func (f *blockFunctions) table() map[string]*dynlib.Func {
	return map[string]*dynlib.Func{
		"cuMemCreate": &f.memCreate, "cuMemRelease": &f.memRelease,
		"cuMemExportToShareableHandle": &f.memExport, "cuMemImportFromShareableHandle": &f.memImport,
		"cuMemAddressReserve": &f.addressReserve, "cuMemAddressFree": &f.addressFree,
		"cuMemMap": &f.memMap, "cuMemUnmap": &f.memUnmap, "cuMemSetAccess": &f.memSetAccess,
		"cuMulticastCreate": &f.multicastCreate, "cuMulticastAddDevice": &f.multicastAdd,
		"cuMulticastBindMem": &f.multicastBind,
		"cuMulticastUnbind":  &f.multicastUnbind, "cuMulticastGetGranularity": &f.multicastGranularity,
	}
}

// NoMulticast is why the device cannot be one of several that a multicast object reaches,
// nil where it can.
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

// Block is memory that a handle names, of this device or of several: it has no address
// until it is mapped, and can be passed to other processes as an open file. Everything of
// a Block is for where [Device.NoMulticast] is nil.
type Block struct {
	context *Context
	handle  uint64
	bytes   int
	Address Pointer // 0: not mapped
}

// What the driver calls CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE,
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
		_                uintptr // of Windows
		_                [8]byte // no compression, no access by network cards
	}
	multicastProp struct {
		devices, _     uint32
		bytes, handles uint64
		_              uint64 // flags
	}
	accessDesc struct{ location, device, flags uint32 }
)

// NewBlock gives memory of the device, with any content: as much as can be bound to a
// multicast object, which see.
func (c *Context) NewBlock(bytes int) (*Block, error) {
	p := &allocationProp{kind: memoryPinned, handles: fileDescriptor, location: onDevice, device: uint32(c.device.handle)}
	handle := new(uint64)
	err := c.driver.check("cuMemCreate",
		c.driver.blocks.memCreate.Call(uintptr(unsafe.Pointer(handle)), uintptr(bytes), uintptr(unsafe.Pointer(p)), 0))
	return c.block(*handle, bytes, err)
}

// block is what the driver has given, unless it has not.
func (c *Context) block(handle uint64, bytes int, err error) (*Block, error) {
	if err != nil {
		return nil, err
	}
	return &Block{context: c, handle: handle, bytes: bytes}, nil
}

func multicastOf(devices, bytes int) *multicastProp {
	return &multicastProp{devices: uint32(devices), bytes: uint64(bytes), handles: fileDescriptor}
}

// MulticastGranularity is what the size of a multicast object of so many devices, and of
// the memory that is bound to it, is a multiple of.
func (c *Context) MulticastGranularity(devices, bytes int) (int, error) {
	n := new(uint64)
	err := c.driver.check("cuMulticastGetGranularity", c.driver.blocks.multicastGranularity.Call(
		uintptr(unsafe.Pointer(n)), uintptr(unsafe.Pointer(multicastOf(devices, bytes))), leastGranularity))
	if err == nil && *n == 0 {
		err = errors.New("cuMulticastGetGranularity: it is 0")
	}
	return int(*n), err
}

// NewMulticast gives a multicast object of so many devices. What kernels load from it is
// the sum over the memory that all devices have bound to it, and what they store goes to all.
func (c *Context) NewMulticast(devices, bytes int) (*Block, error) {
	handle := new(uint64)
	err := c.driver.check("cuMulticastCreate", c.driver.blocks.multicastCreate.Call(
		uintptr(unsafe.Pointer(handle)), uintptr(unsafe.Pointer(multicastOf(devices, bytes)))))
	return c.block(*handle, bytes, err)
}

// File names the block to other processes.
func (b *Block) File() (*os.File, error) {
	fd := new(int32)
	err := b.context.driver.check("cuMemExportToShareableHandle",
		b.context.driver.blocks.memExport.Call(uintptr(unsafe.Pointer(fd)), uintptr(b.handle), fileDescriptor, 0))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(*fd), "device memory"), nil
}

// OpenBlock gives the block that a file names, which may be closed afterwards.
func (c *Context) OpenBlock(f *os.File, bytes int) (*Block, error) {
	handle := new(uint64)
	err := c.driver.check("cuMemImportFromShareableHandle",
		c.driver.blocks.memImport.Call(uintptr(unsafe.Pointer(handle)), f.Fd(), fileDescriptor))
	return c.block(*handle, bytes, err)
}

// Join makes this device one of those of a multicast object. Memory can be bound once all
// have joined.
func (b *Block) Join() error {
	return b.context.driver.check("cuMulticastAddDevice",
		b.context.driver.blocks.multicastAdd.Call(uintptr(b.handle), uintptr(b.context.device.handle)))
}

// Bind makes memory of this device its part of a multicast object.
func (b *Block) Bind(memory *Block) error {
	return b.context.driver.check("cuMulticastBindMem",
		b.context.driver.blocks.multicastBind.Call(uintptr(b.handle), 0, uintptr(memory.handle), 0, uintptr(b.bytes), 0))
}

// Unbind takes the memory back.
func (b *Block) Unbind() error {
	return b.context.driver.check("cuMulticastUnbind",
		b.context.driver.blocks.multicastUnbind.Call(uintptr(b.handle), uintptr(b.context.device.handle), 0,
			uintptr(b.bytes)))
}

// Map gives the block an address, a multiple of align, at which kernels of this context
// reach it.
func (b *Block) Map(align int) error {
	d, f := b.context.driver, &b.context.driver.blocks
	at := new(uint64)
	if err := d.check("cuMemAddressReserve",
		f.addressReserve.Call(uintptr(unsafe.Pointer(at)), uintptr(b.bytes), uintptr(align), 0, 0)); err != nil {
		return err
	}
	if err := d.check("cuMemMap", f.memMap.Call(uintptr(*at), uintptr(b.bytes), 0, uintptr(b.handle), 0)); err != nil {
		return errors.Join(err, d.check("cuMemAddressFree", f.addressFree.Call(uintptr(*at), uintptr(b.bytes))))
	}
	b.Address = Pointer(*at)
	access := &accessDesc{location: onDevice, device: uint32(b.context.device.handle), flags: readWrite}
	return d.check("cuMemSetAccess",
		f.memSetAccess.Call(uintptr(*at), uintptr(b.bytes), uintptr(unsafe.Pointer(access)), 1))
}

// Release gives the address and the block up. The memory itself is there until nobody has
// it any more.
func (b *Block) Release() error {
	d, f := b.context.driver, &b.context.driver.blocks
	var faults []error
	if b.Address != 0 {
		faults = append(faults, d.check("cuMemUnmap", f.memUnmap.Call(uintptr(b.Address), uintptr(b.bytes))),
			d.check("cuMemAddressFree", f.addressFree.Call(uintptr(b.Address), uintptr(b.bytes))))
		b.Address = 0
	}
	return errors.Join(append(faults, d.check("cuMemRelease", f.memRelease.Call(uintptr(b.handle))))...)
}
