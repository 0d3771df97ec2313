// Package gpustream holds the GPU kernels of the bench `bandwidth`: the loops of STREAM, reading and writing alone, and
// a chain of dependent loads. It loads and prepares them; the bench times them and checks the results.
//
// The kernels are CUDA C++ (stream.cu), compiled to PTX, which is embedded; `make ptx` renews it.
package gpustream

import (
	"embed"
	"fmt"

	"github.com/kernbench/kernbench/internal/host/cuda"
)

//go:embed *.cu *.cuh ptx/*.ptx
var files embed.FS

// Params is the argument of every kernel and mirrors params.cuh.
type Params struct {
	A, B, C, Sums cuda.Pointer
	Packs         uint64
	Scalar        float64
	Hops          uint64
}

// Sizes in bytes: of a pack, which is what a thread loads at once, and of a line of a chain.
const (
	PackBytes = 16
	LineBytes = 128
)

const (
	threads           = 512
	blocksPerMultiple = 4 // blocks on a multiprocessor: all that it holds
)

// Kernels are the kernels for a GPU.
type Kernels struct {
	context *cuda.Context
	// Blocks is the number of blocks of a launch, and of sums of [Kernels.Launch] with "read".
	Blocks int
}

// New returns the kernels for a context.
func New(c *cuda.Context) (*Kernels, error) {
	multiprocessors, err := c.Device().Get(cuda.Multiprocessors)
	return &Kernels{c, blocksPerMultiple * multiprocessors}, err
}

// Launch prepares a kernel: read, write, copy, scale, add, triad or chase.
func (k *Kernels) Launch(name string, p *Params) (*cuda.Launch, error) {
	kernel, err := k.context.Kernel(files, "stream", "stream_"+name)
	if err != nil {
		return nil, fmt.Errorf("loop %s: %w", name, err)
	}
	if name == "chase" {
		return cuda.NewLaunch(kernel, 1, 1, 0, false, p), nil
	}
	return cuda.NewLaunch(kernel, k.Blocks, threads, 0, false, p), nil
}
