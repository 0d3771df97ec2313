package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/export"
)

const (
	// maxRows is the largest number of rows on a page. Browsers become slow with more.
	maxRows = 2000
	// maxOutput is how much of a failed rank's output a page shows, in bytes.
	maxOutput = 4000
	// maxRankEnds is the largest number of ranks that are listed for a failed row.
	maxRankEnds = 16
)

// tables returns the tables of rows for a page, one line per row, and a sentence about rows that are left out.
func tables(h *journal.Header, rows dataset.Set) (out []document.Table, omitted string) {
	if len(rows) > maxRows {
		omitted = fmt.Sprintf("%d of %d rows are shown", maxRows, len(rows))
		if bad := len(rows) - maxRows - len(rows[maxRows:].Good()); bad > 0 {
			omitted += fmt.Sprintf("; of those left out, %d are not ok", bad)
		}
		omitted += ". All are in rows.csv."
		rows = rows[:maxRows]
	}
	// Only a chosen column can be unknown.
	made, _ := export.Tables(export.Input{Header: h, Rows: rows}, export.Options{PerTrial: true})
	noted := false // the note is shown once
	return lists.Map(made, func(t export.Table) document.Table {
		if i := slices.IndexFunc(t.Columns, func(c export.Column) bool { return c.Role == export.Reason }); i >= 0 {
			t = t.Without(i) // the reason is shown below the row
		}
		out := NewTable(t, t.Lines)
		for i, l := range t.Lines {
			out.Rows[i].Trouble = trouble(l.Rows[0])
		}
		if noted {
			out.Note = ""
		}
		noted = noted || out.Note != ""
		out.Legend = nil
		return out
	}), omitted
}

// NewTable returns some lines of a table for a page.
func NewTable(t export.Table, lines []export.Line) document.Table {
	// The lists are never nil: the web page reads them as JSON arrays.
	out := document.Table{Title: t.Title, Constants: append([]string{}, t.Constants...), Legend: t.Legend, Note: t.Note}
	out.Columns = lists.Map(t.Columns, func(c export.Column) document.Column {
		return document.Column{Name: c.Name, Title: c.Heading(), Numeric: c.Numeric}
	})
	out.Rows = lists.Map(lines, func(l export.Line) document.TableRow {
		row := document.TableRow{Status: document.StatusClass(l.Status()), Point: dataset.Key(l.Rows[0]),
			Disturbed: !slices.ContainsFunc(l.Rows, func(r *journal.Row) bool { return !r.Disturbed() })}
		for i, text := range l.Cells {
			cell := document.Cell{Text: text, Exact: t.Exact(l, i)}
			switch t.Columns[i].Role {
			case export.Status:
				cell.Class = row.Status
			case export.Quality:
				if text != "" {
					cell.Class = document.StatusClass(journal.Skipped)
				}
			}
			row.Cells = append(row.Cells, cell)
		}
		return row
	})
	return out
}

// trouble describes what is known about a row: why it failed, followed by the conditions of its measurement.
func trouble(r *journal.Row) (t document.Trouble) {
	if r.Status == journal.OK {
		t.Reason = strings.Join(r.Conditions.Sentences(), "; ")
		return t
	}
	t.Reason = strings.Join(append(lists.NonEmpty(r.Why()), r.Conditions.Sentences()...), "; ")
	t.Output, t.Ranks = Tail(r.Output), rankEnds(r.Ranks)
	if r.Launch != "" {
		t.Logs = "logs/" + r.Launch
	}
	return t
}

// Failure is a row without a result, with the end of its output.
type Failure struct {
	Point  string `json:"point"`
	Trial  int    `json:"trial"`
	Status string `json:"status"`
	document.Trouble
}

// NewFailure describes a failed row.
func NewFailure(r *journal.Row) Failure {
	return Failure{dataset.Label(r), r.Trial, string(r.Status), trouble(r)}
}

// rankEnds describes how the first ranks of a failed row ended.
func rankEnds(ends []journal.RankEnd) (texts []string) {
	for i, e := range ends {
		if i == maxRankEnds {
			return append(texts, fmt.Sprintf("and %d more ranks, in journal.jsonl", len(ends)-i))
		}
		texts = append(texts, e.String())
	}
	return texts
}

// ansiRE matches the color codes that programs print for terminals.
var ansiRE = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// Tail returns the end of a program's output without color codes, starting at a line
// if possible.
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

// lost is the status that a page gives to rows of a run that were recorded and cannot be read.
const lost journal.Status = "lost"

// countStatuses counts the rows of a run by status: the known statuses first, in their order, and lost rows last.
func countStatuses(d *dataset.Dataset, rows dataset.Set) (out []document.Count) {
	for _, s := range journal.Statuses {
		out = append(out, document.Count{Status: s})
	}
	for i := range rows {
		at := slices.IndexFunc(out, func(c document.Count) bool { return c.Status == rows[i].Status })
		if at < 0 {
			at = len(out)
			out = append(out, document.Count{Status: rows[i].Status})
		}
		out[at].N++
	}
	slices.SortFunc(out[len(journal.Statuses):], func(a, b document.Count) int { return cmp.Compare(a.Status, b.Status) })
	out = append(out, document.Count{Status: lost, N: d.Lost()})
	return lists.Filter(out, func(c document.Count) bool { return c.N > 0 })
}
