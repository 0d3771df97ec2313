package collectives

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/ahbm"
)

// AllReduceLimits is for other benches that time an all-reduce: it finds the
// limits of the machine, by the option probe, and gives the function that
// records those of a call by an algorithm.
func AllReduceLimits(s *bench.State) func(p dist.Plan, algorithm string) {
	find := limitsFor
	if s.Backend() == ahbm.Name {
		find = simulatedLimits
	}
	record := find(s)
	return func(p dist.Plan, algorithm string) {
		sh := shape{op: allReduce, dtype: p.DType, reduction: p.Reduction, count: p.Count, ranks: s.Size(), inPlace: p.InPlace, buffers: private}
		if p.In.Place() != nil {
			sh.buffers = symmetric
		}
		p.Algorithm = algorithm
		record(sh, p)
	}
}
