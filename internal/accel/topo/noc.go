package topo

import (
	"fmt"
	"slices"
)

// router is the row and column of a router in a cube's network.
type router struct{ row, col int }

// Side is a direction on a grid.
type Side int

// The sides; row 0 is the northernmost, column 0 the westernmost.
const (
	North Side = iota
	South
	East
	West
)

func (s Side) String() string { return [...]string{"N", "S", "E", "W"}[s] }

// Opposite is the side that faces this one.
func (s Side) Opposite() Side { return [...]Side{South, North, West, East}[s] }

// Step is the change of row and column.
func (s Side) Step() (rows, cols int) {
	d := [...][2]int{{-1, 0}, {1, 0}, {0, 1}, {0, -1}}[s]
	return d[0], d[1]
}

// index numbers the routers, those missing in the hole included.
func (n *Noc) index(r router) int { return r.row*n.Cols + r.col }

func (n *Noc) exists(r router) bool {
	inHole := r.row >= n.HoleRow && r.row < n.HoleRow+n.HoleH && r.col >= n.HoleCol && r.col < n.HoleCol+n.HoleW
	return r.row >= 0 && r.row < n.Rows && r.col >= 0 && r.col < n.Cols && !inHole
}

func (n *Noc) at(r router) Pos {
	return Pos{n.pitchX*Length(r.col) + n.pitchX/2, n.pitchY*Length(r.row) + n.pitchY/2}
}

// nearest is the router closest to a position, the first of equals.
func (n *Noc) nearest(p Pos) router {
	var best router
	least := Length(-1)
	for row := range n.Rows {
		for col := range n.Cols {
			r := router{row, col}
			if d := distance(p, n.at(r)); n.exists(r) && (least < 0 || d < least) {
				best, least = r, d
			}
		}
	}
	return best
}

func distance(a, b Pos) Length { return abs(a.X-b.X) + abs(a.Y-b.Y) }

func abs(l Length) Length { return max(l, -l) }

// port is the router that connection k of a side is attached to.
func (n *Noc) port(side Side, conns, k int) router {
	switch side {
	case North:
		return router{0, (n.Cols-conns)/2 + k}
	case South:
		return router{n.Rows - 1, (n.Cols-conns)/2 + k}
	case East:
		return router{(n.Rows-conns)/2 + k, n.Cols - 1}
	}
	return router{(n.Rows-conns)/2 + k, 0}
}

// check finds out whether every router reaches every other, and every UCIe
// connection has one.
func (n *Noc) check(conns int) error {
	for side := North; side <= West; side++ {
		for k := range conns {
			if r := n.port(side, conns, k); !n.exists(r) {
				return fmt.Errorf("cube.noc.hole: UCIe connection %v%d needs the router r%dc%d, which is in the hole", side, k,
					r.row, r.col)
			}
		}
	}
	home := n.port(North, conns, 0)
	far := n.distances(home)
	for row := range n.Rows {
		for col := range n.Cols {
			if r := (router{row, col}); n.exists(r) && far[n.index(r)] < 0 {
				return fmt.Errorf("cube.noc.hole: router r%dc%d cannot be reached", row, col)
			}
		}
	}
	return nil
}

// distances counts the hops from every router to one, -1 where there is no way.
func (n *Noc) distances(to router) []int {
	far := slices.Repeat([]int{-1}, n.Rows*n.Cols)
	far[n.index(to)] = 0
	for queue := []router{to}; len(queue) > 0; queue = queue[1:] {
		for side := North; side <= West; side++ {
			rows, cols := side.Step()
			next := router{queue[0].row + rows, queue[0].col + cols}
			if n.exists(next) && far[n.index(next)] < 0 {
				far[n.index(next)] = far[n.index(queue[0])] + 1
				queue = append(queue, next)
			}
		}
	}
	return far
}

// way lists the sides to go from one router to another: east or west first, then
// north or south (XY routing). Where the hole is in the way it is the shortest
// way round, and still east or west first wherever that is no longer.
func (n *Noc) way(from, to router) []Side {
	far := n.distances(to)
	var sides []Side
	for from != to {
		for _, side := range []Side{East, West, North, South} {
			rows, cols := side.Step()
			next := router{from.row + rows, from.col + cols}
			if n.exists(next) && far[n.index(next)] == far[n.index(from)]-1 {
				sides = append(sides, side)
				from = next
				break
			}
		}
	}
	return sides
}
