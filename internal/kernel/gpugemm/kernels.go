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
	_                         uint32
	_                         [8]uint64 // padding to the alignment of the tensor maps
}

// variant is a kernel that multiplies: the size of a block's tile, and its requirements.
type variant struct {
	file                  string
	rows, cols            int // size of a block's tile
	cluster               int // blocks per cluster
	threads, sharedBytes  int
	persistent            bool // the grid has as many blocks as fit, each computing several tiles
	dependent             bool // may start before the previous kernel of the stream has ended
	mapped                bool // uses bulk tensor copies
	boxRowsA, boxRowsB    int  // rows per bulk copy
	leastCompute, compute int  // if compute is not 0, only that capability is supported
}

// variants lists the kernels, the fastest first.
var variants = []variant{
	{file: "gemm90a", rows: 128, cols: 128, cluster: 2, threads: 384, sharedBytes: 6*(128+128)*64*2 + (2*6+12+2)*8,
		persistent: true, dependent: true, mapped: true, boxRowsA: 128, boxRowsB: 64, compute: 90},
	{file: "gemm80", rows: 128, cols: 128, cluster: 1, threads: 256, sharedBytes: 4 * (128 + 128) * 32 * 2,
		leastCompute: 80},
}

// stepK divides the k of every product.
const stepK = 64

// builtin is the provider of the built-in kernels.
type builtin struct{}

func (builtin) Name() string         { return "builtin" }
func (builtin) Help() string         { return "kernbench's own GPU kernels, which need only the driver" }
func (builtin) Types() []dtype.DType { return []dtype.DType{dtype.BF16} }

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

// builtinOn returns the fastest kernel that the GPU and its driver support.
func builtinOn(d *device) (*kernels, error) {
	var refused error
	for _, v := range variants {
		if d.compute < v.leastCompute || v.compute != 0 && d.compute != v.compute {
			continue
		}
		k := &kernels{device: d, variant: v}
		err := d.Do(func() (err error) {
			if k.kernel, err = d.kernel(v.file, v.file+"_bf16"); err != nil {
				return err
			}
			return k.kernel.AllowShared(v.sharedBytes)
		})
		if err == nil {
			k.refused = refused
			return k, nil
		}
		refused = err // the driver may still accept the next file
	}
	if refused == nil {
		refused = fmt.Errorf("%s has compute capability %d.%d: the kernels need 8.0", d.Device().Name, d.compute/10,
			d.compute%10)
	}
	return nil, &gemm.MissingError{Reason: refused}
}

// kernels is the multiplier that runs a variant.
type kernels struct {
	device   *device
	variant  variant
	kernel   *cuda.Kernel
	refused  error // why the driver rejected a faster variant
	launches []*cuda.Launch
	skinny   *skinnyPlan // of the prepared product; nil if it has too many rows
	noSkinny error       // why a product with few rows takes the general kernel
}

func (k *kernels) String() string { return "builtin " + k.variant.file }

func (k *kernels) padding(dtype.DType) padding { return padding{rows: 1, k: stepK, ldc: 4} }

func (k *kernels) prepare(p problem, at []place, _ *stopwatch, _ bool) error {
	k.launches, k.skinny, k.noSkinny = k.launches[:0], nil, nil
	if plan, ok := planSkinny(p, k.device); ok {
		err := k.prepareSkinny(plan, p, at)
		if err == nil || cuda.Sticky(err) {
			return err
		}
		k.noSkinny = err // the general kernel may still work
	}
	v := k.variant
	blocks := (p.m + v.rows*v.cluster - 1) / (v.rows * v.cluster) * v.cluster * ((p.n + v.cols - 1) / v.cols)
	if v.persistent {
		most := k.device.multiprocessors
		if p.multiprocessors > 0 {
			most = min(most, p.multiprocessors)
		}
		blocks = min(blocks, max(most/v.cluster, 1)*v.cluster)
	}
	k.launches = k.launches[:0]
	for _, here := range at {
		params := &Params{A: here.a, B: here.b, C: here.c, M: uint32(p.m), N: uint32(p.n), K: uint32(p.k),
			StrideA: uint32(p.k), StrideB: uint32(p.k), StrideC: uint32(p.ldc)}
		if v.mapped {
			var err error
			if params.MapA, err = k.device.TensorMapBF16(here.a, p.m, p.k, p.k, v.boxRowsA, stepK); err != nil {
				return err
			}
			if params.MapB, err = k.device.TensorMapBF16(here.b, p.n, p.k, p.k, v.boxRowsB, stepK); err != nil {
				return err
			}
		}
		launch := cuda.NewLaunch(k.kernel, blocks, v.threads, v.sharedBytes, false, params)
		if v.dependent {
			launch.Dependent()
		}
		k.launches = append(k.launches, launch)
	}
	return nil
}

func (k *kernels) start(at int, s *cuda.Stream) error { return k.launches[at].Start(s) }

func (k *kernels) details() map[string]string {
	all := map[string]string{"algorithm": k.variant.file, "library": k.device.Device().Driver().String()}
	if k.skinny != nil {
		all["algorithm"] = k.skinny.String()
	}
	if refused := cmp.Or(k.noSkinny, k.refused); refused != nil {
		all["refused"] = refused.Error()
	}
	return all
}

func (k *kernels) close() error { return nil }
