package plan

import (
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
)

// A program that starts its own ranks has no num_ranks, so that no condition on it holds.
func TestOwnRanksHaveNoNumber(t *testing.T) {
	for ranks, want := range map[int]bool{0: false, 1: true} {
		e, err := dataset.Compile("num_ranks<4", dataset.Scope{bench.RanksAxis: point.Int})
		if err != nil {
			t.Fatal(err)
		}
		if got := e((&Plan{}).lookup(&decl.Part{}, Task{Ranks: ranks})); got != want {
			t.Errorf("%d ranks: num_ranks<4 is %v", ranks, got)
		}
	}
}
