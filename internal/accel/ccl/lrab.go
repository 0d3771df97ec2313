package ccl

import (
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Shape is what an all-reduce is over: one tile of N elements in each cube of a
// grid of cubes, or in one cube only, in each of the SIPs.
type Shape struct {
	N     int
	Cubes topo.Grid // 1 x 1: one cube of each SIP, and nothing within it
	Only  int       // that cube
	PE    int       // of each cube
	SIPs  topo.SIPs
	Root  Root
}

// RootCube is the row and column of the cube in which a SIP's sum is made.
func (s Shape) RootCube() (row, col int) {
	if s.Root == Corner {
		return s.Cubes.H - 1, s.Cubes.W - 1
	}
	return s.Cubes.H / 2, s.Cubes.W / 2
}

// Hops is how many messages in sequence carry the last
// contribution to the last cube in LRAB: there and back within a SIP, and the
// exchange between SIPs.
func (s Shape) Hops() int {
	row, col := s.RootCube()
	hops := 2 * (max(col, s.Cubes.W-1-col) + max(row, s.Cubes.H-1-row))
	between := s.SIPs.Grid.W - 1 + s.SIPs.Grid.H - 1
	if s.SIPs.Kind == topo.Mesh {
		between *= 2 // to the end of each line and back
	}
	return hops + between
}

// coords is the row and column of a cube in the grid.
func (s Shape) coords(cube int) (row, col int) {
	if s.Cubes.Count() == 1 {
		return 0, 0
	}
	return cube / s.Cubes.W, cube % s.Cubes.W
}

// lrab is the all-reduce in five phases (local reduce to a root and broadcast):
// sum along the rows into the root's column, sum along that column into the
// root, exchange between the roots of the SIPs, and broadcast the same way back.
// One PE of each cube takes part.
func lrab(p *tl.PE, x tl.Ptr, s Shape) {
	acc := p.Load(x, s.N)
	rootRow, rootCol := s.RootCube()
	row, col := s.coords(p.ProgramID(1))
	acc = reduce(p, acc, line{col, rootCol, s.Cubes.W, tl.W, tl.E})
	if col == rootCol {
		acc = reduce(p, acc, line{row, rootRow, s.Cubes.H, tl.N, tl.S})
		if row == rootRow {
			acc = Exchange(p, acc, s.SIPs)
		}
		acc = broadcast(p, acc, line{row, rootRow, s.Cubes.H, tl.N, tl.S})
	}
	acc = broadcast(p, acc, line{col, rootCol, s.Cubes.W, tl.W, tl.E})
	p.Store(x, acc)
}

// line is a row or column of cubes or SIPs: this one's index, the root's, how many
// there are, and the directions to lower and higher ones.
type line struct {
	at, root, n int
	low, high   tl.Dir
}

// reduce passes partial sums towards the root, which adds both sides', the
// lower, longer one first.
func reduce(p *tl.PE, acc tl.Tile, l line) tl.Tile {
	if l.at <= l.root && l.at > 0 {
		acc = p.Add(acc, p.Recv(l.low, acc.Len()))
	}
	if l.at >= l.root && l.at < l.n-1 {
		acc = p.Add(acc, p.Recv(l.high, acc.Len()))
	}
	switch {
	case l.at < l.root:
		p.Send(l.high, acc)
	case l.at > l.root:
		p.Send(l.low, acc)
	}
	return acc
}

// broadcast passes the root's tile on to both ends.
func broadcast(p *tl.PE, acc tl.Tile, l line) tl.Tile {
	switch {
	case l.at < l.root:
		acc = p.Recv(l.high, acc.Len())
	case l.at > l.root:
		acc = p.Recv(l.low, acc.Len())
	}
	if l.at <= l.root && l.at > 0 {
		p.Send(l.low, acc)
	}
	if l.at >= l.root && l.at < l.n-1 {
		p.Send(l.high, acc)
	}
	return acc
}

// Exchange adds up a tile over the same PE of all SIPs, in the way their topology
// suggests: the part of LRAB between the SIPs.
func Exchange(p *tl.PE, acc tl.Tile, sips topo.SIPs) tl.Tile {
	row, col := p.SIP()/sips.Grid.W, p.SIP()%sips.Grid.W
	if sips.Kind == topo.Mesh {
		for _, l := range []line{{col, 0, sips.Grid.W, tl.GlobalW, tl.GlobalE},
			{row, 0, sips.Grid.H, tl.GlobalN, tl.GlobalS}} {
			acc = broadcast(p, reduce(p, acc, l), l)
		}
		return acc
	}
	acc = ring(p, acc, sips.Grid.W, tl.GlobalE, tl.GlobalW)
	return ring(p, acc, sips.Grid.H, tl.GlobalS, tl.GlobalN)
}

// ring sends every member's tile once round and adds what comes by.
func ring(p *tl.PE, acc tl.Tile, n int, to, from tl.Dir) tl.Tile {
	passing := acc
	for range n - 1 {
		p.Send(to, passing)
		passing = p.Recv(from, acc.Len())
		acc = p.Add(acc, passing)
	}
	return acc
}
