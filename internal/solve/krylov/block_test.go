package krylov

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// blockTeam solves a problem with several right-hand sides on several ranks, which are goroutines.
type blockTeam struct {
	problem  sparse.Problem
	cfg      Config
	layout   sparse.Layout
	ranks    int
	columns  int
	operator func(plan *sparse.Plan) Operator
	rhs      func(row, column int) float64
}

// solve returns the solutions by column.
func (tm blockTeam) solve(t must.T) ([][]float64, BlockResult) {
	t.Helper()
	plans := make([]*sparse.Plan, tm.ranks)
	boxes := map[[2]int]chan []float64{}
	for r := range plans {
		plans[r] = sparse.NewPlan(tm.problem, tm.layout, r)
		for q := range tm.ranks {
			boxes[[2]int{r, q}] = make(chan []float64, 1)
		}
	}
	for _, p := range plans {
		for i := range p.Peers {
			must.Do(t, plans[p.Peers[i].Rank].Serve(p.Rank, p.Wants(&p.Peers[i])))
		}
	}
	x := make([][]float64, tm.columns)
	for j := range x {
		x[j] = make([]float64, tm.problem.Size())
	}
	results, errs := make([]BlockResult, tm.ranks), make([]error, tm.ranks)
	sum := &adder{ranks: tm.ranks}
	var wg sync.WaitGroup
	for r, plan := range plans {
		m := must.Get(plan.Matrix(tm.problem, sparse.Compressed))(t)
		wg.Go(func() {
			var operator Operator
			if tm.operator != nil {
				operator = tm.operator(plan)
			}
			k := NewBlock(m, plan, operator, tm.columns)
			for i := range plan.Owned {
				for j := range tm.columns {
					k.RHS()[i*tm.columns+j] = tm.rhs(plan.Global(i), j)
				}
			}
			results[r], errs[r] = k.Solve(tm.cfg, &mailbox{plan, boxes, false},
				func(local []float64) ([]float64, error) { return sum.add(r, local), nil })
			part := make([]float64, plan.Owned)
			for j := range x {
				k.Solution(part, j)
				for i, v := range part {
					x[j][plan.Global(i)] = v
				}
			}
		})
	}
	wg.Wait()
	for r := range results {
		must.Do(t, errs[r])
		if results[r].Iterations != results[0].Iterations || results[r].Status != results[0].Status {
			must.Do(t, fmt.Errorf("ranks disagree: %+v and %+v", results[r].Result, results[0].Result))
		}
	}
	return x, results[0]
}

// worst returns the largest relative true residual of the columns.
func (tm blockTeam) worst(x [][]float64) (column int, residual float64) {
	var row sparse.Row
	for j := range x {
		var rr, bb float64
		for i := range tm.problem.Size() {
			tm.problem.Row(i, &row)
			r := tm.rhs(i, j)
			bb += r * r
			for k, c := range row.Cols {
				r -= row.Vals[k] * x[j][c]
			}
			rr += r * r
		}
		if rel := math.Sqrt(rr / bb); bb > 0 && !(rel <= residual) || bb == 0 && rr > 0 {
			column, residual = j, rel
		}
	}
	return column, residual
}

// randomSPD is a random sparse, symmetric, diagonally dominant matrix.
type randomSPD struct {
	n    int
	seed uint64
}

func (p randomSPD) Size() int { return p.n }

func (p randomSPD) Traits() sparse.Traits { return sparse.Traits{Symmetric: true, Definite: true} }

func (p randomSPD) Row(i int, r *sparse.Row) {
	r.Reset()
	diagonal := 0.01
	at := 0
	for j := range p.n {
		key := min(i, j)*p.n + max(i, j)
		if j == i {
			at = len(r.Cols)
			r.Add(i, 0)
		} else if v := sparse.Noise(p.seed, key); math.Abs(sparse.Noise(p.seed+1, key)) < 4/float64(p.n) {
			r.Add(j, v)
			diagonal += math.Abs(v)
		}
	}
	r.Vals[at] = diagonal
}

// The columns of a block solve are the solutions of the single systems, on any number of ranks, with and without a
// preconditioner, for right-hand sides that are random, equal, nearly equal, zero, or of very different size.
func TestBlockSolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 90).Draw(t, "n")
		seed := rapid.Uint64Range(0, 1000).Draw(t, "seed")
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		columns := rapid.SampledFrom([]int{1, 2, 3, 4, 8, 16, 20}).Draw(t, "columns")
		kinds := rapid.SliceOfN(rapid.IntRange(0, 4), columns, columns).Draw(t, "kinds")
		preconditioner := rapid.SampledFrom([]string{"none", "diagonal", "operator"}).Draw(t, "preconditioner")
		p := randomSPD{n, seed}
		tm := blockTeam{problem: p, layout: stripes{n, ranks, 1 + n/7}, ranks: ranks, columns: columns,
			cfg: Config{RTol: 1e-10, MaxIter: 2000}, rhs: func(row, column int) float64 {
				switch v := sparse.Noise(seed+2, row); kinds[column] {
				case 0:
					return v // equal columns
				case 1:
					return 0
				case 2:
					return v + 1e-9*sparse.Noise(seed+3+uint64(column), row)
				case 3:
					return math.Pow(10, float64(3*column-20)) * sparse.Noise(seed+3+uint64(column), row)
				}
				return sparse.Noise(seed+3+uint64(column), row)
			}}
		switch preconditioner {
		case "diagonal":
			tm.operator = func(plan *sparse.Plan) Operator { return jacobiOf(plan, p) }
		case "operator":
			tm.operator = func(plan *sparse.Plan) Operator { return unfused{jacobiOf(plan, p)} }
		}
		x, result := tm.solve(t)
		if result.Status != Converged {
			t.Fatalf("%v after %d iterations and %d restarts: %s, residuals %.3g", result.Status, result.Iterations,
				result.Restarts, result.Reason, result.Residuals)
		}
		if j, r := tm.worst(x); !(r <= 3e-10) {
			t.Fatalf("column %d has a residual of %g after %d iterations, the method says %g", j, r, result.Iterations,
				result.Residuals[j])
		}
	})
}

// A block needs fewer iterations than a single column, and equal columns need as many as one.
func TestBlockIterations(t *testing.T) {
	p := must.Get(sparse.New("poisson", sparse.Params{Rows: 2500, Dim: 2}))(t)
	iterations := func(columns int, rhs func(row, column int) float64) BlockResult {
		tm := blockTeam{problem: p, layout: sparse.Strips{0, p.Size()}, ranks: 1, columns: columns,
			cfg: Config{RTol: 1e-8, MaxIter: 1000}, rhs: rhs}
		_, result := tm.solve(t)
		if result.Status != Converged || result.Restarts > 0 {
			t.Fatalf("%d columns: %v, %d restarts, %s", columns, result.Status, result.Restarts, result.Reason)
		}
		return result
	}
	different := func(row, column int) float64 { return sparse.Noise(uint64(column), row) }
	one, eight := iterations(1, different), iterations(8, different)
	equal := iterations(8, func(row, _ int) float64 { return different(row, 0) })

	if eight.Iterations*3 > one.Iterations*2 {
		t.Errorf("8 columns take %d iterations, one takes %d", eight.Iterations, one.Iterations)
	}
	if equal.Iterations != one.Iterations || equal.Widths != one.Widths {
		t.Errorf("equal columns take %d iterations of width %d in total, one takes %d of %d", equal.Iterations, equal.Widths,
			one.Iterations, one.Widths)
	}
}

var benchRows = flag.Int("rows", 1000000, "rows of the matrices of BenchmarkBlock")

// BenchmarkBlock measures an iteration with several right-hand sides in plain storage, in turn with an iteration of cg.
// It reports the shortest of each, their ratio, and the ratio by the byte model: the matrix once, the vectors once for
// each column.
func BenchmarkBlock(b *testing.B) {
	for _, stencil := range []int{5, 7, 27} {
		p := must.Get(sparse.New("poisson", sparse.Params{Rows: *benchRows, Dim: 2 + stencil%5/2, Stencil: stencil}))(b)
		plan := sparse.NewPlan(p, whole(p.Size()), 0)
		m := must.Get(plan.Matrix(p, sparse.Plain))(b)
		for _, columns := range []int{4, 16, 64} {
			b.Run(fmt.Sprintf("%d-point/%d", stencil, columns), func(b *testing.B) { benchBlock(b, p, plan, m, columns) })
		}
	}
}

func benchBlock(b *testing.B, p sparse.Problem, plan *sparse.Plan, m *sparse.Matrix, columns int) {
	solver := func(limit int) *Solver {
		return must.Get(New("cg", p.Traits(), Config{RTol: 1e-300, MaxIter: limit}))(b)
	}
	e := NewEngine(m, plan, nil, solver(1).Vectors())
	k := NewBlock(m, plan, nil, columns)
	for i := range e.Vector(B) {
		e.Vector(B)[i] = sparse.Noise(1, i)
		for j := range columns {
			k.RHS()[i*columns+j] = sparse.Noise(uint64(j), i)
		}
	}
	local := func(sums []float64) ([]float64, error) { return sums, nil }
	// The shortest solves of 1 and of 3 iterations differ by two iterations, without the start.
	limits := []int{1, 3}
	one, block := []float64{math.Inf(1), math.Inf(1)}, []float64{math.Inf(1), math.Inf(1)}
	moved := make([]float64, 2)
	for b.Loop() {
		for i, limit := range limits {
			one[i] = min(one[i], cpuTime(func() {
				must.Get(solver(limit).Run(func(stage *Stage) ([]float64, error) { return e.Run(stage, NoHalo{}) }))(b)
			}))
			block[i] = min(block[i], cpuTime(func() {
				work := must.Get(k.Solve(Config{RTol: 1e-300, MaxIter: limit}, NoHalo{}, local))(b).Work
				moved[i] = work[SpMV].Bytes + work[Updates].Bytes
			}))
		}
	}
	single, each, bytes := (one[1]-one[0])/2, (block[1]-block[0])/2, (moved[1]-moved[0])/2
	alone := float64(m.Bytes() + 9*8*m.Rows())
	b.ReportMetric(1e3*single, "ms-single")
	b.ReportMetric(1e3*each, "ms-block")
	b.ReportMetric(each/single, "ratio")
	b.ReportMetric(bytes/alone, "model")
	b.ReportMetric(alone/single/1e9, "GB/s-single")
	b.ReportMetric(bytes/each/1e9, "GB/s-block")
}

// cpuTime returns the seconds that a call takes on its processor, without the time of other programs.
func cpuTime(call func()) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() int64 {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // getrusage counts in ticks of some kernels
		return t.Nano()
	}
	began := now()
	call()
	return float64(now()-began) / 1e9
}
