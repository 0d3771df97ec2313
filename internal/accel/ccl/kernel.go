package ccl

import (
	"fmt"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Kernel returns the all-reduce kernel of an algorithm. ptr returns the address of each PE's tile, which
// the kernel replaces with the sum of all tiles.
func Kernel(algorithm string, s Shape, ptr func(topo.PEID) tl.Ptr) (tl.Kernel, error) {
	var flat string
	switch algorithm {
	case LRAB:
		return func(p *tl.PE) { lrab(p, ptr(p.ID()), s) }, nil
	case FlatRing:
		flat = "ring"
	case Tree:
		flat = "tree"
	default:
		return nil, fmt.Errorf("algorithm %q: want one of %v", algorithm, Names())
	}
	steps, err := schedule.New(schedule.AllReduce, flat,
		schedule.Params{Ranks: s.SIPs.Count * s.Cubes.Count(), Count: s.N, InPlace: true})
	if err != nil {
		return nil, err
	}
	return func(p *tl.PE) { perform(p, ptr(p.ID()), s, steps) }, nil
}

// snake numbers the cubes along rows of alternating direction, so that neighbours in a ring are
// neighbours on the mesh. It is its own inverse.
func (s Shape) snake(i int) int {
	row, col := i/s.Cubes.W, i%s.Cubes.W
	if row%2 == 1 {
		col = s.Cubes.W - 1 - col
	}
	return row*s.Cubes.W + col
}

// rank returns the rank of a PE in a flat algorithm. at is its inverse.
func (s Shape) rank(id topo.PEID) int {
	if s.Cubes.Count() == 1 {
		return id.SIP
	}
	return id.SIP*s.Cubes.Count() + s.snake(id.Cube)
}

func (s Shape) at(rank int) topo.PEID {
	if s.Cubes.Count() == 1 {
		return topo.PEID{SIP: rank, Cube: s.Only, PE: s.PE}
	}
	return topo.PEID{SIP: rank / s.Cubes.Count(), Cube: s.snake(rank % s.Cubes.Count()), PE: s.PE}
}

// perform executes the steps of a schedule in place on the tile at x. Messages use queues between any two
// PEs (SendTo). The schedule must not read the memory of peers.
func perform(p *tl.PE, x tl.Ptr, s Shape, steps schedule.Schedule) {
	rank := s.rank(p.ID())
	data := p.Load(x, s.N)
	var scratch tl.Tile
	if n := steps.Len(schedule.Scratch, rank); n > 0 {
		scratch = p.Scratch(n)
	}
	view := func(r schedule.Range) tl.Tile {
		tile := data
		if r.Buf == schedule.Scratch {
			tile = scratch
		}
		return p.View(tile, r.Off, r.Len)
	}
	for step := range steps.Steps(rank) {
		if step.Op.Sends() {
			p.SendTo(s.at(step.To.First), view(step.Src))
		}
		switch {
		case step.Op.Receives():
			got := p.RecvFrom(s.at(step.From.First), step.Dst.Len)
			if step.Op.Accumulates() {
				p.AddTo(view(step.Dst), got)
			} else {
				p.CopyTo(view(step.Dst), got)
			}
		case step.Op == schedule.Copy:
			p.CopyTo(view(step.Dst), view(step.Src))
		case step.Op == schedule.Reduce:
			p.AddTo(view(step.Dst), view(step.Src))
		}
	}
	p.Store(x, data)
}
