package cuda

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Module is kernels that the driver has compiled for the context's device.
type Module struct {
	context *Context
	name    string
	handle  uintptr
}

// Load has the driver compile PTX, which it keeps in a cache of its own. The name
// is for errors.
func (c *Context) Load(name string, ptx []byte) (*Module, error) {
	text := append(append(make([]byte, 0, len(ptx)+1), ptx...), 0)
	handle := new(uintptr)
	err := c.driver.check("cuModuleLoadData",
		c.driver.f.moduleLoadData.Call(uintptr(unsafe.Pointer(handle)), uintptr(unsafe.Pointer(&text[0]))))
	runtime.KeepAlive(text)
	if err != nil {
		return nil, fmt.Errorf("loading the kernels of %s: %w", name, err)
	}
	return &Module{context: c, name: name, handle: *handle}, nil
}

// Kernel is a function that runs on the device.
type Kernel struct {
	driver *Driver
	Name   string
	handle uintptr
}

// Kernel finds a kernel of the module.
func (m *Module) Kernel(name string) (*Kernel, error) {
	handle, text := new(uintptr), append([]byte(name), 0)
	err := m.context.driver.check("cuModuleGetFunction",
		m.context.driver.f.moduleGetFunction.Call(uintptr(unsafe.Pointer(handle)), m.handle,
			uintptr(unsafe.Pointer(&text[0]))))
	runtime.KeepAlive(text)
	if err != nil {
		return nil, fmt.Errorf("kernel %s of %s: %w", name, m.name, err)
	}
	return &Kernel{driver: m.context.driver, Name: name, handle: *handle}, nil
}

// Resident is how many blocks of so many threads a multiprocessor runs at once.
func (k *Kernel) Resident(threads, sharedBytes int) (int, error) {
	n := new(int32)
	err := k.driver.check("cuOccupancyMaxActiveBlocksPerMultiprocessor",
		k.driver.f.occupancy.Call(uintptr(unsafe.Pointer(n)), k.handle, uintptr(threads), uintptr(sharedBytes)))
	return int(*n), err
}

const (
	dynamicSharedBytes = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	sharedCarveout     = 9 // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, in per cent
)

// AllowShared lets launches of the kernel have so much shared memory, beyond the 48 KiB
// that every kernel may have.
func (k *Kernel) AllowShared(bytes int) error {
	err := k.driver.check("cuFuncSetAttribute",
		k.driver.f.funcSetAttribute.Call(k.handle, dynamicSharedBytes, uintptr(bytes)))
	if err != nil {
		return fmt.Errorf("kernel %s with %d bytes of shared memory: %w", k.Name, bytes, err)
	}
	return nil
}

// LeaveShared has multiprocessors that run the kernel set as much of their memory aside for shared memory as
// they can, whether the kernel uses it or not. They change that only when they are idle: a block that needs
// more than there is waits until they are, for ever if they run a kernel that waits for it.
func (k *Kernel) LeaveShared() error {
	return k.driver.check("cuFuncSetAttribute", k.driver.f.funcSetAttribute.Call(k.handle, sharedCarveout, 100))
}

// Launch is a kernel with its shape and its one argument, a struct laid out as in
// C. It is made once and started any number of times, without allocating; the
// argument may be changed between starts.
type Launch struct {
	kernel          *Kernel
	blocks, threads int
	shared          int
	cooperative     bool
	pointers        *[1]unsafe.Pointer // on the heap, and what it points to: neither moves
	extended        *launchConfig      // nil: an ordinary launch
}

// launchConfig is CUlaunchConfig, with its one attribute behind it.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attributes  unsafe.Pointer
	count, _    uint32
	id, _       uint32 // CUlaunchAttribute
	value       [64]byte
}

const programmaticSerialization = 6 // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

// Dependent lets the kernel start before the one in front of it in the stream has ended, once
// that one says so: programmatic dependent launch. The kernel itself must wait for that end
// before it looks at what was written.
func (l *Launch) Dependent() *Launch {
	c := &launchConfig{grid: [3]uint32{uint32(l.blocks), 1, 1}, block: [3]uint32{uint32(l.threads), 1, 1},
		shared: uint32(l.shared), count: 1,
		id: programmaticSerialization, value: [64]byte{1}}
	c.attributes = unsafe.Pointer(&c.id)
	l.extended = c
	return l
}

// NewLaunch prepares a launch with the argument that params points to.
func NewLaunch[P any](k *Kernel, blocks, threads, sharedBytes int, cooperative bool, params *P) *Launch {
	l := &Launch{kernel: k, blocks: blocks, threads: threads, shared: sharedBytes, cooperative: cooperative,
		pointers: new([1]unsafe.Pointer)}
	l.pointers[0] = unsafe.Pointer(params)
	return l
}

// Start starts the kernel on a stream. The driver has copied the argument when it
// returns.
func (l *Launch) Start(s *Stream) error {
	name, call := "cuLaunchKernel", l.kernel.driver.f.launchKernel
	if l.cooperative {
		name, call = "cuLaunchCooperativeKernel", l.kernel.driver.f.launchCooperative
	}
	var result uintptr
	if c := l.extended; c != nil {
		name, c.stream = "cuLaunchKernelEx", s.handle
		result = l.kernel.driver.f.launchKernelEx.Call(uintptr(unsafe.Pointer(c)), l.kernel.handle,
			uintptr(unsafe.Pointer(l.pointers)), 0)
	} else if l.cooperative {
		result = call.Call(l.kernel.handle, uintptr(l.blocks), 1, 1, uintptr(l.threads), 1, 1, uintptr(l.shared), s.handle,
			uintptr(unsafe.Pointer(l.pointers)))
	} else {
		result = call.Call(l.kernel.handle, uintptr(l.blocks), 1, 1, uintptr(l.threads), 1, 1, uintptr(l.shared), s.handle,
			uintptr(unsafe.Pointer(l.pointers)), 0)
	}
	if err := l.kernel.driver.check(name, result); err != nil {
		return fmt.Errorf("kernel %s (%d blocks of %d threads): %w", l.kernel.Name, l.blocks, l.threads, err)
	}
	return nil
}
