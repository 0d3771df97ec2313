package figure

import (
	"cmp"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/draw"
)

// endLabel is the name of a series beside the end of its line, which a reader finds faster than an entry of a legend.
type endLabel struct {
	look look
	end  draw.Point // of the line
	y    float64    // of the label, which neighbours may have pushed away from the end
}

// Sizes of labels at line ends in points.
const (
	endLead  = 12.0 // length of the line that leads to the label
	endMark  = 8.0  // width of the marker
	endRow   = 13.0 // distance of two labels
	endShift = 2.5 * endRow
	endNames = 0.28 // largest share of the width for names
	endReach = 0.12 // a line may end this share of the width before the frame does
)

// drawWithEndLabels draws the chart with the names of all series beside the ends of their lines, in place of the
// legend l. It reports false, and draws nothing, if that would not be clear: for series without a line, for lines that
// end early, for long names, and if many lines end at about the same height.
func (c *chart) drawWithEndLabels(p draw.Pen, area draw.Rectangle, l legend) bool {
	if len(l.entries) == 0 || l.nameWidth(math.Inf(1)) > endNames*area.W() {
		return false
	}
	plot := area
	plot.X1 -= endLead + endMark + swatchGap + l.nameWidth(area.W()) - 6
	frame, labels := c.layout(plot)
	g := c.geometry(frame)
	ends, ok := c.lineEnds(g)
	if !ok || !spread(ends, frame.Y0, frame.Y1) {
		return false
	}
	c.paint(p, frame, labels, g)
	for _, e := range ends {
		from, to := draw.Pt(e.end.X+markerRadius, e.end.Y), draw.Pt(frame.X1+endLead, e.y)
		lead := e.look.stroke()
		lead.Width = 0.7 // thinner than a line of data
		p.Line(lead, from, to)
		if e.look.bare {
			p.Line(e.look.stroke(), to, draw.Pt(to.X+endMark, to.Y))
		} else {
			e.look.drawMarker(p, draw.Pt(to.X+endMark/2, to.Y), false)
		}
		p.Text(legendFace, draw.Pt(to.X+endMark+4, to.Y), draw.LeftMid, 0, e.look.name)
	}
	return true
}

// lineEnds returns a label for every entry of the legend, or false if some series has no line that ends near the right
// side of the frame.
func (c *chart) lineEnds(g *geometry) (ends []endLabel, ok bool) {
	add := func(k look, path []draw.Point) bool {
		inside := lists.Filter(path, g.frame.Has)
		if !k.line || len(inside) == 0 {
			return false
		}
		end := slices.MaxFunc(inside, func(a, b draw.Point) int { return cmp.Compare(a.X, b.X) })
		ends = append(ends, endLabel{look: k, end: end, y: end.Y})
		return end.X >= g.frame.X1-endReach*g.frame.W()
	}
	for i, k := range c.looks {
		if k.name != "" && len(c.data[i]) > 0 && !add(k, g.paths[i]) {
			return nil, false
		}
	}
	for i, line := range c.panel.Lines {
		if line.Label == "" {
			continue
		}
		pieces := g.frame.ClipPath(g.limits[i])
		if len(pieces) == 0 || !add(c.limitLook(i), pieces[len(pieces)-1]) {
			return nil, false
		}
	}
	return ends, true
}

// spread moves labels apart so that they do not overlap, as little as possible, and sorts them from bottom to top. It
// reports false if a label would end up too far from its line.
func spread(ends []endLabel, low, high float64) bool {
	if float64(len(ends))*endRow > high-low {
		return false
	}
	slices.SortStableFunc(ends, func(a, b endLabel) int { return cmp.Compare(a.end.Y, b.end.Y) })
	// Labels that touch form a block around the mean of their lines' ends. Blocks that overlap are merged.
	type block struct{ first, n int }
	middle := func(b block) float64 {
		sum := 0.0
		for _, e := range ends[b.first : b.first+b.n] {
			sum += e.end.Y
		}
		half := float64(b.n) * endRow / 2
		return min(max(sum/float64(b.n), low+half), high-half)
	}
	var blocks []block
	for i := range ends {
		blocks = append(blocks, block{i, 1})
		for k := len(blocks) - 1; k > 0; k-- {
			a, b := blocks[k-1], blocks[k]
			if middle(b)-middle(a) >= float64(a.n+b.n)*endRow/2 {
				break
			}
			blocks = append(blocks[:k-1], block{a.first, a.n + b.n})
		}
	}
	for _, b := range blocks {
		for i := range b.n {
			e := &ends[b.first+i]
			e.y = middle(b) + (float64(i)-float64(b.n-1)/2)*endRow
			if math.Abs(e.y-e.end.Y) > endShift {
				return false
			}
		}
	}
	return true
}
