package plan

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
)

// In a job of so many ranks, those are what runs: declared numbers give way to it
// unless they have it, given ones do not, and what cannot be had says why.
func TestWorld(t *testing.T) {
	world := &World{Ranks: 4, Reason: "this job has 4 ranks"}
	for _, c := range []struct {
		declared, given string
		ranks           []int // of the groups
		dropped         int
		err             string
	}{
		{declared: "1,2", ranks: []int{4}},
		{declared: "2,4,8", ranks: []int{4}, dropped: 2},
		{declared: "1", given: "2,4", ranks: []int{4}, dropped: 1},
		{declared: "4", given: "2,8", err: "all 2 points are dropped: this job has 4 ranks"},
	} {
		b := bench.New("b", nop, bench.Ranks(c.declared))
		req := Request{Backend: "cpu", World: world}
		if c.given != "" {
			req.Axes = []Assign{{Name: bench.RanksAxis, Text: c.given}}
		}
		p, err := Make(b, req)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: got %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if len(p.Groups) != len(c.ranks) || p.Groups[0].Ranks != c.ranks[0] || len(p.Dropped) != c.dropped {
			t.Errorf("%+v: %d groups of %d ranks, %d dropped", c, len(p.Groups), p.Groups[0].Ranks, len(p.Dropped))
		}
		for _, d := range p.Dropped {
			if d.Reason != world.Reason {
				t.Errorf("%+v: dropped because %s", c, d.Reason)
			}
		}
	}
}
