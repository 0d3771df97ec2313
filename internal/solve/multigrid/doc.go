// Package multigrid holds the preconditioners that work on ever coarser versions of a
// matrix: gmg, which takes every other point of a grid, and amg, which gathers strongly coupled
// rows (smoothed aggregation, Vanek, Mandel and Brezina 1996). They differ in how they choose
// coarse unknowns and interpolate; the rest is the same and is done by all ranks together:
//
//  1. A coarsener picks coarse unknowns among a rank's own and gives the rank's rows of the
//     interpolation P.
//  2. Coarse unknowns are numbered rank by rank. Where they have become few, some ranks hand
//     theirs over to others, in the end all to rank 0: only the owner of a number changes.
//  3. The coarse matrix is the Galerkin product R A P with R the transpose of P. Rows that belong to
//     another rank are sent there and added up.
//  4. The last matrix is factored by its only owner.
//
// An application is a V-cycle: Chebyshev smoothing from zero, the correction from the coarser
// level, the same smoothing again. Both ways are alike, so that the cycle is symmetric and
// positive definite where the matrix is, and it makes no reductions.
package multigrid
