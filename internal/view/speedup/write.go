package speedup

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/view/verdict"
)

// Write shows the table of a run under its name, and below it the verdicts on
// the goals. Width is that of the terminal, 0 for no limit.
func (t Table) Write(w io.Writer, ours string, goals Goals, width int) error {
	heading := ours
	if t.Ranks > 0 { // else a program that does not say
		heading += ", " + unit.Plural(t.Ranks, "rank")
	}
	every, title := "not slower at any point", "not slower"
	if goals.least() != 1 {
		every = fmt.Sprintf("at least %s times as fast at every point", unit.FormatSig(goals.least(), 3))
		title = "goal " + unit.FormatSig(goals.least(), 3)
	}
	axes := varying(t.Lines)
	r := verdict.Report{Heading: []string{heading + ":"}, Remarks: []string{
		fmt.Sprintf("%s: %s", every, t.Slower),
		fmt.Sprintf("geometric mean %s times faster (%s), goal %s: %s (%d pairs)", unit.FormatSig(t.Geomean.Median, 3),
			t.Geomean.interval(),
			unit.FormatSig(goals.Mean, 3), t.Faster, t.Geomean.Pairs), ""}}
	numbers := append(slices.Clip(axes), "ours us", "peer us", "times faster", "95% interval", "pairs", "% of limit")
	r.Columns = lists.Map(numbers, func(name string) texttab.Column { return texttab.Column{Title: name, Right: true} })
	r.Columns = append(r.Columns, texttab.Column{Title: title}, texttab.Column{Title: "best peer", Shrink: true})
	r.Lines = lists.Map(t.Lines, func(l Line) verdict.Line { return verdict.Line{Cells: l.cells(axes)} })
	return r.Write(w, "", width)
}

func (l Line) cells(axes []string) []string {
	var cells []string
	for _, name := range axes {
		v := l.Point.At(name)
		text := v.String()
		if v.Kind() == point.Bytes {
			text = unit.FormatBytes(v.Int())
		}
		cells = append(cells, text)
	}
	limit := ""
	if l.OfLimit > 0 {
		limit = fmt.Sprintf("%.0f", l.OfLimit)
	}
	return append(cells, unit.FormatSig(l.Ours, 3), unit.FormatSig(l.Theirs, 3), unit.FormatSig(l.Ratio.Median, 3),
		l.Ratio.interval(), fmt.Sprint(l.Ratio.Pairs), limit, string(l.Verdict), texttab.Plain(l.Peer))
}

// varying are the axes whose values differ between the lines; with a single line
// all of them.
func varying(lines []Line) []string {
	var names []string
	for i, c := range lines[0].Point {
		if len(lines) == 1 || slices.ContainsFunc(lines, func(l Line) bool { return l.Point[i].Value != c.Value }) {
			names = append(names, c.Name)
		}
	}
	return names
}

func (r Ratio) interval() string {
	if math.IsNaN(r.Low) {
		return "too few pairs"
	}
	return unit.FormatSig(r.Low, 3) + " to " + unit.FormatSig(r.High, 3)
}
