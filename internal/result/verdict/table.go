package verdict

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

// tableLine is a point, with texts that depend on the other points of the report.
type tableLine struct {
	*Point
	name, marks string
}

// column is a column of the table. Options.Columns and Options.Sort refer to it by its name.
type column struct {
	name  string
	in    string // the only kind of report that has it; "" means both
	right bool   // numbers are aligned to the right
	text  func(l tableLine) string
	order func(a, b *Point) int // nil if the table cannot be sorted by it
}

// The kinds of report.
const (
	comparison = "comparison"
	check      = "check"
)

var columns = []column{
	{"point", "", false, func(l tableLine) string { return l.name },
		func(a, b *Point) int { return strings.Compare(a.Name, b.Name) }},
	{"verdict", "", false, func(l tableLine) string { return string(l.Verdict) },
		func(a, b *Point) int { return cmp.Compare(urgency(a.Verdict), urgency(b.Verdict)) }},
	{"old", "", true, func(l tableLine) string { return l.Old.text() },
		func(a, b *Point) int { return cmp.Compare(a.Old.value(), b.Old.value()) }},
	{"new", "", true, func(l tableLine) string { return l.New.text() },
		func(a, b *Point) int { return cmp.Compare(a.New.value(), b.New.value()) }},
	{"change", "", true, func(l tableLine) string { change, _, _ := effectTexts(l.Effect); return change },
		func(a, b *Point) int { return cmp.Compare(a.ratio(), b.ratio()) }},
	{"interval", "", true, func(l tableLine) string { _, interval, _ := effectTexts(l.Effect); return interval }, nil},
	{"rules out", check, true, func(l tableLine) string {
		if l.RulesOut == nil {
			return ""
		}
		return percent(1 + *l.RulesOut)
	}, nil},
	{"since", check, false, func(l tableLine) string {
		if l.Since == nil {
			return ""
		}
		return l.Since.Run
	}, nil},
	{"p", comparison, true, func(l tableLine) string { _, _, p := effectTexts(l.Effect); return p },
		func(a, b *Point) int { return cmp.Compare(a.p(), b.p()) }},
	{"notes", "", false, func(l tableLine) string { return l.marks }, nil},
}

func (c column) String() string { return c.name }

// columnsOf returns the columns of a kind of report.
func columnsOf(kind string) []column {
	return lists.Filter(columns, func(c column) bool { return c.in == "" || c.in == kind })
}

func findColumn(name string) (column, error) {
	return suggest.Find("column", name, columnsOf(comparison), column.String)
}

// chooseColumns returns the named columns in the given order, or all columns if there are no names.
func chooseColumns(names []string) ([]column, error) {
	if len(names) == 0 {
		return columnsOf(comparison), nil
	}
	return lists.TryMap(names, findColumn)
}

func (s *Side) value() float64 {
	if s == nil {
		return 0
	}
	return s.Value
}

// ratio returns the ratio of the effect, or 1 if there is none.
func (f Finding) ratio() float64 {
	if f.Effect == nil {
		return 1
	}
	return f.Effect.Ratio
}

func (f Finding) p() float64 {
	if f.Effect == nil || f.Effect.P == nil {
		return 1
	}
	return *f.Effect.P
}

// sort orders the points by the named columns. The first name is the most significant. A minus before a
// name reverses its order.
func (r *Report) sort(by []string) error {
	var orders []func(a, b *Point) int
	for _, name := range by {
		name, descending := strings.CutPrefix(name, "-")
		c, err := findColumn(name)
		if err != nil {
			return err
		}
		switch {
		case c.order == nil:
			sortable := lists.Filter(columns, func(c column) bool { return c.order != nil })
			return fmt.Errorf("the table cannot be sorted by %s: want %s", name,
				strings.Join(lists.Map(sortable, column.String), ", "))
		case descending:
			orders = append(orders, func(a, b *Point) int { return c.order(b, a) })
		default:
			orders = append(orders, c.order)
		}
	}
	slices.SortStableFunc(r.Points, func(a, b Point) int {
		for _, order := range orders {
			if c := order(&a, &b); c != 0 {
				return c
			}
		}
		return 0
	})
	return nil
}

// Write prints the report in the named format; "" means the table. link is the address of a fuller report, or "".
// width is the width of the terminal, or 0 for no limit. Only the table uses it.
func (r Report) Write(w io.Writer, format, link string, width int) error {
	d := r.Document()
	d.Link = link
	return d.Write(w, format, width)
}

// Document returns the report as text.
func (r Report) Document() Document {
	d := Document{Data: r, Warnings: r.Warnings, Remarks: []string{""}}
	value, noun := unit.WithUnit(r.Metric, r.Unit), "point"
	titles := map[string]string{"old": "old " + value, "interval": "95% interval"}
	if r.Recent == nil {
		d.Suite, d.Heading = "kernbench compare "+r.OldRun+" "+r.NewRun, []string{r.OldRun + " -> " + r.NewRun + ":"}
		d.Sentence = r.Summary()
	} else {
		latest := r.Recent[len(r.Recent)-1]
		d.Suite = "kernbench baseline check " + latest
		d.Heading = []string{fmt.Sprintf("%s since the accepted baseline of %s, latest %s:",
			unit.Plural(len(r.Recent), "run"), unit.Plural(len(r.Baseline), "run"), latest)}
		titles["old"], titles["new"] = "baseline "+value, "latest"
		d.Sentence, noun = r.Sentence(), "line"
	}
	shared := r.sharedFields() // shown only once, above the table
	d.Heading = append(d.Heading, shared...)
	d.Differences = lists.Map(r.Differences, func(one Difference) string { return "differs in " + one.String() })
	d.Columns = lists.Map(r.columns, func(c column) texttab.Column {
		return texttab.Column{Title: cmp.Or(titles[c.name], c.name), Right: c.right}
	})
	var legend texttab.Legend
	add := func(p *Point, class, name, short string) {
		l := tableLine{Point: p, name: short, marks: legend.Mark(p.Notes...)}
		d.Lines = append(d.Lines, Line{
			Cells: lists.Map(r.columns, func(c column) string { return c.text(l) }), Class: class, Name: name,
			Verdict: string(p.Verdict), Outcome: outcomeOf(p.Verdict),
			Message: strings.Join(append([]string{r.message(p)}, p.Notes...), "; "),
		})
	}
	if r.Recent != nil && len(r.Points) > 1 {
		add(&Point{Finding: r.Whole.Finding}, r.Bench, allPoints, allPoints)
	}
	for i := range r.Points {
		p, group := &r.Points[i], r.Points[i].group()
		fields := p.fields()
		own := lists.Filter(fields, func(f string) bool { return !slices.Contains(shared, f) })
		add(p, strings.ReplaceAll(group, "/", "."), strings.Join(fields, " "),
			strings.Join(append([]string{group}, own...), " "))
	}
	d.Remarks = append(d.Remarks, legend.Lines(noun, noun+"s")...)
	d.Remarks = append(d.Remarks, lists.NonEmpty(r.Mean())...)
	for _, w := range r.Warnings {
		d.Remarks = append(d.Remarks, "warning: "+w)
	}
	if r.Recent != nil {
		d.Remarks = append(d.Remarks, d.Sentence)
	}
	d.Remarks = append(d.Remarks, r.Summary())
	return d
}

// message returns the finding on a point as one sentence.
func (r Report) message(p *Point) string {
	change := changeText(p.Effect)
	switch {
	case r.Recent != nil:
		return p.sentence()
	case change == "":
		return string(p.Verdict)
	}
	return fmt.Sprintf("%s: %s %s -> %s, %s", p.Verdict, r.Metric, p.Old.text(), p.New.text(), change)
}

// Summary returns the report in one line: "20 points: 1 slower, 19 same".
func (r Report) Summary() string {
	var parts []string
	for _, v := range verdicts {
		if n := r.Counts[v.verdict]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v.verdict))
		}
	}
	if len(parts) == 0 {
		return "no points"
	}
	return unit.Plural(len(r.Points), "point") + ": " + strings.Join(parts, ", ")
}

// sharedFields returns the fields that the names of all points have.
func (r Report) sharedFields() []string {
	if len(r.Points) < 2 {
		return nil
	}
	shared := r.Points[0].fields()
	for i := range r.Points[1:] {
		if len(shared) == 0 {
			break
		}
		fields := r.Points[i+1].fields()
		shared = lists.Filter(shared, func(f string) bool { return slices.Contains(fields, f) })
	}
	return shared
}

func (s *Side) text() string {
	switch {
	case s == nil:
		return ""
	case s.Trials == 0:
		return string(s.Status)
	}
	return strings.TrimSpace(unit.FormatSig(s.Value, 4) + " " + unit.Symbol(s.Unit))
}

// effectTexts returns the change, its interval and its p. They are "" if there are none.
func effectTexts(e *judge.Effect) (change, interval, p string) {
	if e == nil {
		return "", "", ""
	}
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

// changeText returns an effect in words: "+10.00% (95% interval +9.20% to +10.40%, p 0.002)".
func changeText(e *judge.Effect) string {
	change, interval, p := effectTexts(e)
	if interval != "" {
		interval = "95% interval " + interval
	}
	if p != "" {
		p = "p " + p
	}
	if basis := lists.NonEmpty(interval, p); len(basis) > 0 {
		return change + " (" + strings.Join(basis, ", ") + ")"
	}
	return change
}

// percent returns a ratio as a signed change in percent.
func percent(ratio float64) string {
	v := 100 * (ratio - 1)
	if math.Abs(v) < 0.005 {
		return "0%"
	}
	return fmt.Sprintf("%+.2f%%", v)
}
