package solvescaling

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/report"
)

func TestMain(m *testing.M) {
	triadValues = 4096
	figure.Density = 24
	peakGFLOPS = func(dist.DType) float64 { return 1 }
	plantSlowRank(os.Getenv(plantedVariable))
	os.Exit(benchtest.Main(m, Bench()))
}

// runInto runs a sweep with real processes and returns the rows as they are shown.
func runInto(t *testing.T, dir, axes, options string, o run.Options) (run.Result, []journal.Row) {
	t.Helper()
	return runPlan(t, dir, planned(t, axes, options), o)
}

func runPlan(t *testing.T, dir string, p *plan.Plan, o run.Options) (run.Result, []journal.Row) {
	t.Helper()
	o.Dir = dir
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	res, err := run.Run(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	j, r, err := journal.LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	return res, decl.View(Bench(), j, r).Rows.Copy()
}

// Complete runs with real processes, one for each number of ranks as under another launcher. The results accumulate,
// and every view is there.
func TestProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var rows []journal.Row
	for _, axes := range []string{
		"num_ranks=2 dof-per-rank=2000", "num_ranks=1 dof-per-rank=2000", "num_ranks=3 dof-per-rank=2000",
		"mode=strong num_ranks=1,2 total-dof=5000 partitioner=multilevel", "num_ranks=2 dof-per-rank=2000",
	} {
		var res run.Result
		if res, rows = runInto(t, dir, axes, "repeat=2", run.Options{}); res.Counts[journal.OK] == 0 ||
			res.Counts[journal.Failed] > 0 {
			t.Fatalf("%s: %v", axes, res.Counts)
		}
	}
	if len(rows) != 5 {
		t.Fatalf("%d rows, want one per configuration: 5", len(rows))
	}
	for _, r := range rows {
		if e, ok := r.Metrics["efficiency"]; !ok || !(e > 0) {
			t.Errorf("%s on %d ranks: no efficiency %v", r.Point, dataset.Ranks(&r), r.Conditions.Sentences())
		}
	}
	j, r, err := journal.LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := report.Render(dir, report.Input{Bench: Bench(), Data: decl.View(Bench(), j, r)})
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(strings.Join(files, " "), exportName) {
		t.Errorf("files %q", files)
	}
	var out bytes.Buffer
	if written, err := report.Headlines(&out, Bench(), dataset.All(rows), 0); !written || err != nil ||
		!strings.Contains(out.String(), "weak scaling: poisson 2-D 5-point, cg, simple partition, 2k unknowns per rank") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// plantedVariable makes iterations of ranks on a core, or on the rows of a rank, twice as long: "core 1" or "rank 1".
const plantedVariable = "SOLVE_TEST_SLOW"

// plantSlowRank replaces the times of iterations without communication in a worker process.
func plantSlowRank(planted string) {
	word, number, _ := strings.Cut(planted, " ")
	if word == "" {
		return
	}
	iterateAlone = func(solver) (float64, error) {
		own := map[string]string{"core": fmt.Sprint(cores.Allowed()[0]), "rank": os.Getenv("RANK")}
		if own[word] == number {
			return 2e-3, nil
		}
		return 1e-3, nil
	}
}

// A slow core and slow rows are told apart by real processes that swap their cores.
func TestSlowRank(t *testing.T) {
	core := cores.Allowed()[1] // of rank 1
	for planted, want := range map[string]string{
		fmt.Sprintf("core %d", core): fmt.Sprintf("core %d is slow: the rows of rank 1 took 0.67 times the mean on another "+
			"core, and other rows took 1.33 times the mean on core %d", core, core),
		"rank 1": fmt.Sprintf("the rows of rank 1 are slow: they took 1.33 times the mean on another core too, and other "+
			"rows took 0.67 times the mean on core %d", core),
	} {
		p, err := plan.Make(Bench(), plan.Request{Axes: assigns("num_ranks=2 dof-per-rank=500"),
			Options: assigns("repeat=1"), Backend: "cpu", Seed: 1, Bind: cores.Core})
		if err != nil {
			t.Fatal(err)
		}
		_, rows := runPlan(t, filepath.Join(t.TempDir(), "run"), p,
			run.Options{Environ: append(os.Environ(), plantedVariable+"="+planted)})
		if len(rows) != 1 || slowText(&rows[0]) != want {
			t.Errorf("%s: %v, want %s", planted, rows, want)
		}
	}
}

// The ranks open the file that KERNBENCH_METIS names, and the row records it. If it cannot be used, the row has that
// reason, whichever rank reports first.
func TestMetisOfTheUser(t *testing.T) {
	const axes = "num_ranks=3 dof-per-rank=200 partitioner=metis"
	of := func(file string) []string {
		env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "KERNBENCH_METIS=") })
		return append(env, "KERNBENCH_METIS="+file)
	}
	for range 3 {
		_, rows := runInto(t, filepath.Join(t.TempDir(), "run"), axes, "repeat=1",
			run.Options{Environ: of("/no/such/metis.so")})
		if len(rows) != 1 || rows[0].Status != journal.Failed || !strings.Contains(rows[0].Why(), "/no/such/metis.so") {
			t.Fatalf("%v", rows)
		}
	}
	_, rows := runInto(t, filepath.Join(t.TempDir(), "run"), axes, "repeat=1", run.Options{Environ: of("libmetis.so.5")})
	if len(rows) != 1 || rows[0].Status != journal.OK {
		t.Fatalf("this test needs Debian's libmetis5: %v", rows)
	}
	if name := rows[0].Details["library"]; !strings.HasPrefix(name, "METIS 5.") ||
		!strings.Contains(name, "/libmetis.so.5") {
		t.Errorf("the row's library is %q", name)
	}
}

// The same solve over MPI, with ranks started by mpirun, gives the same iterations and the same solution as over our
// own groups, on one rank and on two.
func TestMPI(t *testing.T) {
	launcher, err := run.NewLauncher(t.Context(), "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none",
		"127.0.0.1")
	if err != nil {
		t.Fatalf("this test needs Debian's openmpi-bin (-short leaves it out): %v", err)
	}
	const axes, options = "num_ranks=1,2 dof-per-rank=2000 partitioner=multilevel method=cg,gmres precond=jacobi",
		"repeat=2"
	_, over := runPlan(t, filepath.Join(t.TempDir(), "mpi"), plannedOn(t, "mpi", axes, options),
		run.Options{Launcher: launcher})
	_, own := runInto(t, filepath.Join(t.TempDir(), "cpu"), axes, options, run.Options{})
	if len(over) != 4 || len(own) != 4 {
		t.Fatalf("%d rows over MPI, %d over our own groups, want 4 of each", len(over), len(own))
	}
	for i, r := range over {
		if r.Status != journal.OK || r.Backend != "mpi" || !(r.Metrics["efficiency"] > 0) ||
			!(r.Metrics["rel_residual"] <= 1e-7) {
			t.Errorf("%s on %d ranks by %s: %s: %s\n%s", r.Point, dataset.Ranks(&r), r.Backend, r.Status, r.Reason, r.Output)
		}
		if dataset.Text(&r, methodAxis) != dataset.Text(&own[i], methodAxis) || dataset.Ranks(&r) != dataset.Ranks(&own[i]) {
			t.Fatalf("row %d is of other points: %s and %s", i, r.Point, own[i].Point)
		}
		// gmres depends on the order of summation in the backend's all-reduce.
		if a, b := r.Metrics["iterations"], own[i].Metrics["iterations"]; math.Abs(a-b) > 1 {
			t.Errorf("%s on %d ranks: %v iterations, %v over our own groups", r.Point, dataset.Ranks(&r), a, b)
		}
		if dataset.Ranks(&r) == 2 && !(r.Metrics["messages"] > 0) {
			t.Errorf("%s: two ranks sent nothing", r.Point)
		}
	}
}

// kill -9 of a rank during a solve gives a failed row that names the rank. Earlier rows are kept, and no process is
// left.
func TestKillRank(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	mark := proctest.Mark{Name: "SOLVE_TEST_MARK", Value: rand.Text()}
	killed := make(chan int, 1)
	begun := 0
	observe := func(e run.Event) {
		if e.Task == nil {
			return
		}
		if begun++; begun == 2 { // the point that takes long
			go func() {
				time.Sleep(time.Second)
				for _, p := range mark.Processes() {
					if p.Env["RANK"] == "1" && syscall.Kill(p.PID, syscall.SIGKILL) == nil {
						killed <- p.PID
						break
					}
				}
				close(killed)
			}()
		}
	}
	_, rows := runInto(t, dir, "num_ranks=2 dof-per-rank=500,1000000", "repeat=9",
		run.Options{Environ: append(os.Environ(), mark.String()), Observe: observe})
	if <-killed == 0 {
		t.Fatal("rank 1 was not found")
	}
	if len(rows) != 2 || rows[0].Status != journal.OK {
		t.Fatalf("%d rows, the first %s", len(rows), rows[0].Status)
	}
	bad := rows[1]
	if bad.Status != journal.Failed || bad.Rank == nil || *bad.Rank != 1 || !strings.Contains(string(bad.Reason), "kill") {
		t.Errorf("%s at rank %v in phase %q: %s", bad.Status, bad.Rank, bad.Phase, bad.Reason)
	}
	t.Logf("phase %q: %s", bad.Phase, bad.Reason)
	mark.AssertGone(t)
}
