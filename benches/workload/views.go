package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// drawnActivities lists what ranks do, in the order of legends.
var drawnActivities = []string{"compute", schedule.AllReduce, schedule.ReduceScatter, schedule.AllGather,
	schedule.AllToAll, schedule.Broadcast, schedule.ReduceTo, schedule.Gather, schedule.Scatter, schedule.Barrier,
	"send", "recv", "host"}

// metricOf returns the metric of an activity. Communication counts while nothing is computed.
func metricOf(activity string) string {
	switch activity {
	case "compute", "host":
		return activity + "_us"
	}
	return exposedKind + activity + "_us"
}

// pointWords are the words for the coordinates of a point.
func pointWords() views.Words {
	labels := map[string]string{}
	for _, size := range sizes {
		labels[size.name] = size.name + " {}"
	}
	return views.Words{Labels: labels}
}

// declaredViews declares the parts of the step, as stacked bars and as a table. Together they are the step.
func declaredViews() []bench.Clause {
	words := []bench.ViewText{bench.Label(views.Points, "step"), bench.Label("idle_us", "idle"),
		bench.Label(timeMetric, "step"),
		func(w *views.Words) { maps.Copy(w.Labels, pointWords().Labels) }}
	stacked := []bench.ViewText{bench.Named("workload_step"), bench.Title("Where the time of a step goes (simulated)"),
		bench.Label("panel", "Mean over the ranks"), bench.Label("y", "time"), bench.Caption("Exposed communication is the " +
			"time in which nothing is computed. All parts together are the step.")}
	for _, a := range drawnActivities {
		words = append(words, bench.Label(metricOf(a), a))
		if strings.HasPrefix(metricOf(a), exposedKind) {
			stacked = append(stacked, bench.Label(metricOf(a), "exposed "+a))
		}
	}
	parts := strings.Join(append(lists.Map(drawnActivities, metricOf), idleMetric), "+")
	return []bench.Clause{
		bench.Plot("x=point,kind=stack,y="+parts, slices.Concat(words, stacked)...),
		bench.Pivot("rows=point,unit=common,show=headline,value="+timeMetric+"+"+parts, append(words,
			bench.Title("Parts of the step"), bench.Caption("Simulated times, as means over the ranks. Communication counts "+
				"only while nothing is computed (exposed time)."))...),
		decl.Figures(timelines),
		bench.Sections(sections),
	}
}

// maxTimelines is the number of points whose timelines are drawn.
const maxTimelines = 4

// timelines draws what the ranks do over time.
func timelines(rows dataset.Set) []figure.Figure {
	rows = rows.Good()
	name := pointWords().PointNames(rows, "step")
	f := figure.Figure{Name: "workload_timeline", Title: "What the ranks do (simulated)", Columns: 1,
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
		f.Panels = append(f.Panels, figure.Panel{Title: name(r), Content: t,
			X: figure.Axis{Label: "time", Unit: figure.Micros}})
	}
	if len(f.Panels) == 0 {
		return nil
	}
	f.AddCaption(views.Simulated(rows))
	return []figure.Figure{f}
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

// maxPaths is the number of points whose critical path the report describes.
const maxPaths = 24

// sections describes the critical path of each point.
func sections(rows dataset.Set) []bench.Section {
	good := rows.Good()
	if len(good) == 0 {
		return nil
	}
	name := pointWords().PointNames(good, "step")
	path := views.Each(func(rows dataset.Set) []*journal.Row { return rows }, views.Rule[*journal.Row]{ID: "critical-path",
		Rows: func(r *journal.Row) dataset.Set { return dataset.Set{r} },
		Text: func(r *journal.Row) string { return fmt.Sprintf("- **%s**: %s", name(r), pathText(r)) }})
	return []bench.Section{{Title: "Critical path", Text: views.Simulated(rows),
		Sentences: path.Apply(good[:min(len(good), maxPaths)])}}
}

// pathText describes the critical path, the busiest links and the unused parts of the traces.
func pathText(r *journal.Row) string {
	text := r.Details[pathDetail] + ". Of the step: " + r.Details[partsDetail] + ". " + r.Details[slowestDetail] + "."
	if links := r.Details["busiest_links"]; links != "" {
		text += " Busiest links: " + links + "."
	}
	if unused := r.Details[unusedDetail]; unused != "" {
		text += " Without effect on the times: " + unused + "."
	}
	return text
}
