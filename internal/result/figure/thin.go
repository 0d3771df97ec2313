package figure

import (
	"fmt"
	"slices"
)

// Thinned returns the figure with curves of at most this many points, besides failed ones. A longer curve keeps the
// lowest and the highest point of every stretch, so that outliers stay visible.
func (f Figure) Thinned(most int) Figure {
	f.Panels = slices.Clone(f.Panels)
	for i := range f.Panels {
		p := &f.Panels[i]
		p.Series = slices.Clone(p.Series)
		for k, s := range p.Series {
			if n := len(s.Points); n > most && p.X.Scale != Category { // the bars of a stack belong together
				p.Series[k].Points = extremes(s.Points, most/2)
				if p.Note != "" {
					p.Note += "; "
				}
				p.Note += fmt.Sprintf("%s has %d points: only the lowest and the highest of each stretch are drawn", s.Name, n)
			}
		}
	}
	return f
}

// extremes returns the lowest and the highest point of each stretch, and all failed points, in their order.
func extremes(points []Point, stretches int) (out []Point) {
	for i := range stretches {
		from, to := i*len(points)/stretches, (i+1)*len(points)/stretches
		lo, hi := from, from
		for k := from; k < to; k++ {
			if points[k].Failed {
				out = append(out, points[k])
				continue
			}
			if points[lo].Failed || points[k].Y < points[lo].Y {
				lo = k
			}
			if points[hi].Failed || points[k].Y > points[hi].Y {
				hi = k
			}
		}
		for _, k := range slices.Compact([]int{min(lo, hi), max(lo, hi)}) {
			if !points[k].Failed {
				out = append(out, points[k])
			}
		}
	}
	return out
}
