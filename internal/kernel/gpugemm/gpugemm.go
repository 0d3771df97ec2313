// Package gpugemm multiplies matrices on an NVIDIA GPU, as providers of package gemm:
// cuBLASLt, which is opened at run time, and kernels of our own, which need the driver
// alone. Importing it registers them for the backend "cuda".
//
// An engine keeps the operands in the GPU's memory and times products by the GPU's own
// events, many in a row, so that the time of a launch does not count. The operands of
// successive products are copies that together are larger than the GPU's cache, where that
// is possible. B lies by columns, as the weights of a layer do. The result is f32.
//
// The kernels are CUDA C++ (*.cu) that was compiled once to PTX, which is embedded; `make
// ptx` renews it.
package gpugemm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Backend is the backend whose rows these providers make.
const Backend = "cuda"

func init() {
	gemm.Register(Backend, builtin{}, library{name: "cublaslt"}, library{name: "cublaslt-exhaustive", exhaustive: true})
}

// device is the GPU as this process uses it.
type device struct {
	*cuda.Context
	compute, multiprocessors, cache int

	mu      sync.Mutex
	modules map[string]*cuda.Module
	peaks   map[dtype.DType]*peak
}

// openDevice opens the first GPU of this process, once.
var openDevice = sync.OnceValues(func() (*device, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	list, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%v has no GPU for this process", driver)
	}
	c, err := list[0].Context()
	if err != nil {
		return nil, err
	}
	return deviceOf(c)
})

func deviceOf(c *cuda.Context) (*device, error) {
	d := &device{Context: c, modules: map[string]*cuda.Module{}, peaks: map[dtype.DType]*peak{}}
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

// open opens the GPU for a provider; that there is none is a [gemm.MissingError].
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

// kernel gives a kernel of a file of PTX, which the driver compiles when it is first asked for.
func (d *device) kernel(file, name string) (*cuda.Kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.modules[file]
	if m == nil {
		ptx, err := files.ReadFile("ptx/" + file + ".ptx")
		if err != nil {
			return nil, err
		}
		if m, err = d.Load(file, ptx); err != nil {
			return nil, err
		}
		d.modules[file] = m
	}
	return m.Kernel(name)
}

// stopwatch is a stream with the events to time its work by.
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

// time is how many microseconds the device takes for what start starts.
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
