// Command ownproblem solves a linear system with package solve. It provides the matrix, the
// right-hand side and a preconditioner, and uses only public packages.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"sync"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/all"
	"github.com/kernbench/kernbench/solve"
)

// rod is the heat equation in a rod with the given number of points and zero at both ends.
type rod int

func (n rod) Size() int            { return int(n) }
func (n rod) Traits() solve.Traits { return solve.Traits{Symmetric: true, Definite: true} }

func (n rod) Row(i int, r *solve.Row) {
	r.Reset()
	if i > 0 {
		r.Add(i-1, -1)
	}
	r.Add(i, 2)
	if i < int(n)-1 {
		r.Add(i+1, -1)
	}
}

// wanted returns component i of the solution that the right-hand side is made for.
func (n rod) wanted(i int) float64 { return math.Sin(3*float64(i)/float64(n)) + float64(i%5) }

// source returns component i of the right-hand side: row i times the wanted solution.
func (n rod) source(i int) float64 {
	var r solve.Row
	n.Row(i, &r)
	sum := 0.0
	for k, c := range r.Cols {
		sum += r.Vals[k] * n.wanted(c)
	}
	return sum
}

func init() {
	solve.RegisterPreconditioner(solve.Preconditioner{Name: "pieces",
		Help:  "each rank's piece of the rod, solved by elimination",
		Needs: solve.SymmetricDefinite,
		New:   func(l *solve.Local) (solve.Operator, error) { return newPieces(l.Plan.Owned), nil }})
}

// pieces solves the part of the rod that belongs to one rank, by elimination. It implements
// solve.Operator.
type pieces struct{ pivots []float64 }

func newPieces(points int) pieces {
	p := pieces{make([]float64, points)}
	for i := range p.pivots {
		p.pivots[i] = 2
		if i > 0 {
			p.pivots[i] -= 1 / p.pivots[i-1]
		}
	}
	return p
}

// Apply solves for the points of this rank.
func (p pieces) Apply(dst, src []float64) error {
	for i := range p.pivots {
		dst[i] = src[i]
		if i > 0 {
			dst[i] += dst[i-1] / p.pivots[i-1]
		}
	}
	for i := len(p.pivots) - 1; i >= 0; i-- {
		if i < len(p.pivots)-1 {
			dst[i] += dst[i+1]
		}
		dst[i] /= p.pivots[i]
	}
	return nil
}

// Local reports that Apply does not communicate.
func (pieces) Local() bool { return true }

// Bytes returns the bytes that Apply reads and writes, apart from its vectors.
func (p pieces) Bytes() int { return 16 * len(p.pivots) }

func main() {
	const ranks, points, rtol = 3, 1000, 1e-10
	worst := make([]float64, ranks)
	var wait sync.WaitGroup
	for rank := range ranks { // ranks are goroutines here; they could be processes
		wait.Go(func() {
			iterations, off, err := heat(rank, ranks, rod(points), rtol)
			if err != nil {
				log.Fatal(err)
			}
			if worst[rank] = off; rank == 0 {
				fmt.Printf("%d iterations\n", iterations)
			}
		})
	}
	wait.Wait()
	fmt.Printf("the solution is right to 6 digits: %v\n", max(worst[0], worst[1], worst[2]) < 1e-6)
}

// heat solves the part of one rank, and returns the number of iterations and the largest error.
func heat(rank, ranks int, problem rod, rtol float64) (iterations int, off float64, err error) {
	group, err := dist.Init(context.Background(), dist.Config{Backend: "cpu", Rank: rank, Size: ranks, ID: "rod"})
	if err != nil {
		return 0, 0, err
	}
	defer group.Close()
	sys, err := solve.New(group, solve.Spec{Problem: problem, RHS: problem.source,
		Method: "cg", Preconditioner: "pieces", RTol: rtol})
	if err != nil {
		return 0, 0, err
	}
	out, err := sys.Solve(0)
	if err != nil {
		return 0, 0, err
	}
	if err := sys.Check(&out); err != nil {
		return 0, 0, err
	}
	for i, x := range sys.Solution() {
		off = max(off, math.Abs(x-problem.wanted(sys.Global(i))))
	}
	return out.Iterations, off, out.Gate(rtol)
}
