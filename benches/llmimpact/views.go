package llmimpact

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// rowAt returns the row with these coordinates, or nil.
func rowAt(rows dataset.Set, model, step string, s setting) *journal.Row {
	return rows.First("model", model, "step", step, "tp", s.tp, "curve", s.curve, "context", s.context)
}

// figures returns heat maps of the share of communication in each step, the parts of one
// step, and the gains from the alternatives.
func figures(rows dataset.Set) []figure.Figure {
	set := rows.MergeTrials().Good()
	if len(set) == 0 {
		return nil
	}
	figs := []figure.Figure{shareMap(set)}
	if f, ok := stepBars(set); ok {
		figs = append(figs, f)
	}
	if f, ok := gainBars(set); ok {
		figs = append(figs, f)
	}
	return figs
}

// maxPanels limits the panels of the heat map; the table has all settings.
const maxPanels = 6

// setting is the subject of a panel.
type setting struct{ curve, tp, context string }

func (s setting) String() string {
	return fmt.Sprintf("%s, tp %s, context %s", s.curve, s.tp, s.context)
}

// settings returns the combinations of curve, tp and context that occur in the rows.
func settings(rows dataset.Set) (out []setting) {
	for _, c := range rows.Distinct("curve") {
		for _, tp := range rows.Distinct("tp") {
			for _, context := range rows.Distinct("context") {
				if rows.First("curve", c, "tp", tp, "context", context) != nil {
					out = append(out, setting{c, tp, context})
				}
			}
		}
	}
	return out
}

// largestTP returns the largest group of the rows, which are in order of tp.
func largestTP(rows dataset.Set) string {
	tps := rows.Distinct("tp")
	return tps[len(tps)-1]
}

// shareMap draws a heat map of the share of the all-reduces in every step of every model.
func shareMap(rows dataset.Set) figure.Figure {
	f := figure.Figure{Name: "llm_share", Title: "Share of the step that is communication",
		Columns: min(3, len(rows.Distinct("tp"))),
		Caption: "Modelled, not validated. Communication over communication and floor. The floor is the time of reading " +
			"weights and cache, or of multiplying, whichever is longer. Empty: no time, for the reason in the row."}
	models, steps := rows.Distinct("model"), rows.Distinct("step")
	zero, maxShare := 0.0, 0.0
	for _, r := range rows {
		maxShare = max(maxShare, r.Metrics["share_pct"])
	}
	for _, s := range settings(rows) {
		heat := &figure.HeatMap{Value: figure.Axis{Label: "share", Unit: figure.Percent, Min: &zero, Max: &maxShare}}
		for _, m := range models {
			var line []figure.Cell
			for _, st := range steps {
				cell := figure.Cell{Value: math.NaN()}
				if r := rowAt(rows, m, st, s); r != nil {
					cell.Value = r.Metrics["share_pct"]
					cell.Text = fmt.Sprintf("%.0f%%", cell.Value)
				}
				line = append(line, cell)
			}
			heat.Cells = append(heat.Cells, line)
		}
		f.Panels = append(f.Panels, figure.Panel{Title: s.String(), Content: heat,
			X: figure.Axis{Scale: figure.Category, Categories: steps},
			Y: figure.Axis{Scale: figure.Category, Categories: models}})
		if len(f.Panels) == maxPanels {
			break
		}
	}
	return f
}

// maxNarrowBars is the largest number of bars that a narrow panel shows well.
const maxNarrowBars = 6

// stepBars stacks the floor and the exposed communication of the first step at the largest group.
func stepBars(rows dataset.Set) (figure.Figure, bool) {
	step, tp, context := rows.Distinct("step")[0], largestTP(rows), rows.Distinct("context")[0]
	f := figure.Figure{Name: "llm_step",
		Title: fmt.Sprintf("One step, %s at tp %s, context %s: floor and communication", step, tp, context),
		Caption: "Modelled, not validated. The floor does not count launches. Communication that overlaps with the floor " +
			"is left out."}
	zero, maxTime := 0.0, 0.0
	for _, r := range rows.At("step", step, "tp", tp) {
		maxTime = max(maxTime, 1.05*r.Metrics["step_us"]) // one scale for all panels
	}
	for _, curve := range rows.Distinct("curve") {
		var names []string
		floor, comm := figure.Series{Name: "floor", Kind: figure.StackedBars},
			figure.Series{Name: "communication", Kind: figure.StackedBars}
		for _, m := range rows.Distinct("model") {
			if r := rowAt(rows, m, step, setting{curve, tp, context}); r != nil {
				x := float64(len(names))
				names = append(names, m)
				floor.Points = append(floor.Points, figure.Point{X: x, Y: r.Metrics["floor_us"]})
				comm.Points = append(comm.Points, figure.Point{X: x, Y: r.Metrics["step_us"] - r.Metrics["floor_us"]})
			}
		}
		if len(names) > 0 && len(f.Panels) < 3 {
			f.Panels = append(f.Panels, figure.Panel{Title: curve, Series: []figure.Series{floor, comm},
				X: figure.Axis{Scale: figure.Category, Categories: names},
				Y: figure.Axis{Label: "time", Unit: figure.Micros, Min: &zero, Max: &maxTime}})
		}
	}
	if f.Columns = 1; len(rows.Distinct("model")) <= maxNarrowBars {
		f.Columns = max(1, len(f.Panels))
	}
	return f, len(f.Panels) > 0
}

// gainBars shows by how much each alternative would shorten the steps, at the largest group
// and for the first curve.
func gainBars(rows dataset.Set) (figure.Figure, bool) {
	tp, curve, context := largestTP(rows), rows.Distinct("curve")[0], rows.Distinct("context")[0]
	f := figure.Figure{Name: "llm_gain",
		Title: fmt.Sprintf("How much shorter the step would be, compared with %s at tp %s", curve, tp), Columns: 1,
		Caption: "Below zero the present curve is the faster one. A latency-bound message gains nothing from bandwidth."}
	names := rows.Distinct("model")
	for _, a := range alternatives(rows) {
		var list []figure.Series
		for i, st := range rows.Distinct("step") {
			s := figure.Series{Name: st, Kind: figure.Bars, Color: i + 1}
			for k, m := range names {
				if r := rowAt(rows, m, st, setting{curve, tp, context}); r != nil {
					if gain, has := r.Metrics[a.gain]; has {
						s.Points = append(s.Points, figure.Point{X: float64(k), Y: gain})
					}
				}
			}
			if len(s.Points) > 0 {
				list = append(list, s)
			}
		}
		if len(list) > 0 {
			f.Panels = append(f.Panels, figure.Panel{Title: a.name, Series: list, Legend: figure.LegendBelow,
				X: figure.Axis{Scale: figure.Category, Categories: names},
				Y: figure.Axis{Label: "step shorter by", Unit: figure.Percent}})
		}
	}
	return f, len(f.Panels) > 0
}

// alternative is a curve or bus bandwidth with which the rows were compared: its name and
// its metrics.
type alternative struct{ name, us, gain string }

func alternatives(rows dataset.Set) (out []alternative) {
	for _, a := range []alternative{{"with the curve %s", "against_us", "against_gain_pct"},
		{"with a bus bandwidth of %s GB/s", "target_us", "target_gain_pct"}} {
		r, has := lists.First(rows, func(r *journal.Row) bool { _, has := r.Metrics[a.gain]; return has })
		if !has {
			continue
		}
		option := "against"
		if a.us == "target_us" {
			option = "target-gbps"
		}
		a.name = fmt.Sprintf(a.name, dataset.Text(r, option))
		out = append(out, a)
	}
	return out
}

// sections reports the cost, the gains from the alternatives, and the method.
func sections(rows dataset.Set) []bench.Section {
	all := rows.MergeTrials()
	set := all.Good()
	if len(set) == 0 {
		return nil
	}
	cite := trialsOf(rows)
	out := []bench.Section{summarySection(set, len(all)-len(set), cite), costSection(set)}
	if s, ok := gainSection(set, cite); ok {
		out = append(out, s)
	}
	return append(out, methodSection(set))
}

// citation returns the trials of merged rows.
type citation func(merged ...*journal.Row) dataset.Set

func trialsOf(rows dataset.Set) citation {
	return func(merged ...*journal.Row) dataset.Set {
		return rows.Where(func(r *journal.Row) bool {
			return slices.ContainsFunc(merged, func(m *journal.Row) bool {
				return m.Key == r.Key && m.Point.String() == r.Point.String()
			})
		})
	}
}

// summarySection states the range of shares for each phase. missing is the number of points
// without a time.
func summarySection(rows dataset.Set, missing int, cite citation) bench.Section {
	var lines []views.Sentence
	add := func(of dataset.Set, format string, args ...any) {
		lines = append(lines, views.Sentence{ID: "share", Text: fmt.Sprintf(format, args...), Rows: cite(of...)})
	}
	byShare := func(a, b *journal.Row) int { return cmp.Compare(a.Metrics["share_pct"], b.Metrics["share_pct"]) }
	for _, phase := range []string{"decode", "prefill"} {
		of := rows.Where(func(r *journal.Row) bool { return strings.HasPrefix(dataset.Text(r, "step"), phase) })
		if len(of) == 0 {
			continue
		}
		highest, lowest := slices.MaxFunc(of, byShare), slices.MinFunc(of, byShare)
		low, high := fmt.Sprintf("%.0f %%", lowest.Metrics["share_pct"]), fmt.Sprintf("%.0f %%", highest.Metrics["share_pct"])
		if low == high {
			add(of, "- **%s**: communication takes %s of the step (%s).", phase, high, where(highest))
			continue
		}
		add(dataset.Set{lowest, highest},
			"- **%s**: communication takes from %s of the step (%s) to %s (%s), %s for each all-reduce there.",
			phase, low, where(lowest), high, where(highest), unit.FormatMicros(highest.Metrics["each_us"]))
	}
	if missing > 0 {
		lines = append(lines, views.Sentence{Text: fmt.Sprintf("- %d points have no number: their messages lie outside the "+
			"curve, or the model cannot be spread over so many ranks or in this way. The rows say which; nothing is "+
			"extrapolated.", missing)})
	}
	return bench.Section{Title: "Cost of the all-reduces", Sentences: lines, Lead: true}
}

func where(r *journal.Row) string {
	return fmt.Sprintf("%s, %s, tp %s, context %s, %s", dataset.Text(r, "model"), dataset.Text(r, "step"),
		dataset.Text(r, "tp"), dataset.Text(r, "context"), dataset.Text(r, "curve"))
}

// costSection has a line for each model and setting and a column for each step, with the
// time per layer, the time per step and the share.
func costSection(rows dataset.Set) bench.Section {
	steps := rows.Distinct("step")
	table := [][]string{append([]string{"model", "curve", "tp", "context"}, steps...)}
	for _, m := range rows.Distinct("model") {
		for _, at := range settings(rows) {
			if rows.First("model", m, "curve", at.curve, "tp", at.tp, "context", at.context) == nil {
				continue
			}
			line := []string{m, at.curve, at.tp, at.context}
			for _, st := range steps {
				cell := ""
				if r := rowAt(rows, m, st, at); r != nil {
					cell = fmt.Sprintf("%s, %s, %.0f %%", unit.FormatMicros(r.Metrics["layer_us"]),
						unit.FormatMicros(r.Metrics["time_us"]), r.Metrics["share_pct"])
				}
				line = append(line, cell)
			}
			table = append(table, line)
		}
	}
	return bench.Section{Title: "Time per layer and per step",
		Text:  "The communication of a layer and of the step, and its share. Empty cells have no time; the rows say why.",
		Table: table}
}

// maxGains limits the list of gains.
const maxGains = 12

// gainSection lists the largest gains from the alternatives.
func gainSection(rows dataset.Set, cite citation) (bench.Section, bool) {
	type gain struct {
		row  *journal.Row
		what alternative
	}
	var gains []gain
	for _, a := range alternatives(rows) {
		for _, r := range rows {
			if r.Metrics[a.gain] > 0.5 {
				gains = append(gains, gain{r, a})
			}
		}
	}
	if len(alternatives(rows)) == 0 {
		return bench.Section{}, false
	}
	s := bench.Section{Title: "Largest gains",
		Text: "Sorted by how much shorter the step would be; gains below half a per cent are left out."}
	if len(gains) == 0 {
		s.Text, s.Sentences = "", []views.Sentence{{ID: "gain", Rows: cite(rows...),
			Text: "No alternative that was compared would shorten a step by half a per cent."}}
		return s, true
	}
	slices.SortStableFunc(gains, func(a, b gain) int {
		return cmp.Compare(b.row.Metrics[b.what.gain], a.row.Metrics[a.what.gain])
	})
	s.Table = [][]string{{"model", "step", "tp", "what", "all-reduces now", "then", "step shorter by"}}
	for _, g := range gains[:min(len(gains), maxGains)] {
		s.AddLine("gain", cite(g.row), dataset.Text(g.row, "model"), dataset.Text(g.row, "step"),
			dataset.Text(g.row, "tp"), g.what.name,
			unit.FormatMicros(g.row.Metrics["time_us"]), unit.FormatMicros(g.row.Metrics[g.what.us]),
			fmt.Sprintf("%.1f %%", g.row.Metrics[g.what.gain]))
	}
	return s, true
}

// methodSection explains the computation and cites the curves' sources.
func methodSection(rows dataset.Set) bench.Section {
	var b strings.Builder
	b.WriteString("A message has tokens x hidden x 2 bytes. Its time is interpolated between two points of the curve, " +
		"linearly in logarithms; a message outside the curve has no time. " +
		"A decode step has one token per sequence, so its messages are small; hundreds of megabytes are the prefill of a " +
		"long prompt.\n\n")
	for _, c := range rows.Distinct("curve") {
		fmt.Fprintf(&b, "- `%s`: %s\n", c, rows.First("curve", c).Details["curve"])
	}
	if r, has := lists.First(rows, func(r *journal.Row) bool { return r.Details["besides"] != "" }); has {
		fmt.Fprintf(&b, "- Not counted: %s.\n", r.Details["besides"])
	}
	return bench.Section{Title: "How it is computed", Text: b.String()}
}
