package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// ManagementVariable names the environment variable with another file to open instead of NVML.
const ManagementVariable = "KERNBENCH_NVML_LIB"

var managementSpec = dynlib.Register(dynlib.Spec{Name: "NVML", Sonames: []string{"libnvidia-ml.so.1"},
	Env:  ManagementVariable,
	Hint: "it comes with the GPU driver"})

// management is NVML, which reads a GPU's sensors. It is only read from.
type management struct {
	handleByBus, clock, power, temperature, errorString dynlib.Func
	// optional holds functions by name that some drivers and some kinds of virtual GPU lack.
	optional map[string]dynlib.Func
}

// optionalManagement are the functions for [Device.Use] and [Installed].
var optionalManagement = []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization",
	"nvmlSystemGetProcessName", "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCount_v2",
	"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetName"}

var openManagement = sync.OnceValues(func() (*management, error) {
	lib, err := dynlib.Open(managementSpec)
	if err != nil {
		return nil, err
	}
	m := &management{optional: map[string]dynlib.Func{}}
	for _, name := range optionalManagement {
		var f dynlib.Func
		if lib.Bind(map[string]*dynlib.Func{name: &f}) == nil {
			m.optional[name] = f
		}
	}
	var start dynlib.Func
	if err := lib.Bind(map[string]*dynlib.Func{"nvmlInit_v2": &start, "nvmlDeviceGetHandleByPciBusId_v2": &m.handleByBus,
		"nvmlDeviceGetClockInfo": &m.clock, "nvmlDeviceGetPowerUsage": &m.power, "nvmlDeviceGetTemperature": &m.temperature,
		"nvmlErrorString": &m.errorString}); err != nil {
		return nil, err
	}
	return m, m.check("nvmlInit", start.Call())
})

func (m *management) check(call string, result uintptr) error {
	code := int(int32(result))
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s (%d)", call, dynlib.String(m.errorString.Call(uintptr(code))), code)
}

// Readings are the values of a GPU's sensors.
type Readings struct {
	ProcessorMHz, MemoryMHz int
	Watts                   float64
	Celsius                 int
}

func (r Readings) String() string {
	return fmt.Sprintf("%d MHz, memory %d MHz, %.0f W, %d °C", r.ProcessorMHz, r.MemoryMHz, r.Watts, r.Celsius)
}

// The clocks, as NVML numbers them.
const (
	clockProcessor = 1
	clockMemory    = 2
)

// Read reads the device's sensors.
func (d *Device) Read() (Readings, error) {
	m, err := openManagement()
	if err != nil {
		return Readings{}, err
	}
	bus, handle := append([]byte(d.BusID), 0), new(uintptr)
	err = m.check("nvmlDeviceGetHandleByPciBusId",
		m.handleByBus.Call(uintptr(unsafe.Pointer(&bus[0])), uintptr(unsafe.Pointer(handle))))
	runtime.KeepAlive(bus)
	if err != nil {
		return Readings{}, err
	}
	v := make([]uint32, 4)
	for _, err := range []error{
		m.check("nvmlDeviceGetClockInfo", m.clock.Call(*handle, clockProcessor, uintptr(unsafe.Pointer(&v[0])))),
		m.check("nvmlDeviceGetClockInfo", m.clock.Call(*handle, clockMemory, uintptr(unsafe.Pointer(&v[1])))),
		m.check("nvmlDeviceGetPowerUsage", m.power.Call(*handle, uintptr(unsafe.Pointer(&v[2])))),
		m.check("nvmlDeviceGetTemperature", m.temperature.Call(*handle, 0, uintptr(unsafe.Pointer(&v[3])))),
	} {
		if err != nil {
			return Readings{}, err
		}
	}
	return Readings{int(v[0]), int(v[1]), float64(v[2]) / 1000, int(v[3])}, nil
}

// Observe describes the current readings.
func (d *Device) Observe() (string, error) {
	r, err := d.Read()
	if err != nil {
		return "", err
	}
	return r.String(), nil
}
