package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/dist/devicegroup"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/mps"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// TurnsVariable, if set, allows ranks to share a GPU without MPS.
const TurnsVariable = "KERNBENCH_CUDA_TAKE_TURNS"

// process is the state that all groups of this process share.
type process struct {
	mu      sync.Mutex      // guards the fields below
	daemon  *mps.Daemon     // nil unless this process started one
	opened  bool            // the driver is open, and no longer reads its environment variables
	devices map[int]*device // by ordinal
}

var thisProcess = &process{devices: map[int]*device{}}

// device is a GPU with this process's context and measured speeds.
type device struct {
	*cuda.Context
	ordinal         int
	multiprocessors int
	copyProbe       probe
	cacheProbes     [gpu.MaxRanks]probe // by the number of readers of the same data, minus one
}

// startMPS returns the pipe directory of an MPS daemon, so that ranks can share a GPU. Only one rank
// passes start, and starts a daemon if there is none; it tells the others the directory. The result is
// "" for the other ranks, and if taking turns is allowed.
func (p *process) startMPS(start bool) (dir string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir := os.Getenv(mps.PipeVariable); dir != "" {
		return dir, nil // a daemon of the user or of an earlier group
	}
	if os.Getenv(TurnsVariable) != "" || !start {
		return "", nil
	}
	if p.opened {
		return "", errors.New("the driver has already been opened without MPS")
	}
	if p.daemon, err = mps.Start(); err != nil {
		return "", fmt.Errorf("ranks that share a GPU need MPS, without which their kernels take turns "+
			"(%s=1 allows that): %w", TurnsVariable, err)
	}
	return p.daemon.Pipes, nil
}

// useMPS sets the pipe directory for the driver of this process, which must not be open yet.
func (p *process) useMPS(pipes string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pipes == "" || os.Getenv(mps.PipeVariable) == pipes {
		return nil
	}
	return setenv(mps.PipeVariable, pipes)
}

// setenv sets an environment variable both in Go and in the C library. The driver reads the C library's
// copy, which os.Setenv does not change.
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
		return fmt.Errorf("setting the environment variable %s failed", name)
	}
	return nil
}

// loadingVariable selects when the driver loads kernels to the GPU. By default it does so at their first
// launch, and that load may wait for running kernels. This would be a deadlock if these belong to other
// ranks on the same GPU and wait for the kernel that is being launched. So openDevice sets it to EAGER.
const loadingVariable = "CUDA_MODULE_LOADING"

// openDevice opens the GPU of a rank.
func (p *process) openDevice(rank int) (*device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = true
	if os.Getenv(loadingVariable) == "" {
		if err := setenv(loadingVariable, "EAGER"); err != nil {
			return nil, err
		}
	}
	c, err := devicegroup.OpenGPU(rank)
	if err != nil {
		return nil, err
	}
	ordinal := c.Device().Ordinal
	if d := p.devices[ordinal]; d != nil {
		return d, nil
	}
	d := &device{Context: c, ordinal: ordinal}
	if d.multiprocessors, err = c.Device().Get(cuda.Multiprocessors); err != nil {
		return nil, err
	}
	p.devices[ordinal] = d
	return d, nil
}

// kernel returns a kernel. oneGPU selects flags with the memory scope of one GPU.
func (d *device) kernel(a gpu.Algorithm, name string, oneGPU bool) (k *cuda.Kernel, err error) {
	err = d.Do(func() (err error) { k, err = d.Kernel(gpu.Files(oneGPU), a.File(), name); return err })
	return k, err
}

// stopMPS stops the MPS daemon that this process has started, if any. The GPUs are closed first, because
// their contexts are clients of the daemon.
func (p *process) stopMPS() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.daemon == nil {
		return nil
	}
	d := p.daemon
	p.daemon = nil
	cuda.CloseGPUs()
	return d.Stop()
}
