package allreduceeval

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/journal"
)

// All contracts hold, of every algorithm that promises them.
func TestContractsHold(t *testing.T) {
	p, list := tasks(t, contractsPart, assigns("num_ranks=3"), nil)
	for _, task := range list {
		for rank, o := range perform(t, contractsPart, task, p.Options) {
			if o.Status != journal.OK {
				t.Errorf("%s: rank %d: %s: %s", task.Point, rank, o.Status, o.Reason)
			}
		}
	}
	if len(list) < 20 || len(p.Dropped) == 0 {
		t.Errorf("%d rows and %d dropped", len(list), len(p.Dropped))
	}
}

// Every mistake is noticed by every rank.
func TestMistakesAreNoticed(t *testing.T) {
	p, list := tasks(t, errorsPart, assigns("num_ranks=2,3"), nil)
	for _, task := range list {
		for rank, o := range perform(t, errorsPart, task, p.Options) {
			if o.Status != journal.OK {
				t.Errorf("%s ranks=%d: rank %d: %s: %s", task.Point, task.Ranks, rank, o.Status, o.Reason)
			}
			t.Logf("%s: rank %d: %s", task.Point, rank, o.Details["error"])
		}
	}
}

// Every planted fault turns its cells red, with every algorithm, element type
// and way of calling: it is found at the largest size at least, and the empty
// size, where there is nothing to do wrong, stays green.
func TestMutationsAreCaught(t *testing.T) {
	for _, m := range mutations[1:] {
		t.Run(m, func(t *testing.T) {
			p, list := tasks(t, correctnessPart, assigns("num_ranks=2", "algorithm=one-stage,two-stage,ring,quickreduce", "dtype=bf16,f32,i32"), assigns("mutate="+m))
			for _, task := range list {
				red := false
				cells := ""
				for _, o := range perform(t, correctnessPart, task, p.Options) {
					red = red || o.Status == journal.Failed
					cells = o.Details["cells"]
				}
				if !red || !strings.Contains(cells, "0=ok") || !strings.Contains(cells, "1Mi-1=failed") {
					t.Errorf("%s: cells %s", task.Point, cells)
				}
			}
		})
	}
}
