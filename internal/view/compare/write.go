package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// writers are keyed by the user's word, the default first.
var writers = []struct {
	name  string
	write func(r Report, w io.Writer, width int) error
}{
	{"table", Report.writeTable},
	{"json", Report.writeJSON},
	{"junit", Report.writeJUnit},
}

// Formats are the words Write accepts, the default first.
func Formats() []string {
	names := make([]string, len(writers))
	for i, f := range writers {
		names[i] = f.name
	}
	return names
}

// Write shows the report; "" is the table. Width is that of the terminal, 0
// for no limit, and concerns the table only.
func (r Report) Write(w io.Writer, format string, width int) error {
	for _, f := range writers {
		if f.name == format || format == "" {
			if err := f.write(r, w, width); err != nil {
				return fmt.Errorf("writing the comparison as %s: %w", f.name, err)
			}
			return nil
		}
	}
	return suggest.Unknown("format", format, Formats())
}

func (r Report) writeJSON(w io.Writer, _ int) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// writeTable lifts out what all points share, as the table of a run does.
func (r Report) writeTable(w io.Writer, width int) error {
	var b strings.Builder
	shared := r.sharedFields()
	heading := append([]string{r.OldRun + " -> " + r.NewRun + ":"}, shared...)
	fmt.Fprintln(&b, texttab.Wrap(heading, width, "  "))
	value := r.Metric
	if r.Unit != "" && !strings.HasSuffix(r.Metric, "_"+r.Unit) {
		value += " (" + r.Unit + ")"
	}
	t := texttab.Table{Columns: []texttab.Column{{Title: "point"}, {Title: "verdict"}, {Title: "old " + value, Right: true}, {Title: "new", Right: true},
		{Title: "change", Right: true}, {Title: "95% interval", Right: true}, {Title: "p", Right: true}, {Title: "note", Shrink: true}}}
	for _, p := range r.Pairs {
		change, interval, prob := p.Effect.text()
		t.Add(texttab.Plain(p.shortName(shared)), string(p.Verdict), p.Old.text(), p.New.text(), change, interval, prob, texttab.Plain(strings.Join(p.Notes, "; ")))
	}
	if err := t.Write(&b, width); err != nil {
		return err
	}
	b.WriteByte('\n')
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", texttab.Plain(warning))
	}
	fmt.Fprintln(&b, r.Summary())
	_, err := io.WriteString(w, b.String())
	return err
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
	return countPoints(len(r.Pairs)) + ": " + strings.Join(parts, ", ")
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
