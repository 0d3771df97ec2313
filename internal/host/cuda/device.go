package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// Attribute identifies a number that the driver reports about a device.
type Attribute int

// The attributes that kernbench uses, as the driver numbers them.
const (
	ClockRate         Attribute = 13 // kHz
	Multiprocessors   Attribute = 16
	ComputeMode       Attribute = 20
	MemoryClock       Attribute = 36 // kHz
	MemoryBusBits     Attribute = 37
	L2Bytes           Attribute = 38
	ComputeMajor      Attribute = 75
	ComputeMinor      Attribute = 76
	CooperativeLaunch Attribute = 95
	FileHandles       Attribute = 103 // memory can be shared through file descriptors
	Multicast         Attribute = 132
	SharedByMPS       Attribute = 133 // unknown to drivers before 12.0
)

// Device is a GPU.
type Device struct {
	driver  *Driver
	handle  int32
	Ordinal int
	Name    string
	Bytes   uint64 // size of the device memory
	BusID   string // PCI address, such as 0000:0b:00.0
}

// Devices lists the GPUs that this process may use.
func (d *Driver) Devices() ([]*Device, error) {
	n := new(int32)
	if err := d.call("cuDeviceGetCount", uintptr(unsafe.Pointer(n))); err != nil {
		return nil, err
	}
	var list []*Device
	for i := range int(*n) {
		device, err := d.device(i)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		list = append(list, device)
	}
	return list, nil
}

func (d *Driver) device(ordinal int) (*Device, error) {
	handle, size := new(int32), new(uint64)
	name, bus := make([]byte, 128), make([]byte, 32)
	if err := d.call("cuDeviceGet", uintptr(unsafe.Pointer(handle)), uintptr(ordinal)); err != nil {
		return nil, err
	}
	if err := d.call("cuDeviceGetName", uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)),
		uintptr(*handle)); err != nil {
		return nil, err
	}
	if err := d.call("cuDeviceTotalMem_v2", uintptr(unsafe.Pointer(size)), uintptr(*handle)); err != nil {
		return nil, err
	}
	if err := d.call("cuDeviceGetPCIBusId", uintptr(unsafe.Pointer(&bus[0])), uintptr(len(bus)),
		uintptr(*handle)); err != nil {
		return nil, err
	}
	return &Device{driver: d, handle: *handle, Ordinal: ordinal, Name: text(name), Bytes: *size, BusID: text(bus)}, nil
}

// text returns the C string in a buffer.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// PeakBandwidth returns the published bandwidth of the device memory in GB/s: the width of its bus, at two bits per
// clock and line. It is 0 if the driver does not report them.
func (d *Device) PeakBandwidth() float64 {
	kHz, noClock := d.Get(MemoryClock)
	bits, noBits := d.Get(MemoryBusBits)
	if noClock != nil || noBits != nil {
		return 0
	}
	return 2 * float64(kHz) * 1e3 * float64(bits) / 8 / 1e9
}

// Driver returns the device's driver.
func (d *Device) Driver() *Driver { return d.driver }

// Get returns the value of an attribute.
func (d *Device) Get(a Attribute) (int, error) {
	value := new(int32)
	err := d.driver.call("cuDeviceGetAttribute", uintptr(unsafe.Pointer(value)), uintptr(a), uintptr(d.handle))
	return int(*value), err
}

// Has reports whether the driver knows an attribute and it is not 0.
func (d *Device) Has(a Attribute) bool {
	v, err := d.Get(a)
	return err == nil && v != 0
}

// Compute returns the device's compute capability: 90 means 9.0.
func (d *Device) Compute() (int, error) {
	major, err := d.Get(ComputeMajor)
	if err != nil {
		return 0, err
	}
	minor, err := d.Get(ComputeMinor)
	return 10*major + minor, err
}

// Mode returns the compute mode, spelled as nvidia-smi does.
func (d *Device) Mode() string {
	mode, err := d.Get(ComputeMode)
	names := []string{"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"}
	if err != nil || mode < 0 || mode >= len(names) {
		return "unknown"
	}
	return names[mode]
}

// Reaches reports whether the device can read and write the memory of another.
func (d *Device) Reaches(peer *Device) (bool, error) {
	can := new(int32)
	err := d.driver.call("cuDeviceCanAccessPeer", uintptr(unsafe.Pointer(can)), uintptr(d.handle), uintptr(peer.handle))
	return *can != 0, err
}

// Context is a device's primary context in this process, with the kernels that were loaded in it.
type Context struct {
	driver *Driver
	device *Device
	handle uintptr

	mu      sync.Mutex // guards modules
	modules map[source]*module
}

// Context retains the device's primary context. Close releases it.
func (d *Device) Context() (*Context, error) {
	handle := new(uintptr)
	if err := d.driver.call("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(handle)), uintptr(d.handle)); err != nil {
		return nil, err
	}
	return &Context{driver: d.driver, device: d, handle: *handle, modules: map[source]*module{}}, nil
}

// contexts are the contexts of this process that OpenGPU has opened, by GPU.
var contexts = struct {
	sync.Mutex
	open map[int]*Context
}{open: map[int]*Context{}}

// ErrNoGPU is the error if the driver offers no GPU to this process.
var ErrNoGPU = errors.New("it offers no GPU to this process")

// OpenGPU returns the context of a GPU of this process, which all callers share. If there are fewer GPUs, several
// numbers have the same one.
func OpenGPU(number int) (*Context, error) {
	driver, err := Open()
	if err != nil {
		return nil, err
	}
	list, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%v: %w", driver, ErrNoGPU)
	}
	d := list[number%len(list)]
	contexts.Lock()
	defer contexts.Unlock()
	c := contexts.open[d.Ordinal]
	if c == nil {
		if c, err = d.Context(); err == nil {
			contexts.open[d.Ordinal] = c
		}
	}
	return c, err
}

// CloseGPUs closes the contexts that OpenGPU has returned. Nothing may use them any more.
func CloseGPUs() {
	contexts.Lock()
	defer contexts.Unlock()
	for ordinal, c := range contexts.open {
		_ = c.Close() // the process is about to end
		delete(contexts.open, ordinal)
	}
}

// Device returns the context's device.
func (c *Context) Device() *Device { return c.device }

// Close releases the context. Nothing that belongs to it may be used afterwards.
func (c *Context) Close() error {
	return c.driver.call("cuDevicePrimaryCtxRelease_v2", uintptr(c.device.handle))
}

// EnablePeer lets the current context access the memory of another device. See [Device.Reaches].
func (c *Context) EnablePeer(peer *Context) error {
	err := c.driver.call("cuCtxEnablePeerAccess", peer.handle, 0)
	if Code(err) == codeAlreadyEnabled {
		return nil
	}
	return err
}

// Do runs f on a thread where the context is current.
func (c *Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.driver.call("cuCtxSetCurrent", c.handle); err != nil {
		return err
	}
	return f()
}
