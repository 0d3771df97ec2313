// Package solve solves sparse linear systems A x = b over the ranks of a process group (package dist). Each rank
// generates its own rows, exchanges halos with its neighbours in every matrix product, and takes part in the
// all-reduces of a Krylov method.
//
//	problem, err := solve.NewProblem("poisson", solve.Params{Rows: 1_000_000})
//	sys, err := solve.New(group, solve.Spec{            // partitions, makes rows, plans the halo
//		Problem: problem,
//		RHS:     func(row int) float64 { return 1 },
//		RTol:    1e-8,
//	})
//	out, err := sys.Solve(0)                            // may be called again
//	err = sys.Check(&out)                               // the true residual, computed from the problem
//	err = out.Gate(1e-8)                                // converged, and to the right solution
//
// examples/ownproblem is a complete program.
//
// Every rank of the group makes the same calls. System.Solution returns the values of x for the rows of the calling
// rank, and System.Global their row numbers.
//
// # Problems
//
// A Problem returns any row by its number, so a rank generates only its own rows. NewProblem makes the registered
// problems (Problems lists them), and Spec.MatrixFile names a Matrix Market file. Any type with the methods Size,
// Row and Traits is a Problem. Partitioners can use the grid or the coordinates of a problem that implements Gridded
// or Located.
//
// # Partitioners, methods, preconditioners
//
// A Spec names them. Partitioners, Methods and Preconditioners list what is registered, with its requirements. The
// functions RegisterPartitioner, RegisterMethod, RegisterPreconditioner and RegisterProblem add more, and the bench
// solve-scaling, its help and its tests then include them. docs/extending.md has worked examples. New returns a
// *Refusal if a method or preconditioner cannot work on the problem.
//
// # Memory
//
// A rank needs memory for its own rows only, whatever the number of ranks. Partitioners that look at every row are the
// exception: rank 0 holds the graph while it partitions, and sends each rank its share.
package solve
