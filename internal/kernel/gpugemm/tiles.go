package gpugemm

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// tileKernel is a kernel of tiles.cuh. Its PTX file has the same name.
type tileKernel struct {
	kind    string // "wide", "turns" or "fp8x": the name without the columns
	operand dtype.DType
	cols    int // of a tile
	stages  int // in shared memory
}

func (k tileKernel) name() string { return fmt.Sprintf("%s%d_90a", k.kind, k.cols) }

// Kinds of kernels. Two warpgroups share a tile, or take turns at tiles, so that one stores while the other multiplies.
const (
	wideTiles = "wide"
	turnTiles = "turns"
	fp8Tiles  = "fp8x"
)

// tileKernels lists the kernels. Narrow tiles divide a product more evenly, and wide ones fetch less.
var tileKernels = []tileKernel{
	usualTiles,
	{turnTiles, dtype.BF16, 176, 5},
	{turnTiles, dtype.BF16, 192, 5},
	{wideTiles, dtype.BF16, 96, 8},
	{wideTiles, dtype.BF16, 128, 7},
	{wideTiles, dtype.BF16, 160, 6},
	{wideTiles, dtype.BF16, 192, 5},
	{wideTiles, dtype.BF16, 224, 5},
	{fp8Tiles, dtype.E4M3, 128, 6},
	{fp8Tiles, dtype.E4M3, 160, 6},
	{fp8Tiles, dtype.E4M3, 176, 5},
	{fp8Tiles, dtype.E4M3, 192, 5},
}

// usualTiles is the kernel for large bf16 products, and for products whose best kernel the driver refuses.
var usualTiles = tileKernel{turnTiles, dtype.BF16, 128, 6}

const (
	tileRows    = 128
	tileCompute = 90
	tileThreads = 384
	stageBytes  = 128 // of k in a stage
)

// shared returns the bytes of shared memory of a block: stages, two barriers and two positions of tiles per stage, and
// two barriers for the turns.
func (k tileKernel) shared() int {
	const word = 8
	return k.stages*(tileRows+k.cols)*stageBytes + (4*k.stages+2)*word
}

// sharing is what the two blocks of a pair share; mirrors tiles.cuh.
type sharing uint32

const (
	shareNothing sharing = iota
	shareA               // the blocks are beside each other
	shareB               // one block is below the other
)

// pair returns the number of blocks that share something.
func (s sharing) pair() int {
	if s == shareNothing {
		return 1
	}
	return 2
}

// tilePlan is how a kernel of tiles.cuh divides a product.
type tilePlan struct {
	tileKernel
	share      sharing
	parts      int // of k
	rows, wide int // the units of C below and beside each other; a unit has one tile for every block of a pair
	blocks     int
}

// cluster returns the number of blocks in a cluster.
func (t tilePlan) cluster() int { return t.share.pair() * t.parts }

func (t tilePlan) String() string {
	shared := [...]string{"nothing", "A", "B"}[t.share]
	return fmt.Sprintf("%s: tiles of %d x %d, pairs of blocks share %s, k in %d parts", t.name(), tileRows, t.cols, shared,
		t.parts)
}

// newTilePlan divides a product. atOnce returns how many blocks can run at once in clusters of a size.
func newTilePlan(k tileKernel, share sharing, parts int, p problem, atOnce func(cluster int) int) tilePlan {
	t := tilePlan{tileKernel: k, share: share, parts: parts}
	high, wide := tileRows, k.cols
	switch share {
	case shareA:
		wide *= share.pair()
	case shareB:
		high *= share.pair()
	}
	t.rows, t.wide = (p.m+high-1)/high, (p.n+wide-1)/wide
	t.blocks = t.rows * t.wide * t.cluster()
	if parts == 1 { // a block computes one tile after another
		t.blocks = min(t.blocks, max(atOnce(t.cluster())/t.cluster(), 1)*t.cluster())
	}
	return t
}

// tileKernel loads a kernel.
func (d *device) tileKernel(k tileKernel) (*cuda.Kernel, error) {
	kernel, err := d.kernel(k.name(), k.name())
	if err != nil {
		return nil, err
	}
	return kernel, kernel.AllowShared(k.shared())
}

// launches prepares the launches of a plan.
func (t tilePlan) launches(d *device, p problem, at []place) (list []*cuda.Launch, err error) {
	kernel, err := d.tileKernel(t.tileKernel)
	if err != nil {
		return nil, err
	}
	steps := p.k * p.operand.Size() / stageBytes
	boxA, boxB := tileRows, t.cols
	switch t.share {
	case shareA:
		boxA /= t.share.pair()
	case shareB:
		boxB /= t.share.pair()
	}
	for _, here := range at {
		params := p.params(here)
		params.Share, params.UnitRows, params.UnitCols = uint32(t.share), uint32(t.rows), uint32(t.wide)
		params.Steps, params.Longer = uint32(steps/t.parts), uint32(steps%t.parts)
		if t.rows == 1 { // weights that are read once
			params.Once, params.Ahead = 1, stepsAhead
		}
		if params.MapA, err = p.tensorMap(d, here.a, p.m, boxA); err != nil {
			return nil, err
		}
		if params.MapB, err = p.weightsMap(d, here.b, boxB); err != nil {
			return nil, err
		}
		list = append(list, cuda.NewLaunch(kernel, t.blocks, tileThreads, t.shared(), false, &params).
			Clusters(t.cluster()).Dependent())
	}
	return list, nil
}

// tensorMap describes an operand of some rows to bulk copies of a box of rows.
func (p problem) tensorMap(d *device, at cuda.Pointer, rows, box int) (cuda.TensorMap, error) {
	if p.operand == dtype.E4M3 {
		return d.TensorMapBytes(at, rows, p.k, p.k, box, stageBytes)
	}
	return d.TensorMapBF16(at, rows, p.k, p.k, box, stepK)
}

// weightsMap is tensorMap for B, which takes most of the bandwidth of memory. Fetching 128 bytes at a time into the L2
// cache instead of 256 makes bf16 products up to 5 % faster on an H200.
func (p problem) weightsMap(d *device, at cuda.Pointer, box int) (cuda.TensorMap, error) {
	if p.operand == dtype.BF16 {
		return d.StreamedMapBF16(at, p.n, p.k, p.k, box, stepK)
	}
	return p.tensorMap(d, at, p.n, box)
}
