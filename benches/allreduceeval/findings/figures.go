package findings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Figures draws time and bus bandwidth by size, the fastest algorithms, and the shares
// of the limits that they reach.
func Figures(rows dataset.Set) []figure.Figure {
	samples := samplesOf(rows)
	if len(samples) == 0 {
		return nil
	}
	r := &results{rows: rows, samples: samples, contests: contests(rows, samples), curves: model.Fit(samples)}
	algorithms := algorithmOrder(samples)
	times := figure.Figure{Name: "allreduce_time", Title: "All-reduce: time by size",
		Caption: "Median over iterations of the slowest rank; bars are 95 % intervals of one launch or the range " +
			"of several. Dashed: lines fitted to the algorithm that is fastest at the largest size, if that is known. The " +
			"limit is the least of the algorithms' own limits."}
	rates := figure.Figure{Name: "allreduce_busbw", Title: "All-reduce: bus bandwidth by size",
		Caption: "busbw = bytes/time x 2(n-1)/n."}
	for _, g := range bySetting(samples) {
		x := figure.Axis{Label: "size", Scale: figure.Log2, Unit: figure.Bytes}
		t := figure.Panel{Title: settingName(g.Key), X: x,
			Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros}}
		b := figure.Panel{Title: settingName(g.Key), X: x,
			Y: figure.Axis{Label: "bus bandwidth", Scale: figure.Log10, Unit: figure.GBps}}
		for i, name := range algorithms {
			own := lists.Filter(g.Items, func(s model.Sample) bool { return s.Algorithm == name })
			if len(own) == 0 {
				continue
			}
			t.Series = append(t.Series, figure.Series{Name: name, Color: i + 1,
				Points: lists.Map(own, func(s model.Sample) figure.Point {
					return figure.Point{X: float64(s.Bytes), Y: s.TimeUS, Low: s.LowUS, High: s.HighUS}
				})})
			b.Series = append(b.Series, figure.Series{Name: name, Color: i + 1,
				Points: lists.Map(own, func(s model.Sample) figure.Point {
					return figure.Point{X: float64(s.Bytes), Y: s.BusBW()}
				})})
		}
		if line, ok := r.fitLine(g.Key, algorithms); ok {
			t.Series = append(t.Series, line)
		}
		t.Lines = limitLines(g.Items, func(_ model.Sample, us float64) float64 { return us })
		b.Lines = limitLines(g.Items, func(s model.Sample, us float64) float64 { return s.BusBW() * s.TimeUS / us })
		times.Panels, rates.Panels = append(times.Panels, t), append(rates.Panels, b)
	}
	out := []figure.Figure{times, rates}
	for _, f := range []figure.Figure{bestFigure(r.contests), shareFigure(r.contests)} {
		if len(f.Panels) > 0 {
			out = append(out, f)
		}
	}
	for i := range out {
		if len(out[i].Panels) > 1 {
			out[i].Columns = 2
		}
	}
	return out
}

// algorithmOrder returns the timed algorithms in a fixed order. An algorithm's position
// decides its colour in all panels.
func algorithmOrder(samples []model.Sample) []string {
	timed := lists.Map(samples, func(s model.Sample) string { return s.Algorithm })
	known := append([]string{matrix.Auto}, matrix.Algorithms()...)
	known = lists.Filter(known, func(name string) bool { return slices.Contains(timed, name) })
	return lists.Distinct(append(known, timed...))
}

// fitLine draws the fitted lines of the algorithm that is fastest at the largest size of a setting.
func (r *results) fitLine(setting model.Series, algorithms []string) (figure.Series, bool) {
	mine := lists.Filter(r.contests, func(c contest) bool { return c.setting == setting })
	if len(mine) == 0 || !mine[len(mine)-1].resolved() {
		return figure.Series{}, false
	}
	best := mine[len(mine)-1].samples[0].Series
	for _, c := range r.curves {
		if c.Series != best || !c.Fitted() || r.unfit(best) != "" {
			continue
		}
		s := figure.Series{Name: "fit of the best", Color: slices.Index(algorithms, best.Algorithm) + 1, Dashed: true,
			NoMarker: true}
		for _, line := range c.Segments {
			for bytes := line.Min; bytes < line.Max; bytes *= 2 {
				s.Points = append(s.Points, figure.Point{X: float64(bytes), Y: line.US(bytes)})
			}
			s.Points = append(s.Points, figure.Point{X: float64(line.Max), Y: line.US(line.Max)})
		}
		return s, len(s.Points) > 1
	}
	return figure.Series{}, false
}

// limitLines draws the least limit at each size over the exact algorithms, which is the
// best that any of them could reach. value converts a sample's limit to the y axis.
func limitLines(samples []model.Sample, value func(s model.Sample, us float64) float64) []figure.Line {
	limits := map[int64]float64{}
	points := map[int64]figure.Point{}
	for _, s := range exactSamples(samples) {
		_, us := s.Ceiling(true)
		if old, has := limits[s.Bytes]; us > 0 && (!has || us < old) {
			limits[s.Bytes], points[s.Bytes] = us, figure.Point{X: float64(s.Bytes), Y: value(s, us)}
		}
	}
	if len(points) < 2 {
		return nil
	}
	sizes := slices.Sorted(maps.Keys(points))
	return []figure.Line{{Label: "limit", Points: lists.Map(sizes, func(b int64) figure.Point { return points[b] })}}
}

// bestFigure maps the fastest algorithm by setting and size. A darker cell has a larger
// lead over the second. It has no panels if no comparison is resolved.
func bestFigure(list []contest) (f figure.Figure) {
	if !slices.ContainsFunc(list, contest.resolved) {
		return f
	}
	heat := &figure.HeatMap{Value: figure.Axis{Label: "the second takes longer by", Unit: figure.Percent,
		Min: new(float64)}}
	p := figure.Panel{X: figure.Axis{Label: "size", Scale: figure.Category}, Y: figure.Axis{Scale: figure.Category},
		Content: heat,
		Note: "Exact algorithms only, where all ran and have settled over several launches; 100 % is twice as long or " +
			"more."}
	sizes := lists.Distinct(lists.Map(list, func(c contest) int64 { return c.bytes }))
	slices.Sort(sizes)
	p.X.Categories = lists.Map(sizes, unit.FormatBytes)
	for _, g := range lists.GroupBy(list, func(c contest) model.Series { return c.setting }) {
		p.Y.Categories = append(p.Y.Categories, settingName(g.Key))
		line := make([]figure.Cell, len(sizes))
		for i, b := range sizes {
			line[i] = figure.Cell{Value: math.NaN(), Text: "not timed"}
			if c, ok := lists.First(g.Items, func(c contest) bool { return c.bytes == b }); ok {
				line[i] = contestCell(c)
			}
		}
		heat.Cells = append(heat.Cells, line)
	}
	return figure.Figure{Name: "allreduce_best", Title: "All-reduce: fastest algorithm by size", Panels: []figure.Panel{p}}
}

// contestCell returns the winner of a contest and its lead over the second in per cent.
func contestCell(c contest) figure.Cell {
	if !c.resolved() {
		return figure.Cell{Value: math.NaN(), Text: "not resolved"}
	}
	lead := 0.0
	if len(c.samples) > 1 {
		lead = c.samples[1].TimeUS/c.samples[0].TimeUS - 1
	}
	return figure.Cell{Value: min(100*lead, 100), Text: c.winner()}
}

// shareFigure shows the share of each limit that the fastest algorithm reaches, where it is known.
func shareFigure(list []contest) figure.Figure {
	f := figure.Figure{Name: "allreduce_share_of_limits",
		Title:   "All-reduce: share of each limit that the fastest algorithm reaches",
		Caption: "The least time that the limit allows for the algorithm's own traffic, divided by the time taken."}
	for _, g := range lists.GroupBy(lists.Filter(list, contest.resolved),
		func(c contest) model.Series { return c.setting }) {
		p := figure.Panel{Title: settingName(g.Key), X: figure.Axis{Label: "size", Scale: figure.Category},
			Y: figure.Axis{Label: "share of the limit", Unit: figure.Percent, Min: new(float64)}}
		bars := map[string][]figure.Point{}
		for i, c := range g.Items {
			s := c.samples[0]
			short := cmp.Or(matrix.Find(s.Algorithm).Short, s.Algorithm)
			p.X.Categories = append(p.X.Categories, fmt.Sprintf("%s %s", unit.FormatBytes(c.bytes), short))
			for name, us := range s.Limits {
				bars[name] = append(bars[name], figure.Point{X: float64(i), Y: 100 * us / s.TimeUS})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(bars)) {
			p.Series = append(p.Series, figure.Series{Name: name, Kind: figure.Bars, Points: bars[name]})
		}
		if len(p.Series) > 0 {
			f.Panels = append(f.Panels, p)
		}
	}
	return f
}
