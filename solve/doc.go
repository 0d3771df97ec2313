// Package solve is one rank's part of a distributed linear solve A x = b: it makes its
// own rows, agrees with the other ranks on who needs which values, and drives a Krylov
// method whose products exchange halos and whose scalar products are summed over a
// process group.
//
//	problem, err := solve.NewProblem("poisson", solve.Params{Rows: 1_000_000})
//	sys, err := solve.New(group, solve.Spec{            // partition, rows, halo plan
//		Source: solve.Generated{Problem: problem},
//		RHS:    func(row int) float64 { return 1 },
//		RTol:   1e-8,
//	})
//	out, err := sys.Solve(0)                            // as often as wanted
//	out.TrueResidual, err = sys.Check()                 // recomputed from the problem
//	err = out.Gate(1e-8)                                // converged, and to the right solution
//
// A whole program is examples/ownproblem.
//
// Every rank of the group (package dist) makes the same calls; x lies where the rows
// do, in Solution.
//
// # Problems
//
// A Problem gives any row by its number, so that a rank makes its own rows and no more.
// NewProblem makes the registered ones (Problems lists them), MatrixFile reads a Matrix
// Market file, and any type with Size, Row and Traits will do. A problem with a Grid or
// with coordinates (Gridded, Located) can be partitioned by them.
//
// # Partitioners, methods, preconditioners
//
// A Spec names them; Partitioners, Methods and Preconditioners list them with what they
// need and promise. Each is one registration (RegisterPartitioner, RegisterMethod,
// RegisterPreconditioner, RegisterProblem) that the bench solve-scaling, its help and
// its tests pick up: docs/extending.md has worked examples. A method that cannot work
// on a problem is refused by New with a *Refusal.
//
// # Where the time goes
//
// Trace times the phases of an iteration, Alone times the same sweeps without any
// communication, Times has what the set-up took, and Messages what a product sends.
//
// The memory of a rank is that of its own rows, whatever the number of ranks.
// Partitioners that look at every row are the exception: rank 0 holds the graph while
// it partitions, and sends each rank its share. The package has no backend of its own
// and reads no clock but the group's.
package solve
