package run

import (
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// When every rank only follows, the row names the one they follow: its own
// connection is gone, so that it cannot say so itself.
func TestCulpritOfFollowers(t *testing.T) {
	lost := 1
	res := &results{byRank: make([]*worker.Event, 2)}
	for rank := range 2 {
		res.add(worker.Event{Rank: rank, Secondary: true, Culprit: &lost,
			Done: &bench.Outcome{Status: journal.Failed, Reason: "group aborted by rank 1: connection lost"}})
	}
	row := journal.Row{Metrics: map[string]float64{}, Units: map[string]string{}}
	res.fill(&row)
	if row.Status != journal.Failed || row.Rank == nil || *row.Rank != 1 {
		t.Errorf("%s at %v: %s", row.Status, row.Rank, row.Reason)
	}
}
