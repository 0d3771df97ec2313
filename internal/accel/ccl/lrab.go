package ccl

import (
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Shape describes the tiles that an all-reduce sums: one tile of N elements in every cube of each SIP, or in only one
// cube of each SIP.
type Shape struct {
	N     int
	Cubes topo.Grid // 1 x 1: one cube of each SIP takes part
	Only  int       // the number of that cube
	PE    int       // the PE of each cube that takes part
	SIPs  topo.SIPs
	Root  Root
}

// RootCube returns the row and column of the cube in which a SIP's sum is computed.
func (s Shape) RootCube() (row, col int) {
	if s.Root == Corner {
		return s.Cubes.H - 1, s.Cubes.W - 1
	}
	return s.Cubes.H / 2, s.Cubes.W / 2
}

// Hops returns the length of the longest chain of messages in LRAB: to the root and back within a SIP,
// and the exchange between SIPs.
func (s Shape) Hops() int {
	row, col := s.RootCube()
	hops := 2 * (max(col, s.Cubes.W-1-col) + max(row, s.Cubes.H-1-row))
	between := s.SIPs.Grid.W - 1 + s.SIPs.Grid.H - 1
	if s.SIPs.Kind == topo.Mesh {
		between *= 2 // to the end of each line and back
	}
	return hops + between
}

// coords returns the row and column of a cube in the grid.
func (s Shape) coords(cube int) (row, col int) {
	if s.Cubes.Count() == 1 {
		return 0, 0
	}
	return cube / s.Cubes.W, cube % s.Cubes.W
}

// lrab is LRAB (local reduce and broadcast), an all-reduce in five phases: reduce along the rows into the
// root's column, reduce along that column into the root, exchange between the roots of the SIPs, and
// broadcast back along the column and the rows. One PE of each cube takes part.
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

// line is a position on a row or column of n cubes or SIPs: the index of this one and of the root, and
// the directions to lower and higher indices.
type line struct {
	at, root, n int
	low, high   tl.Dir
}

// reduce passes partial sums towards the root. The root first adds the sum from the lower side, which is
// the longer one.
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

// broadcast passes the root's tile to both ends of the line.
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

// Exchange is the phase of LRAB between SIPs: it sums a tile over the same PE of all SIPs. On a mesh it
// reduces and broadcasts along rows, then columns; on a ring or torus tiles go round.
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

// ring passes every member's tile once round the ring. Each member adds the tiles that it receives to its own.
func ring(p *tl.PE, acc tl.Tile, n int, to, from tl.Dir) tl.Tile {
	passing := acc
	for range n - 1 {
		p.Send(to, passing)
		passing = p.Recv(from, acc.Len())
		acc = p.Add(acc, passing)
	}
	return acc
}
