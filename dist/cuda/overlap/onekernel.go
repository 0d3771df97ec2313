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

// oneKernel is a kernel that multiplies and adds up, on one rank.
type oneKernel struct {
	gpufused.OneKernel
	kernel  *cuda.Kernel
	blocks  int
	launch  *launch
	refused error // why it is not a faster one
}

// prepareOneKernel prepares the fastest kernel that all ranks run, for they have to agree on the
// tiles.
func (o *Op) prepareOneKernel() error {
	r := o.rank
	if r.config.DType != dtype.BF16 || r.config.Dependent {
		return fmt.Errorf("the one kernel multiplies bf16 and follows none: not %v, not launched dependently", r.config.DType)
	}
	own, refused := r.fastestKernel()
	votes := make([]float32, len(gpufused.OneKernels)+1)
	votes[own] = 1
	if err := r.group.AllReduce(dist.Of(votes), dist.Of(votes), dist.Sum); err != nil {
		return err
	}
	at := len(votes) - 1
	for votes[at] == 0 {
		at--
	}
	switch {
	case own == len(gpufused.OneKernels):
		return refused
	case at == len(gpufused.OneKernels):
		return errors.New("another rank runs no kernel that multiplies and adds up")
	case at > own:
		own, refused = at, fmt.Errorf("another rank does not run %s", gpufused.OneKernels[own].File)
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

// fastestKernel is the place of the first kernel that this rank runs, and why it does not run a faster
// one although the GPU should; the number of kernels if it runs none.
func (r *Rank) fastestKernel() (at int, refused error) {
	at = len(gpufused.OneKernels)
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
				at = i
				return nil
			}
			refused = err // a driver that does not take one file may take the next
		}
		if refused == nil {
			refused = fmt.Errorf("%s has compute capability %d.%d: the kernels need 8.0", r.device.Device().Name, compute/10,
				compute%10)
		}
		return nil
	})
	return at, errors.Join(err, refused)
}

// openKernel has the driver compile a kernel and finds how many blocks it has: as many as fit
// on this rank's multiprocessors. Blocks wait for those of other ranks, so that all need a place:
// where ranks share a GPU each block has a multiprocessor, however those of a rank are spread.
func (r *Rank) openKernel(k gpufused.OneKernel) (*oneKernel, error) {
	kernel, err := k.Load(r.device, r.modules)
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
		return nil, fmt.Errorf("kernel %s: blocks on %d multiprocessors, %d each: want room for %d", kernel.Name, r.multiprocessors,
			fit, k.Cluster)
	}
	return &oneKernel{OneKernel: k, kernel: kernel, blocks: blocks}, nil
}

// setLaunch makes the launch.
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

// Tiles is how many tiles the one kernel adds up; 0 where there are partitions.
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

// runOneKernel runs the kernel, or one half of it.
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
