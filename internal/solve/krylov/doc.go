// Package krylov solves linear systems by iterative methods that do no
// arithmetic on vectors themselves. A method hands out stages (vector updates,
// at most one preconditioner and one matrix product, then scalar products) and
// continues when it is told the sums. The caller that carries a stage out may fuse all of
// it into one pass over memory, and needs one all-reduce for its sums.
//
//	sums := []float64(nil)
//	for stage := solver.Next(nil); stage != nil; stage = solver.Next(sums) {
//		sums = ... carry out the stage, add up over the ranks ...
//	}
//
// Engine carries stages out for the rows of one rank. Sending ghosts and adding
// up over ranks is the caller's part; this package knows no ranks, reads no
// clock and starts no goroutine.
//
// A method is one file and a line in the registry.
package krylov
