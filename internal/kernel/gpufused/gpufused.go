// Package gpufused holds the kernels that overlap a matrix product on an NVIDIA GPU with the
// all-reduce of its result: CUDA C++ sources, and the PTX compiled from them (`make ptx`).
//
// There are two designs. With parts, separate kernels add each partition after it was multiplied: a
// gate, which is a barrier between the ranks, and the sums. The fused kernel (OneKernel) adds in the
// epilogue of the product: a block multiplies tiles owned by other ranks and signals them, and to its
// own tiles it adds what the other ranks have signalled. Its product is the one of package gpugemm,
// whose headers it includes.
package gpufused

import (
	"embed"
	"fmt"

	"github.com/kernbench/kernbench/internal/host/cuda"
)

//go:embed *.cu *.cuh ptx/*.ptx
var files embed.FS

// MaxRanks is the largest number of ranks that the kernels support.
const MaxRanks = 16

// Options of the fused kernel that run only one half of it.
const (
	NoProduct = 1 << iota
	NoSum
)

// Params is the argument of every kernel and mirrors fused.cuh.
type Params struct {
	C, Flags          [MaxRanks]uint64 // by rank
	Failure           uint64
	LimitNS           uint64 // timeout of one wait
	First, Packs      uint64 // packs of C, 16 bytes each
	A, B              cuda.Pointer
	Rank, Size, Epoch uint32
	Options           uint32
	M, N, K           uint32
	StrideA, StrideB  uint32
	StrideC           uint32
	Arrived           uint32    // value of the arrival counter before this launch
	_                 [9]uint32 // padding to the alignment of the tensor maps
	MapA, MapB        cuda.TensorMap
}

// Block sizes of the launches.
const (
	GateThreads = 32
	SumThreads  = 512
)

// Kernel names a kernel and its file.
type Kernel struct{ File, Name string }

// Gate returns the barrier kernel between ranks. Dependent kernels may start before their predecessor
// has ended; they need compute capability 9.0.
func Gate(dependent bool) Kernel { return partKernel("gate", "all", dependent) }

// Sum returns the kernel that adds a partition.
func Sum(ranks int, dependent bool) Kernel { return partKernel("sum", "f32_"+suffix(ranks), dependent) }

func partKernel(name, suffix string, dependent bool) Kernel {
	compute := "80"
	if dependent {
		compute = "90"
	}
	return Kernel{"parts" + compute, name + compute + "_" + suffix}
}

// suffix returns the kernel's suffix for a number of ranks. 2, 4 and 8 ranks have specialised kernels.
func suffix(ranks int) string {
	if ranks == 2 || ranks == 4 || ranks == 8 {
		return fmt.Sprint(ranks)
	}
	return "any"
}

// Load returns the kernel in a context.
func (k Kernel) Load(c *cuda.Context) (*cuda.Kernel, error) { return c.Kernel(files, k.File, k.Name) }
