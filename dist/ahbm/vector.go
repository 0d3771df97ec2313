package ahbm

import (
	"fmt"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// share is the block of a vector that one PE of each SIP works on.
type share struct {
	cube, pe int
	off, n   int
}

// shares divides a vector among the PEs of a SIP: equally, but no PE gets less than an HBM burst. PEs
// next to the IO chiplet come first, one in each column of cubes, so that even a few PEs use all of
// its ports.
func shares(t *topo.Topology, elements int) []share {
	minElements := max(1, t.Cube.HBM.Burst/tl.ElemSize)
	count := min(t.Cubes.Count()*t.PEs(), tl.Cdiv(elements, minElements))
	list := make([]share, count)
	off := 0
	for i := range list {
		row, within := i/(t.Cubes.W*t.PEs()), i%(t.Cubes.W*t.PEs())
		n := elements / count
		if i < elements%count {
			n++
		}
		list[i] = share{cube: row*t.Cubes.W + within%t.Cubes.W, pe: within / t.Cubes.W, off: off, n: n}
		off += n
	}
	return list
}

// vectorSum is an all-reduce of one vector per SIP. Each PE has its share of the vector in its memory and
// reduces it with the same PE of the other SIPs. The kernel is simulated once, when the vectorSum is made,
// because its time does not depend on the data.
type vectorSum struct {
	graph  *accel.Graph
	blocks map[accel.PEID]block
}

// block is a share in the memory of its PE.
type block struct {
	share
	accel.Shard
}

// newVectorSum allocates vectors of n elements and captures their all-reduce in messages of at most piece
// elements.
func newVectorSum(s *accel.System, n, piece int) (*vectorSum, error) {
	v := &vectorSum{blocks: map[accel.PEID]block{}}
	var on []accel.PEID
	for sip := range s.Topo.SIPs.Count {
		for _, part := range shares(s.Topo, n) {
			id := accel.PEID{SIP: sip, Cube: part.cube, PE: part.pe}
			shard, err := s.Alloc(id, 1, part.n)
			if err != nil {
				return nil, fmt.Errorf("all-reduce: %w", err)
			}
			v.blocks[id] = block{part, shard}
			on = append(on, id)
		}
	}
	var err error
	v.graph, err = s.Capture(func(p *tl.PE) {
		b := v.blocks[p.ID()]
		for off := 0; off < b.n; off += piece {
			shape := ccl.Shape{N: min(piece, b.n-off), Cubes: topo.Grid{W: 1, H: 1}, Only: b.cube, PE: b.pe, SIPs: s.Topo.SIPs}
			kernel, err := ccl.Kernel(s.CCL.Algorithm, shape, func(accel.PEID) tl.Ptr { return b.Ptr.Plus(off) })
			if err != nil {
				panic(err) // Capture returns it as an error
			}
			p.Scope(func() { kernel(p) })
		}
	}, on)
	if err != nil {
		return nil, fmt.Errorf("all-reduce (%s): %w", s.CCL.Algorithm, err)
	}
	return v, nil
}

// run reduces the inputs of all ranks into their outputs.
func (v *vectorSum) run(plans []*dist.Plan) (*accel.Result, error) {
	for id, b := range v.blocks {
		copy(b.Cells(), dist.Slice[dist.Float16](plans[id.SIP].In)[b.off:])
	}
	result, err := v.graph.Launch()
	if err != nil {
		return nil, fmt.Errorf("all-reduce: %w", err)
	}
	for id, b := range v.blocks {
		copy(dist.Slice[dist.Float16](plans[id.SIP].Out)[b.off:], b.Cells())
	}
	return result, nil
}
