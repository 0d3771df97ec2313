package gpugemm

import (
	"cmp"
	"embed"
	"fmt"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

//go:embed *.cu *.cuh ptx/*.ptx
var files embed.FS

// Params is the argument of every kernel and mirrors params.cuh.
type Params struct {
	MapA, MapB                cuda.TensorMap
	A, B, C                   cuda.Pointer
	M, N, K                   uint32
	StrideA, StrideB, StrideC uint32
	Rounds, Stages, Ahead     uint32
	Share, Once               uint32
	UnitRows, UnitCols        uint32
	Steps, Longer             uint32
	Scale                     float32
	_                         [5]uint64 // padding to the alignment of the tensor maps
}

// The size of a block's tile, and the requirements, of the general kernel. It is for GPUs other than Hopper.
const (
	generalFile    = "gemm80"
	generalRows    = 128
	generalCols    = 128
	generalThreads = 256
	generalShared  = 4 * (generalRows + generalCols) * 32 * 2
	generalCompute = 80
)

// stepK divides the k of every product, and stepE4M3 of every product of e4m3.
const (
	stepK    = 64
	stepE4M3 = 128
)

// builtin is the provider of the built-in kernels.
type builtin struct{}

func (builtin) Name() string         { return "builtin" }
func (builtin) Help() string         { return "kernbench's own GPU kernels, which need only the driver" }
func (builtin) Types() []dtype.DType { return []dtype.DType{dtype.BF16, dtype.E4M3} }

func (p builtin) Open(threads int) (gemm.Engine, error) {
	d, err := open(threads)
	if err != nil {
		return nil, err
	}
	k, err := builtinOn(d)
	if err != nil {
		return nil, err
	}
	return newEngine(d, p.Types(), k)
}

// builtinOn returns the kernels that the GPU and its driver support.
func builtinOn(d *device) (*kernels, error) {
	if d.compute < generalCompute {
		return nil, &gemm.MissingError{Reason: fmt.Errorf("%s has compute capability %d.%d: the kernels need 8.0",
			d.Device().Name, d.compute/10, d.compute%10)}
	}
	k := &kernels{device: d}
	if d.compute == tileCompute {
		err := d.Do(func() error { _, err := d.tileKernel(usualTiles); return err })
		if err == nil {
			k.tiled = true
			return k, nil
		}
		k.refused = err // the driver may still accept the general kernel
	}
	err := d.Do(func() error { _, err := k.general(); return err })
	if err != nil {
		return nil, &gemm.MissingError{Reason: err}
	}
	return k, nil
}

// kernels is the multiplier that runs the built-in kernels.
type kernels struct {
	device   *device
	tiled    bool  // the driver accepts the kernels for Hopper
	refused  error // why the driver rejected faster kernels
	launches []*cuda.Launch
	plan     plan  // of the prepared product; nil for the general kernel
	noPlan   error // why the best plan was not taken
}

func (k *kernels) String() string {
	if k.tiled {
		return "builtin kernels for Hopper"
	}
	return "builtin " + generalFile
}

func (k *kernels) padding(operand dtype.DType) padding {
	if operand == dtype.E4M3 {
		return padding{rows: 1, k: stepE4M3, ldc: 4}
	}
	return padding{rows: 1, k: stepK, ldc: 4}
}

func (k *kernels) prepare(p problem, at []place, _ *stopwatch, _ bool) error {
	k.launches, k.plan, k.noPlan = k.launches[:0], nil, nil
	if k.tiled {
		return k.prepareBest(p, at)
	}
	if p.operand != dtype.BF16 {
		return &gemm.MissingError{Reason: fmt.Errorf(
			"builtin multiplies %v only on GPUs of compute capability 9.0: %s has %d.%d", p.operand, k.device.name,
			k.device.compute/10, k.device.compute%10)}
	}
	kernel, err := k.general()
	if err != nil {
		return err
	}
	blocks := (p.m + generalRows - 1) / generalRows * ((p.n + generalCols - 1) / generalCols)
	for _, here := range at {
		params := p.params(here)
		k.launches = append(k.launches, cuda.NewLaunch(kernel, blocks, generalThreads, generalShared, false, &params))
	}
	return nil
}

// general returns the general kernel.
func (k *kernels) general() (*cuda.Kernel, error) {
	kernel, err := k.device.kernel(generalFile, generalFile+"_bf16")
	if err != nil {
		return nil, err
	}
	return kernel, kernel.AllowShared(generalShared)
}

// params returns what every kernel needs to know about a product.
func (p problem) params(at place) Params {
	return Params{A: at.a, B: at.b, C: at.c, M: uint32(p.m), N: uint32(p.n), K: uint32(p.k), StrideA: uint32(p.k),
		StrideB: uint32(p.k), StrideC: uint32(p.ldc), Scale: p.scale}
}

func (k *kernels) start(at int, s *cuda.Stream) error { return k.launches[at].Start(s) }

func (k *kernels) details() map[string]string {
	all := map[string]string{"algorithm": generalFile, "library": k.device.Device().Driver().String()}
	if k.plan != nil {
		all["algorithm"] = k.plan.String()
	}
	if refused := cmp.Or(k.noPlan, k.refused); refused != nil {
		all["refused"] = refused.Error()
	}
	return all
}

func (k *kernels) close() error { return nil }
