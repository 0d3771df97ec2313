package plan

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	_ "github.com/kernbench/kernbench/dist/all"
	"github.com/kernbench/kernbench/internal/base/must"
)

// In a job with a fixed number of ranks, that number replaces the declared ones. Numbers from the command line stay,
// and points that cannot run are dropped with a reason.
func TestWorld(t *testing.T) {
	world := &World{Ranks: 4, Reason: "this job has 4 ranks"}
	for _, c := range []struct {
		declared, given string
		ranks           []int // of the groups
		dropped         int
		err             string
	}{
		{declared: "1,2", ranks: []int{4}},
		{declared: "2,4,8", ranks: []int{4}},
		{declared: "1", given: "2,4", ranks: []int{4}, dropped: 1},
		{declared: "1", given: "1,4", ranks: []int{4}, dropped: 1},
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

// With ranks on several hosts, an axis may have other values, which a note lists; values from the
// command line win. A bench that needs one host is refused, unless the backend's own launcher
// connects the ranks or all ranks are in one process.
func TestSeveralHosts(t *testing.T) {
	const hosts = "this job has ranks on several hosts"
	b := bench.New("b", nop, bench.Strings("buffers", "symmetric"), bench.OverHosts(bench.Strings("buffers", "private")))
	for _, c := range []struct{ hosts, asked, want, note string }{
		{"", "", "symmetric", ""},
		{hosts, "", "private", "buffers=private, because " + hosts},
		{hosts, "symmetric", "symmetric", ""},
	} {
		req := Request{Backend: "cpu", Hosts: c.hosts}
		if c.asked != "" {
			req.Axes = []Assign{{Name: "buffers", Text: c.asked}}
		}
		p := must.Get(Make(b, req))(t)
		if v, _ := p.Groups[0].Tasks[0].Point.Get("buffers"); v.String() != c.want || strings.Join(p.Notes, "; ") != c.note {
			t.Errorf("%+v: buffers=%s, notes %q", c, v, p.Notes)
		}
	}
	here := bench.New("b", nop, bench.OneHost("they share memory"), bench.Backends("cpu", "mpi", "ahbm"))
	for backend, want := range map[string]string{"cpu": "its ranks must be on one host: they share memory; " + hosts,
		"mpi": "", "ahbm": ""} {
		_, err := Make(here, Request{Backend: backend, Hosts: hosts})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", backend, err)
		}
	}
	if _, err := Make(here, Request{Backend: "cpu"}); err != nil {
		t.Error(err)
	}
}
