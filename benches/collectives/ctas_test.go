package collectives

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist/nccl"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	library "github.com/kernbench/kernbench/internal/comm/nccl"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The two limits move together, and each pair gets new processes, in four trials unless the user asks
// for another number.
func TestCTAPlan(t *testing.T) {
	if p := must.Get(plan.Make(CTASweep(), plan.Request{Backend: nccl.Name}))(t); p.Points != 24 || p.Launches() != 16 {
		t.Errorf("%d points in %d launches, want 24 in 16", p.Points, p.Launches())
	}
	p := must.Get(plan.Make(CTASweep(), plan.Request{Backend: nccl.Name, Trials: 1}))(t)
	if p.Points != 24 || p.Launches() != 4 {
		t.Errorf("%d points in %d launches, want 24 in 4", p.Points, p.Launches())
	}
	for i, g := range p.Groups {
		want := []string{"32", "64", "128", "256"}[i]
		low, _ := g.Env.Get(minCTAs)
		high, _ := g.Env.Get(maxCTAs)
		if g.Ranks != 8 || low.Text() != want || high.Text() != want || len(g.Tasks) != 6 {
			t.Errorf("launch %d: %d ranks, %s, %d points; want 8 ranks, %s CTAs, 6 points", i, g.Ranks, g.Env, len(g.Tasks),
				want)
		}
	}
}

// On a fake NCCL with two GPUs, correct results pass and wrong results fail. With more ranks than GPUs
// the rows are not executed and say why.
func TestCTARun(t *testing.T) {
	lib := cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable)
	checkPreferredBackend(t, lib)
	b := CTASweep()
	p := must.Get(plan.Make(b, plan.Request{Backend: nccl.Name, Seed: 1, Trials: 1,
		Axes: benchtest.Assign("num_ranks=2,3", "M=1,32"),
		Envs: benchtest.Assign(minCTAs+"=32", maxCTAs+"=32", cudatest.FaultVariable+"=-,wrong")}))(t)
	for _, g := range p.Groups {
		g.Part.Measure.Stop.MaxTime, g.Part.Measure.Stop.MinTime, g.Part.Measure.Stop.MaxSamples = 1e7, 0, 20
	}
	dir := filepath.Join(t.TempDir(), "run")
	environ := append(os.Environ(), cuda.LibraryVariable+"="+lib, library.LibraryVariable+"="+lib,
		cudatest.DevicesVariable+"=2")
	must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: environ}))(t)
	_, r := must.Get2(journal.LoadRun(dir))(t)
	outcomes := map[string]int{}
	for _, row := range dataset.Of(r).Rows {
		fault, _ := row.Env.Get(cudatest.FaultVariable)
		outcomes[fmt.Sprintf("%d ranks, fault %s: %s", *row.NumRanks, fault.Text(), row.Status)]++
		switch {
		case *row.NumRanks == 3 && !strings.Contains(string(row.Reason),
			"NCCL takes one rank per GPU, and ranks 0 and 2 of 3 both have GPU 0000:00:00.0"),
			row.Status == journal.OK && (row.Metrics["wrong"] != 0 || row.Metrics["busbw"] <= 0 ||
				!strings.HasPrefix(row.Details["library"], "NCCL 2.28.9 ("+lib)):
			t.Errorf("%s %s: %s %s, metrics %v, details %v", row.Point, row.Env, row.Status, row.Reason, row.Metrics,
				row.Details)
		}
	}
	want := map[string]int{"2 ranks, fault (unset): ok": 2, "2 ranks, fault wrong: failed": 2,
		"3 ranks, fault (unset): not-executed": 2, "3 ranks, fault wrong: not-executed": 2}
	if fmt.Sprint(outcomes) != fmt.Sprint(want) {
		t.Errorf("outcomes %v, want %v", outcomes, want)
	}
	f := benchtest.Figures(t, CTASweep(), dataset.Of(r).Rows)
	if len(f) != 1 || len(f[0].Panels) != 1 || len(f[0].Panels[0].Series) != 1 {
		t.Errorf("figures: %+v", f)
	}
}

// checkPreferredBackend checks the default backend of the bench collectives: NCCL, if every rank has a
// GPU and NCCL supports the request.
func checkPreferredBackend(t *testing.T, lib string) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "0,1")
	t.Setenv(library.LibraryVariable, lib)
	for _, c := range []struct {
		want string
		axes []string
	}{
		{"nccl", []string{"num_ranks=2"}},
		{"nccl", []string{"num_ranks=2", "op=allreduce,gather,barrier", "dtype=i64", "size=8"}},
		{"", []string{"num_ranks=2,3"}},
		{"", []string{"num_ranks=1"}},
		{"", []string{"num_ranks=2", "algorithm=auto,ring"}},
		{"", []string{"num_ranks=2", "op=allreduce,sendrecv"}},
	} {
		p := must.Get(plan.Make(Bench(), plan.Request{Backend: "cpu", Axes: benchtest.Assign(c.axes...)}))(t)
		if got := p.PreferredBackend(); got != c.want {
			t.Errorf("%v: backend %q, want %q", c.axes, got, c.want)
		}
	}
}
