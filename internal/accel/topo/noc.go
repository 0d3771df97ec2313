package topo

import (
	"fmt"
	"slices"
)

// router is the row and column of a router in a cube's network.
type router struct{ row, col int }

// Side is a direction on a grid.
type Side int

// The sides. Row 0 is the northernmost, column 0 the westernmost.
const (
	North Side = iota
	South
	East
	West
)

func (s Side) String() string { return [...]string{"N", "S", "E", "W"}[s] }

// Opposite returns the opposite side.
func (s Side) Opposite() Side { return [...]Side{South, North, West, East}[s] }

// Step returns the change of row and column of a step to that side.
func (s Side) Step() (rows, cols int) {
	d := [...][2]int{{-1, 0}, {1, 0}, {0, 1}, {0, -1}}[s]
	return d[0], d[1]
}

// index returns the number of a router. Positions in the hole have numbers too.
func (n *Noc) index(r router) int { return r.row*n.Cols + r.col }

// exists reports whether there is a router at a position: inside the grid and not in the hole.
func (n *Noc) exists(r router) bool {
	inHole := r.row >= n.HoleRow && r.row < n.HoleRow+n.HoleH && r.col >= n.HoleCol && r.col < n.HoleCol+n.HoleW
	return r.row >= 0 && r.row < n.Rows && r.col >= 0 && r.col < n.Cols && !inHole
}

func (n *Noc) at(r router) Pos {
	return Pos{n.pitchX*Length(r.col) + n.pitchX/2, n.pitchY*Length(r.row) + n.pitchY/2}
}

// nearest returns the router closest to a position, the first of several.
func (n *Noc) nearest(p Pos) router {
	var best router
	shortest := Length(-1)
	for row := range n.Rows {
		for col := range n.Cols {
			r := router{row, col}
			if d := distance(p, n.at(r)); n.exists(r) && (shortest < 0 || d < shortest) {
				best, shortest = r, d
			}
		}
	}
	return best
}

// distance returns the Manhattan distance, since wires run horizontally and vertically.
func distance(a, b Pos) Length { return abs(a.X-b.X) + abs(a.Y-b.Y) }

func abs(l Length) Length { return max(l, -l) }

// port returns the router that connection k of a side is attached to.
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

// nearestPort returns the connection of a side whose router is nearest to r, the first of several.
func (n *Noc) nearestPort(side Side, conns int, r router) int {
	best := 0
	for k := range conns {
		if distance(n.at(n.port(side, conns, k)), n.at(r)) < distance(n.at(n.port(side, conns, best)), n.at(r)) {
			best = k
		}
	}
	return best
}

// check fails if a router is unreachable or a UCIe connection has no router.
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

// distances returns the number of hops from every router to one, or -1 if there is no route.
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

// route returns the route from one router to another as a list of steps: first east or west, then north or
// south (XY routing). If the hole is in between, it is the shortest route around it; among equally short
// ones, east and west come first.
func (n *Noc) route(from, to router) []Side {
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
