package accelwhatif

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// rowsOf simulates a sweep: axes as name=values, options as --name=value.
func rowsOf(t *testing.T, words ...string) (dataset.Set, error) {
	t.Helper()
	return benchtest.Rows(t, Bench(), ahbm.Name, words...)
}

func mustRows(t *testing.T, words ...string) dataset.Set {
	t.Helper()
	return must.Get(rowsOf(t, words...))(t)
}

// With a small all-reduce and a small product, every parameter has a change or a reason why not.
func TestEveryParameter(t *testing.T) {
	rows := mustRows(t, "n_elem=64", "shapes=32x128x32")
	list, err := topo.Parameters("built-in", topo.DefaultFile())
	if err != nil || len(rows) != 2*len(list) {
		t.Fatalf("%v: %d rows of %d parameters", err, len(rows), len(list))
	}
	for _, r := range rows {
		key := dataset.Text(r, parameterAxis)
		_, lower := r.Metrics["lower_pct"]
		_, higher := r.Metrics["higher_pct"]
		switch {
		case r.Status == journal.Skipped:
			if lower || higher || r.Reason == "" {
				t.Errorf("%s is skipped: %s, %v", key, r.Reason, r.Metrics)
			}
		case r.Status != journal.OK || r.Kind != journal.Simulated || !lower && !higher || r.Details[valueDetail] == "":
			t.Errorf("%s: %s (%s), %s, %v, %v", key, r.Status, r.Reason, r.Kind, r.Metrics, r.Details)
		}
	}
	all := studies(rows)
	if len(all) != 2 {
		t.Fatalf("%d studies", len(all))
	}
	for _, s := range all {
		if n := len(s.effects) + len(s.small) + len(s.none) + len(s.stuck) + len(s.failed); n != len(list) {
			t.Errorf("%s: %d of %d parameters", s.title, n, len(list))
		}
		last := math.Inf(1)
		for _, r := range s.effects {
			if e := r.Metrics["effect_pct"]; e > last || e < visible {
				t.Errorf("%s: %s has %g %%, after %g", s.title, dataset.Text(r, parameterAxis), e, last)
			} else {
				last = e
			}
		}
	}
	names := func(rows []*journal.Row) (names []string) {
		for _, r := range rows {
			names = append(names, dataset.Text(r, parameterAxis))
		}
		return names
	}
	// Parameters of other parts of the machine have no effect, and the relevant ones have.
	if reduce := all[0]; slices.Contains(names(reduce.effects), "pe.gemm.tile_ns") ||
		!slices.Contains(names(reduce.none), "pe.gemm.tile_ns") ||
		!slices.Contains(names(reduce.effects), "system.link.latency_ns") ||
		!slices.Contains(names(reduce.stuck), "system.sips.count") {
		t.Errorf("the all-reduce depends on %q, not on %q", names(reduce.effects), names(reduce.none))
	}
	if gemm := all[1]; !slices.Contains(names(gemm.effects), "pe.gemm.tile_ns") ||
		!slices.Contains(names(gemm.none), "system.link.latency_ns") {
		t.Errorf("the product depends on %q, not on %q", names(gemm.effects), names(gemm.none))
	}
	testViews(t, rows)
}

// testViews checks that every parameter is in the table, in the text below it, or in the list of parameters that
// cannot change.
func testViews(t *testing.T, rows dataset.Set) {
	figs, secs := figures(rows), sections(rows)
	if len(figs) != 2 || len(secs) != 3 || !strings.Contains(secs[2].Text, "on topology built-in (sha256 ") {
		t.Fatalf("%d figures, %+v", len(figs), secs)
	}
	word := regexp.MustCompile(`[a-z_]+(\.[a-z_]+)+`)
	for i, f := range figs {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		if _, err := figure.Write(t.TempDir(), ".", f); err != nil {
			t.Error(err)
		}
		if bars := f.Panels[0].Content.(*figure.Tornado).Bars; len(bars) == 0 || bars[0].Name != secs[i].Table[1][0] {
			t.Errorf("the figure begins with %v, the table with %v", bars, secs[i].Table[1])
		}
		names := word.FindAllString(secs[i].Text+" "+secs[2].Text, -1)
		for _, line := range secs[i].Table[1:] {
			names = append(names, line[0])
		}
		for _, key := range keys() {
			if !slices.Contains(names, key) {
				t.Errorf("%s is not named:\n%s\n%s", key, secs[i].Text, secs[2].Text)
			}
		}
	}
}

// The changes agree with the model, with whole messages and known costs.
func TestChangesAreRight(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "my.yaml")
	text := strings.Replace(string(topo.DefaultFile()), "latency_ns: 43.201", "latency_ns: 100", 1)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	row := func(words ...string) *journal.Row {
		for _, r := range mustRows(t, append([]string{"n_elem=8", "shapes=32x64x32", "--fabric=whole"}, words...)...) {
			if r.Part == allReducePart {
				return r
			}
		}
		panic("no row")
	}
	// There are two links of 100 ns in each direction between SIPs: 20 % must change the time twice as much as 10 %.
	ten := row("parameter=system.link.latency_ns", "--topology="+path, "--percent=10")
	twenty := row("parameter=system.link.latency_ns", "--topology="+path, "--percent=20")
	step := ten.Metrics["higher_ns"] - ten.Metrics["base_ns"]
	if step <= 0 || math.Abs(step*2-(twenty.Metrics["higher_ns"]-twenty.Metrics["base_ns"])) > 1e-6 ||
		math.Mod(math.Round(step), 20) != 0 || ten.Details[valueDetail] != "100" || ten.Details[higherDetail] != "110" ||
		ten.Details[machine.Option] != "my.yaml" {
		t.Errorf("10 %%: %v %v; 20 %%: %v", ten.Metrics, ten.Details, twenty.Metrics)
	}
	if built := row("parameter=system.link.latency_ns"); built.Metrics["base_ns"] >= ten.Metrics["base_ns"] ||
		built.Details[machine.Hash] == ten.Details[machine.Hash] {
		t.Errorf("the file is not used: %v, %v", built.Metrics, built.Details)
	}
	// An efficiency of 1 can be lowered but not raised.
	if one := row("parameter=cube.hbm.efficiency"); one.Status != journal.OK ||
		one.Metrics["lower_ns"] <= one.Metrics["base_ns"] ||
		one.Metrics["effect_pct"] != one.Metrics["lower_pct"] ||
		!strings.Contains(one.Details[higherDetail], "from 0.001 to 1") {
		t.Errorf("%v, %v", one.Metrics, one.Details)
	} else if got := side(one, higherDetail); got != "not possible" {
		t.Errorf("the table says %q", got)
	}
}

// Each of several files has its own study.
func TestSeveralMachines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my.yaml")
	text := strings.Replace(string(topo.DefaultFile()), "latency_ns: 43.201", "latency_ns: 100", 1)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	rows := mustRows(t, "n_elem=8", "shapes=32x64x32",
		"parameter=system.link.latency_ns,system.switch.overhead_ns,pe.mmu.tlb_overhead_ns", "--topology=built-in,"+path)
	f := figures(rows)[0]
	if len(f.Panels) != 2 || !strings.Contains(f.Panels[0].Title, "per cube, built-in: ") ||
		!strings.Contains(f.Panels[1].Title, "/my.yaml: ") ||
		strings.Count(f.Caption, "sha256") != 2 {
		t.Errorf("%+v", f)
	}
	if s := sections(rows); len(s) != 5 {
		t.Errorf("%d sections: %+v", len(s), s)
	}
}

// planted runs the body of a part for a parameter with a planted simulation.
func planted(t *testing.T, key string, simulate func(*topo.Topology) (*accel.Result, error)) decl.Outcome {
	p := point.Point{{Name: parameterAxis, Value: point.StringValue(key)},
		{Name: "percent", Value: point.FloatValue(20)},
		{Name: "topology", Value: point.StringValue("")}, {Name: "ccl", Value: point.StringValue("")},
		{Name: "fabric", Value: point.StringValue(machine.AsTopology)}}
	run := body(func(_ *bench.State, t *topo.Topology, _ *ccl.Config) (*accel.Result, error) { return simulate(t) })
	o, _ := bench.New("b", run).Parts[0].Body(t.Context(), decl.Setting{Point: p, Backend: ahbm.Name})
	return o
}

// A variant that fails to run has no number. If both variants fail, the row fails.
func TestVariantThatDoesNotRun(t *testing.T) {
	for good, want := range map[int]journal.Status{0: journal.Failed, 1: journal.Failed, 2: journal.OK, 3: journal.OK} {
		calls := 0
		o := planted(t, "cube.ucie.bw_gbs", func(*topo.Topology) (*accel.Result, error) {
			if calls++; calls > good {
				return nil, errors.New("planted")
			}
			return &accel.Result{Crit: 1000}, nil
		})
		if _, higher := o.Metrics["higher_pct"]; o.Status != want || higher != (good == 3) {
			t.Errorf("%d good: %s (%s), %v", good, o.Status, o.Reason, o.Metrics)
		}
	}
}

// A longer latency that makes the all-reduce faster is reported with the cause that shrank.
func TestOppositeEffect(t *testing.T) {
	o := planted(t, "system.link.latency_ns", func(m *topo.Topology) (*accel.Result, error) {
		r := &accel.Result{Busy: sim.NewLinkTimes(5)}
		r.Breakdown.Wire = 100_000
		r.Breakdown.Queueing = 1_000_000 - 10*m.LinkLatency
		r.Crit = r.Breakdown.Total()
		return r, nil
	})
	row := journal.Row{Part: allReducePart, Status: o.Status, Metrics: o.Metrics, Details: o.Details,
		Point: point.Point{{Name: parameterAxis, Value: point.StringValue("system.link.latency_ns")},
			{Name: "n_elem", Value: point.IntValue(8)}}}
	const want = "Slower where it should be faster, or the other way round: system.link.latency_ns (+12.93 % (34.561): " +
		"queueing 654.39 ns instead of 567.99 ns on the critical path; the busiest link is sip0.cube0.r0c0 -> "
	if text := sections(dataset.All([]journal.Row{row}))[0].Text; !strings.Contains(text, want) {
		t.Errorf("%s", text)
	}
}

// Invalid options and values are rejected before anything runs.
func TestMistakes(t *testing.T) {
	for word, want := range map[string]string{
		"parameter=system.link.latency": `did you mean "system.link.latency_ns"`,
		"--percent=0":                   "a number above 0 and below 100",
		"--percent=100":                 "a number above 0 and below 100",
		"--topology=missing.yaml":       "missing.yaml",
		"shapes=1x2":                    "want MxKxN",
		"n_elem=0":                      "want at least 1",
		"variant=load_rfe":              "load_ref",
	} {
		if _, err := rowsOf(t, word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", word, err, want)
		}
	}
}
