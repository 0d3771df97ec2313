// Package chart draws figures as text for a terminal: curves for numeric axes, bars
// for category axes. It draws the descriptions of package figure, so a chart shows
// the same data as the picture, only coarser. The caller gives the width and says
// whether Unicode and colors may be used.
package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// Style is the appearance of charts.
type Style struct {
	Width   int  // in columns, clamped to [MinWidth, MaxWidth]
	Unicode bool // if false, only ASCII is used
	Color   bool
}

// The sizes of a chart.
const (
	MinWidth = 40
	MaxWidth = 120 // wider curves are no clearer
	rows     = 10  // of the plotted area
	maxBars  = 30  // further bars are only counted
)

// Text draws a figure, one panel below the other. Control characters in its texts
// become visible escapes.
func Text(f figure.Figure, s Style) string {
	s.Width = min(max(s.Width, MinWidth), MaxWidth)
	panels := strings.Join(lists.Map(f.Panels, s.panel), "\n")
	return s.line(f.Title) + panels + s.line(f.Caption)
}

func (s Style) panel(p figure.Panel) string {
	var body string
	switch {
	case p.Content != nil:
		body = s.line("(a drawing: see the figure)")
	case p.X.Scale == figure.Category:
		body = s.bars(p)
	default:
		body = s.curves(p)
	}
	return s.line(p.Title) + body + s.line(p.Note)
}

// line wraps text to the width of the chart. An empty text gives no line.
func (s Style) line(text string) string {
	if text == "" {
		return ""
	}
	return texttab.Wrap(strings.Fields(s.plain(text)), s.Width, "") + "\n"
}

// plain makes text safe to print: no control characters, and only ASCII if required.
func (s Style) plain(text string) string {
	text = texttab.Plain(text)
	if s.Unicode {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case r == 'µ' || r == 'μ':
			return 'u'
		case r == '×':
			return 'x'
		case r == '–' || r == '—' || r == '−':
			return '-'
		}
		return '?'
	}, text)
}

// shorten cuts plain text to a width.
func (s Style) shorten(text string, width int) string {
	text = texttab.Shorten(text, width)
	if !s.Unicode {
		text = strings.ReplaceAll(text, texttab.Ellipsis, "~")
	}
	return text
}

// glyphs are the characters that charts are made of.
type glyphs struct {
	markers                                             []rune // of series; hollow ones come last
	hollow                                              rune   // of points in doubt, of any series
	lines                                               []rune // of limits and fits
	path, side, sideTick, corner, across, tick, bar, no rune
	upright                                             rune // of vertical limits
}

func (s Style) glyphs() glyphs {
	if s.Unicode {
		return glyphs{[]rune("●▲■◆★✚✖▼△□◇"), '○', []rune("╌═┈≈┉"), '·', '│', '┤', '└', '─', '┬', '█', '✗', '╎'}
	}
	return glyphs{[]rune("*#@%&$=^~wx"), 'o', []rune("-~:,;"), '.', '|', '|', '+', '-', '+', '#', 'X', '!'}
}

// forSeries returns the character of each series. Limits and fits are lines without markers, so that nobody takes
// them for data, even without color.
func (g glyphs) forSeries(series []figure.Series) []rune {
	lines, markers := 0, 0
	return lists.Map(series, func(s figure.Series) rune {
		if isLine(s) && len(s.Points) == 2 && s.Points[0].X == s.Points[1].X {
			return g.upright
		}
		if isLine(s) {
			lines++
			return g.lines[(lines-1)%len(g.lines)]
		}
		markers++
		return g.markers[(markers-1)%len(g.markers)]
	})
}

// isLine reports whether a series is a limit or a fit. A limit at a single point is a dashed point.
func isLine(s figure.Series) bool {
	return s.Kind != figure.Scatter && (s.NoMarker || s.Dashed && len(s.Points) == 1)
}

// colors are ANSI foreground colors that are readable on both light and dark
// backgrounds.
var colors = []int{34, 31, 32, 35, 36, 33}

// paint colors the text of a series; a negative series has no color.
func (s Style) paint(text string, series int) string {
	if !s.Color || series < 0 {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colors[series%len(colors)], text)
}

// legend names the series, on as many lines as necessary.
func (s Style) legend(series []figure.Series, markers []rune) string {
	var b strings.Builder
	used := 0
	for i, x := range series {
		text := string(markers[i%len(markers)])
		if isLine(x) {
			text += text
		}
		text += " " + s.shorten(s.plain(x.Name), s.Width-5)
		if w := texttab.Width(text); used > 0 && used+3+w > s.Width {
			b.WriteByte('\n')
			used = 0
		} else if used > 0 {
			b.WriteString("   ")
			used += 3
		}
		used += texttab.Width(text)
		b.WriteString(s.paint(text, i))
	}
	return b.String() + "\n"
}

// bar is one line of a bar chart.
type bar struct {
	label  string
	value  float64
	series int
	failed bool
	hollow bool
	limit  bool
}

// barsOf lists the bars of a panel, category by category, and the limits of the whole panel. more is the number of
// bars that are left out because there are too many.
func (s Style) barsOf(p figure.Panel) (list, limits []bar, more int) {
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
				list = append(list, bar{label: s.plain(label), value: pt.Y, series: i, failed: pt.Failed, hollow: pt.Hollow,
					limit: isLine(series)})
			}
		}
		for _, l := range p.Lines {
			for _, pt := range l.Points {
				if int(math.Round(pt.X)) == slot {
					list = append(list, bar{label: s.plain(category + " " + l.Label), value: pt.Y, series: -1, limit: true})
				}
			}
		}
	}
	for _, l := range p.Lines {
		for _, v := range valueOf(l.Y) {
			limits = append(limits, bar{label: s.plain(l.Label), value: v, series: -1, limit: true})
		}
	}
	more = max(0, len(list)-maxBars)
	return list[:len(list)-more], limits, more
}

// bars draws a panel with a category x axis: one bar per line, starting at zero.
func (s Style) bars(p figure.Panel) string {
	list, limits, more := s.barsOf(p)
	top, labels, values := 0.0, 0, 0
	for _, l := range slices.Concat(list, limits) {
		if !l.failed {
			top = max(top, l.value)
			values = max(values, texttab.Width(s.plain(p.Y.Unit.Format(l.value))))
		}
		labels = max(labels, texttab.Width(l.label))
	}
	if len(list)+len(limits) == 0 || top <= 0 {
		return s.line("(nothing to draw)")
	}
	labels = min(labels, s.Width/2)
	room := s.Width - labels - values - 3
	var b strings.Builder
	draw := func(l bar) {
		label := s.shorten(l.label, labels)
		b.WriteString(label + strings.Repeat(" ", labels-texttab.Width(label)+1))
		if l.failed {
			b.WriteString(s.paint(string(s.glyphs().no), l.series) + " failed\n")
			return
		}
		n := max(0, int(math.Round(l.value/top*float64(room))))
		b.WriteString(s.paint(strings.Repeat(string(s.glyphs().forBar(l)), n), l.series) + " " +
			s.plain(p.Y.Unit.Format(l.value)) + "\n")
	}
	b.WriteString(s.line(p.Y.Title()))
	for _, l := range list {
		draw(l)
	}
	if more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	for _, l := range limits {
		draw(l)
	}
	return b.String()
}

// forBar returns the character that a bar is made of.
func (g glyphs) forBar(l bar) rune {
	switch {
	case l.limit:
		return g.lines[0]
	case l.hollow:
		return g.hollow
	}
	return g.bar
}
