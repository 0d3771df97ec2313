package solvescaling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/all"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// planned returns the points of a sweep over the bench.
func planned(t *testing.T, axes, options string) *plan.Plan {
	t.Helper()
	return plannedOn(t, "cpu", axes, options)
}

func plannedOn(t *testing.T, backend, axes, options string) *plan.Plan {
	t.Helper()
	p, err := plan.Make(Bench(), plan.Request{Axes: assigns(axes), Options: assigns(options), Backend: backend, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func assigns(text string) []plan.Assign { return benchtest.Assign(strings.Fields(text)...) }

// perform runs the body of one task with goroutines as ranks.
func perform(t *testing.T, task plan.Task, options point.Point, backend string) []decl.Outcome {
	t.Helper()
	return benchtest.Perform(t, bench.New("b", body).Parts[0].Body, task, options, decl.Setting{Backend: backend})
}

// first runs the first point of a sweep.
func first(t *testing.T, axes, options, backend string) decl.Outcome {
	t.Helper()
	p := planned(t, axes, options)
	return perform(t, p.Groups[0].Tasks[0], p.Options, backend)[0]
}

// Every problem, method, partitioner and mode runs and passes the gate, on rank counts that divide nothing and on more
// ranks than rows.
func TestEveryWord(t *testing.T) {
	var methods, partitioners, preconditioners, problems []string
	for _, m := range krylov.Methods.All() {
		methods = append(methods, m.Name)
	}
	for _, q := range partition.Partitioners.All() {
		partitioners = append(partitioners, q.Name)
	}
	for _, q := range solve.Preconditioners() {
		preconditioners = append(preconditioners, q.Name)
	}
	for _, k := range sparse.Kinds.All() {
		problems = append(problems, k.Name)
	}
	for _, axes := range []string{
		"num_ranks=3 dof-per-rank=60 method=" + strings.Join(methods, ",") + " precond=jacobi problem=" +
			strings.Join(problems, ","),
		"num_ranks=1,3 dof-per-rank=60 method=cg,gmres precond=" + strings.Join(preconditioners, ",") +
			" problem=poisson,mesh",
		"num_ranks=3,5 total-dof=200 mode=strong partitioner=" + strings.Join(partitioners, ",") +
			" problem=poisson,mesh storage=plain,compressed",
		"num_ranks=2 dof-per-rank=100 partitioner=metis objective=volume mode=throughput",
		"num_ranks=2 dof-per-rank=100 dim=3 stencil=7,27 rhs=random,ones",
		"num_ranks=7 total-dof=4 mode=strong partitioner=" + strings.Join(partitioners, ","),
	} {
		if testing.Short() {
			axes = strings.NewReplacer("=1,3 ", "=3 ", "=3,5 ", "=3 ", "storage=plain,compressed", "").Replace(axes)
		}
		p := planned(t, axes, "repeat=1")
		for _, g := range p.Groups {
			for _, task := range g.Tasks {
				o := perform(t, task, p.Options, "cpu")[0]
				if o.Status != journal.OK || !(o.Metrics["rel_residual"] <= 1e-7) || o.Metrics["iterations"] < 1 {
					t.Errorf("%s ranks=%d: %s: %s (%v)", task.Point, task.Ranks, o.Status, o.Reason, o.Metrics["rel_residual"])
				}
			}
		}
		for _, d := range p.Dropped {
			method, _ := d.Point.Get(methodAxis)
			part, _ := d.Point.Get(partitionerAxis)
			pre, _ := d.Point.Get(precondAxis)
			registered, err := precondition.Preconditioners.Lookup(pre.String())
			if err != nil {
				t.Fatal(err)
			}
			if problem, _ := d.Point.Get(problemAxis); problem.String() != "advection" && problem.String() != "helmholtz" &&
				part.String() != "block" && !(registered.Grid && problem.String() == "mesh") && registered.Suits == nil {
				t.Errorf("%s on %s is dropped: %s", method, problem, d.Reason)
			}
		}
	}
}

// blockMetrics are the metrics of rows with several right-hand sides.
var blockMetrics = []string{"rhs_columns", "block_width", "restarts", "solve_time_per_rhs_s"}

// A solve in lower precision passes the same gate. The traffic that its row states is lower.
func TestPrecisionRow(t *testing.T) {
	bytes := map[string]float64{}
	p := planned(t, "num_ranks=2 dof-per-rank=3000 storage=plain precision=f64,f32-matrix,f32 method=cg,gmres "+
		"precond=jacobi,amg",
		"repeat=1")
	for _, task := range p.Groups[0].Tasks {
		if at := func(axis string) string { return task.Point.At(axis).String() }; at(methodAxis) == "cg" &&
			at(precondAxis) == "jacobi" {
			o := perform(t, task, p.Options, "cpu")[0]
			if o.Status != journal.OK || !(o.Metrics["rel_residual"] <= 1e-7) || !(o.Metrics["communication_us"] > 0) {
				t.Errorf("%s: %s: %s, %v us of communication", at(precisionAxis), o.Status, o.Reason,
					o.Metrics["communication_us"])
			}
			bytes[at(precisionAxis)] = o.Metrics["bytes_model"]
		}
	}
	if !(bytes["f64"] > 1.1*bytes["f32-matrix"] && bytes["f32-matrix"] > 1.1*bytes["f32"]) {
		t.Errorf("bytes of an iteration: %v", bytes)
	}
	if o := first(t, "num_ranks=1 dof-per-rank=100 precision=f32", "repeat=1 adjoint=true", "cpu"); o.Status !=
		journal.Skipped || o.Reason != "--adjoint solves in double precision, not with --precision f32" {
		t.Errorf("the adjoint in single precision: %s: %s", o.Status, o.Reason)
	}
	for _, want := range []string{"method gmres exists in double precision only, not with --precision f32",
		"precond amg exists in double precision only"} {
		if !slices.ContainsFunc(p.Dropped, func(d plan.Task) bool { return strings.Contains(d.Reason, want) }) {
			t.Errorf("no point is dropped because %s", want)
		}
	}
}

// A row with several right-hand sides states the traffic of a block iteration: the matrix once, the vectors of all
// columns. Its first column is the right-hand side of a row with one.
func TestColumnsRow(t *testing.T) {
	one := first(t, "num_ranks=2 dof-per-rank=3000 storage=plain", "repeat=1", "cpu").Metrics
	o := first(t, "num_ranks=2 dof-per-rank=3000 storage=plain nrhs=8", "repeat=1", "cpu")
	if o.Status != journal.OK {
		t.Fatal(o.Reason)
	}
	m := o.Metrics
	for _, name := range append(blockMetrics, "solve_time_s", "triad_fraction", "gbps", "bytes_model", "alone_us",
		"communication_us", meanOf(krylov.HaloWait), meanOf(krylov.AllReduce)) {
		if _, has := m[name]; !has {
			t.Errorf("no %s", name)
		}
	}
	rows := m["dof_global"]
	matrix := rows * m["matrix_bytes_per_dof"]
	if low, high := matrix+8*9*8*rows*0.9, matrix+8*9*8*rows*1.1; !(m["bytes_model"] > low && m["bytes_model"] < high) {
		t.Errorf("%.0f bytes by the model, want %.0f to %.0f", m["bytes_model"], low, high)
	}
	if !(m["iterations"] < 0.8*one["iterations"]) || !(m["block_width"] > 7) || m["rhs_columns"] != 8 {
		t.Errorf("%v iterations of width %v, one column takes %v", m["iterations"], m["block_width"], one["iterations"])
	}
	if got := len(strings.Fields(o.Details[convergedDetail])); got != 8 {
		t.Errorf("%d columns have converged", got)
	}
	levels := first(t, "num_ranks=2 dof-per-rank=3000 nrhs=3 precond=gmg", "repeat=1", "cpu")
	if levels.Status != journal.OK || levels.Details[levelsDetail] == "" {
		t.Errorf("with gmg: %s: %s, levels %q", levels.Status, levels.Reason, levels.Details[levelsDetail])
	}
	dropped := planned(t, "nrhs=4 rhs=random,ones method=cg,gmres", "").Dropped
	for _, want := range []string{"gmres has no block form",
		"--rhs ones would make 4 equal right-hand sides"} {
		if !slices.ContainsFunc(dropped, func(d plan.Task) bool { return strings.Contains(d.Reason, want) }) {
			t.Errorf("no point is dropped because %s", want)
		}
	}
}

// The metrics and details of a row.
func TestRow(t *testing.T) {
	o := first(t, "num_ranks=2 dof-per-rank=3000 method=cg-single", "repeat=3", "cpu")
	if o.Status != journal.OK {
		t.Fatal(o.Reason)
	}
	for _, m := range metrics {
		if _, has := o.Metrics[m.name]; !has && !strings.HasPrefix(m.name, "efficiency") && m.name != "speedup" &&
			m.name != "levels" && m.name != "trials_s" && !strings.HasSuffix(m.name, "_complexity") &&
			m.name != "bandwidth_scaling" &&
			!strings.HasPrefix(m.name, "allreduce_") && !slices.Contains(blockMetrics, m.name) && m.name != "reliable_updates" &&
			!strings.HasPrefix(m.name, "adjoint_") && !strings.HasPrefix(m.name, "gradient_") {
			t.Errorf("no %s", m.name)
		}
	}
	m := o.Metrics
	near := func(name string, want float64) {
		t.Helper()
		if math.Abs(m[name]-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	near("dof_global", 6000) // 80 x 75
	near("dof_per_rank", 3000)
	near("time_us", 1e6*m["solve_time_s"]/m["iterations"])
	near("throughput_dof_s", 6000/m["solve_time_s"])
	near("messages", 2*(m["iterations"]+1)/m["iterations"]) // one neighbour each, and one product at the start
	near("bytes", 2*80*8*(m["iterations"]+1)/m["iterations"])
	near("halo_bytes_per_dof", 80*8/3000.)
	near("edge_cut", 81) // the cut is within a line
	near("triad_fraction", m["gbps"]/m["triad_gbps"])
	if e, has := m["efficiency_communication"]; has {
		near("efficiency_communication", m["alone_us"]/m["time_us"])
	} else if m["alone_us"] <= m["time_us"] {
		t.Errorf("no efficiency of communication, but %v", e)
	}
	if r := m["reductions_per_iteration"]; r < 1 || r > 1.1 {
		t.Errorf("%v reductions per iteration of cg-single", r)
	}
	if s := m[workShare] + m[imbalanceShare] + m[waitingShare]; math.Abs(s-1) > 1e-9 {
		t.Errorf("the shares of an iteration add up to %v", s)
	}
	total := 0.0
	for p := range krylov.NumPhases {
		if total += m[meanOf(p)]; m[meanOf(p)] > m[slowestOf(p)]*(1+1e-9) {
			t.Errorf("%v: mean %v above the slowest rank's %v", p, m[meanOf(p)], m[slowestOf(p)])
		}
	}
	// The means over the ranks add up to the time of the mean rank. time_us is the time of the slowest rank.
	if total > 1.000001*m["time_us"] || total < 0.5*m["time_us"] {
		t.Errorf("the phases take %v of the %v us of the timed iteration", total, m["time_us"])
	}
	if !(m["communication_us"] > 0) || o.Details[cpuDetail] == "" || o.Details[threadsDetail] == "" ||
		o.Details[versionDetail] == "" {
		t.Errorf("messages by themselves take %v us, details %v", m["communication_us"], o.Details)
	}
	if st := o.Stats["solve_time_s"]; o.Samples != 3 || st.Min != m["solve_time_s"] || st.Max < st.P50 {
		t.Errorf("%d samples, spread %+v, best %v", o.Samples, st, m["solve_time_s"])
	}
	if o.Details["grid"] != "80x75x1" || o.Details["problem"] != "poisson 2-D 5-point" ||
		!strings.HasPrefix(o.Details[historyDetail], "[[0,1],[") {
		t.Errorf("details %v", o.Details)
	}
	if m := first(t, "num_ranks=2 dof-per-rank=300 method=cg-pipelined", "repeat=1",
		"cpu").Metrics; !(m["allreduce_blocking_us"] > 0) {
		t.Errorf("a method that hides its reductions has %v", m)
	}
}

// With strips a rank has two neighbours, however many ranks there are, and all messages are in flight at once.
func TestStripsHaveTwoNeighbours(t *testing.T) {
	for _, ranks := range []float64{3, 8} {
		m := first(t, fmt.Sprintf("num_ranks=%v dof-per-rank=300", ranks), "repeat=1", "cpu").Metrics
		if m["neighbours_max"] != 2 || math.Abs(m["messages"]-2*(ranks-1)) > 0.1*ranks {
			t.Errorf("%v ranks: %v neighbours, %v messages", ranks, m["neighbours_max"], m["messages"])
		}
	}
}

// spoiler is the cpu backend with a planted error: from the second run on, a prepared receive of doubles on rank 1
// swaps the first two elements. Operations that run once, such as the messages of the check, are correct.
type spoiler struct{}

type spoilerEngine struct {
	*dist.Group
	rest
}

// rest hides optional methods of the engine by embedding it one level deeper.
type rest struct{ dist.Engine }

func (spoiler) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	c.Backend = "cpu"
	g, err := dist.Init(ctx, c)
	return spoilerEngine{Group: g}, err
}

func (e spoilerEngine) Prepare(p dist.Plan) (run, release func() error, err error) {
	op, err := e.Group.Prepare(p.Call)
	runs := 0
	return func() error {
		err := op.Run()
		if runs++; runs > 1 && e.Rank() == 1 && p.Op == dist.Recv && p.DType == dist.F64 && p.Out.Count() > 1 {
			v := dist.Slice[float64](p.Out)
			v[0], v[1] = v[1], v[0]
		}
		return err
	}, op.Close, err
}

func (e spoilerEngine) Split(int, int) (dist.Engine, error) { return nil, errors.New("not needed") }

var spoilers atomic.Int32

// An error in the halo exchange fails the gate, whatever residual the method reports.
func TestWrongHaloFails(t *testing.T) {
	name := fmt.Sprintf("spoiler%d", spoilers.Add(1))
	dist.Register(dist.Description{Name: name}, spoiler{})
	for _, m := range krylov.Methods.All() {
		o := first(t, "num_ranks=2 dof-per-rank=300 method="+m.Name, "repeat=1 maxiter=500", name)
		if o.Status != journal.Failed ||
			!strings.Contains(o.Reason, "true relative residual") && !strings.Contains(o.Reason, "did not converge") {
			t.Errorf("%s: %s: %s", m.Name, o.Status, o.Reason)
		}
		if o := first(t, "num_ranks=2 dof-per-rank=300 method="+m.Name, "repeat=1 maxiter=500",
			"cpu"); o.Status != journal.OK {
			t.Errorf("%s without the error: %s", m.Name, o.Reason)
		}
	}
}

// A solve that does not converge gives a failed row that keeps what is known.
func TestNotConverged(t *testing.T) {
	o := first(t, "num_ranks=2 dof-per-rank=400", "maxiter=7", "cpu")
	if o.Status != journal.Failed || !strings.Contains(o.Reason, "did not converge: too many iterations (7)") ||
		o.Metrics["iterations"] != 7 {
		t.Errorf("%s: %s, %v iterations", o.Status, o.Reason, o.Metrics["iterations"])
	}
}

// A solve that may stop early passes without converging, with a warning. If it converges before, it is like any other.
// A wrong halo still fails.
func TestStopAfter(t *testing.T) {
	name := fmt.Sprintf("spoiler%d", spoilers.Add(1))
	dist.Register(dist.Description{Name: name}, spoiler{})
	for _, c := range []struct {
		after, backend string
		status         journal.Status
		iterations     float64 // 0 means fewer than the limit
		warning        string
	}{
		{"7", "cpu", journal.OK, 7, "stopped after 7 iterations"},
		{"500", "cpu", journal.OK, 0, ""},
		{"7", name, journal.Failed, 7, "true relative residual after 7 iterations"},
	} {
		o := first(t, "num_ranks=2 dof-per-rank=400", "repeat=2 stop-after="+c.after, c.backend)
		got := o.Metrics["iterations"]
		text := o.Reason + strings.Join(o.Conditions.Sentences(), "; ")
		if o.Status != c.status || c.iterations > 0 && got != c.iterations || c.iterations == 0 && !(got > 7 && got < 500) ||
			!strings.Contains(text, c.warning) || c.warning == "" && strings.Contains(text, "stopped") {
			t.Errorf("%s iterations on %s: %s after %v: %s", c.after, c.backend, o.Status, got, text)
		}
	}
}

// cg solves a symmetric Matrix Market file and refuses an unsymmetric one.
func TestMatrix(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "m.mtx")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n1 1 4\n2 1 -1\n2 2 4\n3 2 -1\n3 3 4\n")
	skew := write("%%MatrixMarket matrix coordinate real general\n2 2 4\n1 1 2\n1 2 1\n2 1 -1\n2 2 2\n")
	general := write("%%MatrixMarket matrix coordinate real general\n3 3 7\n1 1 4\n2 1 -1\n1 2 -1\n2 2 4\n3 2 -1\n2 3 " +
		"-1\n3 3 4\n")
	nearly := write("%%MatrixMarket matrix coordinate real general\n3 3 7\n1 1 4\n2 1 -1\n1 2 -1\n2 2 4\n3 2 -1\n2 3 " +
		"-1.001\n3 3 4\n")
	bad := write("%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 2\n2 x 1\n")
	three := write("%%MatrixMarket matrix array real general\n3 1\n1\n2\n3\n")
	two := write("%%MatrixMarket matrix array real general\n3 2\n1\n2\n3\n6\n5\n4\n")
	zero := write("%%MatrixMarket matrix array real general\n3 2\n1\n2\n3\n0\n0\n0\n")
	for _, c := range []struct {
		axes, options string
		status        journal.Status
		reason        string
	}{
		{"mode=strong rhs=file:" + zero, "matrix=" + good, journal.Failed, "m.mtx has only zeros, so its solution"},
		{"mode=strong", "matrix=" + good, journal.OK, ""},
		{"mode=strong partitioner=multilevel", "matrix=" + good, journal.OK, ""},
		{"mode=strong", "matrix=" + skew, journal.Skipped, "needs a symmetric positive definite"},
		{"mode=strong", "matrix=" + general, journal.OK, ""},
		{"mode=strong method=minres", "matrix=" + general, journal.OK, ""},
		{"mode=strong", "matrix=" + nearly, journal.Skipped, "needs a symmetric positive definite"},
		{"mode=strong method=gmres", "matrix=" + skew, journal.OK, ""},
		{"mode=strong", "matrix=" + bad, journal.Failed, "line 4"},
		{"mode=strong rhs=file:" + three, "matrix=" + good, journal.OK, ""},
		{"mode=strong rhs=file:" + three, "matrix=" + skew, journal.Failed,
			"the right-hand side has 3 values, the matrix 2 rows"},
		{"mode=strong rhs=file:" + two, "matrix=" + skew, journal.Failed,
			"the right-hand side has 3 values, the matrix 2 rows"},
		{"mode=strong rhs=file:" + two, "matrix=" + good, journal.OK, ""},
		{"mode=strong nrhs=2 rhs=file:" + two, "matrix=" + good, journal.OK, ""},
		{"mode=strong nrhs=3 rhs=file:" + two, "matrix=" + good, journal.Failed, "m.mtx has 2 columns, but --nrhs is 3"},
		{"mode=strong method=gmres rhs=file:" + two, "matrix=" + good, journal.Skipped, "gmres has no block form"},
		{"mode=strong precision=f32 rhs=file:" + two, "matrix=" + good, journal.Skipped,
			"m.mtx has 2 columns: nrhs 2 exists in double precision only, not with --precision f32"},
		{"mode=strong precond=amg cycle=k rhs=file:" + two, "matrix=" + good, journal.Skipped, "needs a symmetric cycle"},
		{"mode=strong rhs=file:" + bad, "matrix=" + good, journal.Failed, "the banner is"},
		{"mode=strong partitioner=coordinate", "matrix=" + good, journal.Failed, "no coordinates"},
		{"mode=strong partitioner=block", "matrix=" + good, journal.Failed, "no grid"},
	} {
		o := first(t, "num_ranks=2 "+c.axes, c.options, "cpu")
		if o.Status != c.status || !strings.Contains(o.Reason, c.reason) {
			t.Errorf("%s, %s: %s: %s", c.axes, filepath.Base(c.options), o.Status, o.Reason)
		}
	}
}

// The solution and the matrix that a run writes can be read again: they solve the system.
func TestWrittenFiles(t *testing.T) {
	dir := t.TempDir()
	x, a := filepath.Join(dir, "x.mtx"), filepath.Join(dir, "a.mtx")
	o := first(t, "num_ranks=3 dof-per-rank=30 problem=advection method=gmres partitioner=block rhs=ones",
		"repeat=1 write-solution="+x+" write-matrix="+a, "cpu")
	if o.Status != journal.OK {
		t.Fatal(o.Reason)
	}
	solution, err := solve.VectorFile(x)
	if err != nil {
		t.Fatal(err)
	}
	matrix, err := sparse.LoadMatrix(a, nil)
	if err != nil || matrix.Size() != len(solution) || float64(len(solution)) != o.Metrics["dof_global"] {
		t.Fatalf("%v: %d values", err, len(solution))
	}
	var row sparse.Row
	for i := range solution {
		left := 1.0
		matrix.Row(i, &row)
		for k, c := range row.Cols {
			left -= row.Vals[k] * solution[c]
		}
		if math.Abs(left) > 1e-6 {
			t.Errorf("row %d: a residual of %g", i, left)
		}
	}
}

// Invalid numbers and files refuse the whole request, and nothing runs.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ axes, options, reason string }{
		{"", "rtol=-1", "rtol: -1: want a number above 0"},
		{"", "rtol=0", "rtol: 0: want"},
		{"", "rtol=1", "below 1"},
		{"", "maxiter=-1", "maxiter: -1: want a number of 0 or more"},
		{"", "stop-after=-5", "stop-after: -5: want a number of 0 or more"},
		{"method=gmres", "restart=0", "restart: 0: want a number of 1 or more"},
		{"", "repeat=0", "repeat: 0: want a number of 1 or more"},
		{"dof-per-rank=0", "", "--dof-per-rank 0: want at least 1"},
		{"mode=weak", "matrix=m.mtx", "--mode strong takes the file"},
		{"mode=weak,strong", "matrix=m.mtx", "--mode strong takes the file"},
		{"mode=strong total-dof=500", "matrix=m.mtx", "leave it out"},
		{"mode=strong problem=poisson", "matrix=m.mtx", "give one of them"},
	} {
		_, err := plan.Make(Bench(), plan.Request{Axes: assigns(c.axes + " num_ranks=1"), Options: assigns(c.options),
			Backend: "cpu"})
		if err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s %s: %v, want the reason %q", c.axes, c.options, err, c.reason)
		}
	}
	planned(t, "mode=strong", "matrix=m.mtx rtol=1e-3 maxiter=0 restart=1")
}

// Invalid combinations are dropped when planning, with a reason.
func TestDropped(t *testing.T) {
	for _, c := range []struct{ axes, reason string }{
		{"mode=wek", "did you mean"},
		{"method=cgs", "did you mean"},
		{"partitioner=metiss", "did you mean"},
		{"precond=ilu", "none"},
		{"rhs=sine", "random"},
		{"storage=csr", "plain"},
		{"objective=volume", "only metis"},
		{"mode=strong dof-per-rank=1K,10K", "mode=strong takes its size from --total-dof"},
		{"mode=weak total-dof=5K", "mode=weak takes its size from --dof-per-rank"},
		{"mode=throughput total-dof=5K,6K", "mode=throughput takes its size from --dof-per-rank"},
		{"problem=poison", "poisson"},
		{"problem=advection", "needs a symmetric positive definite matrix"},
		{"problem=advection method=minres", "needs a symmetric matrix"},
		{"problem=mesh partitioner=block", "no grid"},
		{"problem=advection method=gmres precond=chebyshev",
			"preconditioner chebyshev needs a symmetric positive definite matrix"},
		{"problem=mesh dim=3", "want 2"},
		{"problem=poisson dim=2 stencil=7", "5 or 9"},
	} {
		_, err := plan.Make(Bench(), plan.Request{Axes: assigns(c.axes + " num_ranks=1"), Backend: "cpu"})
		if err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want the reason %q", c.axes, err, c.reason)
		}
	}
	planned(t, "problem=advection method=gmres,bicgstab", "")
}
