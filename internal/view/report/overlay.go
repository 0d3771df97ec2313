package report

import (
	"fmt"
	"maps"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/verdict"
	"github.com/kernbench/kernbench/internal/result/views"
)

// NamedRun is a run under the name that an overlay report uses for it.
type NamedRun struct {
	Name string
	*journal.Run
}

// Overlay returns the input for one report of several runs. Figures show a curve for each run. For each run
// after the first there is a section about what is faster or slower than in the first. The names must
// differ.
func Overlay(runs []NamedRun, plots []views.Plot) Input {
	in := Input{Run: mergeRuns(runs), Plots: plots}
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
		if text := r.Unverified(); text != "" {
			lines = append(lines, fmt.Sprintf("- %s: %s", r.Name, text))
		}
	}
	in.Verdict = strings.Join(lines, "\n")
	return in
}

// mergeRuns returns one run with the rows of all runs. Keys get the run's name as a prefix, so that the same
// point in two runs gives two rows.
func mergeRuns(runs []NamedRun) *journal.Run {
	first := runs[0].Header
	merged := &journal.Run{AllBuilds: true,
		Header: journal.Header{Bench: first.Bench, Time: first.Time, Backend: first.Backend,
			Host: first.Host, Run: runs[0].Name}}
	for i, r := range runs {
		if i > 0 {
			h := r.Header
			h.Run = r.Name
			merged.Earlier = append(merged.Earlier, h)
		}
		merged.Header.AddColumns(r.Header)
		machine := hostLabel(r.Header.Host)
		for _, row := range r.Latest() {
			if row.Kind == journal.Measured && machine != "" && row.Details[journal.DeviceDetail] == "" &&
				row.Details[dataset.MachineDetail] == "" {
				row.Details = maps.Clone(row.Details)
				if row.Details == nil {
					row.Details = map[string]string{}
				}
				row.Details[dataset.MachineDetail] = machine
			}
			row.Key, row.Run = r.Name+views.OverlaySeparator+row.Key, r.Name
			if row.Task != "" {
				row.Task = r.Name + views.OverlaySeparator + row.Task
			}
			merged.Rows = append(merged.Rows, row)
		}
		for _, n := range r.Notes {
			n.Text, n.Tuned = r.Name+": "+n.Text, nil
			merged.Notes = append(merged.Notes, n)
		}
	}
	benches := lists.Distinct(lists.Map(runs, func(r NamedRun) string { return r.Header.Bench }))
	merged.Header.Bench = strings.Join(benches, ", ")
	merged.End = &journal.End{} // not "incomplete": Overlay reports that for each run
	return merged
}

// hostLabel names a host in legends by its processor.
func hostLabel(h hostinfo.Host) string {
	if h.CPU.Model == "" {
		return ""
	}
	return fmt.Sprintf("%s, %.4g cores", h.CPU.Model, h.CPU.Usable)
}

// changesBetween returns a section about what is faster or slower in b than in a, and a line that summarizes
// it.
func changesBetween(a, b NamedRun) (bench.Section, string) {
	s := bench.Section{Title: a.Name + " and " + b.Name}
	title := fmt.Sprintf("%s against %s", b.Name, a.Name)
	old, new := verdict.NewRun(a.Name, a.Run), verdict.NewRun(b.Name, b.Run)
	old.Incomplete, new.Incomplete = "", "" // Overlay says it
	opts := verdict.Options{Mean: true}
	if BackendsDiffer(old.Rows, new.Rows) {
		opts.Ignore = []string{dataset.Backend}
	}
	r, err := verdict.Compare(old, new, opts)
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
