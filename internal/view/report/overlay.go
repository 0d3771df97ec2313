package report

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/verdict"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Overlay returns the input for one report of several runs. Figures show a curve for each run. For each run
// after the first there is a section about what is faster or slower than in the first. The names must
// differ.
func Overlay(runs []dataset.Named, plots []views.Plot) Input {
	in := Input{Data: dataset.Overlay(runs), Plots: plots}
	var lines []string
	for _, r := range runs[1:] {
		s, line := changesBetween(runs[0], r)
		in.Sections = append(in.Sections, s)
		lines = append(lines, "- "+line)
	}
	for _, r := range runs {
		if part := r.Incomplete(); part != "" {
			lines = append(lines, fmt.Sprintf("- %s: %s", r.Name, part))
		}
	}
	in.Verdict = strings.Join(lines, "\n")
	return in
}

// changesBetween returns a section about what is faster or slower in b than in a, and a line that summarizes
// it.
func changesBetween(a, b dataset.Named) (bench.Section, string) {
	s := bench.Section{Title: a.Name + " and " + b.Name}
	title := fmt.Sprintf("%s against %s", b.Name, a.Name)
	opts := verdict.Options{Mean: true}
	if BackendsDiffer(a.Rows, b.Rows) {
		opts.Ignore = []string{dataset.Backend}
	}
	r, err := verdict.Compare(withoutRuns(a), withoutRuns(b), opts)
	if err != nil {
		s.Text = "Not compared: " + err.Error() + "."
		return s, fmt.Sprintf("%s: not compared", title)
	}
	d := r.Document()
	s.Text = "- " + strings.Join(append(d.Differences, lists.NonEmpty(d.Remarks...)...), "\n- ")
	s.Table = [][]string{lists.Map(d.Columns, func(c texttab.Column) string { return c.Title })}
	s.Table = append(s.Table, lists.Map(d.Lines, func(l verdict.Line) []string { return l.Cells })...)
	s.Detail = len(d.Lines) > 40
	return s, title + ": " + strings.Join(lists.NonEmpty(r.Summary(), r.Mean()), "; ")
}

// withoutRuns returns a run that does not know which part of it is missing, because Overlay says it.
func withoutRuns(n dataset.Named) dataset.Named {
	return dataset.Named{Name: n.Name, Dataset: &dataset.Dataset{Header: n.Header, Rows: n.Rows}}
}

// BackendsDiffer reports whether each run has a single backend and not all of these are equal. Such runs, for
// example a simulated and a measured one, differ on purpose.
func BackendsDiffer(runs ...dataset.Set) bool {
	var all []string
	for _, rows := range runs {
		own := lists.Distinct(lists.Map(rows, func(r *journal.Row) string { return r.Backend }))
		if len(own) != 1 {
			return false
		}
		all = append(all, own[0])
	}
	return len(lists.Distinct(all)) > 1
}
