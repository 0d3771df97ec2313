package draw

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Point is a position on the page. Coordinates are in points (1/72 inch), x to the
// right and y upward.
type Point struct{ X, Y float64 }

// Pt is short for Point{X: x, Y: y}.
func Pt(x, y float64) Point { return Point{x, y} }

// Rectangle is given by its lower left and its upper right corner.
type Rectangle struct{ X0, Y0, X1, Y1 float64 }

// Rect is short for Rectangle{x0, y0, x1, y1}.
func Rect(x0, y0, x1, y1 float64) Rectangle { return Rectangle{x0, y0, x1, y1} }

// slack forgives rounding errors of points on the rim.
const slack = 1e-9

// W returns the width.
func (r Rectangle) W() float64 { return r.X1 - r.X0 }

// H returns the height.
func (r Rectangle) H() float64 { return r.Y1 - r.Y0 }

// Center returns the point in the middle.
func (r Rectangle) Center() Point { return Pt((r.X0+r.X1)/2, (r.Y0+r.Y1)/2) }

// Inset moves all four sides inward by d.
func (r Rectangle) Inset(d float64) Rectangle { return Rect(r.X0+d, r.Y0+d, r.X1-d, r.Y1-d) }

// Has reports whether p lies inside or on the rim.
func (r Rectangle) Has(p Point) bool {
	return p.X >= r.X0-slack && p.X <= r.X1+slack && p.Y >= r.Y0-slack && p.Y <= r.Y1+slack
}

// ClipPath returns the pieces of a polyline inside r.
func (r Rectangle) ClipPath(path []Point) [][]Point {
	if len(path) < 2 {
		return nil
	}
	c := draw.Canvas{Rectangle: vg.Rectangle{Min: vgPoint(Pt(r.X0, r.Y0)), Max: vgPoint(Pt(r.X1, r.Y1))}}
	fromVG := func(p vg.Point) Point { return Pt(float64(p.X), float64(p.Y)) }
	return lists.Map(c.ClipLinesXY(lists.Map(path, vgPoint)), func(piece []vg.Point) []Point {
		return lists.Map(piece, fromVG)
	})
}
