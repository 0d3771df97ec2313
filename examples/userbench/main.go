// Command userbench is a user's benchmark. It declares a bench and calls kernbench.Main, which
// provides the whole command line.
//
//	go run ./examples/userbench run --bench sort --count 1K,1M --env GOGC=50,-
package main

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/bench"
)

func main() {
	os.Exit(kernbench.Main(bench.New("sort", run, bench.Help("sort random numbers, every rank its own"),
		bench.Ranks("1,2"), bench.Ints("count", "1K:1M:x8"))))
}

func run(ctx context.Context, s *bench.State) error {
	source := rand.New(rand.NewPCG(s.Seed(), uint64(s.Rank()))).Perm(s.Int("count"))
	work := make([]int, len(source))
	s.Verify(func() error {
		if !slices.IsSorted(work) {
			return &bench.Wrong{Count: 1, Detail: "the numbers are not sorted"}
		}
		return nil
	})
	return s.Time(ctx, func() error { slices.Sort(work); return nil },
		bench.Preamble(func() error { copy(work, source); return nil }))
}
