package cuda

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"
)

// Installed is a GPU as NVML lists it, without opening the driver.
type Installed struct {
	Name   string
	Bytes  uint64
	handle uintptr
}

// AllInstalled lists the GPUs of this host that NVML can see, including GPUs that this process
// must not use. The list is empty if NVML is missing or too old.
func AllInstalled() (list []Installed) {
	m, err := openManagement()
	if err != nil {
		return nil
	}
	n := new(uint32)
	if !m.ask("nvmlDeviceGetCount_v2", uintptr(unsafe.Pointer(n))) {
		return nil
	}
	for i := range *n {
		handle, name, bytes := new(uintptr), make([]byte, 96), make([]uint64, 3)
		if m.ask("nvmlDeviceGetHandleByIndex_v2", uintptr(i), uintptr(unsafe.Pointer(handle))) &&
			m.ask("nvmlDeviceGetMemoryInfo", *handle, uintptr(unsafe.Pointer(&bytes[0]))) &&
			m.ask("nvmlDeviceGetName", *handle, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name))) {
			list = append(list, Installed{text(name), bytes[0], *handle})
		}
	}
	return list
}

// ask calls an optional function and reports whether it succeeded.
//
//go:uintptrescapes
func (m *management) ask(name string, args ...uintptr) bool {
	f, ok := m.optional[name]
	return ok && int32(f.Call(args...)) == 0
}

// Process is a program that has a context on a GPU.
type Process struct {
	PID  int
	Name string // base name of the program's file; "" if it is not visible from here
	// Busy is the share of the multiprocessors' time that it used, in per cent; -1 if it is unknown.
	Busy int
}

func (p Process) String() string {
	if p.Name == "" {
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("%s (process %d)", p.Name, p.PID)
}

// Use describes the activity of a GPU at one time.
type Use struct {
	Processes []Process
	Held      Hold
}

// Hold is a set of reasons why a GPU's clock is below its maximum, as NVML's bits.
type Hold uint64

// The reasons that are no fault of the running program: the card is too hot, or its supply is too weak.
// A power cap is different, because a product of large matrices always reaches it.
const (
	HeldByPower   Hold = 0x4
	heldByHeat    Hold = 0x20 | 0x40
	heldBySupply  Hold = 0x8 | 0x80
	heldByAnybody      = HeldByPower | heldByHeat | heldBySupply
)

// Faults returns the reasons other than the power cap, or "".
func (h Hold) Faults() string {
	var list []string
	if h&heldByHeat != 0 {
		list = append(list, "its temperature")
	}
	if h&heldBySupply != 0 {
		list = append(list, "its power supply")
	}
	return strings.Join(list, " and ")
}

// mostProcesses limits the processes and samples that are read.
const mostProcesses = 256

// processInfo is nvmlProcessInfo_t; processUse is nvmlProcessUtilizationSample_t.
type (
	processInfo struct {
		pid                       uint32
		bytes                     uint64
		instance, computeInstance uint32
	}
	processUse struct {
		pid                          uint32
		at                           uint64
		sm, memory, encoder, decoder uint32
	}
)

// Watcher reads the use of GPUs repeatedly.
type Watcher struct {
	m       *management
	devices []Installed
	since   []uint64 // by device: NVML's time of the last sample that was read
}

// NewWatcher returns a watcher of all GPUs of this host, or nil if NVML cannot list their processes.
func NewWatcher() *Watcher {
	devices := AllInstalled()
	if len(devices) == 0 {
		return nil
	}
	m, _ := openManagement()
	return &Watcher{m, devices, make([]uint64, len(devices))}
}

// Read returns the use of all GPUs together since the last call.
func (w *Watcher) Read() (all Use) {
	for i, d := range w.devices {
		bits := new(uint64)
		if w.m.ask("nvmlDeviceGetCurrentClocksThrottleReasons", d.handle, uintptr(unsafe.Pointer(bits))) {
			all.Held |= Hold(*bits) & heldByAnybody
		}
		busy := w.readBusy(i)
		n, list := new(uint32), make([]processInfo, mostProcesses)
		*n = mostProcesses
		if !w.m.ask("nvmlDeviceGetComputeRunningProcesses_v3", d.handle, uintptr(unsafe.Pointer(n)),
			uintptr(unsafe.Pointer(&list[0]))) {
			continue
		}
		for _, p := range list[:min(*n, mostProcesses)] {
			share := -1
			if busy != nil {
				share = busy[p.pid] // idle processes have no samples
			}
			all.Processes = append(all.Processes, Process{int(p.pid), w.name(p.pid), share})
		}
	}
	slices.SortFunc(all.Processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// readBusy returns the highest share of each process that is new since the last call.
func (w *Watcher) readBusy(device int) map[uint32]int {
	// NVML refuses a list that is shorter than its own buffer, whose length it returns if there is no list.
	const function = "nvmlDeviceGetProcessUtilization"
	handle, n := w.devices[device].handle, new(uint32)
	w.m.ask(function, handle, 0, uintptr(unsafe.Pointer(n)), uintptr(w.since[device]))
	if *n == 0 {
		return nil
	}
	list, busy := make([]processUse, *n), map[uint32]int{}
	if !w.m.ask(function, handle, uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(n)),
		uintptr(w.since[device])) {
		return busy // no process has done anything
	}
	for _, u := range list[:min(int(*n), len(list))] {
		busy[u.pid] = max(busy[u.pid], int(min(u.sm, 100)))
		w.since[device] = max(w.since[device], u.at)
	}
	return busy
}

// name returns the base name of a process's program, or "" if it is in another namespace.
func (w *Watcher) name(pid uint32) string {
	name := make([]byte, 256)
	if !w.m.ask("nvmlSystemGetProcessName", uintptr(pid), uintptr(unsafe.Pointer(&name[0])), uintptr(len(name))) {
		return ""
	}
	program, _, _ := strings.Cut(text(name), " ")
	return filepath.Base(program)
}
