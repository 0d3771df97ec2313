package history

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/view/compare"
)

// Write prints the report in one of compare.Formats. link is the address of a fuller report, or "".
func (r Report) Write(w io.Writer, format, link string, width int) error {
	d := r.Document()
	d.Link = link
	return d.Write(w, format, width)
}

// Document returns the report as finished text.
func (r Report) Document() compare.Document {
	latest := r.Recent[len(r.Recent)-1]
	shared := r.sharedFields()
	d := compare.Document{Data: r, Suite: "kernbench baseline check " + latest, Warnings: r.Warnings,
		Sentence: r.Sentence(), Remarks: []string{""},
		Heading: append([]string{fmt.Sprintf("%s since the accepted baseline of %s, latest %s:",
			unit.Plural(len(r.Recent), "run"), unit.Plural(len(r.Baseline), "run"), latest)}, shared...)}
	for _, title := range []string{"point", "verdict", "baseline " + unit.WithUnit(r.Metric, r.Unit), "latest", "change",
		"95% interval",
		"rules out", "since", "notes"} {
		d.Columns = append(d.Columns, texttab.Column{Title: title,
			Right: !slices.Contains([]string{"point", "verdict", "since", "notes"}, title)})
	}
	d.Differences = lists.Map(r.Differences, func(one compare.Difference) string { return "differs in " + one.String() })
	var legend texttab.Legend
	line := func(name, class, test string, f Finding, old, new *Side) {
		change, interval := effectTexts(f.Effect)
		rulesOut, since := "", ""
		if f.RulesOut != nil {
			rulesOut = percent(1 + *f.RulesOut)
		}
		if f.Since != nil {
			since = f.Since.Run
		}
		d.Lines = append(d.Lines, compare.Line{
			Cells: []string{name, string(f.Verdict), old.text(), new.text(), change, interval, rulesOut, since,
				legend.Mark(f.Notes...)},
			Class: class, Name: test, Verdict: string(f.Verdict), Outcome: outcomeOf(f.Verdict), Equal: f.Verdict == noSlowdown,
			Message: strings.Join(append([]string{f.sentence()}, f.Notes...), "; "),
		})
	}
	if len(r.Points) > 1 {
		line("all points", r.Bench, "all points", r.Whole, nil, nil)
	}
	for _, p := range r.Points {
		own := lists.Filter(p.fields, func(f string) bool { return !slices.Contains(shared, f) })
		line(strings.Join(append([]string{p.group}, own...), " "), strings.ReplaceAll(p.group, "/", "."),
			strings.Join(p.fields, " "), p.Finding, p.Old, p.New)
	}
	d.Remarks = append(d.Remarks, legend.Lines("line", "lines")...)
	for _, w := range r.Warnings {
		d.Remarks = append(d.Remarks, "warning: "+w)
	}
	d.Remarks = append(d.Remarks, r.Sentence(), r.Summary())
	return d
}

// Summary counts the points by verdict: "20 points: 1 slower, 19 no slowdown".
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
	return unit.Plural(len(r.Points), "point") + ": " + strings.Join(parts, ", ")
}

// maxNamed is the number of points that a sentence names.
const maxNamed = 3

// Sentence returns the answer in one sentence.
func (r Report) Sentence() string {
	switch r.ExitCode() {
	case 1:
		return r.bad()
	case 3:
		if r.Whole.Verdict == cannotTell {
			return "cannot tell: " + strings.Join(r.Whole.Notes, "; ")
		}
		first, _ := lists.First(r.Points, func(p Point) bool { return p.Verdict == cannotTell })
		return fmt.Sprintf("cannot tell at %s, such as %s: %s", unit.Plural(r.Counts[cannotTell], "point"), first.Name,
			strings.Join(first.Notes, "; "))
	}
	good := "no slowdown"
	if b := r.Whole.RulesOut; b != nil && len(r.Points) > 1 {
		good += fmt.Sprintf(" of %s or more as a whole", percentPlain(*b))
	}
	worst := 0.0
	for _, p := range r.Points {
		if p.RulesOut != nil {
			worst = max(worst, *p.RulesOut)
		}
	}
	if worst > 0 {
		good += fmt.Sprintf(" of %s or more at any point", percentPlain(worst))
		good = strings.Replace(good, "as a whole of", "as a whole, nor of", 1)
	}
	if r.Whole.Verdict == faster {
		good = "all points together are " + r.Whole.sentence()
	} else if n := r.Counts[faster]; n > 0 {
		good += "; faster at " + unit.Plural(n, "point")
	}
	return good
}

// bad describes what is slower or lost.
func (r Report) bad() string {
	var parts []string
	if r.Whole.Verdict == slower && len(r.Points) > 1 {
		parts = append(parts, "all points together are "+r.Whole.sentence())
	}
	// If the whole is slower, name only the points that are lost or failed.
	bad := lists.Filter(r.Points, func(p Point) bool {
		return p.Verdict == slower && len(parts) == 0 || p.Verdict == Lost || p.Verdict == Failed
	})
	for _, p := range bad[:min(len(bad), maxNamed)] {
		parts = append(parts, p.Name+" is "+p.sentence())
	}
	if more := len(bad) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more points are slower, lost or failed", more))
	}
	return strings.Join(parts, "; ")
}

// sentence describes a finding: "slower by 5.1 % (95 % from 3.6 to 6.6 %) since run ...".
func (f Finding) sentence() string {
	text := string(f.Verdict)
	if f.Verdict == noSlowdown && f.RulesOut != nil {
		return fmt.Sprintf("%s of %s or more", text, percentPlain(*f.RulesOut))
	}
	if e := f.Effect; e != nil && (f.Verdict == slower || f.Verdict == faster) {
		text += " by " + percentPlain(math.Abs(e.Ratio-1))
		if e.Low != 0 && e.Method != "exact" {
			low, high := math.Abs(e.Low-1), math.Abs(e.High-1) // both on the same side of 0
			text += fmt.Sprintf(" (95 %% from %s to %s)", percentPlain(min(low, high)), percentPlain(max(low, high)))
		}
	}
	if f.Since != nil {
		text += " since " + f.Since.String()
	}
	return text
}

func outcomeOf(v Verdict) compare.TestOutcome {
	switch v {
	case slower, Lost, Failed:
		return compare.Bad
	case cannotTell, Broken:
		return compare.Undecided
	}
	return compare.Passed
}

func (s *Side) text() string {
	switch {
	case s == nil:
		return ""
	case s.Status != "ok":
		return string(s.Status)
	case s.Trials == 0:
		return "disturbed"
	}
	return unit.FormatSig(s.Value, 4)
}

func effectTexts(e *Effect) (change, interval string) {
	if e == nil {
		return "", ""
	}
	change = percent(e.Ratio)
	if e.Low != 0 && e.Method != "exact" {
		interval = percent(e.Low) + " to " + percent(e.High)
	}
	return change, interval
}

// percent returns a ratio as a change with a sign: "+5.12%".
func percent(ratio float64) string {
	v := 100 * (ratio - 1)
	if math.Abs(v) < 0.005 {
		return "0%"
	}
	return fmt.Sprintf("%+.2f%%", v)
}

// percentPlain returns a relative change for a sentence: "5.1 %".
func percentPlain(change float64) string { return fmt.Sprintf("%.1f %%", 100*change) }

// sharedFields returns the fields that the names of all points have.
func (r Report) sharedFields() []string {
	if len(r.Points) < 2 {
		return nil
	}
	count := map[string]int{}
	for _, p := range r.Points {
		for _, f := range p.fields {
			count[f]++
		}
	}
	return lists.Filter(r.Points[0].fields, func(f string) bool { return count[f] == len(r.Points) })
}
