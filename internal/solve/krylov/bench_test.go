package krylov

import (
	"fmt"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// whole is the layout of a single rank.
type whole int

func (n whole) Owner(int) int           { return 0 }
func (n whole) Rows(int) []sparse.Range { return []sparse.Range{{Lo: 0, Hi: int(n)}} }

// BenchmarkIteration measures one iteration. Its bytes are the traffic of a fused CG iteration over compressed sparse
// rows, 152 per row with 5 points, so that MB/s can be compared with BenchmarkTriad.
func BenchmarkIteration(b *testing.B) {
	for _, bc := range []struct {
		problem      string
		dim, stencil int
		bytes        int64
	}{{"poisson", 2, 5, 152}, {"poisson", 3, 7, 176}, {"poisson", 3, 27, 416}, {"variable", 2, 5, 152},
		{"mesh", 2, 0, 164}} {
		for _, format := range []sparse.Format{sparse.Compressed, sparse.Plain} {
			for _, method := range []string{"cg", "cg-single"} {
				for _, precondition := range []bool{false, true} {
					b.Run(fmt.Sprintf("%s%d-%d/%v/%s/%v", bc.problem, bc.dim, bc.stencil, format, method, precondition),
						func(b *testing.B) {
							p := must.Get(sparse.New(bc.problem, sparse.Params{Rows: 1000000, Dim: bc.dim, Stencil: bc.stencil}))(b)
							benchIteration(b, p, format, method, precondition, bc.bytes)
						})
				}
			}
		}
	}
}

func benchIteration(b *testing.B, p sparse.Problem, format sparse.Format, method string, precondition bool,
	bytes int64) {
	plan := sparse.NewPlan(p, whole(p.Size()), 0)
	inverse := jacobiOf(plan, p)
	m := must.Get(plan.Matrix(p, format))(b)
	s := must.Get(New(method, p.Traits(), Config{RTol: 1e-300, MaxIter: b.N, Precondition: precondition}))(b)
	e := NewEngine(m, plan, inverse, s.Vectors())
	for i := range e.Vector(B) {
		e.Vector(B)[i] = sparse.Noise(1, i)
	}
	b.SetBytes(bytes * int64(p.Size()))
	b.ResetTimer()
	must.Get(s.Run(func(stage *Stage) ([]float64, error) { return e.Run(stage, NoHalo{}) }))(b)
	b.ReportMetric(float64(m.Bytes())/float64(m.Rows()), "B/row")
}

// BenchmarkFewRows measures an iteration on 10,000 rows, which fit in the second-level cache, on one rank that never
// waits. The shortest of many solves of 50 iterations counts, because few of them are disturbed.
func BenchmarkFewRows(b *testing.B) {
	const iterations = 50
	p := must.Get(sparse.New("poisson", sparse.Params{Rows: 160000}))(b)
	plan := sparse.NewPlan(p, stripes{p.Size(), 16, 10000}, 5)
	inverse := jacobiOf(plan, p)
	for _, format := range []sparse.Format{sparse.Compressed, sparse.Plain} {
		m := must.Get(plan.Matrix(p, format))(b)
		for _, precondition := range []bool{false, true} {
			for _, method := range []string{"cg", "cg-single", "cg-pipelined"} {
				b.Run(fmt.Sprintf("%v/%s/%v", format, method, precondition), func(b *testing.B) {
					solver := func() *Solver {
						return must.Get(New(method, p.Traits(), Config{RTol: 1e-300, MaxIter: iterations, Precondition: precondition}))(b)
					}
					e := NewEngine(m, plan, inverse, solver().Vectors())
					for i := range e.Vector(B) {
						e.Vector(B)[i] = sparse.Noise(1, i)
					}
					shortest := time.Hour
					for b.Loop() {
						began, s := time.Now(), solver()
						must.Get(s.Run(func(stage *Stage) ([]float64, error) { return e.Run(stage, NoHalo{}) }))(b)
						shortest = min(shortest, time.Since(began))
					}
					b.ReportMetric(float64(shortest.Nanoseconds())/iterations, "ns/iteration")
				})
			}
		}
	}
}

// BenchmarkTriad measures the memory bandwidth: a = b + c*d over vectors larger than the caches, counted as in
// stream.c.
func BenchmarkTriad(b *testing.B) {
	const n = 20 << 20
	x, y, z := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], y[i] = 1, 2
	}
	b.SetBytes(24 * n)
	b.ResetTimer()
	for range b.N {
		sparse.Axpby(z, 1, x, 3, y)
	}
}
