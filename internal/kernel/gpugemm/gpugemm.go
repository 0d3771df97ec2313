// Package gpugemm multiplies matrices on an NVIDIA GPU. It has two kinds of providers for package
// gemm: cuBLASLt, which is opened at run time, and built-in kernels, which need only the driver.
// Importing it registers them for the backend "cuda".
//
// An engine keeps the operands in GPU memory and times products with CUDA events, many in a row, so
// that launch overhead does not count. Successive products use different copies of the operands, which
// together exceed the L2 cache if memory allows. B is stored by columns, like the weights of a layer.
// The result is f32.
//
// The kernels are CUDA C++ (*.cu), compiled to PTX, which is embedded; `make ptx` renews it.
package gpugemm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Backend is the backend name in the rows of these providers.
const Backend = "cuda"

func init() {
	gemm.Register(Backend, builtin{}, library{name: "cublaslt"}, library{name: "cublaslt-exhaustive", exhaustive: true})
}

// device is the GPU of this process.
type device struct {
	*cuda.Context
	name                            string
	compute, multiprocessors, cache int

	peaks map[dtype.DType]*peak

	mu    sync.Mutex // guards reads
	reads float64    // measured speed of reading memory in GB/s; 0: not measured yet
}

// openDevice opens the process's first GPU, once.
var openDevice = sync.OnceValues(func() (*device, error) {
	c, err := cuda.OpenGPU(0)
	if err != nil {
		return nil, err
	}
	return deviceOf(c)
})

func deviceOf(c *cuda.Context) (*device, error) {
	d := &device{Context: c, name: c.Device().Name, peaks: map[dtype.DType]*peak{}}
	var err error
	for _, need := range []struct {
		to *int
		of cuda.Attribute
	}{{&d.multiprocessors, cuda.Multiprocessors}, {&d.cache, cuda.L2Bytes}} {
		if *need.to, err = c.Device().Get(need.of); err != nil {
			return nil, err
		}
	}
	d.compute, err = c.Device().Compute()
	return d, err
}

// open opens the GPU for a provider. Without a GPU the error is a [gemm.MissingError].
func open(threads int) (*device, error) {
	if threads != 1 {
		return nil, fmt.Errorf("%d threads: a GPU has its own, and one thread starts its work", threads)
	}
	d, err := openDevice()
	if err != nil {
		return nil, &gemm.MissingError{Reason: err}
	}
	return d, nil
}

// kernel returns a kernel of a PTX file, which the driver compiles on first use.
func (d *device) kernel(file, name string) (*cuda.Kernel, error) { return d.Kernel(files, file, name) }

// stopwatch is a stream with two events to time its work.
type stopwatch struct {
	*cuda.Stream
	events [2]*cuda.Event
}

func (d *device) stopwatch() (*stopwatch, error) {
	s, err := d.Stream()
	if err != nil {
		return nil, err
	}
	w := &stopwatch{Stream: s}
	for i := range w.events {
		if w.events[i], err = d.Event(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// time returns how many microseconds the GPU takes for the work that start starts.
func (w *stopwatch) time(start func() error) (us float64, err error) {
	if err := w.events[0].Record(w.Stream); err != nil {
		return 0, err
	}
	if err := start(); err != nil {
		return 0, err
	}
	if err := errors.Join(w.events[1].Record(w.Stream), w.Synchronize()); err != nil {
		return 0, err
	}
	return w.events[1].Since(w.events[0])
}

func (w *stopwatch) close() error {
	return errors.Join(w.events[0].Destroy(), w.events[1].Destroy(), w.Destroy())
}
