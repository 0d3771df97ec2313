package collectives

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/all" // registers all backends, as the program does
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// init registers relay, an algorithm that no other code knows: the steps of ring, for odd numbers of
// ranks.
func init() {
	schedule.Register(schedule.Algorithm{
		Info: schedule.Info{Collective: schedule.AllReduce, Name: "relay", Help: "a ring of odd length"},
		Shape: func(p *schedule.Params) error {
			if p.Ranks%2 == 0 {
				return errors.New("want an odd number of ranks")
			}
			return nil
		},
		Steps: func(p schedule.Params, rank int) iter.Seq[schedule.Step] {
			s, err := schedule.New(schedule.AllReduce, "ring", p)
			if err != nil {
				panic(err)
			}
			return s.Steps(rank)
		},
	})
}

// The backend that executes schedules offers a registered algorithm, the bench accepts it, and it has
// limits. A group of the wrong size skips it.
func TestRegisteredAlgorithm(t *testing.T) {
	if can := dist.Describe(hints.HostBackend).Algorithms[dist.AllReduce]; !slices.Contains(can, "relay") {
		t.Errorf("the backend has %v", can)
	}
	p := planned(t, plan.Request{Axes: axes("algorithm=relay,steps:relay", "num_ranks=2,3", "size=4K"),
		Options: axes("probe=" + scriptedFile(t))})
	want := map[int]string{2: "skipped: backend cpu has no allreduce algorithm relay in a group of 2", 3: "ok: "}
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			o := perform(t, task, p.Options, "cpu")[0]
			if got := string(o.Status) + ": " + o.Reason; got != want[task.Ranks] {
				t.Errorf("%s: %s, want %s", task.Point, got, want[task.Ranks])
			}
			if o.Status == journal.OK && (o.Details["algorithm"] != "relay" || !(o.Limits["bandwidth"] > 0)) {
				t.Errorf("%s: details %v, limits %v", task.Point, o.Details, o.Limits)
			}
		}
	}
}
