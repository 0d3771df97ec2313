package figure

import "math"

// Lengths on the page are in points (1/72 inch), x to the right, y upward.

type point struct{ x, y float64 }

// rect spans from its lower left to its upper right corner.
type rect struct{ x0, y0, x1, y1 float64 }

func (r rect) w() float64    { return r.x1 - r.x0 }
func (r rect) h() float64    { return r.y1 - r.y0 }
func (r rect) center() point { return point{(r.x0 + r.x1) / 2, (r.y0 + r.y1) / 2} }

// inset moves all four sides inward by d.
func (r rect) inset(d float64) rect { return rect{r.x0 + d, r.y0 + d, r.x1 - d, r.y1 - d} }

func (r rect) has(p point) bool {
	return p.x >= r.x0-slack && p.x <= r.x1+slack && p.y >= r.y0-slack && p.y <= r.y1+slack
}

func (r rect) overlaps(o rect) bool {
	return r.x0 < o.x1 && o.x0 < r.x1 && r.y0 < o.y1 && o.y0 < r.y1
}

// clip gives the part of segment a-b inside r (Liang and Barsky 1984).
func (r rect) clip(a, b point) (point, point, bool) {
	dx, dy := b.x-a.x, b.y-a.y
	t0, t1 := 0.0, 1.0
	for _, side := range [4][2]float64{{-dx, a.x - r.x0}, {dx, r.x1 - a.x}, {-dy, a.y - r.y0}, {dy, r.y1 - a.y}} {
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
	return point{a.x + t0*dx, a.y + t0*dy}, point{a.x + t1*dx, a.y + t1*dy}, true
}

// clipPath cuts a polyline into the pieces inside r.
func (r rect) clipPath(path []point) [][]point {
	var pieces [][]point
	var piece []point
	for i := 1; i < len(path); i++ {
		a, b, ok := r.clip(path[i-1], path[i])
		if !ok {
			continue
		}
		if len(piece) == 0 || piece[len(piece)-1] != a {
			if len(piece) > 1 {
				pieces = append(pieces, piece)
			}
			piece = []point{a}
		}
		piece = append(piece, b)
	}
	if len(piece) > 1 {
		pieces = append(pieces, piece)
	}
	return pieces
}

// clutter remembers where ink already is, so that labels can keep off it.
type clutter struct {
	dots  []point
	boxes []rect
}

// spacing of the dots that stand for a line; finer than any label is high.
const clutterStep = 3

func (c *clutter) addPath(path []point) {
	for i, p := range path {
		if i == 0 {
			c.dots = append(c.dots, p)
			continue
		}
		q := path[i-1]
		n := math.Ceil(math.Hypot(p.x-q.x, p.y-q.y) / clutterStep)
		for k := 1.0; k <= n; k++ {
			c.dots = append(c.dots, point{q.x + (p.x-q.x)*k/n, q.y + (p.y-q.y)*k/n})
		}
	}
}

func (c *clutter) addBox(r rect) { c.boxes = append(c.boxes, r) }

// under counts what r would cover; a box weighs as much as a long stretch of line.
func (c *clutter) under(r rect) int {
	n := 0
	for _, d := range c.dots {
		if r.has(d) {
			n++
		}
	}
	for _, b := range c.boxes {
		if r.overlaps(b) {
			n += 20
		}
	}
	return n
}
