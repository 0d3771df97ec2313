package allreduceeval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/report"
)

// Every cell of the matrix passes with three ranks. Algorithms that need other hardware
// are not executed and say what they need.
func TestMatrixPasses(t *testing.T) {
	t.Parallel()
	axes := assigns("num_ranks=3", "dtype=bf16", "inplace=false") // TestQuickProfile runs in place
	if testing.Short() {
		axes = assigns("num_ranks=3", "dtype=f32", "algorithm=two-stage,ring,quickreduce,multimem", "inplace=true",
			"sizes="+small)
	}
	p, list := tasks(t, matrix.Correctness, axes, nil)
	ran := map[journal.Status]int{}
	for _, task := range list {
		for rank, o := range perform(t, matrix.Correctness, task, p.Options) {
			ran[o.Status]++
			if o.Status == journal.Failed || o.Status == journal.OK && o.Metrics["cells_passed"] != 6 {
				t.Fatalf("%s ranks=%d: rank %d: %s: %s %v", task.Point, task.Ranks, rank, o.Status, o.Reason, o.Metrics)
			}
			if o.Status == journal.NotExecuted && (!o.Optional || !strings.Contains(o.Reason, "needs")) {
				t.Errorf("%s: %s (optional %v)", task.Point, o.Reason, o.Optional)
			}
			if saved := o.Metrics["bytes_saved"]; o.Status == journal.OK && matrix.Codec(task.Point[1].Value.String()) != nil &&
				!(saved > 30) {
				t.Errorf("%s saves %v %% of the bytes", task.Point, saved)
			}
		}
	}
	if ran[journal.OK] == 0 || ran[journal.NotExecuted] == 0 {
		t.Errorf("statuses %v: want some of each", ran)
	}
}

// Every algorithm keeps the contracts that it promises.
func TestContractsHold(t *testing.T) {
	t.Parallel()
	axes := assigns("num_ranks=3")
	if testing.Short() {
		axes = assigns("num_ranks=3", "algorithm=one-stage,two-stage,ring")
	}
	p, list := tasks(t, matrix.Contracts, axes, nil)
	for _, task := range list {
		for rank, o := range perform(t, matrix.Contracts, task, p.Options) {
			if o.Status != journal.OK {
				t.Errorf("%s: rank %d: %s: %s", task.Point, rank, o.Status, o.Reason)
			}
		}
	}
	if len(list) < 10 || len(p.Dropped) == 0 {
		t.Errorf("%d rows and %d dropped", len(list), len(p.Dropped))
	}
}

// Every rank notices every mistake and failure.
func TestMistakesAreNoticed(t *testing.T) {
	p, list := tasks(t, matrix.Errors, assigns("num_ranks=3"), nil)
	for _, task := range list {
		for rank, o := range perform(t, matrix.Errors, task, p.Options) {
			if o.Status != journal.OK {
				t.Errorf("%s ranks=%d: rank %d: %s: %s", task.Point, task.Ranks, rank, o.Status, o.Reason)
			}
		}
	}
}

// Every planted fault is detected at the largest size. It cannot be at size 0, where
// nothing can go wrong. Faults for kernels are not executed on backends without kernels.
func TestMutationsAreCaught(t *testing.T) {
	t.Parallel()
	axes := assigns("num_ranks=2", "algorithm=one-stage,ring", "dtype=bf16,i32", "sizes="+small)
	if testing.Short() {
		axes = assigns("num_ranks=2", "algorithm=two-stage", "dtype=f32", "inplace=false", "epilogue=false", "sizes="+small)
	}
	for _, m := range faultNames[1:] {
		if m == droppedBarrier && raceEnabled {
			continue // the fault is a data race, which the race detector reports
		}
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			p, list := tasks(t, matrix.Correctness, axes, assigns("mutate="+m))
			for _, task := range list {
				red, cells := false, ""
				for _, o := range perform(t, matrix.Correctness, task, p.Options) {
					red = red || o.Status == journal.Failed
					cells = o.Details["cells"]
					if strings.HasPrefix(m, kernelPrefix) &&
						(o.Status != journal.NotExecuted || !strings.Contains(o.Reason, "has no kernels of its own")) {
						t.Errorf("%s: %s %s", task.Point, o.Status, o.Reason)
					}
				}
				if strings.HasPrefix(m, kernelPrefix) {
					return // no cells ran on this backend
				}
				if !red || !strings.Contains(cells, "0=ok") || !strings.Contains(cells, "64Ki-1=failed") {
					t.Errorf("%s: cells %s", task.Point, cells)
				}
			}
		})
	}
}

// Large sizes pass too. Their expectations are slices of shared vectors, with an
// incomplete last codec group and with an epilogue.
func TestLargeSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long, and the code is the same as for small sizes")
	}
	axes := assigns("num_ranks=2", "algorithm=two-stage,ring,quickreduce", "dtype=bf16", "inplace=false", "sizes=full")
	sizesOf = func(string) ([]matrix.Size, error) { return matrix.PowersOfTwo(4<<20, 4<<20), nil }
	defer func() { sizesOf = testSizes }()
	p, list := tasks(t, matrix.Correctness, axes, nil)
	for _, task := range list {
		for rank, o := range perform(t, matrix.Correctness, task, p.Options) {
			if o.Status != journal.OK || !strings.Contains(o.Details["cells"], "4Mi+24=ok") {
				t.Errorf("%s: rank %d: %s: %s", task.Point, rank, o.Status, o.Reason)
			}
		}
	}
}

// A size that does not fit into memory is a required cell that did not run.
func TestTooLargeIsMissing(t *testing.T) {
	was := hostMemory
	hostMemory = func() int64 { return 1 << 20 }
	defer func() { hostMemory = was }()
	p, list := tasks(t, matrix.Correctness,
		assigns("num_ranks=2", "algorithm=ring", "dtype=f32", "inplace=false", "epilogue=false"), nil)
	o := perform(t, matrix.Correctness, list[0], p.Options)[0]
	if o.Status != journal.NotExecuted || o.Optional || !strings.Contains(o.Details["cells"], "1Mi-1=not-executed") ||
		!strings.Contains(o.Reason, "needs") {
		t.Errorf("%s (optional %v): %s, cells %s", o.Status, o.Optional, o.Reason, o.Details["cells"])
	}
}

// A complete run with real processes: the quick profile with one element type and smaller
// sizes, because large vectors take most of the time (TestMatrixPasses has the largest
// cells, and the backends' suites have all types). The report must say that required
// cells are missing.
func TestQuickProfile(t *testing.T) {
	t.Parallel()
	wants := []string{"**Correctness:** not shown. All cells that ran passed, but required cells did not run: ",
		" passed, 0 failed, 0 skipped,", "correctness with 8 ranks: left out of this run ("}
	dir := filepath.Join(t.TempDir(), "run")
	p := must.Get(plan.Make(Bench(),
		plan.Request{Axes: assigns("dtype=bf16", "size=1Ki,16Ki", "inplace=true", "num_ranks=2"), Backend: hints.HostBackend,
			Trials: 1, Seed: 1}))(t)
	res := must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: append(os.Environ(), smallVar+"=1")}))(t)
	_, r := must.Get2(journal.LoadRun(dir))(t)
	for _, row := range dataset.Of(r).Rows {
		if row.Status.Bad() {
			t.Errorf("%s %s: %s: %s", row.Part, row.Point, row.Status, row.Reason)
		}
	}
	if res.Counts[journal.NotExecuted] == 0 || res.Missing != 0 {
		t.Errorf("%v, %d missing: want rows that need other hardware, none of them required", res.Counts, res.Missing)
	}
	must.Get(report.Render(dir, report.Input{Bench: Bench(), Data: dataset.Of(r)}))(t)
	page := must.Get(os.ReadFile(filepath.Join(dir, "report.md")))(t)
	for _, want := range append(wants, "## Correctness matrix", "✓", "○", "## Recommendations", "## Tests to add",
		"## Coverage gaps", "times of torus: it differs from ring", "times of quickreduce-int4: ", "times with 3 ranks",
		"is dead while", "tuning.json", "times of f32") {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tuning.json")); err != nil {
		t.Error(err)
	}
}

// The smoke profile has few rows, none of them timed, and its verdict needs no others.
func TestSmokeProfile(t *testing.T) {
	profile, _ := lists.First(Bench().Profiles, func(p decl.Profile) bool { return p.Name == matrix.Smoke })
	rows := []journal.Row{{Bench: Name, Part: matrix.Correctness, Backend: hints.HostBackend,
		Point: point.Point{{Name: "sizes", Value: point.StringValue(matrix.Smoke)}}}}
	required := requiredTasks(dataset.All(rows))
	for _, task := range required {
		if task.Part == matrix.Performance || task.Ranks != 2 {
			t.Errorf("%s %s with %d ranks is required", task.Part, task.Point, task.Ranks)
		}
	}
	if quick := requiredTasks(dataset.All([]journal.Row{{Backend: hints.HostBackend}})); len(required) < 20 ||
		20*len(required) > len(quick)*2 || len(profile.Axes) == 0 {
		t.Errorf("%d rows are required, %d for the quick profile", len(required), len(quick))
	}
}
