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

// section is one table: the lines of one bench or part. Constant columns are shown above it.
type section struct {
	title     string   // bench or bench/part
	constants []string // NAME=VALUE of the constant columns
	columns   []Column
	lines     []line // without the lines of the gap
	cells     [][]string
	gap       string   // text in place of the lines left out, "" if none were
	gapAt     int      // index of the line after the gap
	legend    []string // explains the marks in the lines
	single    bool     // some line has one launch only, so that its spread between launches is unknown
	repeated  bool     // the table shows the spread between launches of some line
	hidden    int      // columns with values that the bench does not declare as headlines
	chosen    bool     // the reader chose the columns
}

// sections splits the rows into tables in order of appearance. It also returns the lines of
// all tables, for the summary.
func sections(in Input, opts Options) ([]section, []line, error) {
	columns, err := choose(Columns(in.Header, in.Rows), opts.Columns)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case len(opts.Columns) > 0: // the reader chooses
	case in.Header != nil && len(in.Header.Headline) > 0:
		columns = headlines(columns, in.Header.Headline)
	default:
		columns = hideByDefault(columns)
	}
	var out []section
	var all []line
	for _, g := range dataset.GroupBy(in.Rows, dataset.BenchPart) {
		ls := lines(g.Rows, opts.PerTrial)
		all = append(all, ls...)
		s := newSection(g.Key, columns, ls, opts.MaxRows)
		s.chosen = len(opts.Columns) > 0
		out = append(out, s)
	}
	return out, all, nil
}

// newSection lays out the table of one bench or part: it chooses the columns, moves constant ones
// above the table, and cuts the middle out of a table of more than maxRows lines.
func newSection(title string, columns []Column, ls []line, maxRows int) section {
	s := section{title: texttab.Plain(title)}
	aggregate := slices.ContainsFunc(ls, func(l line) bool { return len(l.rows) > 1 })
	shown, from, to := ls, 0, 0
	if maxRows > 0 && len(ls) > maxRows {
		from, to = (maxRows+1)/2, len(ls)-maxRows/2
		s.gap, s.gapAt = gapText(ls[from:to]), from
		shown = slices.Concat(ls[:from], ls[to:])
	}
	s.lines = shown
	modesShown := slices.ContainsFunc(columns, func(c Column) bool { return c.Role == Modes })
	var shownCells [][]string // by column
	for _, c := range columns {
		if !c.chosen && c.Role.Elsewhere() {
			continue
		}
		if c.hidden {
			if column, _ := cells(c, ls); slices.ContainsFunc(column, func(text string) bool { return text != "" }) {
				s.hidden++
			}
			continue
		}
		c.aggregate = aggregate
		c = c.scaled(ls)
		var column []string
		var constant bool
		if c.Role == Reason {
			column, s.legend = marks(ls, modesShown)
			s.legend = explained(s.legend, column[:from], column[to:])
		} else {
			column, constant = cells(c, ls)
		}
		if c.Role == Between {
			s.single = s.single || c.hasGap(column, ls)
			s.repeated = s.repeated || c.shown(column, constant)
		}
		if !c.shown(column, constant) {
			value, _ := lists.First(column, func(text string) bool { return text != "" })
			if c.lifted(value, constant) {
				s.constants = append(s.constants, c.heading()+"="+value)
			}
			continue
		}
		s.columns = append(s.columns, c)
		if s.gap != "" {
			column = slices.Concat(column[:from], column[to:])
		}
		shownCells = append(shownCells, column)
	}
	all := make([]string, 0, len(shown)*len(shownCells))
	s.cells = make([][]string, len(shown))
	for i := range s.cells {
		for _, column := range shownCells {
			all = append(all, column[i])
		}
		s.cells[i] = all[len(all)-len(shownCells) : len(all) : len(all)]
	}
	return s
}

// marks returns a cell with the marks of each line's remarks, and the legend of the marks.
func marks(ls []line, modesShown bool) (column, legend []string) {
	var l texttab.Legend
	footnote := journal.Footnotes(slices.Concat(lists.Map(ls, func(x line) []*journal.Row { return x.rows })...))
	column = lists.Map(ls, func(x line) string { return l.Mark(x.remarks(modesShown, footnote)...) })
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
func cells(c Column, ls []line) (column []string, constant bool) {
	column = lists.Map(ls, c.text)
	first, _ := lists.First(column, func(text string) bool { return text != "" || c.Role != Kind })
	return column, !slices.ContainsFunc(column, func(text string) bool {
		return text != first && !(text == "" && c.Role == Kind)
	})
}

// hasGap reports whether the cell of a measured line is empty.
func (c Column) hasGap(column []string, ls []line) bool {
	for i, text := range column {
		if text == "" && slices.ContainsFunc(ls[i].rows, c.Measures) {
			return true
		}
	}
	return false
}

// launchesNote returns the note about single launches if some table needs it, else "".
func launchesNote(secs []section) string {
	switch {
	case !slices.ContainsFunc(secs, func(s section) bool { return s.single }):
		return ""
	case slices.ContainsFunc(secs, func(s section) bool { return s.repeated }):
		return LaunchesNote
	}
	return SingleNote
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
func gapText(ls []line) string {
	notOK := ""
	if bad := len(lists.Filter(ls, func(l line) bool { return l.worst().Status != journal.OK })); bad > 0 {
		notOK = fmt.Sprintf(", %d of them not ok", bad)
	}
	return fmt.Sprintf("%s %s left out%s; --format csv shows all", texttab.Ellipsis, unit.Plural(len(ls), "line"), notOK)
}

// summary counts the points by status, with the first reason:
// "36 points: 34 ok, 1 failed (rank 3 crashed), 1 skipped (needs respawn)".
func summary(ls []line) string {
	counts := map[journal.Status]int{}
	reasons := map[journal.Status][]string{}
	points := make(map[string]journal.Status, len(ls))
	for _, l := range ls {
		w := l.worst()
		if severity[w.Status] >= severity[points[l.key]] {
			points[l.key] = w.Status
		}
		if w.Status != journal.OK && w.Reason != "" {
			reasons[w.Status] = append(reasons[w.Status], texttab.Plain(string(w.Reason)))
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
