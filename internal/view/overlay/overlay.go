// Package overlay makes one report of several runs: their rows under one roof, told apart
// by the run's name, so that figures have a curve for each, and what became faster or
// slower between the first and each of the others. Package report makes the page.
package overlay

import (
	"fmt"
	"maps"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/view/compare"
	"github.com/kernbench/kernbench/internal/view/report"
	"github.com/kernbench/kernbench/internal/view/verdict"
)

// Run is one of the runs, with the name that the report has for it.
type Run struct {
	Name string
	*journal.Run
}

// Input is the runs as package report takes them. Names are different.
func Input(runs []Run, plots []report.Plot) report.Input {
	in := report.Input{Run: merge(runs), Plots: plots}
	var lines []string
	for _, r := range runs[1:] {
		s, line := changes(runs[0], r)
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

// merge makes one run of all. Equal work of two runs stays two rows: keys carry the run's name.
func merge(runs []Run) *journal.Run {
	first := runs[0].Header
	sum := &journal.Run{Header: journal.Header{Bench: first.Bench, Time: first.Time, Backend: first.Backend,
		Host: first.Host, Run: runs[0].Name}}
	for i, r := range runs {
		if i > 0 {
			h := r.Header
			h.Run = r.Name
			sum.Earlier = append(sum.Earlier, h)
		}
		sum.Header.AddColumns(r.Header)
		machine := machineOf(r.Header.Host)
		for _, row := range r.Latest() {
			if row.Kind == journal.Measured && machine != "" && row.Details[journal.DeviceDetail] == "" &&
				row.Details[report.MachineDetail] == "" {
				row.Details = maps.Clone(row.Details)
				if row.Details == nil {
					row.Details = map[string]string{}
				}
				row.Details[report.MachineDetail] = machine
			}
			row.Key, row.Run = r.Name+"\x00"+row.Key, r.Name
			if row.Task != "" {
				row.Task = r.Name + "\x00" + row.Task
			}
			sum.Rows = append(sum.Rows, row)
		}
		for _, n := range r.Notes {
			n.Text, n.Tuned = r.Name+": "+n.Text, nil
			sum.Notes = append(sum.Notes, n)
		}
	}
	benches := lists.Distinct(lists.Map(runs, func(r Run) string { return r.Header.Bench }))
	sum.Header.Bench = strings.Join(benches, ", ")
	sum.End = &journal.End{} // what became of each is said apart
	return sum
}

// machineOf is a host as legends name it: by its processor.
func machineOf(h hostinfo.Host) string {
	if h.CPU.Model == "" {
		return ""
	}
	return fmt.Sprintf("%s, %.4g cores", h.CPU.Model, h.CPU.Usable)
}

// changes are what is faster or slower in b than in a: a section, and a line of the verdict.
func changes(a, b Run) (bench.Section, string) {
	s := bench.Section{Title: a.Name + " and " + b.Name}
	title := fmt.Sprintf("%s against %s", b.Name, a.Name)
	old := compare.Run{Name: a.Name, Header: &a.Header, Rows: a.Latest()}
	new := compare.Run{Name: b.Name, Header: &b.Header, Rows: b.Latest()}
	r, err := compare.Compare(old, new, compare.Options{Ignore: onPurpose(old.Rows, new.Rows)})
	if err != nil {
		s.Text = "Not compared: " + err.Error() + "."
		return s, fmt.Sprintf("%s: not compared", title)
	}
	v, err := r.Verdicts()
	if err != nil {
		s.Text = err.Error()
		return s, title
	}
	s.Text = "- " + strings.Join(lists.NonEmpty(v.Remarks...), "\n- ")
	s.Table = [][]string{lists.Map(v.Columns, func(c verdict.Column) string { return c.Title })}
	s.Table = append(s.Table, lists.Map(v.Lines, func(l verdict.Line) []string { return l.Cells })...)
	s.Detail = len(v.Lines) > 40
	return s, title + ": " + r.Summary()
}

// onPurpose is the backend where each run has one and they differ: why else overlay them?
func onPurpose(old, new []journal.Row) []string {
	backends := func(rows []journal.Row) []string {
		return lists.Distinct(lists.Map(rows, func(r journal.Row) string { return r.Backend }))
	}
	if a, b := backends(old), backends(new); len(a) == 1 && len(b) == 1 && a[0] != b[0] {
		return []string{rowset.Backend}
	}
	return nil
}
