// Package krylov implements iterative methods for linear systems. The methods do no arithmetic on vectors themselves. A
// method is a loop of stages (vector updates, at most one preconditioner and one matrix product, then scalar products),
// and continues with the sums of each stage. The caller may fuse a whole stage into one pass over memory, and needs
// only one all-reduce for its sums.
//
//	result, err := solver.Run(func(stage *krylov.Stage) (sums []float64, err error) {
//		... carry out the stage, add up over the ranks ...
//	})
//
// Engine carries out stages on the rows of one rank. The caller exchanges ghosts and adds up over ranks. This package
// knows no ranks, reads no clock and starts no goroutine.
//
// Each method is one file with a registration.
package krylov
