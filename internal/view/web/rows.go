package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

// pageRows is how many rows are sent at once.
const pageRows = 200

// rowPage is a stretch of the table.
type rowPage struct {
	Columns   []column   `json:"columns"`
	Constants []string   `json:"constants"` // name=value, true of every row
	Total     int        `json:"total"`
	From      int        `json:"from"`
	Rows      []tableRow `json:"rows"`
}

type column struct {
	Name    string `json:"name"` // for sorting
	Title   string `json:"title"`
	Numeric bool   `json:"numeric"`
}

type tableRow struct {
	Cells  []cell `json:"cells"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Point  string `json:"point"` // its identity, for the history
}

type cell struct {
	Text  string `json:"t"`
	Exact string `json:"x,omitempty"` // where the text is rounded
}

// rows is a stretch of the table: which run and rows, sorted by a column, from a place on.
func (s *Server) rows(r *http.Request) (out any, err error) {
	q := r.URL.Query()
	from := 0
	if text := q.Get("from"); text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return nil, badRequest{fmt.Errorf("from=%q: want the number of a row, from 0", text)}
		}
	}
	err = s.look(r, func(_ *book, v *view) error {
		rows := v.rows
		if by := q.Get("sort"); by != "" {
			if rows, err = export.Sort(&v.run.Header, rows, []string{by}); err != nil {
				return badRequest{err}
			}
		}
		out = v.stretch(rows, min(from, len(rows)))
		return nil
	})
	return out, err
}

// stretch words some rows of a view. Columns that are the same in all rows stand above them.
func (v *view) stretch(rows []journal.Row, from int) rowPage {
	out := rowPage{Columns: []column{}, Constants: []string{}, Total: len(rows), From: from, Rows: []tableRow{}}
	shown := rows[from:min(from+pageRows, len(rows))]
	for i := range shown {
		r := &shown[i]
		out.Rows = append(out.Rows, tableRow{Status: report.StatusClass(r.Status), Reason: report.Reason(r),
			Point: rowset.Key(r)})
	}
	for _, c := range v.columns {
		if c.Role == export.Reason || c.Role != export.Part && c.Role.Elsewhere() { // in the heading, or below the row
			continue
		}
		first, constant := "", true
		for i := range rows {
			if value := c.Value(&rows[i]); i == 0 {
				first = value
			} else if value != first {
				constant = false
				break
			}
		}
		if constant && (first == "" || c.Role == export.Trial || c.Role == export.Quality) {
			continue
		}
		if constant && len(rows) > 1 && c.Role != export.Status && c.Role != export.Metric {
			out.Constants = append(out.Constants, c.Title()+"="+first)
			continue
		}
		numeric, any := true, false
		for i := range shown {
			made := report.CellOf(c, &shown[i])
			if _, err := strconv.ParseFloat(made.Exact, 64); err != nil && made.Exact != "" {
				numeric = false
			}
			any = any || made.Exact != ""
			if made.Exact == made.Text {
				made.Exact = ""
			}
			out.Rows[i].Cells = append(out.Rows[i].Cells, cell{made.Text, made.Exact})
		}
		out.Columns = append(out.Columns, column{c.Name, c.Title(), numeric && any})
	}
	return out
}

// csv sends all the rows of a view.
func (s *Server) csv(w http.ResponseWriter, r *http.Request) {
	var text bytes.Buffer
	name := ""
	err := s.look(r, func(_ *book, v *view) error {
		name = v.run.ID()
		return export.Write(&text, "csv", export.Input{Header: &v.run.Header, Rows: v.rows}, export.Options{})
	})
	if err != nil {
		s.fail(w, err)
		return
	}
	plain := strings.Map(func(c rune) rune {
		if c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			return c
		}
		return '_'
	}, name)
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+plain+`.csv"`)
	w.Write(text.Bytes()) // the reader who has gone does not miss it
}
