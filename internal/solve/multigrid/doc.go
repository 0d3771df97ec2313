// Package multigrid holds preconditioners that work on successively coarser versions of a matrix: gmg takes every other
// point of a grid, and amg aggregates strongly coupled rows (smoothed aggregation, Vanek, Mandel and Brezina 1996).
// They differ only in how they choose coarse unknowns and interpolate. All ranks do the rest together:
//
//  1. A coarsener picks coarse unknowns among the rank's own unknowns and returns the rank's rows of the
//     interpolation P.
//  2. Coarse unknowns are numbered rank by rank. When few are left, some ranks hand theirs over to others, in the end
//     all to rank 0. Only the owner of a number changes.
//  3. The coarse matrix is the Galerkin product R A P, where R is the transpose of P. Rows that belong to another rank
//     are sent to it and added up.
//  4. The owner of the last matrix factors it.
//
// An application is a V-cycle: Chebyshev smoothing from zero, the correction from the coarser level, and the same
// smoothing again. This makes the cycle symmetric and positive definite if the matrix is. It needs no reductions.
package multigrid
