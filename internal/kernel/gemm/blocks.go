package gemm

import (
	"math"

	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// blocks describes how a product is cut. B is cut into blocks of kc x nc, which all threads pack together. The columns
// of C that belong to such a block are cut into tasks of mc x tc, and each thread takes the next task when it is free.
// The method and the names mc, kc and nc come from Goto and van de Geijn (Anatomy of High-Performance Matrix
// Multiplication, ACM TOMS 34, 2008): a block of A stays in the second-level cache, and a block of B in the shared one.
type blocks struct {
	mc, kc, nc, tc int
	mr             int // rows of A that are packed at a time, for kernels with strips
}

// Sizes in bytes, for second-level caches of 1 to 2 MiB per core. The block of A stays in the cache, and the panels of
// B (kc rows as wide as a tile) stream through it.
const (
	blockABytes = 640 << 10
	blockBBytes = 8 << 20
)

// depth returns the largest number of rows of a block of B. B is read once for every mc rows of A, and C is read and
// written once for every kc. Among all mc x kc that fill the block of A, kc = 2 mc moves the least data.
func depth(kern *tile.Kernel) int {
	return int(math.Sqrt(2 * blockABytes / float64(kern.Packed.Size())))
}

// One thread computes a product of up to aloneWork multiply-adds (some microseconds), in place if the kernel can. A
// product of up to inPlaceRows rows is computed in place too: each element of B is used only once per row, so copying
// it into a panel would take as long as the product.
const (
	aloneWork   = 96 * 96 * 96
	inPlaceRows = 8
)

// Threads meet after every block of B and are then at most one task apart. With four tasks per thread, a delayed thread
// costs the others little. Tasks with fewer rows would wait for B, which every task reads from the shared cache.
const (
	tasksPerThread = 4
	taskRows       = 128
)

// cut chooses the blocks of an m x n x k product.
func cut(kern *tile.Kernel, m, n, k, threads int) blocks {
	step := kern.Unit * kern.Group
	b := blocks{kc: roundUp(evenly(k, depth(kern)), step)}
	rowBytes := b.kc * kern.Packed.Size()
	b.nc = roundUp(evenly(n, roundUp(blockBBytes/rowBytes, kern.Cols)), kern.Cols)

	// Cut the rows into tasks first. If there are too few rows, cut the columns too.
	mcMax := max(blockABytes/rowBytes/kern.Rows, 1) * kern.Rows
	rowTasks := ceilDiv(m, mcMax)
	if threads > 1 {
		rowTasks = max(rowTasks, min(tasksPerThread*threads, m/taskRows))
		rowTasks = min(roundUp(rowTasks, threads), max(m/(2*kern.Rows), 1))
	}
	b.mc = ceilDiv(m, rowTasks)
	if kern.Parts == nil {
		b.mc = roundUp(b.mc, kern.Rows)
	}
	colTasks := ceilDiv(threads, ceilDiv(m, b.mc))
	b.tc = roundUp(ceilDiv(min(n, b.nc), colTasks), kern.Cols)
	return b
}

// evenly returns the size of equal pieces of n that are not larger than most.
func evenly(n, limit int) int { return ceilDiv(n, ceilDiv(n, limit)) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(n, multiple int) int { return ceilDiv(n, multiple) * multiple }
