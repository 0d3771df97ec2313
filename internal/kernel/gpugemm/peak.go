package gpugemm

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// peak is a kernel that measures peak arithmetic.
type peak struct {
	kernel          *cuda.Kernel
	blocks, threads int
	shared          int
	flops           float64 // per round, all blocks together
	rounds          uint32  // per run of some milliseconds
}

// The work of a block of 256 threads in one round.
const (
	peakThreads      = 256
	warpgroupFlops   = 2 * 4 * 2 * 64 * 256              // two warpgroups, four instructions, per element of k
	warpFlops        = peakThreads / 32 * 8 * 2 * 16 * 8 // eight instructions, per element of k
	scalarFlops      = peakThreads * 32 * 2
	peakSharedBytes  = (2*64 + 256) * 128
	peakRuns         = 8
	peakMicroseconds = 2000
)

// newPeak returns the kernel for the arithmetic units of an operand type.
func (d *device) newPeak(operand dtype.DType) (*peak, error) {
	p := &peak{threads: peakThreads, rounds: 1000}
	file, each := "peak80", float64(scalarFlops)
	switch {
	case operand == dtype.F32:
	case operand == dtype.F64 || operand == dtype.E4M3 && d.compute != 90 || d.compute < 80 || d.compute > 90:
		return nil, fmt.Errorf("there is no kernel for the arithmetic of %v on compute capability %d.%d", operand,
			d.compute/10, d.compute%10)
	case d.compute == 90:
		file, p.shared = "peak90a", peakSharedBytes
		each = warpgroupFlops * 32 / float64(operand.Size()) // 32 bytes of k per instruction
	default:
		each = warpFlops * 32 / float64(operand.Size())
	}
	var err error
	if p.kernel, err = d.kernel(file, fmt.Sprintf("%s_%v", file, operand)); err != nil {
		return nil, err
	}
	if p.shared > 0 {
		if err := p.kernel.AllowShared(p.shared); err != nil {
			return nil, err
		}
	}
	resident, err := p.kernel.Resident(p.threads, p.shared)
	if err != nil {
		return nil, err
	}
	p.blocks = max(1, resident) * d.multiprocessors
	p.flops = each * float64(p.blocks)
	return p, nil
}

// peakOf returns the best of several runs of some milliseconds, because disturbances only slow a run
// down.
func (d *device) peakOf(operand dtype.DType, w *stopwatch) (gflops float64, err error) {
	err = d.Do(func() (err error) {
		p := d.peaks[operand]
		if p == nil {
			if p, err = d.newPeak(operand); err != nil {
				return err
			}
			d.peaks[operand] = p
		}
		sums, err := d.Alloc(p.blocks * p.threads * 16)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Free(sums)) }()
		for range peakRuns {
			launch := cuda.NewLaunch(p.kernel, p.blocks, p.threads, p.shared, false, &Params{C: sums, Rounds: p.rounds})
			us, err := w.time(func() error { return launch.Start(w.Stream) })
			if err != nil {
				return err
			}
			if us <= 0 {
				return errors.New("the arithmetic took no time")
			}
			gflops = max(gflops, p.flops*float64(p.rounds)/us/1e3)
			if us < peakMicroseconds {
				p.rounds = uint32(min(1e7, 2*float64(p.rounds)))
			}
		}
		return nil
	})
	return gflops, err
}
