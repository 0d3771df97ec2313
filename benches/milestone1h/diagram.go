package milestone1h

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Colours of the links in diagrams, as palette entries.
const linkColor, wrapColor, rootColor = 1, 2, 4

// boxPitch is the distance of two nodes. A node has sides of length 1.
const boxPitch = 2.0

// cubesDetail is the detail of a row for the cubes of a SIP.
const cubesDetail = "cube_grid"

// topologyFigures draws the SIP topologies of the rows and the reduction within a SIP. The rows say what they are,
// because the files may have changed. Rows that do not say it have no diagram.
func topologyFigures(rows dataset.Set) []figure.Figure {
	f := figure.Figure{Name: "topology", Title: "SIP topologies, and the reduction within a SIP", Columns: 2}
	shown := rows.Good().Part(latencyPart)
	if len(shown) == 0 {
		shown = rows.Good()
	}
	var sips lists.Set[topo.SIPs]
	var inside lists.Set[ccl.Shape]
	for _, r := range shown {
		grid, err := topo.ParseGrid(r.Details[machine.Grid])
		cubes, err2 := topo.ParseGrid(r.Details[cubesDetail])
		if err != nil || err2 != nil {
			continue
		}
		sips.Add(topo.SIPs{Count: grid.Count(), Kind: topo.Kind(r.Details[machine.Kind]), Grid: grid})
		inside.Add(ccl.Shape{Cubes: cubes, Root: ccl.Root(r.Details[machine.Root])})
	}
	for _, s := range sips.List {
		if m, err := topo.Default().WithSIPs(s.Kind, s.Grid.W, s.Grid.H); err == nil {
			f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("%s, %d SIPs", s.Kind, s.Count), Content: sipDiagram(m)})
		}
	}
	for _, shape := range inside.List {
		f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("reduction in a SIP of %d x %d cubes", shape.Cubes.W,
			shape.Cubes.H), Content: cubeDiagram(shape),
			Note: "Sums go along the rows (first) and along the root's column to the root, and the result back the same way."})
	}
	if len(f.Panels) == 0 {
		return nil
	}
	f.AddCaption(views.Simulated(rows))
	return []figure.Figure{f}
}

// cellPosition returns the position of a grid cell in a diagram; rows go downward.
func cellPosition(g topo.Grid, id int) [2]float64 {
	return [2]float64{boxPitch * float64(id%g.W), -boxPitch * float64(id/g.W)}
}

func link(a, b [2]float64, color int) figure.Link {
	return figure.Link{From: a, To: b, Trim: 0.6, Color: color}
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
				s.Trim = 0.78 // it arrives at a corner, which is farther from the center
				s.Bend = wrapBend(grid, sip, side)
			}
			d.Links = append(d.Links, s)
		}
	}
	for sip := range t.SIPs.Count {
		p := cellPosition(grid, sip)
		d.Nodes = append(d.Nodes, figure.Node{X: p[0], Y: p[1], Text: fmt.Sprintf("SIP %d", sip)})
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
			d.Links = append(d.Links, link(cellPosition(s.Cubes, cube), cellPosition(s.Cubes, next), color))
		}
	}
	for cube := range s.Cubes.Count() {
		p := cellPosition(s.Cubes, cube)
		node := figure.Node{X: p[0], Y: p[1], Text: fmt.Sprint(cube)}
		if cube == rootRow*s.Cubes.W+rootCol {
			node.Text, node.Color, node.Filled = fmt.Sprintf("root %d", cube), rootColor, true
		}
		d.Nodes = append(d.Nodes, node)
	}
	return d
}
