// Package cores lists the cores that this process may use, divides them among the ranks of a
// launch, and binds threads to them. Package hostinfo describes all cores of the machine.
package cores

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bind is a policy of binding ranks to cores.
type Bind string

const (
	Auto Bind = "auto" // an equal share of the cores for each rank, if there are enough
	Core Bind = "core" // as many cores as the rank has threads, one by default
	None Bind = "none" // no binding
)

// Binds lists the policies.
func Binds() []string { return []string{string(Auto), string(Core), string(None)} }

// ThreadVars are the environment variables that limit the threads of common libraries.
var ThreadVars = []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}

// Share returns the cores of each rank. Neighbouring ranks get neighbouring cores, and no core
// belongs to two ranks. It returns nil, which means no binding, if there are more ranks than
// cores or bind is None.
func Share(cores []int, ranks, threads int, bind Bind) [][]int {
	if bind == None || ranks > len(cores) || len(cores) == 0 {
		return nil
	}
	out := make([][]int, ranks)
	for i := range out {
		lo, hi := i*len(cores)/ranks, (i+1)*len(cores)/ranks
		if bind == Core {
			hi = min(hi, lo+max(threads, 1))
		}
		out[i] = cores[lo:hi]
	}
	return out
}

// Allowed returns the cores that this process may use, or nil if the kernel does not report them.
func Allowed() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	return list(&set)
}

// Granted returns the cores that the control group grants to this process, even if the process is bound to fewer. It
// temporarily binds a thread to all cores and reads back the result.
func Granted() ([]int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var every, granted unix.CPUSet
	for i := range every {
		every[i] = ^every[i]
	}
	restore, err := bind(&every)
	if err != nil {
		return nil, fmt.Errorf("binding to all cores: %w", err)
	}
	defer restore()
	if err := unix.SchedGetaffinity(0, &granted); err != nil {
		return nil, fmt.Errorf("reading the granted cores: %w", err)
	}
	return list(&granted), nil
}

// BindThread binds the calling thread, and the processes that it starts, to the cores, until
// restore is called. Without cores it does nothing. The caller must have locked the goroutine
// to its thread.
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

// BindProcess binds all threads of this process to the cores until restore is called.
func BindProcess(cores ...int) (restore func(), err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, fmt.Errorf("listing the threads of this process: %w", err)
	}
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	before := map[int]unix.CPUSet{}
	restore = func() {
		for id, old := range before {
			unix.SchedSetaffinity(id, &old) // a thread that has ended needs none
		}
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		var old unix.CPUSet
		if unix.SchedGetaffinity(id, &old) != nil {
			continue // the thread has ended
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil {
			restore()
			return nil, fmt.Errorf("binding this process to cores %v: %w", cores, err)
		}
		before[id] = old
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
