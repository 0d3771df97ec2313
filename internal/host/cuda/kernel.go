package cuda

import (
	"fmt"
	"io/fs"
	"runtime"
	"unsafe"
)

// source is a file of kernels as PTX: ptx/NAME.ptx in a file tree.
type source struct {
	files fs.FS
	name  string
}

// module holds the kernels of a source that the driver has compiled for the context's device.
type module struct {
	name   string
	handle uintptr
}

// load returns the module of a source. The driver compiles it at the first call, and caches the result on disk.
func (c *Context) load(s source) (*module, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.modules[s]; m != nil {
		return m, nil
	}
	ptx, err := fs.ReadFile(s.files, "ptx/"+s.name+".ptx")
	if err != nil {
		return nil, err
	}
	text, handle := append(ptx, 0), new(uintptr)
	err = c.driver.call("cuModuleLoadData", uintptr(unsafe.Pointer(handle)), uintptr(unsafe.Pointer(&text[0])))
	runtime.KeepAlive(text)
	if err != nil {
		return nil, fmt.Errorf("loading the kernels of %s: %w", s.name, err)
	}
	m := &module{name: s.name, handle: *handle}
	c.modules[s] = m
	return m, nil
}

// Kernel is a function that runs on the device.
type Kernel struct {
	driver *Driver
	Name   string
	handle uintptr
}

// Kernel returns a kernel by name. Its source is ptx/FILE.ptx in files, which must be comparable, like an embed.FS.
func (c *Context) Kernel(files fs.FS, file, name string) (*Kernel, error) {
	m, err := c.load(source{files, file})
	if err != nil {
		return nil, err
	}
	handle, text := new(uintptr), append([]byte(name), 0)
	err = c.driver.call("cuModuleGetFunction", uintptr(unsafe.Pointer(handle)), m.handle,
		uintptr(unsafe.Pointer(&text[0])))
	runtime.KeepAlive(text)
	if err != nil {
		return nil, fmt.Errorf("kernel %s of %s: %w", name, m.name, err)
	}
	return &Kernel{driver: c.driver, Name: name, handle: *handle}, nil
}

// Resident returns how many blocks with this number of threads and bytes of shared memory a
// multiprocessor can run at once.
func (k *Kernel) Resident(threads, sharedBytes int) (int, error) {
	n := new(int32)
	err := k.driver.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", uintptr(unsafe.Pointer(n)), k.handle,
		uintptr(threads), uintptr(sharedBytes))
	return int(*n), err
}

const (
	dynamicSharedBytes = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	sharedCarveout     = 9 // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, in per cent
)

// AllowShared permits launches with this much shared memory. Without it, 48 KiB is the limit.
func (k *Kernel) AllowShared(bytes int) error {
	err := k.driver.call("cuFuncSetAttribute", k.handle, dynamicSharedBytes, uintptr(bytes))
	if err != nil {
		return fmt.Errorf("kernel %s with %d bytes of shared memory: %w", k.Name, bytes, err)
	}
	return nil
}

// LeaveShared makes multiprocessors that run the kernel reserve as much shared memory as they can,
// even if the kernel uses none. A multiprocessor changes this reservation only while it is idle. A
// block that needs more shared memory would wait for that, forever if the running kernel in turn
// waits for the block.
func (k *Kernel) LeaveShared() error {
	return k.driver.call("cuFuncSetAttribute", k.handle, sharedCarveout, 100)
}

// Launch is a kernel with its grid and its only argument, a struct with C layout. It is created once
// and started any number of times, without allocating. The argument may change between starts.
type Launch struct {
	kernel          *Kernel
	blocks, threads int
	shared          int
	cooperative     bool
	pointers        *[1]unsafe.Pointer // it and the argument are on the heap, so neither moves
	extended        *launchConfig      // nil for an ordinary launch
}

// launchConfig is CUlaunchConfig, followed by its attributes.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attributes  unsafe.Pointer
	count, _    uint32
	list        [2]launchAttribute
}

// launchAttribute is CUlaunchAttribute.
type launchAttribute struct {
	id, _ uint32
	value [16]uint32
}

// Attributes of a launch, as the driver numbers them.
const (
	clusterDimension          = 4
	programmaticSerialization = 6
)

// Dependent makes this a programmatic dependent launch: the kernel may start before its predecessor
// in the stream has ended, once the predecessor allows it. The kernel itself must wait for the
// predecessor's end before it reads its results.
func (l *Launch) Dependent() *Launch { return l.with(programmaticSerialization, 1) }

// Clusters makes each group of the given number of blocks a cluster. The number of blocks of the launch must be a
// multiple of it.
func (l *Launch) Clusters(blocks int) *Launch { return l.with(clusterDimension, uint32(blocks), 1, 1) }

// with adds an attribute.
func (l *Launch) with(id uint32, value ...uint32) *Launch {
	c := l.extended
	if c == nil {
		c = &launchConfig{grid: [3]uint32{uint32(l.blocks), 1, 1}, block: [3]uint32{uint32(l.threads), 1, 1},
			shared: uint32(l.shared)}
		c.attributes = unsafe.Pointer(&c.list)
		l.extended = c
	}
	c.list[c.count].id = id
	copy(c.list[c.count].value[:], value)
	c.count++
	return l
}

// NewLaunch prepares a launch whose argument is *params.
func NewLaunch[P any](k *Kernel, blocks, threads, sharedBytes int, cooperative bool, params *P) *Launch {
	l := &Launch{kernel: k, blocks: blocks, threads: threads, shared: sharedBytes, cooperative: cooperative,
		pointers: new([1]unsafe.Pointer)}
	l.pointers[0] = unsafe.Pointer(params)
	return l
}

// Start starts the kernel on a stream. The driver has copied the argument when Start returns.
func (l *Launch) Start(s *Stream) error {
	d := l.kernel.driver
	blocks, threads, shared := uintptr(l.blocks), uintptr(l.threads), uintptr(l.shared)
	var err error
	switch {
	case l.extended != nil:
		l.extended.stream = s.handle
		err = d.call("cuLaunchKernelEx", uintptr(unsafe.Pointer(l.extended)), l.kernel.handle,
			uintptr(unsafe.Pointer(l.pointers)), 0)
	case l.cooperative:
		err = d.call("cuLaunchCooperativeKernel", l.kernel.handle, blocks, 1, 1, threads, 1, 1, shared, s.handle,
			uintptr(unsafe.Pointer(l.pointers)))
	default:
		err = d.call("cuLaunchKernel", l.kernel.handle, blocks, 1, 1, threads, 1, 1, shared, s.handle,
			uintptr(unsafe.Pointer(l.pointers)), 0)
	}
	if err != nil {
		return fmt.Errorf("kernel %s (%d blocks of %d threads): %w", l.kernel.Name, l.blocks, l.threads, err)
	}
	return nil
}

// TensorMap describes a matrix to the bulk tensor copies of a kernel, in the driver's own format. It
// is part of the kernel's argument.
type TensorMap [16]uint64

// Enumerators of the driver for tensor maps.
const (
	mapBytes      = 0
	mapBF16       = 9
	mapDimensions = 2
	swizzle128    = 3
	promote128    = 2 // the L2 cache fetches 128 bytes at a time
	promote256    = 3
)

// TensorMapBF16 describes a row-major bf16 matrix whose rows are stride elements apart, and the box
// of rows and columns that one copy fetches into shared memory, with 128-byte swizzling. Elements
// outside the matrix read as zero.
func (c *Context) TensorMapBF16(at Pointer, rows, cols, stride, boxRows, boxCols int) (TensorMap, error) {
	return c.tensorMap(at, mapBF16, rows, cols, stride, boxRows, boxCols, promote256)
}

// StreamedMapBF16 is TensorMapBF16 for a matrix that is read once from memory: the L2 cache fetches what a
// copy asks for and no more.
func (c *Context) StreamedMapBF16(at Pointer, rows, cols, stride, boxRows, boxCols int) (TensorMap, error) {
	return c.tensorMap(at, mapBF16, rows, cols, stride, boxRows, boxCols, promote128)
}

// TensorMapBytes is TensorMapBF16 for elements of one byte.
func (c *Context) TensorMapBytes(at Pointer, rows, cols, stride, boxRows, boxCols int) (TensorMap, error) {
	return c.tensorMap(at, mapBytes, rows, cols, stride, boxRows, boxCols, promote256)
}

func (c *Context) tensorMap(at Pointer, element uintptr, rows, cols, stride, boxRows, boxCols int,
	promotion uintptr) (TensorMap, error) {
	m := new(TensorMap) // the driver requires 64-byte alignment, which Go's allocations of 128 bytes have
	size, strides := []uint64{uint64(cols), uint64(rows)}, []uint64{uint64(stride)}
	if element == mapBF16 {
		strides[0] *= 2
	}
	box, steps := []uint32{uint32(boxCols), uint32(boxRows)}, []uint32{1, 1}
	err := c.driver.call("cuTensorMapEncodeTiled", uintptr(unsafe.Pointer(m)), element, mapDimensions, uintptr(at),
		uintptr(unsafe.Pointer(&size[0])), uintptr(unsafe.Pointer(&strides[0])), uintptr(unsafe.Pointer(&box[0])),
		uintptr(unsafe.Pointer(&steps[0])), 0, swizzle128, promotion, 0)
	return *m, err
}
