package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Table is the table of one bench or part, which all views show. Constant columns are shown above it.
type Table struct {
	Title     string   // bench or bench/part
	Constants []string // NAME=VALUE of the constant columns
	Columns   []Column
	Lines     []Line   // without the lines of the gap
	Legend    []string // explains the marks in the lines
	Hidden    int      // columns with values that the bench does not declare as headlines
	Note      string   // explains empty cells

	all      []Line // also the lines of the gap
	gap      string // text in place of the lines left out, "" if none were
	gapAt    int    // index of the line after the gap
	single   bool   // some line has one launch only, so that its spread between launches is unknown
	repeated bool   // the table shows the spread between launches of some line
	chosen   bool   // the reader chose the columns
}

// Tables splits the rows into tables in order of appearance.
func Tables(in Input, opts Options) ([]Table, error) {
	columns, err := choose(Columns(in.Header, in.Rows), opts.Columns)
	if err != nil {
		return nil, err
	}
	switch {
	case len(opts.Columns) > 0: // the reader chooses
	case in.Header != nil && len(in.Header.Headline) > 0:
		columns = headlines(columns, in.Header.Headline)
	default:
		columns = hideByDefault(columns)
	}
	out := lists.Map(lists.GroupBy(in.Rows, dataset.BenchPart), func(g lists.Group[string, dataset.Set]) Table {
		t := newTable(g.Key, columns, lines(g.Items, opts.PerTrial), opts.MaxRows)
		t.chosen = len(opts.Columns) > 0
		return t
	})
	note := SingleNote
	if slices.ContainsFunc(out, func(t Table) bool { return t.repeated }) {
		note = LaunchesNote
	}
	for i := range out {
		if out[i].single {
			out[i].Note = note
		}
	}
	return out, nil
}

// newTable lays out the table of one bench or part: it chooses the columns, moves constant ones
// above the table, and cuts the middle out of a table of more than maxRows lines.
func newTable(title string, columns []Column, ls []Line, maxRows int) Table {
	t := Table{Title: texttab.Plain(title), all: ls, Lines: slices.Clone(ls)}
	aggregate := slices.ContainsFunc(ls, func(l Line) bool { return len(l.Rows) > 1 })
	from, to := 0, 0
	if maxRows > 0 && len(ls) > maxRows {
		from, to = (maxRows+1)/2, len(ls)-maxRows/2
		t.gap, t.gapAt = gapText(ls[from:to]), from
		t.Lines = slices.Delete(t.Lines, from, to)
	}
	modesShown := slices.ContainsFunc(columns, func(c Column) bool { return c.Role == Modes })
	for _, c := range columns {
		if !c.chosen && roles[c.Role].elsewhere {
			continue
		}
		if c.hidden {
			if column, _ := cells(c, ls); slices.ContainsFunc(column, func(text string) bool { return text != "" }) {
				t.Hidden++
			}
			continue
		}
		c.aggregate = aggregate
		c = c.scaled(ls)
		var column []string
		var constant bool
		if c.Role == Reason {
			column, t.Legend = marks(ls, modesShown)
			t.Legend = explained(t.Legend, column[:from], column[to:])
		} else {
			column, constant = cells(c, ls)
		}
		if c.Role == Between {
			t.single = t.single || c.hasGap(column, ls)
			t.repeated = t.repeated || c.shown(column, constant)
		}
		if !c.shown(column, constant) {
			value, _ := lists.First(column, func(text string) bool { return text != "" })
			if c.lifted(value, constant) {
				t.Constants = append(t.Constants, c.Heading()+"="+value)
			}
			continue
		}
		t.Columns = append(t.Columns, c)
		for i, text := range slices.Delete(column, from, to) {
			t.Lines[i].Cells = append(t.Lines[i].Cells, text)
		}
	}
	return t
}

// marks returns a cell with the marks of each line's remarks, and the legend of the marks.
func marks(ls []Line, modesShown bool) (column, legend []string) {
	var l texttab.Legend
	footnote := journal.Footnotes(slices.Concat(lists.Map(ls, func(x Line) []*journal.Row { return x.Rows })...))
	column = lists.Map(ls, func(x Line) string { return l.Mark(x.remarks(modesShown, footnote)...) })
	return column, l.Lines("line", "lines")
}

// hiddenRemarks is the largest number of remarks about lines that are left out.
const hiddenRemarks = 2

// explained returns the lines of a legend whose marks the table has, and some of the others.
func explained(legend []string, columns ...[]string) []string {
	used := map[string]bool{}
	for _, cell := range slices.Concat(columns...) {
		for _, mark := range strings.Fields(cell) {
			used[mark] = true
		}
	}
	hidden := 0
	return lists.Filter(legend, func(text string) bool {
		mark, _, _ := strings.Cut(text, ":")
		if used[mark] {
			return true
		}
		hidden++
		return hidden <= hiddenRemarks
	})
}

// cells returns the texts of one column, and whether they are all the same. Rows without numbers have no kind.
func cells(c Column, ls []Line) (column []string, constant bool) {
	column = lists.Map(ls, c.text)
	first, _ := lists.First(column, func(text string) bool { return text != "" || c.Role != Kind })
	return column, !slices.ContainsFunc(column, func(text string) bool {
		return text != first && !(text == "" && c.Role == Kind)
	})
}

// hasGap reports whether the cell of a measured line is empty.
func (c Column) hasGap(column []string, ls []Line) bool {
	for i, text := range column {
		if text == "" && slices.ContainsFunc(ls[i].Rows, c.measures) {
			return true
		}
	}
	return false
}

// shown reports whether a column is part of the table.
func (c Column) shown(column []string, constant bool) bool {
	if c.chosen {
		return true
	}
	switch c.Role {
	case Metric, Spread, Between, Reason, Quality, Modes, Detail:
		return slices.ContainsFunc(column, func(s string) bool { return s != "" })
	case Status:
		return slices.ContainsFunc(column, func(s string) bool { return s != string(journal.OK) })
	}
	return !constant
}

// lifted reports whether a constant column is shown above the table. Options and axes at their
// defaults are not; csv has them.
func (c Column) lifted(value string, constant bool) bool {
	if !constant || value == "" {
		return false
	}
	switch c.Role {
	case NumRanks, Backend, Env, Samples, Limit:
		return true
	case Axis:
		return !c.atDefault
	case Kind:
		return value != string(journal.Measured)
	case Trial:
		return c.aggregate
	}
	return false
}

// gapText describes the lines left out of a long table, and how many of them are not ok.
func gapText(ls []Line) string {
	notOK := ""
	if bad := len(lists.Filter(ls, func(l Line) bool { return l.Status() != journal.OK })); bad > 0 {
		notOK = fmt.Sprintf(", %d of them not ok", bad)
	}
	return fmt.Sprintf("%s %s left out%s; --format csv shows all", texttab.Ellipsis, unit.Plural(len(ls), "line"), notOK)
}

// summary counts the points of all tables by status, with the first reason:
// "36 points: 34 ok, 1 failed (rank 3 crashed), 1 skipped (needs respawn)".
func summary(tables []Table) string {
	counts := map[journal.Status]int{}
	reasons := map[journal.Status][]string{}
	points := map[string]journal.Status{}
	for _, t := range tables {
		for _, l := range t.all {
			w := worstOf(l.Rows)
			key := dataset.Key(w)
			if severity[w.Status] >= severity[points[key]] {
				points[key] = w.Status
			}
			if w.Status != journal.OK && w.Reason != "" {
				reasons[w.Status] = append(reasons[w.Status], texttab.Plain(string(w.Reason)))
			}
		}
	}
	if len(points) == 0 {
		return "no points"
	}
	for _, status := range points {
		counts[status]++
	}
	var parts []string
	for _, status := range journal.Statuses {
		if counts[status] == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", counts[status], status)
		if why := lists.Distinct(reasons[status]); len(why) > 0 {
			more := ""
			if len(why) > 1 {
				more = "; " + unit.Plural(len(why)-1, "more reason")
			}
			part += " (" + texttab.Shorten(why[0], maxSummaryReason) + more + ")"
		}
		parts = append(parts, part)
	}
	return unit.Plural(len(points), "point") + ": " + strings.Join(parts, ", ")
}

// maxSummaryReason limits a reason, so that the summary fits on a line.
const maxSummaryReason = 60
