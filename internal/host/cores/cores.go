// Package cores divides the cores this process may use among the ranks it
// starts. What the machine has is package hostinfo's matter, and binding itself
// is done where processes are started, by package launch.
package cores

import "golang.org/x/sys/unix"

// Bind is how ranks are bound to cores.
type Bind string

const (
	Auto Bind = "auto" // an equal share of the cores each, when there are enough
	Core Bind = "core" // as many cores as threads, one by default
	None Bind = "none" // wherever the kernel likes
)

// Binds are the words for them.
func Binds() []string { return []string{string(Auto), string(Core), string(None)} }

// ThreadVars are the variables by which common libraries are told how many
// threads a rank may use.
var ThreadVars = []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}

// Allowed lists the cores this process may use, nil when the kernel does not tell.
func Allowed() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	cores := make([]int, 0, set.Count())
	for i := 0; len(cores) < set.Count(); i++ {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores
}

// Share divides the cores among the ranks. Neighbouring ranks get neighbouring
// cores; a rank never shares a core with another. When that cannot be (more
// ranks than cores), or nobody wants it, it returns nil and the kernel decides.
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
