package multigrid

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// benchmarked lists the problems of a million unknowns on which set-up and cycle are timed.
var benchmarked = []struct {
	name, kind, coarsener string
	params                sparse.Params
	format                sparse.Format
}{
	{"2-D/gmg", "poisson", "gmg", sparse.Params{Rows: 1000000}, sparse.Compressed},
	{"2-D/amg", "poisson", "amg", sparse.Params{Rows: 1000000}, sparse.Compressed},
	{"3-D/gmg", "poisson", "gmg", sparse.Params{Rows: 1000000, Dim: 3}, sparse.Compressed},
	{"3-D/amg", "poisson", "amg", sparse.Params{Rows: 1000000, Dim: 3}, sparse.Compressed},
	{"variable/gmg", "variable", "gmg", sparse.Params{Rows: 1000000}, sparse.Compressed},
	{"variable/amg", "variable", "amg", sparse.Params{Rows: 1000000, Contrast: 1e6}, sparse.Compressed},
	{"variable/amg-bf16", "variable", "amg", sparse.Params{Rows: 1000000, Contrast: 1e6}, sparse.Bfloat16},
	{"mesh/amg-f32", "mesh", "amg", sparse.Params{Rows: 1000000}, sparse.Single},
	{"mesh/amg-bf16", "mesh", "amg", sparse.Params{Rows: 1000000}, sparse.Bfloat16},
	{"mesh/amg", "mesh", "amg", sparse.Params{Rows: 1000000}, sparse.Compressed},
}

// asInPractice restores the level sizes that TestMain reduces.
func asInPractice(b *testing.B) {
	last, few := lastRows, fewRows
	lastRows, fewRows = 300, 256
	b.Cleanup(func() { lastRows, fewRows = last, few })
}

// cpuTime starts to measure CPU time in addition to the clock, because other programs disturb it less.
func cpuTime(b *testing.B) (report func()) {
	began := cpuSeconds(b)
	return func() { b.ReportMetric(1e9*(cpuSeconds(b)-began)/float64(b.N), "cpu-ns/op") }
}

// cpuSeconds returns the CPU time of this process.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkSetup measures the set-up on one rank, and on two ranks with half the rows each, whose CPU times are added
// up.
func BenchmarkSetup(b *testing.B) {
	for _, c := range benchmarked {
		for _, ranks := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/ranks=%d", c.name, ranks), func(b *testing.B) {
				asInPractice(b)
				p := must.Get(sparse.New(c.kind, c.params))(b)
				report := func() {}
				onRanks(b, ranks, p.Size()/ranks, p, func(l *precondition.Local) {
					if l.Team.Rank() == 0 {
						b.ResetTimer()
						report = cpuTime(b)
					}
					for range b.N {
						if _, err := build(l, choiceOf(l, c.coarsener), c.format); err != nil {
							b.Error(err)
						}
					}
				})
				report()
			})
		}
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, c := range benchmarked {
		b.Run(c.name, func(b *testing.B) {
			asInPractice(b)
			p := must.Get(sparse.New(c.kind, c.params))(b)
			onRanks(b, 1, 1, p, func(l *precondition.Local) {
				op := must.Get(build(l, choiceOf(l, c.coarsener), c.format))(b)
				iterations := 0
				report := cpuTime(b)
				for b.Loop() {
					iterations = solved(b, l, op)
				}
				report()
				complexity, _ := op.(*Cycle).Complexities()
				b.ReportMetric(float64(iterations), "iterations")
				b.ReportMetric(complexity, "complexity")
				b.ReportMetric(float64(op.Bytes())/float64(p.Size()), "B/row")
			})
		})
	}
}

// solved returns the number of iterations of cg to solve for ones to 1e-10.
func solved(b *testing.B, l *precondition.Local, op krylov.Operator) int {
	s, err := krylov.New("cg", l.Traits, krylov.Config{RTol: 1e-10, MaxIter: 1000, Precondition: true, Stored: true})
	if err != nil {
		b.Fatal(err)
	}
	e := krylov.NewEngine(l.Matrix, l.Plan, op, s.Vectors())
	for i := range e.Vector(krylov.B) {
		e.Vector(krylov.B)[i] = 1
	}
	r := must.Get(s.Run(func(stage *krylov.Stage) ([]float64, error) { return e.Run(stage, l.Halo) }))(b)
	if r.Status != krylov.Converged {
		b.Fatal(r)
	}
	return r.Iterations
}

// BenchmarkStorage applies cycles with each storage of the matrices in turns, and reports the CPU time of double
// precision relative to the others, as the median over all turns. Neighbours on the machine slow all of them down.
func BenchmarkStorage(b *testing.B) {
	for _, c := range benchmarked[4:6] {
		b.Run(c.name, func(b *testing.B) {
			asInPractice(b)
			p := must.Get(sparse.New(c.kind, c.params))(b)
			onRanks(b, 1, 1, p, func(l *precondition.Local) {
				formats := []sparse.Format{sparse.Compressed, sparse.Single, sparse.Bfloat16}
				cycles := make([]krylov.Operator, len(formats))
				for k, format := range formats {
					cycles[k] = must.Get(build(l, choiceOf(l, c.coarsener), format))(b)
				}
				src, dst := make([]float64, l.Matrix.Columns()), make([]float64, l.Matrix.Columns())
				for i := range src {
					src[i] = sparse.Noise(1, i)
				}
				ratios := make([][]float64, len(formats))
				for b.Loop() {
					spent := make([]float64, len(formats))
					for k, cycle := range cycles {
						before := cpuSeconds(b)
						must.Do(b, cycle.Apply(dst, src))
						spent[k] = cpuSeconds(b) - before
					}
					for k := range ratios {
						ratios[k] = append(ratios[k], spent[0]/spent[k])
					}
				}
				for k, format := range formats[1:] {
					slices.Sort(ratios[k+1])
					b.ReportMetric(ratios[k+1][len(ratios[k+1])/2], "x-"+format.String())
				}
			})
		})
	}
}
