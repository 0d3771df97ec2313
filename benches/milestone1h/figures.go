package milestone1h

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// figureNames returns the figures that the rows require, in the order of the page. Failed rows count.
func figureNames(rows dataset.Set) []string {
	if len(rows) == 0 {
		return nil
	}
	names := append([]string{"topology"}, lists.Map(sipsOf(rows), latencyName)...)
	if hasPart(rows, bufferPart) {
		names = append(names, "buffer_kind")
	}
	if hasPart(rows, latencyPart) {
		names = append(names, "comparison_fsim")
	}
	return names
}

// sipsOf returns the values of the SIP axis in the latency part: kinds in their usual order, then sizes.
func sipsOf(rows dataset.Set) []string {
	found := lists.Distinct(lists.Map(rows.Part(latencyPart), rowSIPs))
	slices.SortFunc(found, func(a, b string) int {
		at := func(s string) int { return slices.Index(append(topo.Kinds(), s), s) }
		return cmp.Or(at(a)-at(b), strings.Compare(a, b))
	})
	return found
}

// rowSIPs returns a row's value of the SIP axis. Older journals have it under its former name.
func rowSIPs(r *journal.Row) string {
	return cmp.Or(dataset.Text(r, sipsAxis), dataset.Text(r, machine.Kind))
}

// rowKind returns the kind of a row's SIP topology. Older journals have it as an axis, or had only one kind.
func rowKind(r *journal.Row) string {
	return cmp.Or(r.Details[machine.Kind], dataset.Text(r, machine.Kind), string(topo.Torus))
}

// withSIPsOf returns the rows with a value of the SIP axis.
func withSIPsOf(rows dataset.Set, value string) dataset.Set {
	return rows.Where(func(r *journal.Row) bool { return rowSIPs(r) == value })
}

// latencyName returns the figure name for a value of the SIP axis: latency_torus_2d, latency_4x4_torus.
func latencyName(sips string) string { return "latency_" + strings.ReplaceAll(sips, ":", "_") }

// figures draws the evaluation. Figures without rows are omitted; the run then reports them as missing.
func figures(rows dataset.Set) []figure.Figure {
	var figs []figure.Figure
	if f, ok := topologyFigure(rows); ok {
		figs = append(figs, f)
	}
	latency, buffers := rows.Good().Part(latencyPart), rows.Good().Part(bufferPart)
	for _, sips := range sipsOf(rows) {
		if f, ok := latencyFigure(latency, sips); ok {
			figs = append(figs, f)
		}
	}
	if len(buffers) > 0 {
		figs = append(figs, bufferFigure(buffers))
	}
	if len(latency) > 0 {
		figs = append(figs, fsimFigure(latency))
	}
	return machine.Caption(figs, rows)
}

var sizeAxis = figure.Axis{Label: "bytes per PE", Scale: figure.Log2, Unit: figure.Bytes}

func micros(r *journal.Row) float64 { return r.Metrics["crit_ns"] / 1e3 }

// curves returns one series per name.
func curves(rows dataset.Set, name func(*journal.Row) string) []figure.Series {
	return dataset.Series(rows, name, func(r *journal.Row) (figure.Point, bool) {
		return figure.Point{X: float64(bytesPerPE(r)), Y: micros(r)}, true
	})
}

// labels returns a function that labels the machine of a row. The labels have the number of SIPs if that differs
// between machines, because their sums are then not comparable.
func labels(rows dataset.Set) func(*journal.Row) string {
	label := machine.Labels(rows)
	if counts(rows) == counts(rows[:min(1, len(rows))]) {
		return label
	}
	return func(r *journal.Row) string {
		if l := label(r); l != "" {
			return fmt.Sprintf("%s (%.0f SIPs)", l, r.Metrics["n_sips"])
		}
		return ""
	}
}

// counts returns the numbers of SIPs as text: "6", or for several machines "2 and 4".
func counts(rows dataset.Set) string {
	found := lists.Map(rows, func(r *journal.Row) string { return strconv.Itoa(int(r.Metrics["n_sips"])) })
	return strings.Join(lists.Distinct(found), " and ")
}

// latencyFigure draws latency by size for one SIP topology, and its breakdown for each machine.
func latencyFigure(rows dataset.Set, value string) (figure.Figure, bool) {
	of, label := withSIPsOf(rows, value), labels(rows)
	if len(of) == 0 {
		return figure.Figure{}, false
	}
	f := figure.Figure{Name: latencyName(value), Columns: 2,
		Title: fmt.Sprintf("All-reduce over %s SIPs, %s (simulated)", counts(of), value)}
	several := len(of.Distinct("algorithm")) > 1
	named := func(r *journal.Row) string {
		if l := label(r); l != "" && !several {
			return l
		}
		return machine.With(dataset.Text(r, "algorithm"), label(r))
	}
	series := curves(of, named)
	var further []figure.Panel
	on := dataset.GroupBy(of, label)
	if len(on) > 1 {
		further = append(further, ratioPanel(of, on[0], named))
	}
	for _, g := range on {
		first := g.Rows.At("algorithm", dataset.Text(g.Rows[0], "algorithm"))
		var bound []figure.Point
		for _, r := range first {
			if us, ok := r.Limits["bandwidth"]; ok {
				bound = append(bound, figure.Point{X: float64(bytesPerPE(r)), Y: us})
			}
		}
		if len(bound) > 1 && len(on) == 1 { // several bounds would flatten the curves too much
			series = append(series, figure.Series{Name: "links alone (bound)", Points: bound, Dashed: true, NoMarker: true})
		}
		further = append(further, stackPanel(first, machine.With("where the time goes", g.Key)))
	}
	f.Panels = append([]figure.Panel{{Title: "latency", X: sizeAxis, Series: series,
		Y: figure.Axis{Label: "time of the slowest PE", Scale: figure.Log10, Unit: figure.Micros}}}, further...)
	return f, true
}

// ratioPanel draws the latency on each machine relative to the first one.
func ratioPanel(rows dataset.Set, first dataset.Group[string], named func(*journal.Row) string) figure.Panel {
	return figure.Panel{Title: "latency over that on " + first.Key, X: sizeAxis, Y: figure.Axis{Label: "ratio"},
		Series: dataset.Series(rows, named, func(r *journal.Row) (figure.Point, bool) {
			before := first.Rows.First("algorithm", dataset.Text(r, "algorithm"), "n_elem", dataset.Text(r, "n_elem"))
			if before == nil {
				return figure.Point{}, false
			}
			return figure.Point{X: float64(bytesPerPE(r)), Y: micros(r) / micros(before)}, true
		})}
}

// stackPanel draws the breakdown of the time of one algorithm on one machine.
func stackPanel(rows dataset.Set, title string) figure.Panel {
	stack := figure.Panel{Title: title, Legend: figure.LegendRight,
		Y: figure.Axis{Label: "share of the critical path", Unit: figure.Percent},
		X: figure.Axis{Label: "bytes per PE", Scale: figure.Category}}
	stack.X.Categories = lists.Map(rows, func(r *journal.Row) string { return unit.FormatBytes(int64(bytesPerPE(r))) })
	for _, part := range parts(sim.Breakdown{}) {
		s := figure.Series{Name: part.label, Kind: figure.StackedBars}
		for i, r := range rows {
			s.Points = append(s.Points, figure.Point{X: float64(i), Y: 100 * r.Metrics[part.name] / r.Metrics["crit_ns"]})
		}
		stack.Series = append(stack.Series, s)
	}
	return stack
}

func bufferFigure(rows dataset.Set) figure.Figure {
	label, kinds := labels(rows), lists.Distinct(lists.Map(rows, rowKind))
	return figure.Figure{Name: "buffer_kind",
		Title: fmt.Sprintf("All-reduce by where receive slots lie, %s of %s SIPs (simulated)", strings.Join(kinds, " and "),
			counts(rows)),
		Panels: []figure.Panel{{X: sizeAxis,
			Y: figure.Axis{Label: "time of the slowest PE", Scale: figure.Log10, Unit: figure.Micros},
			Series: curves(rows, func(r *journal.Row) string {
				return machine.With(dataset.Text(r, "buffer_kind"), label(r))
			})}}}
}

//go:embed fsim.csv
var fsimText string

// reference returns the data of the external simulator.
func reference() ([]figure.Point, error) {
	r := csv.NewReader(strings.NewReader(fsimText))
	r.Comment = '#'
	records, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	return lists.TryMap(records[1:], func(rec []string) (figure.Point, error) {
		x, errX := strconv.ParseFloat(rec[0], 64)
		y, errY := strconv.ParseFloat(rec[1], 64)
		return figure.Point{X: x, Y: y}, errors.Join(errX, errY)
	})
}

// theory returns the manual estimate of the all-reduce time in µs: 1346 ns plus 1.20 ns for each packet of 128
// bits.
func theory(bytesPerPE int) float64 {
	const fixed, perPacket, packetBits = 1346, 1.20, 128
	return (fixed + perPacket*float64(bytesPerPE*8)/packetBits) / 1e3
}

// fsimFigure compares the curves with the external reference, which is so much slower that the axis is broken.
func fsimFigure(rows dataset.Set) figure.Figure {
	label := labels(rows)
	series := curves(rows, func(r *journal.Row) string {
		name := "simulated, " + rowSIPs(r)
		if a := dataset.Text(r, "algorithm"); a != ccl.LRAB {
			name += ", " + a
		}
		return machine.With(name, label(r))
	})
	estimate := figure.Series{Name: "theoretical (estimate)", Dashed: true, NoMarker: true}
	var highest float64
	for _, s := range series {
		for _, p := range s.Points {
			highest = max(highest, p.Y)
		}
	}
	for _, p := range series[0].Points {
		estimate.Points = append(estimate.Points, figure.Point{X: p.X, Y: theory(int(p.X))})
		highest = max(highest, theory(int(p.X)))
	}
	y := figure.Axis{Label: "latency", Unit: figure.Micros, Min: new(float64)}
	series = append(series, estimate)
	if points, err := reference(); err == nil && len(points) > 0 {
		series = append(series, figure.Series{Name: "FSIM, one device (reference)", Kind: figure.Scatter, Points: points})
		lowest := slices.Min(lists.Map(points, func(p figure.Point) float64 { return p.Y }))
		if from, to := 1.15*highest, 0.97*lowest; from < to {
			y.Break = &[2]float64{from, to}
		}
	}
	return figure.Figure{Name: "comparison_fsim", Title: "Simulated, estimated and reference all-reduce",
		Panels: []figure.Panel{{X: sizeAxis, Y: y, Series: series}}}
}

// largest returns the row of the largest vector for each SIP topology and machine, with its name.
func largest(rows dataset.Set, all dataset.Set) (names []string, out dataset.Set) {
	label := labels(rows)
	for _, sips := range sipsOf(all) {
		for _, g := range dataset.GroupBy(withSIPsOf(rows, sips), label) {
			names, out = append(names, machine.With(sips, g.Key)), append(out, g.Rows[len(g.Rows)-1])
		}
	}
	return names, out
}

// sections summarizes the curves.
func sections(rows dataset.Set) []bench.Section {
	table := [][]string{{"SIPs", "bytes per PE", "latency", "bandwidth bound", "largest part"}}
	names, last := largest(rows.Good().Part(latencyPart).At("algorithm", ccl.LRAB), rows)
	for i, r := range last {
		largestPart, share := "", 0.0
		for _, part := range parts(sim.Breakdown{}) {
			if v := r.Metrics[part.name] / r.Metrics["crit_ns"]; v > share {
				largestPart, share = part.label, v
			}
		}
		table = append(table, []string{names[i], unit.FormatBytes(int64(bytesPerPE(r))), fmt.Sprintf("%.2f µs", micros(r)),
			fmt.Sprintf("%.2f µs", r.Limits["bandwidth"]), fmt.Sprintf("%s (%.0f %%)", largestPart, 100*share)})
	}
	if len(table) == 1 {
		return nil
	}
	return []bench.Section{{Title: "The largest vectors", Table: table,
		Text: "Latency is the time of the slowest PE from the common start. The bandwidth bound is the time that the bytes " +
			"need on the links of the critical path; the rest is latency, slot access and compute."}}
}
