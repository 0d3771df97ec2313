package web

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

// pageRows is the number of rows that are sent at once.
const pageRows = 200

// rowPage is a part of the table of rows.
type rowPage struct {
	document.Table
	Total int `json:"total"`
	From  int `json:"from"`
}

// rows answers with a part of the table: pageRows rows of a view from a given row on,
// sorted by a column.
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
		set := rowset.All(rows)
		from = min(from, len(set))
		// The page has no heading that would name the part.
		columns := slices.DeleteFunc(slices.Clone(v.columns), func(c export.Column) bool {
			return c.Role != export.Part && c.Role.Elsewhere()
		})
		out = rowPage{report.RowTable(columns, set, set[from:min(from+pageRows, len(set))]), len(set), from}
		return nil
	})
	return out, err
}

// csv sends all rows of a view.
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
	w.Write(text.Bytes()) // an error means that the reader has gone
}
