package probe

import (
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// PeakGFLOPS measures the arithmetic of the calling thread's core for operands of a type: the
// best of some millisecond-long runs, since whatever disturbs only takes away.
func PeakGFLOPS(d dtype.DType) float64 {
	p := gemm.PeakOf(d)
	rounds, best := 1000, 0.0
	for range 12 {
		start := time.Now()
		p.Run(rounds)
		took := time.Since(start)
		best = max(best, p.Flops*float64(rounds)/float64(took.Nanoseconds()))
		if took < time.Millisecond {
			rounds *= 2
		}
	}
	return best
}
