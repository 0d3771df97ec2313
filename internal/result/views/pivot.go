package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Pivot is a request for a table, such as rows=op+dtype,columns=size,value=busbw. Rows and Columns name coordinates,
// or rows=point means all that differ. A cell has the medians over the trials of each metric of Value. Without
// columns, each metric has a column of its own.
type Pivot struct {
	Rows    []string
	Columns string
	Value   []string // empty means the main metric
	Where   string   // chooses rows, in the language of --only
	Unit    string   // common: all times in one unit
	Show    string   // headline: printed at the end of a run; detail: folded away
	Words            // Title and Caption are the title and the text of the section; not part of the text form
}

// Table is a table with a title and a text. Its first line has the headings.
type Table struct {
	Title, Text string
	Cells       [][]string
}

const pivotForm = "want rows=AXIS[+AXIS...][,columns=AXIS][,value=METRIC[+METRIC...]], " +
	"such as rows=op,columns=size,value=gbps"

// ParsePivot parses the text form of a pivot. Without value it shows the main metric.
func ParsePivot(text string) (Pivot, error) {
	var p Pivot
	if err := parse(text, p.keys()); err != nil {
		return Pivot{}, fmt.Errorf("pivot %q: %w: %s", text, err, pivotForm)
	}
	return p, nil
}

func (p *Pivot) keys() []key {
	return []key{{name: "rows", list: &p.Rows, needed: true}, {name: "columns", text: &p.Columns},
		{name: "value", list: &p.Value},
		{name: "where", text: &p.Where},
		{name: "unit", text: &p.Unit, choices: []string{"common"}},
		{name: "show", text: &p.Show, choices: []string{"headline", "detail"}}}
}

// String returns the pivot in the form that ParsePivot reads.
func (p Pivot) String() string { return format(p.keys()) }

// plot returns the plot of the same values. It has the errors of unknown names, and finds what else separates points.
func (p Pivot) plot() Plot {
	plot := Plot{X: p.Columns, Y: p.Value, By: p.Rows, Where: p.Where, Words: p.Words}
	switch {
	case slices.Equal(p.Rows, []string{Points}):
		plot.X, plot.By = Points, nil
	case p.Columns == "":
		plot.X, plot.By = p.Rows[0], p.Rows[1:]
	}
	return plot
}

// Check returns an error if the rows of a planned run will not have the coordinates of the pivot.
func (p Pivot) Check(h *journal.Header, options point.Point) error { return p.plot().Check(h, options) }

// CheckMetric returns an error if a metric of the pivot is not one of the known metrics.
func (p Pivot) CheckMetric(h *journal.Header, options point.Point, known []journal.MetricInfo) error {
	return p.plot().CheckMetric(h, options, known)
}

// Table returns the table. It has no cells if no row has a value.
func (p Pivot) Table(h *journal.Header, rows dataset.Set) (Table, error) {
	if rows = choose(h, rows, p.Where); len(rows) == 0 {
		return Table{}, nil
	}
	plot := p.plot()
	plot.Where = ""
	d, dots, _, err := plot.resolve(h, rows)
	if err != nil {
		return Table{}, fmt.Errorf("pivot %s: %w", p, err)
	}
	dots = slices.DeleteFunc(dots, func(d dot) bool { return d.failed })
	if len(dots) == 0 {
		return Table{}, nil
	}
	t := Table{Title: expand(p.Title, rowsOf(dots)), Text: expand(p.Caption, rowsOf(dots))}
	if counted := lists.Filter(dots, func(d dot) bool { return !d.row.Disturbed() }); len(counted) < len(dots) {
		t.Text = strings.TrimSpace(t.Text + " Values in parentheses were disturbed while measured.")
	}
	heads := lists.Map(d.by, func(c dataset.Coord) string { return p.label(c.Name) })
	columns, at := bucket(dots, func(d dot) dataset.Value { return d.x })
	if p.Columns != "" {
		t.Cells = [][]string{append(heads, lists.Map(columns, dataset.Value.Text)...)}
		for _, line := range d.split(dots, d.by) {
			_, at := bucket(line.dots, func(d dot) dataset.Value { return d.x })
			t.Cells = append(t.Cells, append(d.heads(line), lists.Map(columns, func(v dataset.Value) string {
				return strings.Join(anyOf(d.cells(at[v.ID()], true)), ", ")
			})...))
		}
		return t, nil
	}
	// Without columns, the unit of a metric is in its heading.
	first := p.label(d.x.name)
	if p.Unit != "" {
		times := lists.Map(dots, func(d dot) float64 { return d.y })
		in := unit.MicrosIn(times)
		first, d.common, d.largest = "times in "+in.Name, &in, slices.Max(times)
	}
	t.Cells = [][]string{slices.Concat([]string{first}, heads, lists.Map(d.ys, d.heading))}
	for _, v := range columns {
		for _, line := range d.split(at[v.ID()], d.by) {
			t.Cells = append(t.Cells, slices.Concat([]string{v.Text()}, d.heads(line), d.cells(line.dots, false)))
		}
	}
	return t, nil
}

// anyOf returns the texts that say something, or else "-".
func anyOf(cells []string) []string {
	some := lists.Filter(lists.Distinct(cells), func(text string) bool { return text != "-" })
	if len(some) == 0 {
		return []string{"-"}
	}
	return some
}

// heads returns the first cells of a line.
func (d *drawing) heads(line panelDots) []string {
	return lists.Map(d.by, func(c dataset.Coord) string { return c.Of(line.dots[0].row).Text() })
}

// heading returns the heading of a metric's column. Only times have their unit in the cells.
func (d *drawing) heading(q quantity) string {
	if q.unit == "us" {
		return d.label(q.name)
	}
	return unit.WithUnit(d.label(q.name), q.unit)
}

// cells returns the median over the trials of each metric, in parentheses if they were disturbed. units tells whether
// numbers have their unit.
func (d *drawing) cells(dots []dot, units bool) []string {
	return lists.Map(lists.Range[int](len(d.ys)), func(k int) string {
		of := counting(lists.Filter(dots, func(d dot) bool { return d.metric == k }))
		if len(of) == 0 {
			return "-"
		}
		in := d.ys[k].unit
		if !units && in != "us" {
			in = ""
		}
		v := d.ys[k].median(rowsOf(of))
		text := MetricText(v, in)
		if d.common != nil && in == "us" {
			if v < rounding*d.largest {
				v = 0
			}
			text = d.common.Format(v, 4)
		}
		if of[0].row.Disturbed() {
			return "(" + text + ")"
		}
		return text
	})
}
