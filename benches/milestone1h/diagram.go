package milestone1h

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Colours of the links in diagrams, as palette entries.
const (
	linkColor = 1
	wrapColor = 2
	rootColor = 4
)

const boxSize, boxPitch = 1.0, 2.0

// Details of a row from which diagrams are drawn.
const (
	cubesDetail = "cube_grid" // the cubes of a SIP
)

// layout is the part of a row's machine that diagrams show.
type layout struct {
	sips  topo.SIPs
	cubes topo.Grid
	root  ccl.Root
}

// layoutOf returns the layout of a row. Rows of older journals do not have it, so it is read from their files.
func layoutOf(r *journal.Row) (layout, error) {
	if r.Details[machine.Grid] == "" {
		return layoutOfFile(r)
	}
	sips, err := topo.ParseGrid(r.Details[machine.Grid])
	cubes, err2 := topo.ParseGrid(r.Details[cubesDetail])
	return layout{topo.SIPs{Count: sips.Count(), Kind: topo.Kind(r.Details[machine.Kind]), Grid: sips}, cubes,
			ccl.Root(r.Details[machine.Root])},
		errors.Join(err, err2)
}

func layoutOfFile(r *journal.Row) (layout, error) {
	file := dataset.Text(r, machine.Option)
	t, cfg, err := accel.Load(file, dataset.Text(r, "ccl"))
	if err == nil {
		t, err = withSIPs(t, file == "", cmp.Or(rowSIPs(r), string(topo.Torus)))
	}
	if err != nil {
		return layout{}, fmt.Errorf("the machine that the rows were made with: %w", err)
	}
	return layout{t.SIPs, t.Cubes, cfg.Algorithms[ccl.LRAB].Root}, nil
}

// layouts returns the distinct layouts of the rows of the latency part, or of all rows if there are none.
func layouts(rows dataset.Set) ([]topo.SIPs, []ccl.Shape, error) {
	var sips lists.Set[topo.SIPs]
	var inside lists.Set[ccl.Shape]
	shown := rows.Good().Part(latencyPart)
	if len(shown) == 0 {
		shown = rows.Good()
	}
	for _, value := range append(sipsOf(rows), "") { // in the order of the page
		for _, r := range withSIPsOf(shown, value) {
			l, err := layoutOf(r)
			if err != nil {
				return nil, nil, err
			}
			sips.Add(l.sips)
			inside.Add(ccl.Shape{Cubes: l.cubes, Root: l.root})
		}
	}
	return sips.List, inside.List, nil
}

// topologyFigure draws the SIP topologies of the rows and the reduction within a SIP.
func topologyFigure(rows dataset.Set) (figure.Figure, bool) {
	f := figure.Figure{Name: "topology", Title: "SIP topologies, and the reduction within a SIP", Columns: 2}
	sips, inside, err := layouts(rows)
	if err != nil {
		return f, false // exports reports the error
	}
	for _, s := range sips {
		m, err := topo.Default().WithSIPs(s.Kind, s.Grid.W, s.Grid.H)
		if err != nil {
			return f, false
		}
		f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("%s, %d SIPs", s.Kind, s.Count), Content: sipDiagram(m)})
	}
	for _, shape := range inside {
		f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("reduction in a SIP of %d x %d cubes", shape.Cubes.W,
			shape.Cubes.H), Content: cubeDiagram(shape),
			Note: "Sums go along the rows (first) and along the root's column to the root, and the result back the same way."})
	}
	return f, len(f.Panels) > 0
}

// cellPosition returns the position of a grid cell in a diagram; rows go downward.
func cellPosition(g topo.Grid, id int) [2]float64 {
	return [2]float64{boxPitch * float64(id%g.W), -boxPitch * float64(id/g.W)}
}

func link(a, b [2]float64, color int) figure.Shape {
	return figure.Shape{Kind: figure.Arrow, Points: [][2]float64{a, b}, Trim: 0.6 * boxSize, Color: color}
}

// sipDiagram draws which SIPs are neighbours. A link that wraps around is an arc outside the boxes.
func sipDiagram(t *topo.Topology) *figure.Diagram {
	d := &figure.Diagram{}
	grid := t.SIPs.Grid
	for sip := range t.SIPs.Count {
		for _, side := range []topo.Side{topo.East, topo.South} {
			next, ok := t.NextSIP(topo.PEID{SIP: sip}, side)
			if !ok {
				continue
			}
			a, b := cellPosition(grid, sip), cellPosition(grid, next.SIP)
			s := link(a, b, linkColor)
			s.Both = t.SIPs.Kind == topo.Mesh
			if next.SIP < sip { // back to the start of the row or column
				s.Color = wrapColor
				s.Trim = 0.78 * boxSize // it arrives at a corner, which is farther from the center
				s.Bend = wrapBend(grid, sip, side)
			}
			d.Shapes = append(d.Shapes, s)
		}
	}
	for sip := range t.SIPs.Count {
		p := cellPosition(grid, sip)
		d.Shapes = append(d.Shapes, figure.Shape{Kind: figure.Box, X: p[0], Y: p[1], W: boxSize, H: boxSize,
			Text: fmt.Sprintf("SIP %d", sip)})
	}
	return d
}

// wrapBend returns the bend of a link that wraps around. It is bent outward: links of rows upward in the upper
// half and downward in the lower, links of columns to the nearer side.
func wrapBend(g topo.Grid, sip int, side topo.Side) float64 {
	length := g.W
	outward := sip/g.W < (g.H+1)/2 // a row's link runs west, so its right side is up
	if side == topo.South {
		length = g.H
		outward = sip%g.W >= (g.W+1)/2 // a column's link runs north, so its right side is east
	}
	// The longer the link, the higher the arc must be to clear the boxes in between.
	height := 0.9 + 0.13*float64(length-2)
	bend := height / (boxPitch * float64(length-1))
	if outward {
		return -bend
	}
	return bend
}

// cubeDiagram draws the paths of partial sums to the root.
func cubeDiagram(s ccl.Shape) *figure.Diagram {
	d := &figure.Diagram{}
	rootRow, rootCol := s.RootCube()
	for cube := range s.Cubes.Count() {
		row, col := cube/s.Cubes.W, cube%s.Cubes.W
		next, color := cube, linkColor
		switch {
		case col < rootCol:
			next++
		case col > rootCol:
			next--
		case row < rootRow:
			next, color = next+s.Cubes.W, wrapColor
		case row > rootRow:
			next, color = next-s.Cubes.W, wrapColor
		}
		if next != cube {
			d.Shapes = append(d.Shapes, link(cellPosition(s.Cubes, cube), cellPosition(s.Cubes, next), color))
		}
	}
	for cube := range s.Cubes.Count() {
		p := cellPosition(s.Cubes, cube)
		shape := figure.Shape{Kind: figure.Box, X: p[0], Y: p[1], W: boxSize, H: boxSize, Text: fmt.Sprint(cube)}
		if cube == rootRow*s.Cubes.W+rootCol {
			shape.Text, shape.Color, shape.Filled = fmt.Sprintf("root %d", cube), rootColor, true
		}
		d.Shapes = append(d.Shapes, shape)
	}
	return d
}
