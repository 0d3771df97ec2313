package syncgroup

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkBarrier also reports the skew of a barrier: the median difference between the first and the
// last rank to leave it.
func BenchmarkBarrier(b *testing.B) {
	for _, name := range []string{"local", "shm", "tcp"} {
		b.Run(fmt.Sprintf("%s/2", name), func(b *testing.B) {
			groups := makers[name](b, 2)
			defer closeAll(groups)
			begin := time.Now()
			left := make([][]time.Duration, len(groups))
			for r := range left {
				left[r] = make([]time.Duration, b.N)
			}
			b.ResetTimer()
			together(groups, func(g Group) error {
				for i := range b.N {
					if err := g.Barrier(context.Background()); err != nil {
						return err
					}
					left[g.Rank()][i] = time.Since(begin)
				}
				return nil
			})
			skews := make([]time.Duration, b.N)
			for i := range skews {
				skews[i] = (left[0][i] - left[1][i]).Abs()
			}
			slices.Sort(skews)
			b.ReportMetric(float64(skews[b.N/2]), "skew-ns")
		})
	}
}
