package allreduceeval

import (
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/document"
)

// registerVar makes this program and its workers register two more algorithms.
const registerVar = "ALLREDUCEEVAL_TEST_REGISTER"

// Both declare rank order, but dishonest has the steps of a ring.
const (
	honest    = "test-honest"
	dishonest = "test-dishonest"
)

func registerTestAlgorithms() {
	for name, like := range map[string]string{honest: "naive", dishonest: "ring"} {
		schedule.Register(schedule.Algorithm{
			Info: schedule.Info{Collective: schedule.AllReduce, Name: name, Help: "the steps of " + like,
				Order: schedule.RankOrder},
			Steps: func(p schedule.Params, rank int) iter.Seq[schedule.Step] {
				s, err := schedule.New(schedule.AllReduce, like, p)
				if err != nil {
					panic(err)
				}
				return s.Steps(rank)
			},
		})
	}
}

// A newly registered algorithm is evaluated without further changes: its rows are planned and run, its
// contracts follow from the order of additions that it declares, and the sections and figures show it.
func TestRegisteredAlgorithmIsEvaluated(t *testing.T) {
	t.Parallel()
	if os.Getenv(registerVar) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), registerVar+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	whole := must.Get(plan.Make(Bench(), plan.Request{}))(t)
	planned := map[string]int{}
	for _, g := range whole.Groups {
		for _, task := range g.Tasks {
			planned[task.Part+" "+task.Point.At("algorithm").String()]++
		}
	}
	for _, part := range []string{matrix.Correctness, matrix.Contracts, matrix.Performance} {
		if got, like := planned[part+" "+honest], planned[part+" naive"]; got == 0 || got != like {
			t.Errorf("part %s plans %d rows of %s, and %d of naive", part, got, honest, like)
		}
	}
	rows := runRows(t, plan.Request{Backend: hints.HostBackend, Seed: 1, Only: []string{`part != "errors"`},
		Axes: assigns("algorithm="+honest+","+dishonest, "num_ranks=3", "dtype=f32", "inplace=false", "epilogue=false",
			"size=1Ki,64Ki")})
	want := map[string]journal.Status{}
	for _, name := range []string{honest, dishonest} {
		want[matrix.Correctness+" "+name], want[matrix.Performance+" "+name] = journal.OK, journal.OK
		for _, c := range matrix.ContractNames() {
			want[c+" "+name] = journal.OK
		}
	}
	want[matrix.AcrossSizes+" "+dishonest], want[matrix.AcrossStages+" "+dishonest] = journal.Failed, journal.Failed
	for _, r := range rows {
		name := r.Point.At("contract").String()
		if r.Part != matrix.Contracts {
			name = r.Part
		}
		name += " " + r.Point.At("algorithm").String()
		if r.Status != want[name] {
			t.Errorf("%s is %s, want %q: %s", name, r.Status, want[name], r.Reason)
		}
		want[name] = r.Status
	}
	if len(rows) < len(want) {
		t.Errorf("%d rows, want at least %d", len(rows), len(want))
	}
	for _, s := range sections(rows) {
		shown := []string{"Correctness matrix", "Correctness by size", "Tests", "Contracts on bits",
			"Times"}
		if text := dump([]document.Section{s}); slices.Contains(shown, s.Title) && !strings.Contains(text, honest) {
			t.Errorf("the section %s does not show %s:\n%s", s.Title, honest, text)
		}
	}
	drawn := false
	figures, errs := views.Figures(Bench().Plots, decl.ViewHeader(Bench()), dataset.All(rows))
	for _, err := range errs {
		t.Error(err)
	}
	for _, f := range figures {
		for _, p := range f.Panels {
			drawn = drawn || slices.ContainsFunc(p.Series, func(s figure.Series) bool { return s.Name == honest })
		}
	}
	if !drawn {
		t.Errorf("no figure has a series of %s", honest)
	}
}

// runRows runs a plan with real processes and returns its rows.
func runRows(t *testing.T, req plan.Request) []journal.Row {
	t.Helper()
	p := must.Get(plan.Make(Bench(), req))(t)
	dir := filepath.Join(t.TempDir(), "run")
	must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: os.Environ()}))(t)
	_, r := must.Get2(journal.LoadRun(dir))(t)
	return dataset.Of(r).Rows.Copy()
}
