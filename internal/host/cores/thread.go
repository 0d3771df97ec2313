package cores

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Allowed lists the cores this process may use, nil when the kernel does not tell.
func Allowed() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	return list(&set)
}

// Granted lists the cores that the control group leaves to this process. The
// binding of the process itself does not count: asking for every core on one thread
// shows what the kernel grants.
func Granted() ([]int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var every, granted unix.CPUSet
	for i := range every {
		every[i] = ^every[i]
	}
	restore, err := bind(&every)
	if err != nil {
		return nil, fmt.Errorf("asking for every core: %w", err)
	}
	defer restore()
	if err := unix.SchedGetaffinity(0, &granted); err != nil {
		return nil, fmt.Errorf("reading the granted cores: %w", err)
	}
	return list(&granted), nil
}

// BindThread binds the calling thread, and so what it starts, to the cores, until
// restore. Without any it does nothing.
func BindThread(cores ...int) (restore func(), err error) {
	if len(cores) == 0 {
		return func() {}, nil
	}
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	if restore, err = bind(&set); err != nil {
		return nil, fmt.Errorf("binding to cores %v: %w", cores, err)
	}
	return restore, nil
}

func bind(set *unix.CPUSet) (restore func(), err error) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	if err := unix.SchedSetaffinity(0, set); err != nil {
		return nil, err
	}
	return func() { unix.SchedSetaffinity(0, &before) }, nil
}

func list(set *unix.CPUSet) []int {
	n := set.Count()
	cores := make([]int, 0, n)
	for i := 0; len(cores) < n; i++ {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores
}
