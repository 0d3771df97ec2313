// Package chart draws figures as text, for a terminal: compact curves for axes of
// numbers, bars for axes of names. What is drawn is package figure's description, so a
// chart shows what the picture of the same plot shows, only coarser. It writes no
// files and knows no terminal: width, characters and colours are the caller's to say.
package chart

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/ticks"
)

// Style is how charts are drawn.
type Style struct {
	Width   int  // columns; at least MinWidth
	Unicode bool // else plain ASCII
	Color   bool
}

// The sizes of a chart.
const (
	MinWidth = 40
	MaxWidth = 120 // wider curves are no clearer
	rows     = 10  // of the plotted area
	maxLines = 30  // of bars
)

// Text draws a figure, one panel below the other.
func Text(f figure.Figure, s Style) string {
	s.Width = min(max(s.Width, MinWidth), MaxWidth)
	var b strings.Builder
	if f.Title != "" {
		b.WriteString(s.line(f.Title))
	}
	for i, p := range f.Panels {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s.panel(p))
	}
	if f.Caption != "" {
		b.WriteString(s.line(f.Caption))
	}
	return b.String()
}

func (s Style) panel(p figure.Panel) string {
	var b strings.Builder
	if p.Title != "" {
		b.WriteString(s.line(p.Title))
	}
	switch {
	case p.Content != nil:
		b.WriteString(s.line("(a drawing: see the figure)"))
	case p.X.Scale == figure.Category:
		b.WriteString(s.bars(p))
	default:
		b.WriteString(s.curves(p))
	}
	if p.Note != "" {
		b.WriteString(s.line(p.Note))
	}
	return b.String()
}

// line is a line of text that is not wider than the chart; text that is longer has several.
func (s Style) line(text string) string {
	return texttab.Wrap(strings.Fields(s.plain(text)), s.Width, "") + "\n"
}

// plain makes text safe to show: without control characters, and ASCII where it must be.
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

// glyphs are the characters of charts, Unicode and ASCII.
type glyphs struct {
	markers                                 []rune
	path, up, corner, across, tick, bar, no rune
}

func (s Style) glyphs() glyphs {
	if s.Unicode {
		return glyphs{[]rune("●▲■◆○△□◇★✚✖▼"), '·', '┤', '└', '─', '┬', '█', '✗'}
	}
	return glyphs{[]rune("*ox#@%&$=^~w"), '.', '|', '+', '-', '+', '#', 'X'}
}

// colors are the foreground colours of the sixteen that every terminal has, without
// black, white and the ones that are hard to see on either.
var colors = []int{34, 31, 32, 35, 36, 33}

// paint colours text as series i is drawn; from 0.
func (s Style) paint(text string, i int) string {
	if !s.Color || i < 0 {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colors[i%len(colors)], text)
}

// legend names the series, in as many lines as it takes.
func (s Style) legend(series []figure.Series, markers []rune) string {
	var b strings.Builder
	used := 0
	for i, x := range series {
		text := string(markers[i%len(markers)]) + " " + s.shorten(s.plain(x.Name), s.Width-4)
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

// scale turns values of an axis into shares of its length.
type scale struct {
	lo, hi float64
	log    bool
	axis   figure.Axis
}

// newScale fits an axis to values; those it cannot show are left out.
func newScale(axis figure.Axis, values []float64, fromZero bool) (scale, bool) {
	s := scale{lo: math.Inf(1), hi: math.Inf(-1), axis: axis, log: axis.Scale == figure.Log2 || axis.Scale == figure.Log10}
	for _, v := range values {
		if s.shows(v) {
			s.lo, s.hi = min(s.lo, v), max(s.hi, v)
		}
	}
	if s.lo > s.hi {
		return s, false
	}
	if !s.log && fromZero && s.lo > 0 && s.lo < 0.6*s.hi {
		s.lo = 0
	}
	for _, end := range []struct {
		fixed *float64
		to    *float64
	}{{axis.Min, &s.lo}, {axis.Max, &s.hi}} {
		if end.fixed != nil && s.shows(*end.fixed) {
			*end.to = *end.fixed
		}
	}
	if s.lo >= s.hi { // one value: it stands in the middle
		if s.log {
			s.lo, s.hi = s.lo/2, s.lo*2
		} else {
			half := max(math.Abs(s.lo)/2, 1e-9)
			s.lo, s.hi = s.lo-half, s.lo+half
		}
	}
	return s, true
}

func (s scale) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!s.log || v > 0)
}

func (s scale) share(v float64) float64 {
	if s.log {
		return math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	}
	return (v - s.lo) / (s.hi - s.lo)
}

// ticks are the labelled marks within the scale, about n of them.
func (s scale) ticks(n int) []ticks.Tick {
	var all []ticks.Tick
	unit := ticks.Unit(s.axis.Unit)
	switch s.axis.Scale {
	case figure.Log2:
		all = ticks.Log2(unit, s.lo, s.hi, n)
	case figure.Log10:
		all = ticks.Log10(unit, s.lo, s.hi, n)
	default:
		all = ticks.Linear(unit, s.lo, s.hi, n)
	}
	return lists.Filter(all, func(t ticks.Tick) bool {
		at := s.share(t.Value)
		return t.Label != "" && at > -1e-9 && at < 1+1e-9
	})
}
