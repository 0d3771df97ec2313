package chart

import (
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/ticks"
)

// bar is one line of a bar chart.
type bar struct {
	label  string
	value  float64
	series int
	failed bool
}

// barsOf are the lines of a panel, category by category.
func (s Style) barsOf(p figure.Panel) (list []bar) {
	for slot, category := range p.X.Categories {
		for i, series := range p.Series {
			for _, pt := range series.Points {
				if int(math.Round(pt.X)) != slot || !pt.Failed && (math.IsNaN(pt.Y) || math.IsInf(pt.Y, 0)) {
					continue
				}
				label := category
				if len(p.Series) > 1 {
					label = strings.TrimSpace(category + " " + series.Name)
				}
				list = append(list, bar{s.plain(label), pt.Y, i, pt.Failed})
			}
		}
	}
	return list
}

// bars draws a panel whose x axis has names: a bar a line, from zero.
func (s Style) bars(p figure.Panel) string {
	list := s.barsOf(p)
	top, labels, values := 0.0, 0, 0
	unit := ticks.Unit(p.Y.Unit)
	for _, l := range list {
		if !l.failed {
			top = max(top, l.value)
			values = max(values, texttab.Width(s.plain(unit.Format(l.value))))
		}
		labels = max(labels, texttab.Width(l.label))
	}
	if len(list) == 0 || top <= 0 {
		return s.line("(nothing to draw)")
	}
	labels = min(labels, s.Width/2)
	g := s.glyphs()
	room := s.Width - labels - values - 3
	var b strings.Builder
	if text := unit.Label(p.Y.Label); text != "" {
		b.WriteString(s.line(text))
	}
	for i, l := range list {
		if i == maxLines {
			fmt.Fprintf(&b, "and %d more\n", len(list)-maxLines)
			break
		}
		label := s.shorten(l.label, labels)
		b.WriteString(label + strings.Repeat(" ", labels-texttab.Width(label)+1))
		switch {
		case l.failed:
			b.WriteString(s.paint(string(g.no), l.series) + " failed\n")
		default:
			n := max(0, int(math.Round(l.value/top*float64(room))))
			b.WriteString(s.paint(strings.Repeat(string(g.bar), n), l.series) + " " + s.plain(unit.Format(l.value)) + "\n")
		}
	}
	return b.String()
}
