package milestone1h

import (
	"fmt"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Colours of the diagrams' links, as palette entries.
const (
	linkColor = 1
	wrapColor = 2
	rootColor = 4
)

const boxSize, boxPitch = 1.0, 2.0

// topologyFigure draws the SIP topologies of the evaluation and the reduction
// within a SIP, from the files that the rows were made with.
func topologyFigure(rows []journal.Row) (figure.Figure, bool) {
	if len(rows) == 0 {
		return figure.Figure{}, false
	}
	t, cfg, err := machineOf(rows)
	if err != nil {
		return figure.Figure{}, false // exports says why
	}
	f := figure.Figure{Name: "topology", Title: "SIP topologies, and the reduction within a SIP", Columns: 2}
	shown := sipsOf(rows)
	if len(shown) == 0 {
		shown = topo.Kinds()
	}
	for _, sips := range shown {
		m, err := withSIPs(t, builtIn(rows), sips)
		if err != nil {
			return figure.Figure{}, false
		}
		f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("%s, %d SIPs", m.SIPs.Kind, m.SIPs.Count), Content: sipDiagram(m)})
	}
	root := ccl.Shape{Cubes: t.Cubes, Root: cfg.Algorithms[ccl.LRAB].Root}
	f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("reduction in a SIP of %d x %d cubes", t.Cubes.W, t.Cubes.H), Content: cubeDiagram(root),
		Note: "Sums go along the rows (first) and along the root's column to the root, and the result back the same way."})
	return f, true
}

// machineOf reads the files that the rows were made with.
func machineOf(rows []journal.Row) (*topo.Topology, *ccl.Config, error) {
	return accel.Load(optionOf(rows, "topology"), optionOf(rows, "ccl"))
}

func optionOf(rows []journal.Row, name string) string {
	v, _ := rows[0].Options.Get(name)
	return v.String()
}

// builtIn reports whether the rows were made without a topology file.
func builtIn(rows []journal.Row) bool { return optionOf(rows, "topology") == "" }

// at is where a place of a grid is drawn; rows go downward.
func at(g topo.Grid, id int) [2]float64 {
	return [2]float64{boxPitch * float64(id%g.W), -boxPitch * float64(id/g.W)}
}

func link(a, b [2]float64, color int) figure.Shape {
	return figure.Shape{Kind: figure.Arrow, Points: [][2]float64{a, b}, Trim: 0.6 * boxSize, Color: color}
}

// sipDiagram draws who is whose neighbour. A link that wraps is an arc outside
// of the boxes.
func sipDiagram(t *topo.Topology) *figure.Diagram {
	d := &figure.Diagram{}
	grid := t.SIPs.Grid
	for sip := range t.SIPs.Count {
		for _, side := range []topo.Side{topo.East, topo.South} {
			next, ok := t.NextSIP(topo.PEID{SIP: sip}, side)
			if !ok {
				continue
			}
			a, b := at(grid, sip), at(grid, next.SIP)
			s := link(a, b, linkColor)
			s.Both = t.SIPs.Kind == topo.Mesh
			if next.SIP < sip { // back to the start of the row or column
				s.Color = wrapColor
				s.Bend = wrapBend(grid, sip, side)
			}
			d.Shapes = append(d.Shapes, s)
		}
	}
	for sip := range t.SIPs.Count {
		p := at(grid, sip)
		d.Shapes = append(d.Shapes, figure.Shape{Kind: figure.Box, X: p[0], Y: p[1], W: boxSize, H: boxSize,
			Text: fmt.Sprintf("SIP %d", sip)})
	}
	return d
}

// wrapBend bows a wrapping link outward: rows' upward in the upper half and
// downward in the lower, columns' to the nearer side.
func wrapBend(g topo.Grid, sip int, side topo.Side) float64 {
	length := g.W
	outward := sip/g.W < (g.H+1)/2 // a row's link runs west: its right is up
	if side == topo.South {
		length = g.H
		outward = sip%g.W >= (g.W+1)/2 // a column's runs north: its right is east
	}
	// The longer the link, the higher it must be to clear the boxes between.
	height := 0.9 + 0.13*float64(length-2)
	bend := height / (boxPitch * float64(length-1))
	if outward {
		return -bend
	}
	return bend
}

// cubeDiagram draws the way of the sums to the root.
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
			d.Shapes = append(d.Shapes, link(at(s.Cubes, cube), at(s.Cubes, next), color))
		}
	}
	for cube := range s.Cubes.Count() {
		p := at(s.Cubes, cube)
		shape := figure.Shape{Kind: figure.Box, X: p[0], Y: p[1], W: boxSize, H: boxSize, Text: fmt.Sprint(cube)}
		if cube == rootRow*s.Cubes.W+rootCol {
			shape.Text, shape.Color, shape.Filled = fmt.Sprintf("root %d", cube), rootColor, true
		}
		d.Shapes = append(d.Shapes, shape)
	}
	return d
}
