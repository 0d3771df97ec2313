package solve_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/solve"
)

// Two ranks, here goroutines, solve Poisson's equation by conjugate gradients.
func Example() {
	const ranks, rtol = 2, 1e-8
	problem, err := solve.NewProblem("poisson", solve.Params{Rows: 900})
	if err != nil {
		log.Fatal(err)
	}
	var wait sync.WaitGroup
	for rank := range ranks {
		wait.Go(func() {
			group, err := dist.Init(context.Background(), dist.Config{Backend: "cpu", Rank: rank, Size: ranks, ID: "example"})
			if err != nil {
				log.Fatal(err)
			}
			defer group.Close()
			sys, err := solve.New(group, solve.Spec{Problem: problem, RTol: rtol,
				RHS: func(row int) float64 { return float64(row%7) - 3 }, Partitioner: "coordinate", Preconditioner: "jacobi"})
			if err != nil {
				log.Fatal(err)
			}
			out, err := sys.Solve(0)
			if err == nil {
				err = sys.Check(&out)
			}
			if err == nil {
				err = out.Gate(rtol)
			}
			if rank == 0 {
				fmt.Printf("%v, error %v, %d of %d rows here\n", out.Status, err, len(sys.Solution()), sys.Size)
			}
		})
	}
	wait.Wait()
	// Output: converged, error <nil>, 450 of 900 rows here
}

// Methods lists the registered Krylov methods.
func ExampleMethods() {
	for _, m := range solve.Methods() {
		fmt.Printf("%s: %v, reductions per iteration: %d\n", m.Name, m.Needs, m.Reductions)
	}
	// Output:
	// bicgstab: any matrix, reductions per iteration: 2
	// cg: a symmetric positive definite matrix, reductions per iteration: 2
	// cg-pipelined: a symmetric positive definite matrix, reductions per iteration: 1
	// cg-single: a symmetric positive definite matrix, reductions per iteration: 1
	// gmres: any matrix, reductions per iteration: 2
	// minres: a symmetric matrix, reductions per iteration: 2
}
