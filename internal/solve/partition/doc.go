// Package partition decides which rank owns which rows of a sparse matrix.
//
// A partitioner takes a problem and a number of ranks and gives a layout. Those
// that follow the numbering or the grid (simple, block, coordinate on a grid)
// describe the layout by a few numbers, whatever its size, so every rank makes
// it for itself. The others look at the whole problem: one rank makes the
// layout, and tells each of the others its Share.
//
// The package moves no data, and measures quality but not time. What a
// partitioner must keep is in package partitiontest; a new one is a file of its
// own and a line in the registry.
package partition
