// Package cores knows the cores this process may use, divides them among the ranks
// it starts, and binds threads to them. What the machine has is in package hostinfo.
package cores

// Bind is how ranks are bound to cores.
type Bind string

const (
	Auto Bind = "auto" // an equal share of the cores each, when there are enough
	Core Bind = "core" // as many cores as threads, one by default
	None Bind = "none" // wherever the kernel chooses
)

// Binds are the words for them.
func Binds() []string { return []string{string(Auto), string(Core), string(None)} }

// ThreadVars are the variables by which common libraries are told how many
// threads a rank may use.
var ThreadVars = []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}

// Share divides the cores among the ranks. Neighbouring ranks get neighbouring
// cores; a rank never shares a core with another. When that is impossible (more
// ranks than cores), or not wanted, it returns nil and the kernel decides.
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
