package draw

import "math"

// Point is a position on the page. Lengths are in points (1/72 inch), x to the
// right, y upward.
type Point struct{ X, Y float64 }

// Pt is short for Point{X: x, Y: y}.
func Pt(x, y float64) Point { return Point{x, y} }

// Rectangle spans from its lower left to its upper right corner.
type Rectangle struct{ X0, Y0, X1, Y1 float64 }

// Rect is short for a Rectangle with its fields named.
func Rect(x0, y0, x1, y1 float64) Rectangle { return Rectangle{x0, y0, x1, y1} }

// slack forgives rounding when a point falls on the very rim.
const slack = 1e-9

// W is the width.
func (r Rectangle) W() float64 { return r.X1 - r.X0 }

// H is the height.
func (r Rectangle) H() float64 { return r.Y1 - r.Y0 }

// Center is the point in the middle.
func (r Rectangle) Center() Point { return Pt((r.X0+r.X1)/2, (r.Y0+r.Y1)/2) }

// Inset moves all four sides inward by d.
func (r Rectangle) Inset(d float64) Rectangle { return Rect(r.X0+d, r.Y0+d, r.X1-d, r.Y1-d) }

// Has reports whether p lies inside or on the rim.
func (r Rectangle) Has(p Point) bool {
	return p.X >= r.X0-slack && p.X <= r.X1+slack && p.Y >= r.Y0-slack && p.Y <= r.Y1+slack
}

// Overlaps reports whether the two share an area.
func (r Rectangle) Overlaps(o Rectangle) bool {
	return r.X0 < o.X1 && o.X0 < r.X1 && r.Y0 < o.Y1 && o.Y0 < r.Y1
}

// Clip gives the part of segment a-b inside r (Liang and Barsky 1984).
func (r Rectangle) Clip(a, b Point) (Point, Point, bool) {
	dx, dy := b.X-a.X, b.Y-a.Y
	t0, t1 := 0.0, 1.0
	for _, side := range [4][2]float64{{-dx, a.X - r.X0}, {dx, r.X1 - a.X}, {-dy, a.Y - r.Y0}, {dy, r.Y1 - a.Y}} {
		p, q := side[0], side[1]
		switch {
		case p == 0 && q < 0:
			return a, b, false
		case p < 0:
			t0 = math.Max(t0, q/p)
		case p > 0:
			t1 = math.Min(t1, q/p)
		}
	}
	if t0 > t1 {
		return a, b, false
	}
	return Pt(a.X+t0*dx, a.Y+t0*dy), Pt(a.X+t1*dx, a.Y+t1*dy), true
}

// ClipPath cuts a polyline into the pieces inside r.
func (r Rectangle) ClipPath(path []Point) [][]Point {
	var pieces [][]Point
	var piece []Point
	for i := 1; i < len(path); i++ {
		a, b, ok := r.Clip(path[i-1], path[i])
		if !ok {
			continue
		}
		if len(piece) == 0 || piece[len(piece)-1] != a {
			if len(piece) > 1 {
				pieces = append(pieces, piece)
			}
			piece = []Point{a}
		}
		piece = append(piece, b)
	}
	if len(piece) > 1 {
		pieces = append(pieces, piece)
	}
	return pieces
}
