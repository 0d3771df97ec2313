package views

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Export is a file with a line for each ok row: CSV, or JSON if its name ends in .json.
type Export struct {
	Name  string
	Where string // chooses rows, in the language of --only
	// Columns are the columns, each NAME, NAME=QUANTITY or NAME=QUANTITY FORMAT. A quantity is a coordinate, a detail such
	// as detail.fabric, or what a plot may have on x. JSON ignores the format, and a column * has the members of a detail
	// that is a JSON object.
	Columns []string
}

// Needed reports whether the file must be written: whether rows are chosen, even if all have failed.
func (e Export) Needed(rows dataset.Set) bool { return len(choose(nil, rows, e.Where)) > 0 }

// exported is a column of a file.
type exported struct {
	name, format string
	text         func(r *journal.Row) string
	number       func(r *journal.Row) (v float64, has bool) // nil for a text
}

func newExported(column string, rows dataset.Set) (c exported, err error) {
	name, of, _ := strings.Cut(column, "=")
	if of == "" {
		of = name
	}
	of, format, _ := strings.Cut(of, " ")
	c.name, c.format = name, format
	if detail, is := strings.CutPrefix(of, "detail."); is {
		c.text = func(r *journal.Row) string { return r.Details[detail] }
		return c, nil
	}
	if coord, err := dataset.FindCoord(rows.Coords(nil), of); err == nil {
		c.text = func(r *journal.Row) string { return coord.Of(r).Point.String() }
		if v := coord.Of(rows[0]).Point; v.Kind().Numeric() {
			c.number = func(r *journal.Row) (float64, bool) { return coord.Of(r).Number() }
		}
		return c, nil
	}
	q, err := quantityOf(&journal.Header{}, rows, of)
	c.number = func(r *journal.Row) (float64, bool) { v, _, _, has := q.value(r); return v, has }
	return c, err
}

// cell returns the value of a row as text.
func (c exported) cell(r *journal.Row) string {
	if c.number == nil || c.format == "" && c.text != nil {
		return c.text(r)
	}
	v, has := c.number(r)
	switch {
	case !has:
		return ""
	case c.format == "":
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprintf(c.format, v)
}

func (e Export) columns(rows dataset.Set) ([]exported, error) {
	columns, err := lists.TryMap(e.Columns, func(c string) (exported, error) { return newExported(c, rows) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	return columns, nil
}

// Table returns the lines, after one with the names of the columns. Without rows it returns none.
func (e Export) Table(rows dataset.Set) ([][]string, error) {
	rows = choose(nil, rows, e.Where).Good()
	if len(rows) == 0 {
		return nil, nil
	}
	columns, err := e.columns(rows)
	columns = lists.Filter(columns, func(c exported) bool { return c.name != "*" })
	table := [][]string{lists.Map(columns, func(c exported) string { return c.name })}
	for _, r := range rows {
		table = append(table, lists.Map(columns, func(c exported) string { return c.cell(r) }))
	}
	return table, err
}

// Encode returns the contents of the file, or nil without rows.
func (e Export) Encode(rows dataset.Set) ([]byte, error) {
	if path.Ext(e.Name) == ".json" {
		return e.json(choose(nil, rows, e.Where).Good())
	}
	table, err := e.Table(rows)
	if len(table) == 0 || err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = csv.NewWriter(&b).WriteAll(table)
	return b.Bytes(), err
}

// json returns an array of objects, with their members in the order of the columns. Empty texts are left out.
func (e Export) json(rows dataset.Set) ([]byte, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	columns, err := e.columns(rows)
	if err != nil {
		return nil, err
	}
	objects := lists.Map(rows, func(r *journal.Row) string {
		members := lists.Map(columns, func(c exported) string { return c.member(r) })
		return "{" + strings.Join(lists.NonEmpty(members...), ",") + "}"
	})
	var b bytes.Buffer
	if err := json.Indent(&b, []byte("["+strings.Join(objects, ",")+"]"), "", "  "); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// member returns the column as members of a JSON object.
func (c exported) member(r *journal.Row) string {
	if c.name == "*" {
		return strings.TrimSuffix(strings.TrimPrefix(c.text(r), "{"), "}")
	}
	var value any
	if v, has := 0.0, false; c.number != nil {
		if v, has = c.number(r); !has {
			return ""
		}
		value = v
	} else if text := c.text(r); text != "" {
		value = text
	} else {
		return ""
	}
	name, _ := json.Marshal(c.name) // neither texts nor finite numbers can fail
	data, _ := json.Marshal(value)
	return string(name) + ":" + string(data)
}
