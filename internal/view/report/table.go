package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/view/export"
)

const (
	// maxRows is how many rows a page shows; browsers become slow beyond.
	maxRows = 2000
	// maxOutput is how much of a failed rank's last output a page shows, in bytes.
	maxOutput = 4000
	// maxRankEnds is how many ranks of a failed row are listed.
	maxRankEnds = 16
)

// table is the rows of one bench or part, one line each.
type table struct {
	Title     string
	Constants []string // name=value, true of every line
	Head      []heading
	Rows      []tableRow
}

type heading struct {
	Text    string
	Numeric bool
}

type tableRow struct {
	Cells  []Cell
	Reason string   // what went wrong, in one line
	Output string   // what the rank printed last
	Ranks  []string // how each rank ended
	Logs   string   // where all of its output is
	Width  int      // columns of the line below that shows these
}

// Cell is what a table shows of a row in one column.
type Cell struct {
	Text    string
	Exact   string // the full value, where the text is rounded
	Status  string // the class of a status cell
	Numeric bool
}

// tables are the rows for the page, and a sentence about those left out.
func tables(h *journal.Header, rows []journal.Row) (out []table, cut string) {
	columns := export.Columns(h, rows)
	if len(rows) > maxRows {
		cut = fmt.Sprintf("%d of %d rows are shown", maxRows, len(rows))
		if bad := len(rows) - maxRows - len(rowset.Good(rows[maxRows:])); bad > 0 {
			cut += fmt.Sprintf("; of those left out, %d are not ok", bad)
		}
		cut += ". All are in rows.csv."
		rows = rows[:maxRows]
	}
	groups := rowset.GroupBy(rowset.All(rows), rowset.BenchPart)
	return lists.Map(groups, func(g rowset.Group[string]) table { return newTable(g.Key, columns, g.Rows) }), cut
}

func newTable(title string, columns []export.Column, rows []*journal.Row) table {
	t := table{Title: title, Rows: make([]tableRow, len(rows))}
	for _, c := range columns {
		cells, constant := cellsOf(c, rows)
		if c.Role.Elsewhere() {
			continue
		}
		switch c.Role {
		case export.Reason:
			continue // below the line
		case export.Quality:
			if !slices.ContainsFunc(rows, func(r *journal.Row) bool { return r.Disturbed() != "" }) {
				continue
			}
		case export.Status, export.Metric:
			// always worth a column, if there is anything in it
		default:
			if constant && len(rows) > 1 {
				if cells[0].Text != "" && c.Role != export.Spread && c.Role != export.Trial {
					t.Constants = append(t.Constants, c.Title()+"="+cells[0].Text)
				}
				continue
			}
		}
		if constant && cells[0].Text == "" {
			continue
		}
		t.Head = append(t.Head, heading{c.Title(), cells[0].Numeric})
		for i := range rows {
			t.Rows[i].Cells = append(t.Rows[i].Cells, cells[i])
		}
	}
	for i, r := range rows {
		line := &t.Rows[i]
		line.Reason, line.Width = Reason(r), len(t.Head)
		if r.Status != journal.OK {
			line.Output = Tail(r.Output)
			line.Ranks = RankEnds(r.Ranks)
			if r.Launch != "" {
				line.Logs = "logs/" + r.Launch
			}
		}
	}
	return t
}

// RankEnds say how the ranks of a failed row ended, the first ones of many.
func RankEnds(ends []journal.RankEnd) (texts []string) {
	for i, e := range ends {
		if i == maxRankEnds {
			return append(texts, fmt.Sprintf("and %d more ranks, in journal.jsonl", len(ends)-i))
		}
		texts = append(texts, e.String())
	}
	return texts
}

func cellsOf(c export.Column, rows []*journal.Row) (cells []Cell, constant bool) {
	constant, numeric := true, true
	cells = make([]Cell, len(rows))
	for i, r := range rows {
		cells[i] = CellOf(c, r)
		constant = constant && cells[i].Exact == cells[0].Exact
		if _, err := strconv.ParseFloat(cells[i].Exact, 64); err != nil && cells[i].Exact != "" {
			numeric = false
		}
	}
	for i := range cells {
		cells[i].Numeric = numeric
	}
	return cells, constant
}

// CellOf rounds what was measured and shortens sizes; the exact value stays
// beside it.
func CellOf(c export.Column, r *journal.Row) Cell {
	exact := c.Value(r)
	out := Cell{Text: exact, Exact: exact}
	switch c.Role {
	case export.Samples:
		if r.Samples == 0 {
			return Cell{}
		}
	case export.Status:
		out.Status = StatusClass(r.Status)
	case export.Quality:
		if out = (Cell{}); r.Disturbed() != "" {
			out.Text, out.Status = string(journal.QualityDisturbed), "skipped"
		}
	case export.Axis:
		if v, ok := r.Point.Get(c.Key); ok {
			out.Text = v.Pretty()
		}
	case export.Option:
		if v, ok := r.Options.Get(c.Key); ok {
			out.Text = v.Pretty()
		}
	case export.Metric, export.Limit, export.Spread:
		v, err := strconv.ParseFloat(exact, 64)
		if err != nil {
			break
		}
		out.Text = unit.FormatMetric(v)
		if c.Role == export.Spread {
			out.Text = strconv.FormatFloat(v, 'f', 1, 64) + "%"
		}
	}
	return out
}

// StatusClass is how the page colours a status; an unknown one is no good news.
func StatusClass(s journal.Status) string {
	switch s {
	case journal.OK:
		return "ok"
	case journal.Skipped, journal.NotExecuted:
		return "skipped"
	}
	return "failed"
}

// Reason is what to know of a row beside its numbers.
func Reason(r *journal.Row) string {
	parts := r.Warnings
	if why := r.Why(); r.Status != journal.OK && why != "" {
		parts = append([]string{why}, parts...)
	}
	return strings.Join(parts, "; ")
}

// ansiRE matches the colour codes that programs print for terminals.
var ansiRE = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// Tail is the end of an output, whole lines where possible.
func Tail(s string) string {
	s = strings.TrimRight(ansiRE.ReplaceAllString(s, ""), "\n")
	if len(s) <= maxOutput {
		return s
	}
	s = s[len(s)-maxOutput:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < maxOutput/2 {
		s = s[i+1:]
	}
	return "…\n" + strings.ToValidUTF8(s, "")
}
