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
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Figures draws times and bus bandwidths against size, the best algorithms, and
// the shares of the limits.
func Figures(rows []journal.Row) []figure.Figure {
	samples := model.SamplesOf(timedRows(rows))
	if len(samples) == 0 {
		return nil
	}
	curves := model.Fit(samples)
	lookup := algorithmColors(samples)
	times := figure.Figure{Name: "allreduce_time", Title: "All-reduce: time by size",
		Caption: "Median over iterations of the slowest rank, bars are 95 % intervals. Dashed: the lines of the fits, of " +
			"the fastest at the largest size. The limit is the least of the algorithms' own limits."}
	rates := figure.Figure{Name: "allreduce_busbw", Title: "All-reduce: bus bandwidth by size",
		Caption: "busbw = bytes/time x 2(n-1)/n."}
	for _, set := range settings(samples) {
		mine := inSetting(samples, set)
		x := figure.Axis{Label: "size", Scale: figure.Log2, Unit: figure.Bytes}
		t := figure.Panel{Title: settingOf(set), X: x,
			Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros}}
		b := figure.Panel{Title: settingOf(set), X: x,
			Y: figure.Axis{Label: "bus bandwidth", Scale: figure.Log10, Unit: figure.GBps}}
		for _, name := range lookup {
			ts, bs := figure.Series{Name: name, Color: colorOf(lookup, name)},
				figure.Series{Name: name, Color: colorOf(lookup, name)}
			for _, s := range mine {
				if s.Algorithm == name {
					ts.Points = append(ts.Points, figure.Point{X: float64(s.Bytes), Y: s.TimeUS, Low: s.LowUS, High: s.HighUS})
					bs.Points = append(bs.Points, figure.Point{X: float64(s.Bytes), Y: s.BusBW()})
				}
			}
			if len(ts.Points) > 0 {
				t.Series, b.Series = append(t.Series, ts), append(b.Series, bs)
			}
		}
		if line, ok := fitLine(mine, curves, lookup); ok {
			t.Series = append(t.Series, line)
		}
		t.Lines = limitLines(mine, func(_ model.Sample, us float64) float64 { return us })
		b.Lines = limitLines(mine, func(s model.Sample, us float64) float64 { return s.BusBW() * s.TimeUS / us })
		times.Panels, rates.Panels = append(times.Panels, t), append(rates.Panels, b)
	}
	out := []figure.Figure{times, rates}
	if f, ok := bestFigure(samples); ok {
		out = append(out, f)
	}
	if f, ok := shareFigure(samples); ok {
		out = append(out, f)
	}
	for i := range out {
		if len(out[i].Panels) > 1 {
			out[i].Columns = 2
		}
	}
	return out
}

// algorithmColors is the order of the algorithms, which decides their colours
// in all panels.
func algorithmColors(samples []model.Sample) []string {
	timed := lists.Map(samples, func(s model.Sample) string { return s.Algorithm })
	known := append([]string{matrix.Auto}, matrix.Algorithms()...)
	known = lists.Filter(known, func(name string) bool { return slices.Contains(timed, name) })
	return lists.Distinct(append(known, timed...))
}

func colorOf(names []string, name string) int { return slices.Index(names, name) + 1 }

// fitLine is the lines of the algorithm that is the fastest at the largest size.
func fitLine(samples []model.Sample, curves []model.Curve, names []string) (figure.Series, bool) {
	choices := model.Best(exactSamples(samples))
	if len(choices) == 0 {
		return figure.Series{}, false
	}
	best := choices[len(choices)-1].Best
	for _, c := range curves {
		if c.Algorithm != best || !sameSetting(c.Series, samples[0].Series) || !c.Fitted() {
			continue
		}
		s := figure.Series{Name: "fit of the best", Color: colorOf(names, best), Dashed: true, NoMarker: true}
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

// limitLines is the least limit at each size over the algorithms that give
// exact sums: what the best of them could reach.
func limitLines(samples []model.Sample, value func(s model.Sample, us float64) float64) []figure.Line {
	least := map[int64]float64{}
	points := map[int64]figure.Point{}
	for _, s := range exactSamples(samples) {
		_, us := s.Ceiling(true)
		if old, has := least[s.Bytes]; us > 0 && (!has || us < old) {
			least[s.Bytes], points[s.Bytes] = us, figure.Point{X: float64(s.Bytes), Y: value(s, us)}
		}
	}
	if len(points) < 2 {
		return nil
	}
	sizes := slices.Sorted(maps.Keys(points))
	return []figure.Line{{Label: "limit", Points: lists.Map(sizes, func(b int64) figure.Point { return points[b] })}}
}

// bestFigure is a map of the fastest algorithm, darker where the lead over the
// second is larger.
func bestFigure(samples []model.Sample) (figure.Figure, bool) {
	choices := model.Best(exactSamples(samples))
	if len(choices) == 0 {
		return figure.Figure{}, false
	}
	zero := 0.0
	heat := &figure.HeatMap{Value: figure.Axis{Label: "the second takes longer by", Unit: figure.Percent, Min: &zero}}
	p := figure.Panel{X: figure.Axis{Label: "size", Scale: figure.Category}, Y: figure.Axis{Scale: figure.Category},
		Content: heat,
		Note:    "Exact algorithms only; a lead of a few per cent may be noise, and 100 % is twice as long or more."}
	sizes := lists.Distinct(lists.Map(choices, func(c model.Choice) int64 { return c.Bytes }))
	slices.Sort(sizes)
	p.X.Categories = lists.Map(sizes, unit.FormatBytes)
	for _, set := range settings(exactSamples(samples)) {
		p.Y.Categories = append(p.Y.Categories, settingOf(set))
		line := make([]figure.Cell, len(sizes))
		for i, b := range sizes {
			line[i] = figure.Cell{Value: math.NaN(), Text: "not timed"}
			here := func(c model.Choice) bool { return c.Bytes == b && sameSetting(c.Setting, set) }
			if c, ok := lists.First(choices, here); ok {
				line[i] = figure.Cell{Value: min(100*c.Margin, 100), Text: c.Best}
			}
		}
		heat.Cells = append(heat.Cells, line)
	}
	return figure.Figure{Name: "allreduce_best", Title: "All-reduce: fastest algorithm by size",
		Panels: []figure.Panel{p}}, true
}

// shareFigure shows which share of each named ceiling the fastest reaches.
func shareFigure(samples []model.Sample) (figure.Figure, bool) {
	f := figure.Figure{Name: "allreduce_share_of_limits",
		Title:   "All-reduce: share of each limit that the fastest algorithm reaches",
		Caption: "The least time that the ceiling allows the algorithm's own traffic, over the time taken."}
	zero := 0.0
	for _, set := range settings(exactSamples(samples)) {
		p := figure.Panel{Title: settingOf(set), X: figure.Axis{Label: "size", Scale: figure.Category},
			Y: figure.Axis{Label: "share of the limit", Unit: figure.Percent, Min: &zero}}
		bars := map[string][]figure.Point{}
		mine := inSetting(exactSamples(samples), set)
		for i, c := range model.Best(mine) {
			s, _ := at(mine, c.Best, c.Bytes)
			p.X.Categories = append(p.X.Categories, fmt.Sprintf("%s %s", unit.FormatBytes(c.Bytes), label(c.Best)))
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
	return f, len(f.Panels) > 0
}

// label is short where a registered algorithm has a short name.
func label(algorithm string) string {
	return cmp.Or(matrix.Find(algorithm).Short, algorithm)
}
