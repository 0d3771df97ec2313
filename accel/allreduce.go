package accel

import (
	"fmt"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// AllReduce adds up the tiles of all cubes of all SIPs, and leaves the sum in
// each. There is one tensor per SIP, in order, each laid out PerCube with a row
// for each cube of the SIP, or OnCube with one row; then the sum is over the SIPs only.
func (s *System) AllReduce(tensors []*Tensor) (*Result, error) {
	shape, err := s.shape(tensors)
	if err != nil {
		return nil, fmt.Errorf("all-reduce: %w", err)
	}
	ptrs := map[PEID]tl.Ptr{}
	var on []PEID
	for _, t := range tensors {
		for _, shard := range t.Shards {
			ptrs[shard.At] = shard.Ptr
			on = append(on, shard.At)
		}
	}
	kernel, err := ccl.Kernel(s.CCL.Algorithm, shape, func(id PEID) tl.Ptr { return ptrs[id] })
	if err != nil {
		return nil, fmt.Errorf("all-reduce: %w", err)
	}
	result, err := s.Launch(kernel, on)
	if err != nil {
		return nil, fmt.Errorf("all-reduce (%s): %w", s.CCL.Algorithm, err)
	}
	return result, nil
}

// Share is the block of a vector that one PE of a SIP works on.
type Share struct {
	Cube, PE int
	Off, N   int
}

// Shares divides a vector among the PEs of a SIP: equally, but no PE has less than a burst of
// its memory. The first to get a share are those nearest to the IO chiplet, one in each
// column of cubes, so that a few use all of its ports.
func Shares(t *Topology, elements int) []Share {
	least := max(1, t.Cube.HBM.Burst/tl.ElemSize)
	count := min(t.Cubes.Count()*t.PEs(), tl.Cdiv(elements, least))
	shares := make([]Share, count)
	off := 0
	for i := range shares {
		row, within := i/(t.Cubes.W*t.PEs()), i%(t.Cubes.W*t.PEs())
		n := elements / count
		if i < elements%count {
			n++
		}
		shares[i] = Share{Cube: row*t.Cubes.W + within%t.Cubes.W, PE: within / t.Cubes.W, Off: off, N: n}
		off += n
	}
	return shares
}

// VectorSum is an all-reduce of vectors, one of each SIP. The PEs of a SIP share the work: each has
// its share of the vector in its memory, and adds it up with the same PE of the other SIPs.
type VectorSum struct {
	system *System
	launch *launched
	blocks map[PEID]vectorBlock
	n      int
}

// vectorBlock is where a share is.
type vectorBlock struct {
	Share
	ptr   tl.Ptr
	cells []Float16
}

// NewVectorSum lays out vectors of n elements and simulates the all-reduce, in pieces of so many
// elements at most. Its time does not depend on what is added up.
func (s *System) NewVectorSum(n, piece int) (*VectorSum, error) {
	v := &VectorSum{system: s, blocks: map[PEID]vectorBlock{}, n: n}
	var on []PEID
	for sip := range s.Topo.SIPs.Count {
		for _, share := range Shares(s.Topo, n) {
			id := PEID{SIP: sip, Cube: share.Cube, PE: share.PE}
			ptr, cells, err := s.memory.alloc(id, share.N)
			if err != nil {
				return nil, fmt.Errorf("all-reduce: %w", err)
			}
			v.blocks[id] = vectorBlock{share, ptr, cells}
			on = append(on, id)
		}
	}
	var err error
	v.launch, err = s.simulate(func(p *tl.PE) {
		b := v.blocks[p.ID()]
		for off := 0; off < b.N; off += piece {
			shape := ccl.Shape{N: min(piece, b.N-off), Cubes: topo.Grid{W: 1, H: 1}, Only: b.Cube, PE: b.PE, SIPs: s.Topo.SIPs}
			kernel, err := ccl.Kernel(s.CCL.Algorithm, shape, func(PEID) tl.Ptr { return b.ptr.Plus(off) })
			if err != nil {
				panic(err) // which is an error of the launch
			}
			p.Scope(func() { kernel(p) })
		}
	}, on, s.CCL.Settings())
	if err != nil {
		return nil, fmt.Errorf("all-reduce (%s): %w", s.CCL.Algorithm, err)
	}
	return v, nil
}

// Add leaves the sum of the vectors, one of each SIP, in all of them.
func (v *VectorSum) Add(vectors [][]Float16) (*Result, error) {
	if len(vectors) != v.system.Topo.SIPs.Count {
		return nil, fmt.Errorf("all-reduce: %d vectors for %d SIPs: want one for each", len(vectors),
			v.system.Topo.SIPs.Count)
	}
	for sip, x := range vectors {
		if len(x) != v.n {
			return nil, fmt.Errorf("all-reduce: the vector of SIP %d has %d elements, want %d", sip, len(x), v.n)
		}
	}
	for id, b := range v.blocks {
		copy(b.cells, vectors[id.SIP][b.Off:])
	}
	if err := v.system.execute(v.launch); err != nil {
		return nil, fmt.Errorf("all-reduce (%s): %w", v.system.CCL.Algorithm, err)
	}
	for id, b := range v.blocks {
		copy(vectors[id.SIP][b.Off:], b.cells)
	}
	return v.launch.result, nil
}

// shape finds out what the all-reduce is over from where the shards are.
func (s *System) shape(tensors []*Tensor) (ccl.Shape, error) {
	shape := ccl.Shape{SIPs: s.Topo.SIPs, Root: s.CCL.Settings().Root}
	if len(tensors) != s.Topo.SIPs.Count {
		return shape, fmt.Errorf("%d tensors for %d SIPs: want one for each", len(tensors), s.Topo.SIPs.Count)
	}
	first := tensors[0]
	shape.N = first.Cols
	for sip, t := range tensors {
		switch {
		case t.SIP != sip:
			return shape, fmt.Errorf("tensor %d is on SIP %d: the order must be that of the SIPs", sip, t.SIP)
		case t.Rows != first.Rows || t.Cols != first.Cols || t.Policy != first.Policy:
			return shape, fmt.Errorf("the tensors of SIP 0 and %d differ in shape or policy", sip)
		}
	}
	switch count := len(first.Shards); {
	case count == 1 && first.Rows == 1:
		shape.Cubes, shape.Only = topo.Grid{W: 1, H: 1}, first.Shards[0].At.Cube
	case count == s.Topo.Cubes.Count() && first.Policy == PerCube && first.Rows == count:
		shape.Cubes = s.Topo.Cubes
	default:
		return shape, fmt.Errorf("a tensor of %d x %d in %d shards: want one row for each cube, laid out PerCube, or "+
			"one row OnCube",
			first.Rows, first.Cols, count)
	}
	return shape, nil
}
