package overlap

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpufused"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
)

// oneKernel is a kernel that multiplies and sums, prepared on this rank.
type oneKernel struct {
	gpufused.OneKernel
	kernel  *cuda.Kernel
	blocks  int
	launch  *launch
	refused error // why a faster kernel is not used; nil if this is the fastest
}

// prepareOneKernel prepares the fastest kernel that all ranks can run. The ranks must use the same one,
// because its tiles have to match.
func (o *Op) prepareOneKernel() error {
	r := o.rank
	if r.config.DType != dtype.BF16 || r.config.Dependent {
		return fmt.Errorf("the single kernel multiplies only bf16, and without dependent launches: not %v", r.config.DType)
	}
	own, refused := r.fastestKernel()
	// The slowest choice of all ranks decides. The backend has no maximum, so the ranks count votes.
	votes := make([]float32, len(gpufused.OneKernels)+1)
	votes[own] = 1
	if err := r.group.AllReduce(dist.Of(votes), dist.Of(votes), dist.Sum); err != nil {
		return err
	}
	slowest := len(votes) - 1
	for votes[slowest] == 0 {
		slowest--
	}
	switch {
	case own == len(gpufused.OneKernels):
		return refused
	case slowest == len(gpufused.OneKernels):
		return errors.New("another rank cannot run any kernel that multiplies and sums")
	case slowest > own:
		own, refused = slowest, fmt.Errorf("another rank cannot run %s", gpufused.OneKernels[own].File)
	}
	return r.device.Do(func() (err error) {
		if o.oneKernel, err = r.openKernel(gpufused.OneKernels[own]); err != nil {
			return err
		}
		o.oneKernel.refused = refused
		stride := roundUp(r.n, gpugemm.StepC)
		o.parts = []part{{to: r.m, rows: r.m, cols: r.n, stride: stride}}
		return r.setLaunch(o.oneKernel, stride)
	})
}

// fastestKernel returns the index in gpufused.OneKernels, which begins with the fastest, of the first
// kernel that this rank can run, and len(gpufused.OneKernels) if there is none. refused is the reason why
// a faster kernel does not run although the GPU supports it.
func (r *Rank) fastestKernel() (index int, refused error) {
	index = len(gpufused.OneKernels)
	err := r.device.Do(func() error {
		compute, err := r.device.Device().Compute()
		if err != nil {
			return err
		}
		for i, k := range gpufused.OneKernels {
			if !k.RunsOn(compute) {
				continue
			}
			_, err := r.openKernel(k)
			if err == nil {
				index = i
				return nil
			}
			refused = err // a driver that rejects this file may accept the next
		}
		if refused == nil {
			refused = fmt.Errorf("%s has compute capability %d.%d: the kernels need 8.0", r.device.Device().Name, compute/10,
				compute%10)
		}
		return nil
	})
	return index, errors.Join(err, refused)
}

// openKernel compiles a kernel and chooses its number of blocks: as many as fit on this rank's share of the
// multiprocessors. Blocks wait for blocks of other ranks, so the blocks of all ranks must be resident. If
// ranks share a GPU, each block gets a multiprocessor of its own, wherever the GPU places it.
func (r *Rank) openKernel(k gpufused.OneKernel) (*oneKernel, error) {
	kernel, err := k.Load(r.device)
	if err != nil {
		return nil, err
	}
	if err := kernel.AllowShared(k.SharedBytes); err != nil {
		return nil, err
	}
	fit, err := kernel.Resident(k.Threads, k.SharedBytes)
	if err != nil {
		return nil, err
	}
	if _, sharing := r.engine.Device(); sharing > 1 {
		fit = min(fit, 1)
	}
	blocks := k.Blocks(r.multiprocessors, fit)
	if blocks == 0 {
		return nil, fmt.Errorf("kernel %s: a cluster of %d blocks does not fit on %d multiprocessors with %d blocks each",
			kernel.Name, k.Cluster, r.multiprocessors, fit)
	}
	return &oneKernel{OneKernel: k, kernel: kernel, blocks: blocks}, nil
}

// setLaunch prepares the launch of the kernel.
func (r *Rank) setLaunch(k *oneKernel, stride int) (err error) {
	p := r.params()
	p.A, p.B, p.M, p.N, p.K = r.operands[0], r.operands[1], uint32(r.m), uint32(r.n), uint32(r.k)
	p.StrideA, p.StrideB, p.StrideC = uint32(r.k), uint32(r.k), uint32(stride)
	if k.BoxRows > 0 {
		if p.MapA, err = r.device.TensorMapBF16(p.A, r.m, r.k, r.k, k.BoxRows, gpugemm.StepK); err != nil {
			return err
		}
		if p.MapB, err = r.device.TensorMapBF16(p.B, r.n, r.k, r.k, k.BoxRows, gpugemm.StepK); err != nil {
			return err
		}
	}
	k.launch = r.launch(k.kernel, k.blocks, k.Threads, k.SharedBytes, p)
	return nil
}

// Tiles returns how many tiles the single kernel sums on all ranks together, or 0 if the plan has partitions.
func (o *Op) Tiles() int {
	if o.oneKernel == nil {
		return 0
	}
	return o.oneKernel.Tiles(o.rank.m, o.rank.n)
}

func (k *oneKernel) details() map[string]string {
	all := map[string]string{"algorithm": k.File}
	if k.refused != nil {
		all["refused"] = k.refused.Error()
	}
	return all
}

// runOneKernel runs the kernel, or, depending on options, only its product or its sum.
func (o *Op) runOneKernel(what string, options uint32) (us float64, err error) {
	r := o.rank
	return o.timed(what, r.productStream, func() error {
		r.calls++
		p := o.oneKernel.launch.params
		p.Epoch, p.Options, p.Arrived = r.calls, options, r.arrivedTiles
		if options&gpufused.NoSum == 0 {
			r.arrivedTiles += uint32(o.oneKernel.Tiles(r.m, r.n))
		}
		return o.oneKernel.launch.Start(r.productStream)
	})
}
