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
		return shape, fmt.Errorf("a tensor of %d x %d in %d shards: want one row for each cube, laid out PerCube, or one row OnCube",
			first.Rows, first.Cols, count)
	}
	return shape, nil
}
