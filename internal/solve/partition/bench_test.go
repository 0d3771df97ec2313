package partition

import (
	"fmt"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// BenchmarkPartition measures time and quality on a million rows.
func BenchmarkPartition(b *testing.B) {
	for _, name := range []string{"coordinate", "metis", "multilevel"} {
		part := must.Get(Partitioners.Lookup(name))(b)
		for _, params := range []struct {
			kind string
			dim  int
		}{{"poisson", 2}, {"poisson", 3}, {"mesh", 2}, {"hub", 2}} {
			p, err := sparse.New(params.kind, sparse.Params{Rows: 1000000, Dim: params.dim})
			if err != nil {
				b.Fatal(err)
			}
			for _, ranks := range []int{4, 7, 16} {
				b.Run(fmt.Sprintf("%s/%s%d/%d", name, params.kind, params.dim, ranks), func(b *testing.B) {
					var layout sparse.Layout
					for range b.N {
						if layout, err = part.Partition(p, Options{Ranks: ranks}); err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					q := Measure(p, layout, ranks)
					b.ReportMetric(float64(q.EdgeCut), "cut")
					b.ReportMetric(float64(q.Volume), "volume")
					b.ReportMetric(q.RowImbalance, "imbalance")
					b.ReportMetric(float64(q.MaxNeighbours), "neighbours")
				})
			}
		}
	}
}
