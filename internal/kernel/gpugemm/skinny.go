package gpugemm

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// skinnyPlan is how the kernels of skinny90a.cu divide a product whose A has few rows. The rules were measured on an
// H200 (docs/results).
type skinnyPlan struct {
	rows   int // of A that the kernel is made for
	groups int // warpgroups that multiply, with 64 columns of C each
	split  int // blocks of a cluster, which divide k
	stages int // in shared memory
	ahead  int // further steps of k that are prefetched into the L2 cache
	shared int // bytes of shared memory
}

const (
	skinnyFile    = "skinny90a"
	skinnyCompute = 90
	groupCols     = 64 // columns of C of a warpgroup
)

// stepsAhead is the number of steps of k that are prefetched into the L2 cache at the start, for weights that are read
// once. On an H200 it brings two to five per cent.
const stepsAhead = 4

// Shared memory of a Hopper multiprocessor. Every block takes some of it for itself.
const (
	sharedPerMultiprocessor = 228 << 10
	sharedPerBlock          = 227 << 10
	sharedReserved          = 1 << 10
)

// kernelRows are the numbers of rows for which there are kernels.
var kernelRows = []int{8, 16, 32, 64, 128}

// planSkinny plans a product, if it has few rows and the GPU has the instructions.
func planSkinny(p problem, d *device) (s skinnyPlan, ok bool) {
	if d.compute != skinnyCompute || p.operand != dtype.BF16 || p.multiprocessors > 0 ||
		p.m > kernelRows[len(kernelRows)-1] {
		return s, false
	}
	for _, s.rows = range kernelRows {
		if p.m <= s.rows {
			break
		}
	}
	s.divide(p, d.multiprocessors)
	return s, true
}

// divide chooses the blocks. Up to 32 rows, two blocks share a multiprocessor: one of the next product fetches weights
// while this one ends. With more rows a block has the whole multiprocessor, because it needs the room for rows of A.
func (s *skinnyPlan) divide(p problem, multiprocessors int) {
	const manyRows = 64
	tiles := (p.n + groupCols - 1) / groupCols
	s.groups, s.ahead = 1, stepsAhead
	if s.rows < manyRows {
		s.split = splitShared(tiles, multiprocessors)
		s.limitSplit(p)
		s.fill(p, 2)
		return
	}
	switch {
	case tiles*4 <= multiprocessors:
		s.split = 4
	case tiles*2 <= multiprocessors:
		s.split = 2
	default:
		s.groups = 2
		tiles = (tiles + 1) / 2
		s.split = 1
		if tiles*2 <= multiprocessors || s.rows == manyRows && !balanced(tiles, multiprocessors) {
			s.split = 2
		}
	}
	s.limitSplit(p)
	s.fill(p, 1)
}

// splitShared returns the number of parts into which k is divided if two blocks share a multiprocessor.
func splitShared(tiles, multiprocessors int) int {
	const maxParts = 4
	// Leave a quarter of the places to the next product.
	for split := maxParts; split > 1; split-- {
		if tiles*split <= multiprocessors*3/2 {
			return split
		}
	}
	switch {
	case tiles <= multiprocessors:
		return 2
	case balanced(tiles, multiprocessors):
		return 1
	}
	return maxParts // many short blocks are spread evenly as they end
}

// balanced reports whether blocks of equal length keep the multiprocessors busy to the end. A multiprocessor fetches
// about 40 GB/s, so that memory is at its limit if 85 % of them fetch.
func balanced(blocks, multiprocessors int) bool {
	turns := (blocks + multiprocessors - 1) / multiprocessors
	return blocks*100 >= turns*multiprocessors*84
}

// limitSplit reduces the number of parts of k, so that each has enough steps to be worth a block.
func (s *skinnyPlan) limitSplit(p problem) {
	const minSteps = 4
	s.split = max(1, min(s.split, p.k/stepK/minSteps))
}

// fill sets the number of stages to the largest that fits into shared memory if together blocks run on a
// multiprocessor.
func (s *skinnyPlan) fill(p problem, together int) {
	const barriers = 16
	stage := (groupCols*s.groups+s.rows)*stepK*p.operand.Size() + barriers
	sums := (s.split - 1) * s.rows * groupCols * s.groups * 4
	room := min(sharedPerMultiprocessor/together-sharedReserved, sharedPerBlock) - sums
	s.stages = min(room/stage, max(1, p.k/stepK))
	s.shared = s.stages*stage + sums
}

func (s skinnyPlan) kernel() string { return fmt.Sprintf("%s_%d_%d", skinnyFile, s.rows, s.groups) }

func (s skinnyPlan) String() string {
	return fmt.Sprintf("%s for up to %d rows: %d columns a block, k in %d parts, %d stages", skinnyFile, s.rows,
		groupCols*s.groups, s.split, s.stages)
}

// launches prepares the launches of a plan.
func (s skinnyPlan) launches(d *device, p problem, at []place) (list []*cuda.Launch, err error) {
	kernel, err := d.kernel(skinnyFile, s.kernel())
	if err != nil {
		return nil, err
	}
	if err := kernel.AllowShared(s.shared); err != nil {
		return nil, err
	}
	const warp, warpgroup = 32, 128
	cols := groupCols * s.groups
	blocks, threads := (p.n+cols-1)/cols*s.split, warpgroup*s.groups+warp
	for _, here := range at {
		params := p.params(here)
		params.Stages, params.Ahead = uint32(s.stages), uint32(s.ahead)
		if params.MapA, err = d.TensorMapBF16(here.a, p.m, p.k, p.k, s.rows, stepK); err != nil {
			return nil, err
		}
		if params.MapB, err = d.StreamedMapBF16(here.b, p.n, p.k, p.k, cols, stepK); err != nil {
			return nil, err
		}
		list = append(list, cuda.NewLaunch(kernel, blocks, threads, s.shared, false, &params).Clusters(s.split).Dependent())
	}
	return list, nil
}
