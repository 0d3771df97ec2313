package cuda

import (
	"bytes"
	"fmt"
	"unsafe"
)

// Attribute is a number that the driver knows of a device.
type Attribute int

// The attributes that are asked for here, as numbered by the driver.
const (
	ClockRate         Attribute = 13 // kHz
	Multiprocessors   Attribute = 16
	ComputeMode       Attribute = 20
	L2Bytes           Attribute = 38
	ComputeMajor      Attribute = 75
	ComputeMinor      Attribute = 76
	CooperativeLaunch Attribute = 95
	FileHandles       Attribute = 103 // memory shared by file descriptors
	Multicast         Attribute = 132
	SharedByMPS       Attribute = 133 // drivers before 12.0 do not know it
)

// Device is a GPU.
type Device struct {
	driver  *Driver
	handle  int32
	Ordinal int
	Name    string
	Bytes   uint64 // of memory
	BusID   string // of PCI, such as 0000:0b:00.0
}

// Devices lists the GPUs that this process may use.
func (d *Driver) Devices() ([]*Device, error) {
	n := new(int32)
	if err := d.check("cuDeviceGetCount", d.f.deviceGetCount.Call(uintptr(unsafe.Pointer(n)))); err != nil {
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
	if err := d.check("cuDeviceGet", d.f.deviceGet.Call(uintptr(unsafe.Pointer(handle)), uintptr(ordinal))); err != nil {
		return nil, err
	}
	if err := d.check("cuDeviceGetName",
		d.f.deviceGetName.Call(uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), uintptr(*handle))); err != nil {
		return nil, err
	}
	if err := d.check("cuDeviceTotalMem",
		d.f.deviceTotalMem.Call(uintptr(unsafe.Pointer(size)), uintptr(*handle))); err != nil {
		return nil, err
	}
	if err := d.check("cuDeviceGetPCIBusId",
		d.f.deviceGetPCIBusID.Call(uintptr(unsafe.Pointer(&bus[0])), uintptr(len(bus)), uintptr(*handle))); err != nil {
		return nil, err
	}
	return &Device{driver: d, handle: *handle, Ordinal: ordinal, Name: text(name), Bytes: *size, BusID: text(bus)}, nil
}

func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// Driver is the driver that the device belongs to.
func (d *Device) Driver() *Driver { return d.driver }

// Get gives an attribute.
func (d *Device) Get(a Attribute) (int, error) {
	value := new(int32)
	err := d.driver.check("cuDeviceGetAttribute",
		d.driver.f.deviceGetAttribute.Call(uintptr(unsafe.Pointer(value)), uintptr(a), uintptr(d.handle)))
	return int(*value), err
}

// Has tells whether an attribute is there and not 0.
func (d *Device) Has(a Attribute) bool {
	v, err := d.Get(a)
	return err == nil && v != 0
}

// Compute is the device's compute capability: 90 is 9.0.
func (d *Device) Compute() (int, error) {
	major, err := d.Get(ComputeMajor)
	if err != nil {
		return 0, err
	}
	minor, err := d.Get(ComputeMinor)
	return 10*major + minor, err
}

// Mode is the compute mode in the words of nvidia-smi.
func (d *Device) Mode() string {
	mode, err := d.Get(ComputeMode)
	names := []string{"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"}
	if err != nil || mode < 0 || mode >= len(names) {
		return "unknown"
	}
	return names[mode]
}

// Reaches tells whether the device can read and write the memory of another.
func (d *Device) Reaches(peer *Device) (bool, error) {
	can := new(int32)
	err := d.driver.check("cuDeviceCanAccessPeer",
		d.driver.f.deviceCanAccessPeer.Call(uintptr(unsafe.Pointer(can)), uintptr(d.handle), uintptr(peer.handle)))
	return *can != 0, err
}
