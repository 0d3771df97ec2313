package compare

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/view/verdict"
)

// Formats are the words Write accepts, the default first.
func Formats() []string { return verdict.Formats() }

// Write shows the report; "" is the table. Width is that of the terminal, 0
// for no limit, and concerns the table only.
func (r Report) Write(w io.Writer, format string, width int) error {
	v, err := r.Verdicts()
	if err != nil {
		return err
	}
	return v.Write(w, format, width)
}

// Value is the metric with its unit.
func (r Report) Value() string {
	if r.Unit != "" && !strings.HasSuffix(r.Metric, "_"+r.Unit) {
		return r.Metric + " (" + r.Unit + ")"
	}
	return r.Metric
}

// Verdicts are the report in finished words.
func (r Report) Verdicts() (verdict.Report, error) {
	shared := r.sharedFields() // lifted out of the table, as that of a run does
	v := verdict.Report{
		Heading: append([]string{r.OldRun + " -> " + r.NewRun + ":"}, shared...),
		Columns: []verdict.Column{{Title: "point"}, {Title: "verdict"}, {Title: "old " + r.Value(), Right: true},
			{Title: "new", Right: true},
			{Title: "change", Right: true}, {Title: "95% interval", Right: true}, {Title: "p", Right: true},
			{Title: "notes"}},
		Suite: "kernbench compare " + r.OldRun + " " + r.NewRun, Warnings: r.Warnings, Data: r, Remarks: []string{""},
	}
	var legend texttab.Legend
	for _, p := range r.Pairs {
		change, interval, prob := p.Effect.text()
		v.Lines = append(v.Lines, verdict.Line{
			Cells: []string{texttab.Plain(p.shortName(shared)), string(p.Verdict), p.Old.text(), p.New.text(), change, interval,
				prob, legend.Mark(p.Notes...)},
			Class: strings.ReplaceAll(p.group, "/", "."), Name: strings.Join(p.fields, " "),
			Verdict: string(p.Verdict), Outcome: p.Verdict.outcome(), Message: p.message(r),
		})
	}
	v.Remarks = append(v.Remarks, lists.Map(legend.Lines("point", "points"), texttab.Plain)...)
	warning := func(w string) string { return "warning: " + texttab.Plain(w) }
	v.Remarks = append(append(v.Remarks, lists.Map(r.Warnings, warning)...), r.Summary())
	return v, chooseColumns(&v, r.columns)
}

// outcome fails what became worse and leaves open what cannot be told.
func (v Verdict) outcome() verdict.Outcome {
	switch v {
	case Slower, Lost:
		return verdict.Failed
	case Ambiguous, Broken:
		return verdict.Undecided
	}
	return verdict.Passed
}

// message is a pair in one sentence.
func (p Pair) message(r Report) string {
	text := string(p.Verdict)
	if change, interval, prob := p.Effect.text(); change != "" {
		text += fmt.Sprintf(": %s %s -> %s, %s", r.Metric, p.Old.text(), p.New.text(), change)
		if interval != "" {
			text += " (95% interval " + interval + ", p " + prob + ")"
		}
	}
	if len(p.Notes) > 0 {
		text += "; " + strings.Join(p.Notes, "; ")
	}
	return texttab.Plain(text)
}

// Summary is the report in one line: "20 points: 1 slower, 19 same".
func (r Report) Summary() string {
	var parts []string
	for _, v := range verdicts {
		if n := r.Counts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(parts) == 0 {
		return "no points"
	}
	return unit.Plural(len(r.Pairs), "point") + ": " + strings.Join(parts, ", ")
}

// sharedFields are the words of the points' names that all of them have.
func (r Report) sharedFields() []string {
	if len(r.Pairs) < 2 {
		return nil
	}
	count := map[string]int{}
	for _, p := range r.Pairs {
		for _, f := range p.fields {
			count[f]++
		}
	}
	return slices.DeleteFunc(slices.Clone(r.Pairs[0].fields), func(f string) bool { return count[f] < len(r.Pairs) })
}

// shortName is the point without what is said above the table.
func (p Pair) shortName(shared []string) string {
	own := slices.DeleteFunc(slices.Clone(p.fields), func(f string) bool { return slices.Contains(shared, f) })
	return strings.Join(append([]string{p.group}, own...), " ")
}

func (s *Side) text() string {
	switch {
	case s == nil:
		return ""
	case s.Trials == 0:
		return string(s.Status)
	}
	return unit.FormatSig(s.Value, 4)
}

func (e *Effect) text() (change, interval, p string) {
	if e == nil {
		return "", "", ""
	}
	change = percent(e.Ratio)
	if e.Low != 0 && e.Method != Exact {
		interval = percent(e.Low) + " to " + percent(e.High)
	}
	if e.P != nil {
		p = fmt.Sprintf("%.3f", *e.P)
	}
	return change, interval, p
}

// percent is a ratio as a change, with a sign.
func percent(ratio float64) string {
	v := 100 * (ratio - 1)
	if math.Abs(v) < 0.005 {
		return "0%"
	}
	return fmt.Sprintf("%+.2f%%", v)
}
