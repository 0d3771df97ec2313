package solvescaling

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// figureName is the name of the figure and of the export.
const figureName = "distributed_solve_scaling"

// count formats a number of unknowns like 100k or 4M.
func count(v float64) string { return unit.FormatSI(v) }

// artifacts lists the files that a run must produce.
func artifacts(rows dataset.Set) []string {
	out := []string{exportName}
	if slices.ContainsFunc(figures(rows), func(f figure.Figure) bool { return f.Name == figureName }) {
		out = append(out, "figures/"+figureName+".png", "figures/"+figureName+".svg")
	}
	return out
}

// figures draws a panel for each mode that has rows, with the ideal curve, and the phases of an iteration.
func figures(rows dataset.Set) []figure.Figure {
	f := figure.Figure{Name: figureName, Title: "Distributed solve scaling" + commonTitle(rows), Columns: 2}
	for _, panel := range []func(dataset.Set) (figure.Panel, bool){weakPanel, strongPanel, throughputPanel} {
		if p, ok := panel(rows); ok {
			f.Panels = append(f.Panels, p)
		}
	}
	f.Panels = append(f.Panels, phasePanels(rows)...)
	if len(f.Panels) == 0 {
		return nil
	}
	f.Caption = "Markers: the best solve of a launch, and of several launches the median. Error bars: all " +
		"solves of all launches."
	if slices.ContainsFunc(rows.Good(), (*journal.Row).Disturbed) {
		f.Caption += " Hollow markers on solid lines, and outlined bars: disturbed while measured."
	}
	out := []figure.Figure{f}
	if c, ok := comparisonFigure(rows); ok {
		out = append(out, c)
	}
	if p := rooflinePanels(rows); len(p) > 0 {
		out = append(out, figure.Figure{Name: "distributed_solve_roofline", Title: "Roofline of a solve" + commonTitle(rows),
			Panels: p, Columns: 2,
			Caption: "The roof is the bandwidth of a triad and the arithmetic rate of all ranks. Both and the times " +
				"are measured; operations and bytes are counted. Points above the roof were read from a cache. Hollow markers: " +
				"disturbed while measured."})
	}
	if p, ok := convergencePanel(rows); ok {
		out = append(out, figure.Figure{Name: "distributed_solve_convergence", Title: "Convergence" + commonTitle(rows),
			Panels: []figure.Panel{p}})
	}
	return out
}

// commonTitle returns what all successful rows have in common, for the title: problem, size, storage and host.
func commonTitle(rows dataset.Set) (text string) {
	for _, of := range []func(r *journal.Row) string{
		func(r *journal.Row) string { return r.Details["problem"] },
		func(r *journal.Row) string {
			if dataset.Text(r, matrixOption) != "" {
				return count(r.Metrics["dof_global"]) + " unknowns"
			}
			size := sizeAxis(dataset.Text(r, modeAxis))
			return count(dataset.Number(r, size)) +
				map[string]string{perRankAxis: " unknowns per rank", totalAxis: " unknowns"}[size]
		},
		stored,
		func(r *journal.Row) string { return r.Host },
	} {
		if same := dataset.GroupBy(rows.Good(), of); len(same) == 1 && same[0].Key != "" {
			text += ", " + same[0].Key
		}
	}
	return strings.Replace(text, ", ", ": ", 1)
}

// stored returns the storage format of a row's matrix. A constant stencil takes almost no memory if compressed, so such
// a row says little about general matrices.
func stored(r *journal.Row) string {
	form := dataset.Text(r, storageAxis)
	if b, known := r.Metrics["matrix_bytes_per_dof"]; known && b < stencilBytes && form == sparse.Compressed.String() {
		return "stored as a stencil"
	}
	return form
}

// stencilBytes is the memory per unknown below which a matrix can only be a stencil: less than one value or column per
// row.
const stencilBytes = 2

// good removes curves without a successful row.
func good(all []*curve) []*curve {
	return slices.DeleteFunc(all, func(c *curve) bool { return len(c.rows) == 0 })
}

// byRanks returns the points of a metric over the ranks, with its interval if it has one. Rows without the metric are
// left out.
func byRanks(c *curve, metric string) []figure.Point {
	var points []figure.Point
	for _, r := range c.rows {
		if v, ok := r.Metrics[metric]; ok {
			points = append(points, figure.Point{X: float64(dataset.Ranks(r)), Y: v, Hollow: r.Disturbed(),
				Low: r.Metrics[metric+"_low"], High: r.Metrics[metric+"_high"]})
		}
	}
	return points
}

// speedups turns efficiencies by ranks into speed-ups.
func speedups(points []figure.Point) []figure.Point {
	return lists.Map(points, func(q figure.Point) figure.Point {
		q.Y, q.Low, q.High = q.X*q.Y, q.X*q.Low, q.X*q.High
		return q
	})
}

// ranksAxis returns the x axis of panels over the ranks.
func ranksAxis() figure.Axis { return figure.Axis{Label: "ranks", Scale: figure.Log2} }

// pair returns a curve's efficiency or speed-up to the solution, and a dashed one per iteration if the number of
// iterations changes.
func pair(name string, color int, toSolution, perIteration []figure.Point) []figure.Series {
	var out []figure.Series
	if len(toSolution) > 0 {
		out = append(out, figure.Series{Name: name, Points: toSolution, Color: color})
	}
	near := func(a, b figure.Point) bool { return math.Abs(a.Y-b.Y) <= 0.01*a.Y }
	same := slices.EqualFunc(toSolution, perIteration, near)
	if len(perIteration) > 0 && !same {
		out = append(out, figure.Series{Name: name + ", per iteration", Points: perIteration, Color: color, Dashed: true})
	}
	return out
}

// weakPanel draws efficiency over ranks at a constant number of unknowns per rank.
func weakPanel(rows dataset.Set) (figure.Panel, bool) {
	zero, ideal := 0.0, 1.0
	p := figure.Panel{Title: "weak scaling", X: ranksAxis(),
		Y:     figure.Axis{Label: "efficiency", Min: &zero},
		Lines: []figure.Line{{Label: "ideal", Y: &ideal}}}
	all := good(curves(rows, weak))
	for i, name := range names(all) {
		p.Series = append(p.Series, pair(name, i+1, byRanks(all[i], "efficiency"),
			byRanks(all[i], "efficiency_implementation"))...)
	}
	return p, scales(p)
}

// strongPanel draws speed-up over ranks for a problem of constant size. The dashed speed-up per iteration is ranks
// times the efficiency of an iteration.
func strongPanel(rows dataset.Set) (figure.Panel, bool) {
	p := figure.Panel{Title: "strong scaling", X: ranksAxis(), Y: figure.Axis{Label: "speed-up", Scale: figure.Log2}}
	all := good(curves(rows, strong))
	minRanks, maxRanks := math.Inf(1), 0.0
	for i, name := range names(all) {
		toSolution, perIteration := byRanks(all[i], "efficiency"), byRanks(all[i], "efficiency_implementation")
		for _, q := range perIteration {
			minRanks, maxRanks = min(minRanks, q.X), max(maxRanks, q.X)
		}
		p.Series = append(p.Series, pair(name, i+1, speedups(toSolution), speedups(perIteration))...)
	}
	p.Lines = idealLine(minRanks, maxRanks, 1)
	return p, scales(p)
}

// scales reports whether a panel has more than its baseline, which is 1 by definition.
func scales(p figure.Panel) bool {
	return slices.ContainsFunc(p.Series, func(s figure.Series) bool {
		return slices.ContainsFunc(s.Points, func(q figure.Point) bool { return q.X > 1 })
	})
}

// idealLine returns a line that grows in proportion to the ranks.
func idealLine(minRanks, maxRanks, perRank float64) []figure.Line {
	if minRanks >= maxRanks {
		return nil
	}
	return []figure.Line{{Label: "ideal",
		Points: []figure.Point{{X: minRanks, Y: perRank * minRanks}, {X: maxRanks, Y: perRank * maxRanks}}}}
}

// throughputPanel draws unknowns solved per second over ranks. The ideal line starts at the best rate of one rank.
func throughputPanel(rows dataset.Set) (figure.Panel, bool) {
	p := figure.Panel{Title: "throughput", X: ranksAxis(),
		Y: figure.Axis{Label: "unknowns solved per second", Scale: figure.Log10}}
	all := good(curves(rows, throughput))
	best, minRanks, maxRanks := 0.0, math.Inf(1), 0.0
	for i, name := range names(all) {
		points := byRanks(all[i], "throughput_dof_s")
		if len(points) == 0 {
			continue // stopped before a solution
		}
		p.Series = append(p.Series, figure.Series{Name: name, Points: points, Color: i + 1})
		for _, q := range points {
			minRanks, maxRanks = min(minRanks, q.X), max(maxRanks, q.X)
			if q.X == 1 {
				best = max(best, q.Y)
			}
		}
	}
	if best > 0 {
		p.Lines = idealLine(minRanks, maxRanks, best)
	}
	return p, len(p.Series) > 0
}

// maxPhasePanels is the number of configurations whose phases are drawn.
const maxPhasePanels = 8

// phasePanels stacks the mean time of each phase in a traced iteration: a bar for each number of ranks, and a panel for
// each configuration.
func phasePanels(rows dataset.Set) []figure.Panel {
	var out []figure.Panel
	omitted := 0
	for _, mode := range []string{weak, strong, throughput} {
		all := slices.DeleteFunc(good(curves(rows, "")), func(c *curve) bool { return c.mode != mode })
		for i, name := range names(all) {
			p, traced := phasePanel("time per iteration: "+mode+", "+name, all[i])
			switch {
			case !traced:
			case len(out) == maxPhasePanels:
				omitted++
			default:
				out = append(out, p)
			}
		}
	}
	if omitted > 0 {
		out[len(out)-1].Note = fmt.Sprintf("%d more configurations are not drawn", omitted)
	}
	return out
}

// phasePanel draws the phases of one curve. traced is false if no row was traced.
func phasePanel(title string, c *curve) (p figure.Panel, traced bool) {
	p = figure.Panel{Title: title, Legend: figure.LegendRight,
		X: figure.Axis{Label: "ranks", Scale: figure.Category},
		Y: figure.Axis{Label: "iteration, mean over ranks", Unit: figure.Micros}}
	for phase := range krylov.NumPhases {
		p.Series = append(p.Series, figure.Series{Name: strings.ReplaceAll(phase.String(), "_", " "),
			Kind: figure.StackedBars, Color: int(phase) + 1})
	}
	for _, r := range c.rows {
		if _, traced := r.Metrics[meanOf(krylov.SpMV)]; !traced {
			continue
		}
		at := float64(len(p.X.Categories))
		p.X.Categories = append(p.X.Categories, fmt.Sprint(dataset.Ranks(r)))
		for phase := range krylov.NumPhases {
			p.Series[phase].Points = append(p.Series[phase].Points,
				figure.Point{X: at, Y: r.Metrics[meanOf(phase)], Hollow: r.Disturbed()})
		}
	}
	p.Series = slices.DeleteFunc(p.Series, func(s figure.Series) bool {
		return !slices.ContainsFunc(s.Points, func(q figure.Point) bool { return q.Y > 0 })
	})
	return p, len(p.X.Categories) > 0
}

// convergencePanel draws the residual by iteration, once for each problem and method, for the largest number of ranks.
// The partition makes no difference to it.
func convergencePanel(rows dataset.Set) (figure.Panel, bool) {
	p := figure.Panel{X: figure.Axis{Label: "iterations"}, Y: figure.Axis{Label: "relative residual", Scale: figure.Log10}}
	seen := map[string]bool{}
	for _, c := range good(curves(rows, "")) {
		last := c.rows[len(c.rows)-1]
		name := solverOf(last) + fmt.Sprintf(", %s, %s unknowns", last.Details["problem"], count(last.Metrics["dof_global"]))
		s := figure.Series{Name: name, NoMarker: true,
			Points: lists.Map(residuals(last), func(q []float64) figure.Point { return figure.Point{X: q[0], Y: q[1]} })}
		if len(s.Points) > 1 && !seen[name] {
			seen[name] = true
			p.Series = append(p.Series, s)
		}
	}
	return p, len(p.Series) > 0
}

// residuals returns the history of a row: iterations and relative residuals.
func residuals(r *journal.Row) [][]float64 { return unpack(r.Details["history"], 2) }
