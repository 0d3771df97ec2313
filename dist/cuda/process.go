package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/mps"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// TurnsVariable allows ranks to share a GPU without MPS.
const TurnsVariable = "KERNBENCH_CUDA_TAKE_TURNS"

// process is what all groups of this process share.
type process struct {
	mu      sync.Mutex
	daemon  *mps.Daemon
	opened  bool // the driver reads its variables only once
	devices map[int]*device
}

var thisProcess = &process{devices: map[int]*device{}}

// device is a GPU as this process uses it.
type device struct {
	*cuda.Context
	ordinal         int
	multiprocessors int
	copies          probe
	caches          [gpu.MaxRanks]probe // by how many read the same, less one

	mu      sync.Mutex
	modules map[moduleKey]module
}

// moduleKey is a file, and whether its flags are those of one GPU.
type moduleKey struct {
	file string
	near bool
}

// module is the kernels of a file, or why this driver does not take them.
type module struct {
	*cuda.Module
	err error
}

// share sees to it that ranks which share a GPU can work at the same time. The rank
// that starts the daemon tells the others where it is.
func (p *process) share(start bool) (dir string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir := os.Getenv(mps.PipeVariable); dir != "" {
		return dir, nil // the user's, or that of an earlier group
	}
	if os.Getenv(TurnsVariable) != "" || !start {
		return "", nil
	}
	if p.opened {
		return "", errors.New("the driver is open already, without MPS")
	}
	if p.daemon, err = mps.Start(); err != nil {
		return "", fmt.Errorf("ranks that share a GPU need MPS, without which their kernels take turns (%s=1 allows that): %w", TurnsVariable, err)
	}
	return p.daemon.Pipes, nil
}

// use tells the driver of this process where the daemon is.
func (p *process) use(pipes string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pipes == "" || os.Getenv(mps.PipeVariable) == pipes {
		return nil
	}
	return setenv(mps.PipeVariable, pipes)
}

// setenv sets a variable for the driver, which asks the C library: that does not see what Go
// sets.
func setenv(name, value string) error {
	os.Setenv(name, value)
	lib, err := dynlib.Open(dynlib.Spec{Name: "the C library", Sonames: []string{"libc.so.6"}})
	if err != nil {
		return err
	}
	var set dynlib.Func
	if err := lib.Bind(map[string]*dynlib.Func{"setenv": &set}); err != nil {
		return err
	}
	key, text := append([]byte(name), 0), append([]byte(value), 0)
	if set.Call(uintptr(unsafe.Pointer(&key[0])), uintptr(unsafe.Pointer(&text[0])), 1) != 0 {
		return fmt.Errorf("setting %s did not work", name)
	}
	return nil
}

// loadingVariable tells the driver when to bring kernels to the GPU: at their first start, unless told
// otherwise. That may wait for kernels that run, and these, of other ranks on the same GPU, for the kernel that
// is to start.
const loadingVariable = "CUDA_MODULE_LOADING"

// open gives the GPU of a rank.
func (p *process) open(rank int) (*device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = true
	if os.Getenv(loadingVariable) == "" {
		if err := setenv(loadingVariable, "EAGER"); err != nil {
			return nil, err
		}
	}
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
	ordinal := rank % len(list)
	if d := p.devices[ordinal]; d != nil {
		return d, nil
	}
	c, err := list[ordinal].Context()
	if err != nil {
		return nil, err
	}
	d := &device{Context: c, ordinal: ordinal, modules: map[moduleKey]module{}}
	if d.multiprocessors, err = list[ordinal].Get(cuda.Multiprocessors); err != nil {
		return nil, err
	}
	p.devices[ordinal] = d
	return d, nil
}

// kernel gives a kernel, compiled when it is first asked for. A file that the driver
// refuses takes only its own algorithms away. near: its flags are those of this GPU alone.
func (d *device) kernel(a gpu.Algorithm, name string, near bool) (*cuda.Kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := moduleKey{a.File(), near}
	m, known := d.modules[key]
	if !known {
		var ptx []byte
		if ptx, m.err = a.PTX(); m.err == nil {
			if near {
				ptx = gpu.OnOneGPU(ptx)
			}
			m.Module, m.err = d.Load(a.File(), ptx)
		}
		d.modules[key] = m
	}
	if m.err != nil {
		return nil, m.err
	}
	return m.Kernel(name)
}

func (p *process) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.daemon == nil {
		return nil
	}
	d := p.daemon
	p.daemon = nil
	for _, device := range p.devices { // clients first
		_ = device.Close()
	}
	return d.Stop()
}
