package cpu

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
)

// together runs fn on n ranks that are goroutines of this process.
func together(t testing.TB, n int, fn func(g *dist.Group) error) []error {
	t.Helper()
	errs := make([]error, n)
	var ranks sync.WaitGroup
	id := fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	for r := range n {
		ranks.Go(func() {
			g, err := dist.Init(context.Background(), dist.Config{Backend: Name, Rank: r, Size: n, ID: id, Timeout: 20 * time.Second})
			if err != nil {
				errs[r] = err
				return
			}
			defer g.Close()
			errs[r] = fn(g)
		})
	}
	ranks.Wait()
	return errs
}

func TestSmoke(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		for _, algo := range append(dist.Algorithms(dist.AllReduce), "steps:one-stage", "steps:two-stage") {
			for _, sym := range []bool{false, true} {
				for _, count := range []int{0, 1, 17, 1000, 65537} {
					errs := together(t, n, func(g *dist.Group) error {
						in, out := dist.Of(make([]float32, count)), dist.Of(make([]float32, count))
						if sym {
							var err error
							if in, err = g.Alloc(dist.F32, count); err != nil {
								return err
							}
							if out, err = g.Alloc(dist.F32, count); err != nil {
								return err
							}
						}
						s := dist.Slice[float32](in)
						for i := range s {
							s[i] = float32(i%100 + g.Rank())
						}
						for k := range 3 {
							if err := g.AllReduce(out, in, dist.Sum, dist.Algorithm(algo)); err != nil {
								return err
							}
							for i, v := range dist.Slice[float32](out) {
								if want := float32(i%100*n + n*(n-1)/2); v != want {
									return fmt.Errorf("run %d out[%d] = %v want %v", k, i, v, want)
								}
							}
						}
						return nil
					})
					for r, err := range errs {
						if err != nil {
							t.Errorf("n %d %s sym %v count %d rank %d: %v", n, algo, sym, count, r, err)
						}
					}
				}
			}
		}
	}
}
