package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
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

// tables returns the tables of rows for a page, and a sentence about rows that are left out.
func tables(h *journal.Header, rows dataset.Set) (out []document.Table, omitted string) {
	columns := slices.DeleteFunc(export.Columns(h, rows), func(c export.Column) bool { return c.Role.Elsewhere() })
	if len(rows) > maxRows {
		omitted = fmt.Sprintf("%d of %d rows are shown", maxRows, len(rows))
		if bad := len(rows) - maxRows - len(rows[maxRows:].Good()); bad > 0 {
			omitted += fmt.Sprintf("; of those left out, %d are not ok", bad)
		}
		omitted += ". All are in rows.csv."
		rows = rows[:maxRows]
	}
	noted := false // the note is shown once
	return lists.Map(dataset.GroupBy(rows, dataset.BenchPart), func(g dataset.Group[string]) document.Table {
		t := rowTable(columns, g.Rows, g.Rows)
		t.Title = g.Key
		if noted {
			t.Note = ""
		}
		noted = noted || t.Note != ""
		return t
	}), omitted
}

// rowTable returns a table of the shown rows. Columns that have the same value in all rows become constants
// above the table, except for the status and the metrics.
func rowTable(columns []export.Column, all, shown dataset.Set) document.Table {
	// The lists are never nil: the web page reads them as JSON arrays.
	t := document.Table{Columns: []document.Column{}, Constants: []string{}, Rows: make([]document.TableRow, len(shown))}
	for i, r := range shown {
		t.Rows[i] = newTableRow(r)
	}
	for _, c := range columns {
		if c.Role == export.Reason || len(all) == 0 { // the reason is shown below the row
			continue
		}
		value := c.Value
		if c.Role == export.Quality { // the table shows only disturbances
			value = func(r *journal.Row) string { return cellOf(c, r).Text }
		}
		first, exact := cellOf(c, all[0]), value(all[0])
		if c.Role == export.Between {
			single := slices.ContainsFunc(shown, func(r *journal.Row) bool { return c.Measures(r) && value(r) == "" })
			repeated := slices.ContainsFunc(all, func(r *journal.Row) bool { return value(r) != "" })
			switch {
			case single && repeated:
				t.Note = export.LaunchesNote
			case single:
				t.Note = export.SingleNote
			}
			if !repeated {
				continue
			}
		} else if !slices.ContainsFunc(all, func(r *journal.Row) bool { return value(r) != exact }) {
			always := c.Role == export.Status || c.Role == export.Metric || c.Role == export.Quality || len(all) == 1
			if first.Text != "" && !always && c.Role != export.Spread && c.Role != export.Trial {
				t.Constants = append(t.Constants, c.Title()+"="+first.Text)
			}
			if first.Text == "" || !always {
				continue
			}
		}
		numeric := true
		for i, r := range shown {
			if text := c.Value(r); text != "" {
				_, err := strconv.ParseFloat(text, 64)
				numeric = numeric && err == nil
			}
			t.Rows[i].Cells = append(t.Rows[i].Cells, cellOf(c, r))
		}
		t.Columns = append(t.Columns, document.Column{Name: c.Name, Title: c.Title(), Numeric: numeric})
	}
	return t
}

// newTableRow returns everything about a row except its cells.
func newTableRow(r *journal.Row) document.TableRow {
	line := document.TableRow{Status: document.StatusClass(r.Status), Reason: reason(r), Point: dataset.Key(r)}
	if r.Status != journal.OK {
		line.Output, line.Ranks = Tail(r.Output), rankEnds(r.Ranks)
		if r.Launch != "" {
			line.Logs = "logs/" + r.Launch
		}
	}
	return line
}

// Failure is a row without a result, with the end of its output.
type Failure struct {
	Point  string   `json:"point"`
	Trial  int      `json:"trial"`
	Status string   `json:"status"`
	Reason string   `json:"reason"`
	Output string   `json:"output,omitempty"`
	Ranks  []string `json:"ranks,omitempty"`
	Logs   string   `json:"logs,omitempty"`
}

// NewFailure describes a failed row.
func NewFailure(r *journal.Row) Failure {
	t := newTableRow(r)
	return Failure{dataset.Label(r), r.Trial, string(r.Status), t.Reason, t.Output, t.Ranks, t.Logs}
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

// cellOf returns the cell of a row in a column. It rounds measured values and shortens sizes. If the text
// differs from the exact value, the cell has both.
func cellOf(c export.Column, r *journal.Row) document.Cell {
	exact := c.Value(r)
	out := document.Cell{Text: exact}
	switch c.Role {
	case export.Samples:
		if r.Samples == 0 {
			return document.Cell{}
		}
	case export.Status:
		out.Class = document.StatusClass(r.Status)
	case export.Quality:
		if !r.Disturbed() {
			return document.Cell{}
		}
		return document.Cell{Text: string(journal.QualityDisturbed), Class: "skipped"}
	case export.Axis:
		if v, ok := r.Point.Get(c.Key); ok {
			out.Text = v.Pretty()
		}
	case export.Option:
		if v, ok := r.Options.Get(c.Key); ok {
			out.Text = v.Pretty()
		}
	case export.Metric, export.Limit, export.Spread, export.Between:
		v, err := strconv.ParseFloat(exact, 64)
		if err != nil {
			break
		}
		out.Text = unit.FormatMetric(v)
		if c.Role == export.Spread || c.Role == export.Between {
			out.Text = strconv.FormatFloat(v, 'f', 1, 64) + "%"
		}
	}
	if out.Text != exact {
		out.Exact = exact
	}
	return out
}

// reason returns why a row failed, followed by what is known about its measurement.
func reason(r *journal.Row) string {
	why := ""
	if r.Status != journal.OK {
		why = r.Why()
	}
	return strings.Join(append(lists.NonEmpty(why), r.Conditions.Sentences()...), "; ")
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
