package probe

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// allowedCores lists the cores that the control group leaves to this process,
// at most as many as its quota, if it has one. The binding of the process itself
// does not count: asking for every core on one thread shows what the kernel
// grants.
func allowedCores(quota float64) ([]int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, every, granted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("reading the thread's cores: %w", err)
	}
	for i := range every {
		every[i] = ^every[i]
	}
	if err := unix.SchedSetaffinity(0, &every); err != nil {
		return nil, fmt.Errorf("asking for every core: %w", err)
	}
	err := unix.SchedGetaffinity(0, &granted)
	if back := unix.SchedSetaffinity(0, &before); err == nil {
		err = back
	}
	if err != nil {
		return nil, fmt.Errorf("reading the allowed cores: %w", err)
	}
	most := granted.Count()
	if quota > 0 {
		most = max(1, min(most, int(quota)))
	}
	cores := make([]int, 0, most)
	for i := 0; len(cores) < most; i++ {
		if granted.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores, nil
}

// bindThread binds the calling thread to one core.
func bindThread(core int) error {
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("binding to core %d: %w", core, err)
	}
	return nil
}
