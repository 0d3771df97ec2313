package compare

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// tableLine is a pair, with texts that depend on the other pairs of the report.
type tableLine struct {
	Pair
	shortName, noteMarks string
	change, interval, p  string
}

// column is a column of the table. Options.Columns and Options.Sort refer to it by its name.
type column struct {
	name  string
	right bool // numbers are aligned to the right
	text  func(l tableLine) string
	order func(a, b Pair) int // nil if the table cannot be sorted by it
}

var columns = []column{
	{"point", false, func(l tableLine) string { return l.shortName },
		func(a, b Pair) int { return strings.Compare(a.Name, b.Name) }},
	{"verdict", false, func(l tableLine) string { return string(l.Verdict) }, func(a, b Pair) int {
		return cmp.Compare(slices.Index(verdicts, a.Verdict), slices.Index(verdicts, b.Verdict))
	}},
	{"old", true, func(l tableLine) string { return l.Old.text() },
		func(a, b Pair) int { return cmp.Compare(a.Old.value(), b.Old.value()) }},
	{"new", true, func(l tableLine) string { return l.New.text() },
		func(a, b Pair) int { return cmp.Compare(a.New.value(), b.New.value()) }},
	{"change", true, func(l tableLine) string { return l.change },
		func(a, b Pair) int { return cmp.Compare(a.ratio(), b.ratio()) }},
	{"interval", true, func(l tableLine) string { return l.interval }, nil},
	{"p", true, func(l tableLine) string { return l.p },
		func(a, b Pair) int { return cmp.Compare(a.p(), b.p()) }},
	{"notes", false, func(l tableLine) string { return l.noteMarks }, nil},
}

func (c column) String() string { return c.name }

func findColumn(name string) (column, error) {
	return suggest.Find("column", name, columns, column.String)
}

// chooseColumns returns the named columns in the given order, or all columns if there are no names.
func chooseColumns(names []string) ([]column, error) {
	if len(names) == 0 {
		return columns, nil
	}
	return lists.TryMap(names, findColumn)
}

// sortable returns the names of the columns that have an order.
func sortable() []string {
	ordered := lists.Filter(columns, func(c column) bool { return c.order != nil })
	return lists.Map(ordered, column.String)
}

func (s *Side) value() float64 {
	if s == nil {
		return 0
	}
	return s.Value
}

// ratio returns the ratio of the effect, or 1 if there is none.
func (p Pair) ratio() float64 {
	if p.Effect == nil {
		return 1
	}
	return p.Effect.Ratio
}

func (p Pair) p() float64 {
	if p.Effect == nil || p.Effect.P == nil {
		return 1
	}
	return *p.Effect.P
}

// sort orders the pairs by the named columns. The first name is the most significant. A minus before a
// name reverses its order.
func (r *Report) sort(by []string) error {
	var orders []func(a, b Pair) int
	for _, name := range by {
		name, descending := strings.CutPrefix(name, "-")
		c, err := findColumn(name)
		if err != nil {
			return err
		}
		switch {
		case c.order == nil:
			return fmt.Errorf("the table cannot be sorted by %s: want %s", name, strings.Join(sortable(), ", "))
		case descending:
			orders = append(orders, func(a, b Pair) int { return c.order(b, a) })
		default:
			orders = append(orders, c.order)
		}
	}
	slices.SortStableFunc(r.Pairs, func(a, b Pair) int {
		for _, order := range orders {
			if c := order(a, b); c != 0 {
				return c
			}
		}
		return 0
	})
	return nil
}

// Write prints the report in the named format; "" means the table. width is the width of the terminal, or
// 0 for no limit. Only the table uses it.
func (r Report) Write(w io.Writer, format string, width int) error {
	return r.Document().Write(w, format, width)
}

// Document returns the report as text.
func (r Report) Document() Document {
	shared := r.sharedFields() // shown only once, above the table
	d := Document{Data: r, Suite: "kernbench compare " + r.OldRun + " " + r.NewRun, Warnings: r.Warnings,
		Heading: []string{r.OldRun + " -> " + r.NewRun + ":"}, Remarks: []string{""}}
	value := unit.WithUnit(r.Metric, r.Unit)
	titles := map[string]string{"old": "old " + value, "interval": "95% interval"}
	shown := r.columns
	d.Heading = append(d.Heading, shared...)
	d.Differences = lists.Map(r.Differences, func(one Difference) string { return "differs in " + one.String() })
	d.Columns = lists.Map(shown, func(c column) texttab.Column {
		return texttab.Column{Title: cmp.Or(titles[c.name], c.name), Right: c.right}
	})
	var legend texttab.Legend
	for _, p := range r.Pairs {
		l := tableLine{Pair: p, shortName: p.nameWithout(shared), noteMarks: legend.Mark(p.Notes...)}
		if p.Effect != nil && (p.Effect.Method != judge.None || p.Old.quiet > 0 && p.New.quiet > 0) {
			// The change between values that were all disturbed is not shown.
			l.change, l.interval, l.p = effectTexts(*p.Effect)
		}
		d.Lines = append(d.Lines, Line{
			Cells: lists.Map(shown, func(c column) string { return c.text(l) }),
			Class: strings.ReplaceAll(p.group, "/", "."), Name: strings.Join(p.fields, " "),
			Verdict: string(p.Verdict), Outcome: outcomeOf(p.Verdict), Equal: p.Verdict == judge.Same,
			Message: l.message(r.Metric),
		})
	}
	d.Remarks = append(d.Remarks, legend.Lines("point", "points")...)
	if r.Mean != nil {
		d.Remarks = append(d.Remarks, r.Mean.String())
	}
	for _, w := range r.Warnings {
		d.Remarks = append(d.Remarks, "warning: "+w)
	}
	d.Remarks, d.Sentence = append(d.Remarks, r.Summary()), r.Summary()
	return d
}

func outcomeOf(v judge.Verdict) TestOutcome {
	switch v {
	case judge.Slower, Lost, Failed:
		return Bad
	case judge.Ambiguous, Broken, NotComparable:
		return Undecided
	}
	return Passed
}

// message returns the pair as one sentence.
func (l tableLine) message(metric string) string {
	text := string(l.Verdict)
	if l.change != "" {
		text += fmt.Sprintf(": %s %s -> %s, %s", metric, l.Old.text(), l.New.text(), l.change)
		if l.interval != "" {
			text += " (95% interval " + l.interval + ", p " + l.p + ")"
		}
	}
	return strings.Join(append([]string{text}, l.Notes...), "; ")
}

// Summary returns the report in one line: "20 points: 1 slower, 19 same".
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

// sharedFields returns the fields that the names of all points have.
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
	return lists.Filter(r.Pairs[0].fields, func(f string) bool { return count[f] == len(r.Pairs) })
}

// nameWithout returns the name of the point without the shared fields.
func (p Pair) nameWithout(shared []string) string {
	own := lists.Filter(p.fields, func(f string) bool { return !slices.Contains(shared, f) })
	return strings.Join(append([]string{p.group}, own...), " ")
}

func (s *Side) text() string {
	switch {
	case s == nil:
		return ""
	case s.Trials == 0:
		return string(s.Status)
	}
	if s.Unit != "" {
		return unit.FormatSig(s.Value, 4) + " " + unit.Symbol(s.Unit)
	}
	return unit.FormatSig(s.Value, 4)
}

func effectTexts(e judge.Effect) (change, interval, p string) {
	change = percent(e.Ratio)
	if e.Low != 0 && e.Method != judge.Exact {
		interval = percent(e.Low) + " to " + percent(e.High)
	}
	if e.P != nil {
		p = fmt.Sprintf("%.3f", *e.P)
		if p == "0.000" { // no test is certain
			p = "<0.001"
		}
	}
	return change, interval, p
}

// percent returns a ratio as a signed change in percent.
func percent(ratio float64) string {
	v := 100 * (ratio - 1)
	if math.Abs(v) < 0.005 {
		return "0%"
	}
	return fmt.Sprintf("%+.2f%%", v)
}
