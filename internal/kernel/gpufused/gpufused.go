// Package gpufused holds the kernels that overlap a matrix product on an NVIDIA GPU with
// the all-reduce of its result: CUDA C++ sources and the PTX made of them once (`make ptx`).
//
// There are two ways. As parts, a partition that was multiplied is added up by kernels of
// its own: a gate, at which the ranks meet, and the sums. As one kernel, a block multiplies
// tiles of other ranks, which it signals to them, and of its own, to which it adds what these
// have signalled; its product is the one of package gpugemm, whose headers it includes.
package gpufused

import (
	"embed"
	"fmt"

	"github.com/kernbench/kernbench/internal/host/cuda"
)

//go:embed *.cu *.cuh ptx/*.ptx
var files embed.FS

// MaxRanks is the most ranks that the kernels serve.
const MaxRanks = 16

// Options of the one kernel, for its halves alone.
const (
	NoProduct = 1 << iota
	NoSum
)

// Params is the argument of every kernel; see fused.cuh, which it mirrors.
type Params struct {
	C, Flags          [MaxRanks]uint64 // by rank
	Failure           uint64
	LimitNS           uint64 // of one wait
	First, Packs      uint64 // of C, 16 bytes each
	A, B              cuda.Pointer
	Rank, Size, Epoch uint32
	Options           uint32
	M, N, K           uint32
	StrideA, StrideB  uint32
	StrideC           uint32
	Arrived           uint32    // tiles, before this launch
	_                 [9]uint32 // up to a multiple of what maps are aligned to
	MapA, MapB        cuda.TensorMap
}

// The shapes of launches.
const (
	GateThreads = 32
	SumThreads  = 512
)

// Kernel is a kernel and the file that it is in.
type Kernel struct{ File, Name string }

// Gate is where ranks meet. Dependent kernels may be started before the end of the one in
// front of them; they need compute capability 9.0.
func Gate(dependent bool) Kernel { return partKernel("gate", "all", dependent) }

// Sum adds up a partition.
func Sum(ranks int, dependent bool) Kernel { return partKernel("sum", "f32_"+suffix(ranks), dependent) }

func partKernel(name, suffix string, dependent bool) Kernel {
	compute := "80"
	if dependent {
		compute = "90"
	}
	return Kernel{"parts" + compute, name + compute + "_" + suffix}
}

// suffix is that of the kernel for a number of ranks; 2, 4 and 8 have their own.
func suffix(ranks int) string {
	if ranks == 2 || ranks == 4 || ranks == 8 {
		return fmt.Sprint(ranks)
	}
	return "any"
}

// Load has the driver compile the kernel's file, unless it is among the modules.
func (k Kernel) Load(c *cuda.Context, modules map[string]*cuda.Module) (*cuda.Kernel, error) {
	m := modules[k.File]
	if m == nil {
		ptx, err := files.ReadFile("ptx/" + k.File + ".ptx")
		if err != nil {
			return nil, err
		}
		if m, err = c.Load(k.File, ptx); err != nil {
			return nil, err
		}
		modules[k.File] = m
	}
	return m.Kernel(k.Name)
}
