package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

// pageRows is the number of rows that are sent at once.
const pageRows = 200

// rowPage is a part of the tables of a run.
type rowPage struct {
	Tables []document.Table `json:"tables"`
	Total  int              `json:"total"` // lines of all tables
	From   int              `json:"from"`
	Points int              `json:"points"`           // lines if each is a point
	Trials bool             `json:"trials,omitempty"` // some point has several trials
	Hidden int              `json:"hidden"`           // columns that the bench does not declare as headlines
}

// tableKey identifies the tables of a view.
type tableKey struct {
	sort       string
	perTrial   bool
	allColumns bool
}

// tablesFor returns the tables of a view, made once.
func (v *view) tablesFor(key tableKey) ([]export.Table, error) {
	if tables, ok := v.tables[key]; ok {
		return tables, nil
	}
	rows, opts := v.rows, export.Options{PerTrial: key.perTrial}
	if key.sort != "" {
		sorted, err := export.Sort(&v.run.Header, rows, []string{key.sort})
		if err != nil {
			return nil, badRequest{err}
		}
		rows = sorted
	}
	if key.allColumns {
		opts.Columns = []string{export.AllColumns}
	}
	tables, err := export.Tables(export.Input{Header: &v.run.Header, Rows: rows}, opts)
	if err == nil {
		if len(v.tables) >= maxViews {
			clear(v.tables)
		}
		v.tables[key] = tables
	}
	return tables, err
}

// rows answers with pageRows lines of the tables of a view from a given line on, sorted by a column: one line
// per point, or with trials=each one per trial. columns=all adds the columns that are no headlines.
func (s *Server) rows(r *http.Request) (out any, err error) {
	q := r.URL.Query()
	from := 0
	if text := q.Get("from"); text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return nil, badRequest{fmt.Errorf("from=%q: want the number of a row, from 0", text)}
		}
	}
	key := tableKey{q.Get("sort"), q.Get("trials") == "each", q.Get("columns") == export.AllColumns}
	err = s.withView(r, func(_ *cachedJournal, v *view) error {
		tables, err := v.tablesFor(key)
		if err != nil {
			return err
		}
		out = newRowPage(tables, from, v.rows)
		return nil
	})
	return out, err
}

// newRowPage returns the lines of all tables from a given one on, at most pageRows.
func newRowPage(tables []export.Table, from int, rows dataset.Set) rowPage {
	page := rowPage{Tables: []document.Table{}}
	for _, t := range tables {
		page.Total += len(t.Lines)
		page.Hidden = max(page.Hidden, t.Hidden)
	}
	page.From = min(from, page.Total)
	page.Points = len(rows.Points())
	page.Trials = page.Points < len(rows)
	before, left := 0, pageRows
	for _, t := range tables {
		first := min(max(page.From-before, 0), len(t.Lines))
		before += len(t.Lines)
		if lines := t.Lines[first:min(first+left, len(t.Lines))]; len(lines) > 0 {
			page.Tables = append(page.Tables, report.NewTable(t, lines))
			left -= len(lines)
		}
	}
	return page
}
