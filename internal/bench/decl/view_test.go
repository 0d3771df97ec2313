package decl

import (
	"testing"

	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Derive may add rows and metrics to a view. Without a bench, or without Derive, the view is the
// run itself.
func TestView(t *testing.T) {
	r := &journal.Run{Rows: []journal.Row{{Key: "a", Metrics: map[string]float64{"v": 1}},
		{Key: "a", Metrics: map[string]float64{"v": 2}}}}
	j := &journal.Journal{Runs: []*journal.Run{r}}
	for _, b := range []*Bench{nil, {}} {
		if got := View(b, j, r); len(got.Rows) != 1 || got.Rows[0] != &r.Rows[1] || got.Run() != r {
			t.Error("a plain run is not shown as it is")
		}
	}
	b := &Bench{Derive: func(rows dataset.Set) dataset.Set {
		return append(rows, &journal.Row{Key: "sum", Metrics: map[string]float64{"n": float64(len(rows))}})
	}}
	got := View(b, j, r).Rows
	if len(got) != 2 || got[1].Metrics["n"] != 1 || len(r.Rows) != 2 {
		t.Errorf("%d rows shown, %d stored", len(got), len(r.Rows))
	}
}
