package measure

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
)

// BenchmarkHarness reports the cost of a sample without the call.
func BenchmarkHarness(b *testing.B) {
	for _, cadence := range []Cadence{Streaming, Isolated} {
		for _, ranks := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/ranks=%d", cadence, ranks), func(b *testing.B) {
				for range b.N {
					groups := syncgroup.Local(ranks)
					var all sync.WaitGroup
					for _, g := range groups {
						all.Go(func() {
							cost, err := HarnessCost(context.Background(), cadence, g)
							if err != nil {
								b.Error(err)
							} else if g.Rank() == 0 {
								b.ReportMetric(float64(cost), "ns/sample")
							}
						})
					}
					all.Wait()
				}
			})
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	block := make([]int64, maxBlock)
	for i := range block {
		block[i] = int64(i*7919%1000) + 1000
	}
	for b.Loop() {
		s := samplingRule{stop: Default().Stop, block: blockTime}
		s.stop.MaxSamples = 10 * maxBlock
		for range 10 {
			s.next(block, 1)
		}
	}
}
