package milestone1h

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The names of the figures.
const (
	breakdownFigure   = "gemm_stage_breakdown"
	measuredFigure    = "gemm_mac_utilization_measured"
	theoreticalFigure = "gemm_mac_utilization_theoretical_vs_measured"
	scalingFigure     = "gemm_scaling"
)

// gemmFigureNames returns the figures that the rows require. Failed rows count.
func gemmFigureNames(rows dataset.Set) (names []string) {
	if hasPart(rows, sweepPart) {
		names = append(names, breakdownFigure, measuredFigure, theoreticalFigure)
	}
	if hasPart(rows, scalingPart) {
		names = append(names, scalingFigure)
	}
	return names
}

// gemmFigures draws the evaluation. Figures without rows are omitted; the run then reports them as missing.
func gemmFigures(rows dataset.Set) []figure.Figure {
	var figs []figure.Figure
	if sweep := rows.Good().Part(sweepPart); len(sweep) > 0 {
		figs = append(figs, stageFigure(sweep), utilizationFigure(sweep), modelFigure(sweep))
	}
	if scaling := rows.Good().Part(scalingPart); len(scaling) > 0 {
		figs = append(figs, scalingCurves(scaling))
	}
	return machine.Caption(figs, rows)
}

// shapeAxis returns an axis with one slot for each shape of the rows, in order.
func shapeAxis(rows dataset.Set) figure.Axis {
	return figure.Axis{Label: "M x K x N", Scale: figure.Category, Categories: rows.Distinct("shapes")}
}

func slot(x figure.Axis, r *journal.Row) float64 {
	return float64(slices.Index(x.Categories, dataset.Text(r, "shapes")))
}

// stageFigure shows, for each variant, how long each engine was busy in the window of the pipeline. Stages
// overlap, so their shares add up to more than one, and each has its own bar.
func stageFigure(rows dataset.Set) figure.Figure {
	f := figure.Figure{Name: breakdownFigure, Title: "How busy each stage of the tile pipeline is (simulated)", Columns: 1,
		Caption: "Busy time of the stage as a share of the time from the pipeline's first record to its last. Loading " +
			"operands up front comes before it and is not in it."}
	x := shapeAxis(rows)
	for _, g := range variants(rows) {
		of := g.Rows
		panel := figure.Panel{Title: g.Key, X: x, Y: figure.Axis{Label: "busy", Unit: figure.Percent, Min: new(float64)},
			Legend: figure.LegendRight}
		for i, stage := range stages() {
			s := figure.Series{Name: stage.String(), Kind: figure.Bars, Color: i + 1}
			total := 0.0
			for _, r := range of {
				busy := 100 * r.Metrics[busyName(stage)] / r.Metrics["composite_window_ns"]
				total += busy
				s.Points = append(s.Points, figure.Point{X: slot(x, r), Y: busy})
			}
			if total > 0 || stage != sim.Math { // the MATH engine is idle without an epilogue
				panel.Series = append(panel.Series, s)
			}
		}
		f.Panels = append(f.Panels, panel)
	}
	return f
}

// variants returns the rows of each variant on each machine.
func variants(rows dataset.Set) (out []dataset.Group[string]) {
	label := machine.Labels(rows)
	for _, v := range kernels.Variants() {
		for _, g := range dataset.GroupBy(rows.At("variant", v), label) {
			out = append(out, dataset.Group[string]{Key: machine.With(v, g.Key), Rows: g.Rows})
		}
	}
	return out
}

// bars returns a series with a bar for each row.
func bars(name, metric string, x figure.Axis, rows dataset.Set, color int) figure.Series {
	return figure.Series{Name: name, Kind: figure.Bars, Color: color,
		Points: lists.Map(rows, func(r *journal.Row) figure.Point {
			return figure.Point{X: slot(x, r), Y: r.Metrics[metric]}
		})}
}

var utilizationAxis = figure.Axis{Label: "useful multiplications", Unit: figure.Percent, Min: new(float64),
	Max: new(100.0)}

func utilizationFigure(rows dataset.Set) figure.Figure {
	x := shapeAxis(rows)
	panel := figure.Panel{X: x, Y: utilizationAxis, Legend: figure.LegendRight}
	for i, g := range variants(rows) {
		panel.Series = append(panel.Series, bars(g.Key, "mac_utilization", x, g.Rows, i+1))
	}
	return figure.Figure{Name: measuredFigure, Title: "Use of the GEMM engine in the pipeline, as simulated",
		Panels: []figure.Panel{panel}}
}

// modelFigure compares the simulation with the ideal pipeline, for the published variant.
func modelFigure(rows dataset.Set) figure.Figure {
	x := shapeAxis(rows)
	variant := string(kernels.LoadRef)
	of := rows.At("variant", variant)
	if len(of) == 0 {
		variant = dataset.Text(rows[0], "variant")
		of = rows.At("variant", variant)
	}
	var series []figure.Series
	for i, g := range dataset.GroupBy(of, machine.Labels(rows)) {
		series = append(series, bars(machine.With("theoretical", g.Key), "mac_utilization_theoretical", x, g.Rows, 2*i+2),
			bars(machine.With("simulated", g.Key), "mac_utilization", x, g.Rows, 2*i+1))
	}
	return figure.Figure{Name: theoreticalFigure,
		Title: "Use of the GEMM engine: ideal pipeline and simulation, " + variant,
		Caption: "In the ideal pipeline (theoretical) all stages work at the same time, each as long as the slowest; " +
			"its numbers follow from the topology file. The simulation is slower mainly because the DMA channel is " +
			"occupied during the round trip of each read to the HBM.",
		Panels: []figure.Panel{{X: x, Y: utilizationAxis, Legend: figure.LegendRight, Series: series}}}
}

// scalingCurve holds the rows of one split on one machine, by number of PEs.
type scalingCurve struct {
	split, on string // on: which of several machines
	rows      dataset.Set
}

func (c scalingCurve) name() string { return machine.With(c.split, c.on) }

func scalings(rows dataset.Set) []scalingCurve {
	var curves []scalingCurve
	label := machine.Labels(rows)
	for _, split := range splits() {
		for _, g := range dataset.GroupBy(rows.At("split", split), label) {
			curves = append(curves, scalingCurve{split, g.Key, g.Rows})
		}
	}
	return curves
}

// speedup returns the speed-up over one PE, extrapolated from the first row, which has the fewest PEs.
func (c scalingCurve) speedup(r *journal.Row) float64 {
	return c.rows[0].Metrics["total_pes"] * c.rows[0].Metrics["crit_ns"] / r.Metrics["crit_ns"]
}

// knee returns the largest number of PEs with an efficiency of at least half, and the fastest row.
func (c scalingCurve) knee() (pes int, best *journal.Row) {
	best = c.rows[0]
	for _, r := range c.rows {
		if n := r.Metrics["total_pes"]; c.speedup(r) >= n/2 {
			pes = max(pes, int(n))
		}
		if r.Metrics["crit_ns"] < best.Metrics["crit_ns"] {
			best = r
		}
	}
	return pes, best
}

// scalingCurves draws the speed-up over the number of PEs and the utilisation of their GEMM engines,
// one curve per split.
func scalingCurves(rows dataset.Set) figure.Figure {
	f := figure.Figure{Name: scalingFigure, Columns: 2,
		Title: fmt.Sprintf("One product of %s on more PEs (simulated)", dataset.Text(rows[0], "scaling_shape")),
		Caption: "Up to 8 PEs of one cube, then 8 PEs in each of several cubes. Splits m and n divide the rows and columns " +
			"of the result. Split k divides the inner dimension, and the PEs add up their partial sums afterwards. Every " +
			"PE has its own copy of the operand that is not split; with _once all PEs read it from the memory of one PE."}
	x := figure.Axis{Label: "PEs", Scale: figure.Log2}
	speed := figure.Panel{Title: "speed-up", X: x, Y: figure.Axis{Label: "times faster than 1 PE", Scale: figure.Log2}}
	use := figure.Panel{Title: "use of the GEMM engines", X: x,
		Y: figure.Axis{Label: "useful multiplications", Unit: figure.Percent, Min: new(float64)}}
	maxPEs := 1.0
	for i, c := range scalings(rows) {
		s := figure.Series{Name: "split " + c.name(), Color: i + 1, Dashed: strings.HasSuffix(c.split, onceSuffix)}
		u := s
		for _, r := range c.rows {
			pes := r.Metrics["total_pes"]
			maxPEs = max(maxPEs, pes)
			s.Points = append(s.Points, figure.Point{X: pes, Y: c.speedup(r)})
			u.Points = append(u.Points, figure.Point{X: pes, Y: r.Metrics["mac_utilization"]})
		}
		speed.Series, use.Series = append(speed.Series, s), append(use.Series, u)
	}
	speed.Lines = []figure.Line{{Label: "ideal", Points: []figure.Point{{X: 1, Y: 1}, {X: maxPEs, Y: maxPEs}}}}
	f.Panels = []figure.Panel{speed, use}
	return f
}

// gemmSections summarizes the figures.
func gemmSections(rows dataset.Set) []bench.Section {
	var out []bench.Section
	if sweep := rows.Good().Part(sweepPart); len(sweep) > 0 {
		table := [][]string{{"M x K x N", "tiles", "filled", "variant", "pipeline", "used", "ideal", "busiest stage"}}
		label := machine.Labels(sweep)
		for _, r := range sweep {
			busiest, longest := "", 0.0
			for _, stage := range stages() {
				if v := r.Metrics[busyName(stage)]; v > longest {
					busiest, longest = stage.String(), v
				}
			}
			table = append(table, []string{dataset.Text(r, "shapes"), strconv.Itoa(int(r.Metrics["tiles"])),
				fmt.Sprintf("%.4g", r.Metrics["tile_fill"]), machine.With(dataset.Text(r, "variant"), label(r)),
				fmt.Sprintf("%.0f ns", r.Metrics["composite_window_ns"]), fmt.Sprintf("%.1f %%", r.Metrics["mac_utilization"]),
				fmt.Sprintf("%.1f %%", r.Metrics["mac_utilization_theoretical"]),
				fmt.Sprintf("%s (%.0f %%)", busiest, 100*longest/r.Metrics["composite_window_ns"])})
		}
		out = append(out, bench.Section{Title: "The pipeline by shape", Table: table,
			Text: "Used is the useful share of the GEMM engine's multiplications in the window of the pipeline; ideal is " +
				"the share that a pipeline without latencies would reach with the same tiles."})
	}
	if scaling := rows.Good().Part(scalingPart); len(scaling) > 0 {
		table := [][]string{{"split", "used at least half up to", "fastest with", "time", "times faster"}}
		for _, c := range scalings(scaling) {
			pes, best := c.knee()
			table = append(table, []string{c.name(), fmt.Sprintf("%d PEs", pes),
				fmt.Sprintf("%.0f PEs", best.Metrics["total_pes"]),
				fmt.Sprintf("%.2f µs", micros(best)), fmt.Sprintf("%.1f", math.Round(10*c.speedup(best))/10)})
		}
		out = append(out, bench.Section{Title: "Where more PEs stop helping", Table: table,
			Text: "A product stops scaling when its parts no longer fill the tiles (splits m and n), when adding up partial " +
				"sums takes longer than multiplying (k), or when all PEs read from one memory (m_once, n_once)."})
	}
	return out
}
