package chart

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// curves returns a figure like AutoPlot's with two series, one of them with a failed point.
func curves() figure.Figure {
	ring, tree := figure.Series{Name: "algorithm=ring"}, figure.Series{Name: "algorithm=tree"}
	for i := range 9 {
		size := math.Pow(4, float64(i+5))
		ring.Points = append(ring.Points, figure.Point{X: size, Y: 20 + size/1e4})
		tree.Points = append(tree.Points, figure.Point{X: size, Y: 5 + size/4e3, Failed: i == 6})
	}
	return figure.Figure{Title: "collectives: all-reduce, 2 ranks × cpu", Panels: []figure.Panel{{
		X:      figure.Axis{Label: "size", Scale: figure.Log2, Unit: figure.Bytes},
		Y:      figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros},
		Series: []figure.Series{ring, tree}, Note: "1 row failed"}}}
}

// limited returns curves with a limit that crosses them and ends in a point of the data, and a fit.
func limited() figure.Figure {
	f := curves()
	p := &f.Panels[0]
	limit := figure.Series{Name: "limit: memory", Dashed: true, NoMarker: true}
	fit := figure.Series{Name: "fit", NoMarker: true}
	for i, pt := range p.Series[0].Points {
		limit.Points = append(limit.Points, figure.Point{X: pt.X, Y: p.Series[0].Points[8].Y / math.Pow(3, float64(8-i))})
		fit.Points = append(fit.Points, figure.Point{X: pt.X, Y: 2000})
	}
	p.Series = append(p.Series, limit, fit)
	return f
}

// lined returns curves with the three kinds of limit lines.
func lined() figure.Figure {
	f := curves()
	level, cache := 3.0, 4.0*(1<<20)
	f.Panels[0].Lines = []figure.Line{{Label: "launch overhead", Y: &level}, {Label: "L2 capacity", X: &cache},
		{Label: "link limit", Points: []figure.Point{{X: 1 << 16, Y: 4}, {X: 1 << 26, Y: 4096}}}}
	return f
}

// barsUnder returns bars with a limit.
func barsUnder() figure.Figure {
	f := bars()
	peak := 50.0
	f.Panels[0].Lines = []figure.Line{{Label: "peak", Y: &peak},
		{Label: "limit: link", Points: []figure.Point{{X: 0, Y: 45}, {X: 2, Y: 35}}}}
	f.Panels[0].Series = append(f.Panels[0].Series, figure.Series{Name: "limit: memory (f32)", Color: 1, Dashed: true,
		NoMarker: true, Points: []figure.Point{{X: 0, Y: 15}, {X: 1, Y: 44}, {X: 2, Y: 33}}})
	return f
}

func bars() figure.Figure {
	fast, slow := figure.Series{Name: "f32", Kind: figure.Bars}, figure.Series{Name: "bf16", Kind: figure.Bars}
	for i, v := range []float64{12.5, 40, 31} {
		fast.Points = append(fast.Points, figure.Point{X: float64(i), Y: v})
		slow.Points = append(slow.Points, figure.Point{X: float64(i), Y: v / 2, Failed: i == 2})
	}
	return figure.Figure{Title: "memory", Panels: []figure.Panel{{
		X: figure.Axis{Label: "op", Scale: figure.Category,
			Categories: []string{"copy", "triad", "a very long name of an operation"}},
		Y:      figure.Axis{Label: "bandwidth", Unit: figure.GBps},
		Series: []figure.Series{fast, slow}}}}
}

// doubtful makes two points of a figure hollow. Their marks differ from the marks of all series.
func doubtful(f figure.Figure) figure.Figure {
	points := f.Panels[0].Series[0].Points
	points[0].Hollow, points[2].Hollow = true, true
	return f
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name  string
		fig   figure.Figure
		style Style
	}{
		{"curves60", curves(), Style{Width: 60, Unicode: true}},
		{"curves80", curves(), Style{Width: 80, Unicode: true}},
		{"curves120", curves(), Style{Width: 120, Unicode: true}},
		{"curves_ascii", curves(), Style{Width: 60}},
		{"curves_color", curves(), Style{Width: 60, Unicode: true, Color: true}},
		{"limits80", limited(), Style{Width: 80, Unicode: true}},
		{"limits_ascii", limited(), Style{Width: 60}},
		{"lines80", lined(), Style{Width: 80, Unicode: true}},
		{"lines_ascii", lined(), Style{Width: 60}},
		{"bars_limit", barsUnder(), Style{Width: 60, Unicode: true}},
		{"bars_limit_ascii", barsUnder(), Style{Width: 60}},
		{"hollow80", doubtful(curves()), Style{Width: 80, Unicode: true}},
		{"hollow_ascii", doubtful(curves()), Style{Width: 60}},
		{"hollow_bars", doubtful(bars()), Style{Width: 60, Unicode: true}},
		{"bars80", bars(), Style{Width: 80, Unicode: true}},
		{"bars_ascii", bars(), Style{Width: 60}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Text(c.fig, c.style)
			golden.Check(t, c.name+".txt", got)
			for _, line := range strings.Split(got, "\n") {
				if w := texttab.Width(line); w > c.style.Width && !c.style.Color {
					t.Errorf("%d columns wide: %q", w, line)
				}
			}
			if !c.style.Unicode {
				for _, r := range got {
					if r > 126 {
						t.Fatalf("%q is not ASCII", r)
					}
				}
			}
		})
	}
}

// Unusual data gives a chart or "nothing to draw", and never a control character.
func TestOddFigures(t *testing.T) {
	nan := math.NaN()
	many := figure.Panel{X: figure.Axis{Scale: figure.Category}, Series: []figure.Series{{Name: "s"}}}
	for i := range 100 {
		many.X.Categories = append(many.X.Categories, fmt.Sprint("c", i))
		many.Series[0].Points = append(many.Series[0].Points, figure.Point{X: float64(i), Y: float64(i)})
	}
	peak, limited100 := 120.0, many
	limited100.Lines = []figure.Line{{Label: "peak", Y: &peak}}
	for name, c := range map[string]struct {
		panel figure.Panel
		want  string
	}{
		"none": {figure.Panel{}, "nothing to draw"},
		"nan": {figure.Panel{Series: []figure.Series{{Points: []figure.Point{{X: nan, Y: 1}, {X: 1, Y: nan}}}}},
			"nothing to draw"},
		"one":      {figure.Panel{Series: []figure.Series{{Points: []figure.Point{{X: 3, Y: 7}}}}}, "*"},
		"zero":     {figure.Panel{Series: []figure.Series{{Points: []figure.Point{{}, {X: 1}}}}}, "*"},
		"negative": {figure.Panel{Series: []figure.Series{{Points: []figure.Point{{X: -1, Y: -5}, {X: 1, Y: 5}}}}}, "*"},
		"log zero": {figure.Panel{X: figure.Axis{Scale: figure.Log2},
			Series: []figure.Series{{Points: []figure.Point{{X: 0, Y: 1}, {X: 4, Y: 2}}}}}, "*"},
		"hostile": {figure.Panel{Title: "a\x1b[2Jb",
			Series: []figure.Series{{Name: "x\n\x07", Points: []figure.Point{{X: 1, Y: 1}, {X: 2, Y: 2}}}}}, `\x1b`},
		"many":     {many, "and 70 more"},
		"limit":    {limited100, "peak"}, // a limit is shown even if bars are left out
		"heat map": {figure.Panel{Content: &figure.HeatMap{}}, "see the figure"},
	} {
		for _, width := range []int{0, 40, 500} {
			got := Text(figure.Figure{Panels: []figure.Panel{c.panel}}, Style{Width: width})
			if !strings.Contains(got, c.want) {
				t.Errorf("%s at %d: lacks %q:\n%s", name, width, c.want, got)
			}
			for _, line := range strings.Split(got, "\n") {
				if w := texttab.Width(line); w > max(MinWidth, min(width, MaxWidth)) || strings.ContainsAny(line, "\x1b\x07") {
					t.Errorf("%s at %d: %q", name, width, line)
				}
			}
		}
	}
}

// Four limits look different from each other and from data, with and without Unicode.
func TestLimitsDiffer(t *testing.T) {
	series := []figure.Series{{Name: "data"}}
	for range 4 {
		series = append(series, figure.Series{NoMarker: true, Points: []figure.Point{{X: 1, Y: 1}, {X: 2, Y: 2}}})
	}
	for _, style := range []Style{{}, {Unicode: true}} {
		seen := map[rune]bool{}
		for _, r := range style.glyphs().forSeries(series) {
			if seen[r] {
				t.Errorf("Unicode %v: %q stands for two series", style.Unicode, r)
			}
			seen[r] = true
		}
	}
}
