package export

import (
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Table is the table that the terminal shows for one bench or part, for views that lay it out themselves.
type Table struct {
	Title     string
	Constants []string // NAME=VALUE of the constant columns
	Columns   []TableColumn
	Lines     []TableLine
	Legend    []string // explains the marks in the lines
	Hidden    int      // number of columns that only --columns all shows
	Note      string   // explains empty cells

	columns []Column
}

// TableColumn is the heading of a column.
type TableColumn struct {
	Name    string // for Sort
	Title   string
	Numeric bool
}

// TableLine is one line: a point with its trials, or one trial.
type TableLine struct {
	Cells  []string
	Rows   dataset.Set    // its trials
	Status journal.Status // the worst of its trials

	line line
}

// Tables returns the tables that the default format prints, without its limits of width and length.
func Tables(in Input, opts Options) ([]Table, error) {
	secs, _, err := sections(in, opts)
	if err != nil {
		return nil, err
	}
	note := launchesNote(secs)
	return lists.Map(secs, func(s section) Table {
		t := Table{Title: s.title, Constants: s.constants, Legend: s.legend, Hidden: s.hidden, columns: s.columns}
		if s.single {
			t.Note = note
		}
		t.Columns = lists.Map(s.columns, func(c Column) TableColumn {
			return TableColumn{c.Name, c.heading(), c.numeric}
		})
		t.Lines = make([]TableLine, len(s.lines))
		for i, l := range s.lines {
			t.Lines[i] = TableLine{s.cells[i], l.rows, l.worst().Status, l}
		}
		return t
	}), nil
}

// Exact returns the value of a cell in full precision and in the unit of the row, or "" if the text says all.
func (t Table) Exact(l TableLine, column int) string {
	c := t.columns[column]
	text := ""
	switch {
	case len(l.Rows) == 1 && c.Role != Reason:
		text = c.Value(l.Rows[0])
	case c.Role == Metric:
		text = known(l.line.median(c.Key))
	}
	if text == l.Cells[column] {
		return ""
	}
	return text
}
