package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// drawnActivities lists what ranks do, in the order of legends.
var drawnActivities = []string{"compute", schedule.AllReduce, schedule.ReduceScatter, schedule.AllGather,
	schedule.AllToAll, schedule.Broadcast, schedule.ReduceTo, schedule.Gather, schedule.Scatter, schedule.Barrier,
	"send", "recv", "host"}

// labels returns a function that names a row by the coordinates in which the rows differ.
func labels(rows dataset.Set) func(*journal.Row) string {
	var axes []string
	backends := map[string]bool{}
	for _, r := range rows {
		backends[r.Backend] = true
		for _, c := range r.Point {
			if !slices.Contains(axes, c.Name) {
				axes = append(axes, c.Name)
			}
		}
	}
	axes = slices.DeleteFunc(axes, func(axis string) bool { return len(rows.Distinct(axis)) < 2 })
	return func(r *journal.Row) string {
		var parts []string
		if len(backends) > 1 {
			parts = append(parts, r.Backend)
		}
		for _, axis := range axes {
			text := cmp.Or(dataset.Text(r, axis), bench.BuiltIn)
			switch axis {
			case algorithmAxis, clusterOption:
			case traceOption:
				text = filepath.Base(text)
			case machine.Option:
				path, _, _ := strings.Cut(text, "#") // without the sum of the file
				text = filepath.Base(path)
			default:
				text = axis + " " + text
			}
			parts = append(parts, text)
		}
		return cmp.Or(strings.Join(parts, ", "), "step")
	}
}

// exposedPart begins the names of the parts that are communication.
const exposedPart = "exposed "

// parts returns the parts of a row's step: computation, exposed communication by kind, host and idle time.
func parts(r *journal.Row) (names []string, us []float64) {
	rounding := r.Metrics[timeMetric] * 1e-7 // less is a rounding of picoseconds
	add := func(name, metric string) {
		if v := r.Metrics[metric]; v > rounding {
			names, us = append(names, name), append(us, v)
		}
	}
	add("compute", computeMetric)
	for _, kind := range drawnActivities {
		if kind != "compute" && kind != "host" {
			add(exposedPart+kind, exposedKind+kind+"_us")
		}
	}
	add("host", hostMetric)
	add("idle", idleMetric)
	return names, us
}

// maxBars is the number of bars that stay readable.
const maxBars = 24

// figures draws the parts of the step as stacked bars, one for each point, and the timelines of some points.
func figures(rows dataset.Set) (figs []figure.Figure) {
	good := rows.Good()
	if len(good) == 0 {
		return nil
	}
	label := labels(good)
	shown := good[:min(len(good), maxBars)]
	p := figure.Panel{Title: "Mean over the ranks", Y: figure.Axis{Label: "time", Unit: figure.Micros},
		X: figure.Axis{Label: "point", Scale: figure.Category}}
	var order []string
	series := map[string]*figure.Series{}
	for i, r := range shown {
		p.X.Categories = append(p.X.Categories, label(r))
		names, us := parts(r)
		for k, name := range names {
			if series[name] == nil {
				series[name] = &figure.Series{Name: name, Kind: figure.StackedBars}
				order = append(order, name)
			}
			series[name].Points = append(series[name].Points, figure.Point{X: float64(i), Y: us[k]})
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range order {
		p.Series = append(p.Series, *series[name])
	}
	if more := len(good) - len(shown); more > 0 {
		p.Note = fmt.Sprintf("%d more points are in the table.", more)
	}
	figs = append(figs, figure.Figure{Name: "workload_step", Title: "Where the time of a step goes (simulated)",
		Panels: []figure.Panel{p}, Caption: "Exposed communication is the time in which nothing is computed. " +
			"All parts together are the step."})
	if f, ok := timelines(good, label); ok {
		figs = append(figs, f)
	}
	return machine.Caption(figs, rows)
}

// rank returns the place of a part in a stack.
func rank(name string) int {
	switch name {
	case "host":
		return len(drawnActivities)
	case "idle":
		return len(drawnActivities) + 1
	}
	return slices.Index(drawnActivities, strings.TrimPrefix(name, exposedPart))
}

// maxTimelines is the number of points whose timelines are drawn.
const maxTimelines = 4

// timelines draws what the ranks do over time.
func timelines(rows dataset.Set, label func(*journal.Row) string) (f figure.Figure, ok bool) {
	f = figure.Figure{Name: "workload_timeline", Title: "What the ranks do (simulated)", Columns: 1,
		Caption: fmt.Sprintf("Each of %d intervals shows the shares of what the rank does in it, as in the table: "+
			"communication counts while nothing is computed. --perfetto has each activity.", bins)}
	rows = rows[:min(len(rows), maxTimelines)]
	longest := 0.0 // all panels have the same axis, so that steps can be compared
	for _, r := range rows {
		longest = max(longest, r.Metrics[timeMetric])
	}
	pictures := make([]picture, len(rows))
	var kinds []string // all panels have the same ones, so that a colour means the same in all
	for i, r := range rows {
		_ = json.Unmarshal([]byte(r.Details[timelineDetail]), &pictures[i]) // without a picture there is no panel
		kinds = append(kinds, pictures[i].Activities...)
	}
	slices.SortFunc(kinds, func(a, b string) int { return order(a) - order(b) })
	kinds = slices.Compact(kinds)
	for i, r := range rows {
		p, end := pictures[i], r.Metrics[timeMetric]
		if len(p.Activities) == 0 || !(end > 0) {
			continue
		}
		t := &figure.Timeline{Kinds: kinds, End: longest}
		for i, rank := range p.Ranks[:min(len(p.Ranks), len(p.Shares))] {
			t.Rows = append(t.Rows, figure.TimelineRow{Name: fmt.Sprint("rank ", rank),
				Spans: p.spans(p.Shares[i], kinds, end)})
		}
		f.Panels = append(f.Panels, figure.Panel{Title: label(r), Content: t,
			X: figure.Axis{Label: "time", Unit: figure.Micros}})
	}
	return f, len(f.Panels) > 0
}

// spans returns the shares of a rank as boxes that stand on each other.
func (p picture) spans(shares []string, kinds []string, end float64) (list []figure.TimelineSpan) {
	var bottom [bins]float64
	for i, line := range shares[:min(len(shares), len(p.Activities))] {
		for b := range min(len(line), bins) {
			share := float64(max(0, strings.IndexByte(levels, line[b]))) / float64(len(levels)-1)
			s := figure.TimelineSpan{Kind: slices.Index(kinds, p.Activities[i]), From: end * float64(b) / bins,
				To: end * float64(b+1) / bins, Bottom: bottom[b], Top: min(1, bottom[b]+share)}
			if n := len(list) - 1; n >= 0 && list[n].Kind == s.Kind && list[n].To == s.From && list[n].Bottom == s.Bottom &&
				list[n].Top == s.Top {
				list[n].To = s.To // as in the bin before
			} else if s.Top > s.Bottom {
				list = append(list, s)
			}
			bottom[b] = s.Top
		}
	}
	return list
}

// sections returns the table of the parts, and for each point what is on the critical path.
func sections(rows dataset.Set) (out []bench.Section) {
	good := rows.Good()
	if len(good) == 0 {
		return nil
	}
	label := labels(good)
	var columns []string
	var times []float64
	for _, r := range good {
		names, us := parts(r)
		times = append(append(times, r.Metrics[timeMetric]), us...)
		for _, name := range names {
			if !slices.Contains(columns, name) {
				columns = append(columns, name)
			}
		}
	}
	slices.SortStableFunc(columns, func(a, b string) int { return rank(a) - rank(b) })
	in := unit.MicrosIn(times)
	table := [][]string{{"times in " + in.Name, "step"}}
	for _, c := range columns { // without the prefix, the table fits a terminal of 80 columns
		table[0] = append(table[0], strings.TrimPrefix(c, exposedPart))
	}
	for _, r := range good {
		line := []string{label(r), in.Format(r.Metrics[timeMetric], 4)}
		names, us := parts(r)
		for _, c := range columns {
			text := "0"
			if i := slices.Index(names, c); i >= 0 {
				text = in.Format(us[i], 4)
			}
			line = append(line, text)
		}
		table = append(table, line)
	}
	out = append(out, bench.Section{Title: "Parts of the step", Headline: true, Table: table,
		Text: strings.TrimSpace("Simulated times, as means over the ranks. Communication counts only while nothing is " +
			"computed (exposed time). " + machine.Words(rows))})
	for _, r := range good[:min(len(good), maxBars)] {
		out = append(out, bench.Section{Title: "Critical path of " + label(r), Text: pathSection(r)})
	}
	return out
}

// pathSection describes the critical path, the busiest links and the unused parts of the traces.
func pathSection(r *journal.Row) string {
	text := r.Details[pathDetail] + ".\n\nOf the step: " + r.Details[partsDetail] + ".\n\n" + r.Details[slowestDetail] +
		"."
	if links := r.Details["busiest_links"]; links != "" {
		text += "\n\nBusiest links: " + links + "."
	}
	if unused := r.Details[unusedDetail]; unused != "" {
		text += "\n\nWithout effect on the times: " + unused + "."
	}
	return text
}
