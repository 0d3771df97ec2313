package gemm

import (
	"math"

	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// blocks say how a product is cut: B into blocks of kc x nc, packed by all
// threads together; C's columns of such a block into tasks of mc x tc, of which
// each thread takes the next when it has time.
type blocks struct {
	mc, kc, nc, tc int
}

// Sizes in bytes, for caches of 1 to 2 MiB per core. The block of A stays there, and
// the panels of B (kc rows of a tile's width) come through it.
const (
	blockABytes = 640 << 10
	blockBBytes = 8 << 20
)

// depth is the most rows of a block of B. B is read once for every mc rows of A, and
// C read and written once for every kc: of all mc x kc that fill the block of A, those
// with kc = 2 mc move least.
func depth(kern *tile.Kernel) int {
	return int(math.Sqrt(2 * blockABytes / float64(kern.Packed.Size())))
}

// Up to this many multiply-adds (some microseconds) a product is made by one
// thread, and in place where the kernel can; up to this many rows in place too,
// since copying an element of B takes as long as using it for some rows.
const (
	aloneWork   = 96 * 96 * 96
	inPlaceRows = 8
)

// Threads meet after every block of B, and are then at most one task apart: with
// four tasks each, one that was held up costs the others little. A task of fewer
// rows than this would wait for B, which each reads from the cache that is shared.
const (
	tasksPerThread = 4
	taskRows       = 128
)

// cut chooses the blocks of an m x n x k product.
func cut(kern *tile.Kernel, m, n, k, threads int) blocks {
	step := kern.Unit
	if kern.Pairs {
		step *= 2
	}
	b := blocks{kc: roundUp(evenly(k, depth(kern)), step)}
	rowBytes := b.kc * kern.Packed.Size()
	b.nc = roundUp(evenly(n, roundUp(blockBBytes/rowBytes, kern.Cols)), kern.Cols)

	// As many tasks of rows per thread; where there are too few rows, the columns
	// are divided too.
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

// evenly gives the size of equal pieces of n, none larger than most.
func evenly(n, most int) int { return ceilDiv(n, ceilDiv(n, most)) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(n, multiple int) int { return ceilDiv(n, multiple) * multiple }
