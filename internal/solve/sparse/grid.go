package sparse

import (
	"fmt"
	"math"
)

// Grid is the number of points along x, y and z; a plane has one along z. Points
// are numbered along x first, then y, then z.
type Grid [3]int

// Size is the number of points.
func (g Grid) Size() int { return g[0] * g[1] * g[2] }

// Index is the number of a point.
func (g Grid) Index(at [3]int) int { return at[0] + g[0]*(at[1]+g[1]*at[2]) }

// Point is the coordinates of a point by its number.
func (g Grid) Point(i int) [3]int { return [3]int{i % g[0], i / g[0] % g[1], i / (g[0] * g[1])} }

// String is the grid's sizes as 100x100x1.
func (g Grid) String() string { return fmt.Sprintf("%dx%dx%d", g[0], g[1], g[2]) }

// has reports whether a point lies in the grid.
func (g Grid) has(at [3]int) bool {
	return uint(at[0]) < uint(g[0]) && uint(at[1]) < uint(g[1]) && uint(at[2]) < uint(g[2])
}

func (g Grid) locate(i int) [3]float64 {
	p := g.Point(i)
	return [3]float64{float64(p[0]), float64(p[1]), float64(p[2])}
}

// FitGrid is the nearly square or cubic grid whose size comes nearest to rows.
// Exactly fitting grids are common, so runs at different sizes can be compared:
// an eighth off the square, or a point, is allowed per axis.
func FitGrid(rows, dim int) (Grid, error) {
	if rows < 1 || dim < 2 || dim > 3 {
		return Grid{}, fmt.Errorf("a grid of %d points in %d dimensions: want at least 1 point in 2 or 3", rows, dim)
	}
	if dim == 2 {
		x, y := fitPair(rows)
		return Grid{x, y, 1}, nil
	}
	best, off := Grid{}, math.MaxInt
	side := int(math.Cbrt(float64(rows)) + 0.5)
	for d := 0; d <= side/8+1 && off > 0; d++ {
		for _, z := range [2]int{side - d, side + d} {
			if z < 1 {
				continue
			}
			x, y := fitPair(max(1, (rows+z/2)/z))
			if far := distance(x*y*z, rows); far < off {
				best, off = Grid{x, y, z}, far
			}
		}
	}
	return best, nil
}

// fitPair is the nearly square pair whose product comes nearest to n.
func fitPair(n int) (int, int) {
	side := int(math.Sqrt(float64(n)) + 0.5)
	bx, by, off := side, side, distance(side*side, n)
	for d := 0; d <= side/8+1 && off > 0; d++ {
		x := side + d
		y := (n + x/2) / x
		if far := distance(x*y, n); y > 0 && far < off {
			bx, by, off = x, y, far
		}
	}
	return bx, by
}

func distance(a, b int) int { return max(a-b, b-a) }
