// Package solve is one rank's part of a distributed linear solve: it gets its
// own rows, agrees with the other ranks on who needs which values, and drives a
// Krylov method whose products exchange halos and whose scalar products are
// added up over a process group.
//
//	sys, err := solve.New(group, solve.Spec{...}) // partition, rows, halo plan
//	out, err := sys.Solve(0)                      // as often as wanted
//	phases, err := sys.Trace(100)                 // where an iteration's time goes
//
// The memory of a rank is that of its own rows, whatever the number of ranks.
// Partitioners that look at the whole problem are the exception: rank 0 holds
// its graph while it partitions, and sends each rank what concerns it.
//
// The arithmetic is package krylov's, the rows are package sparse's, the data
// moves by package dist: this package has no backend of its own and judges no
// result.
package solve
