package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
)

func init() {
	Formats.Register(Format{Name: Default, Help: "an aligned table for the terminal", Write: writeTable})
}

// writeTable writes one aligned table per bench or part, below a line of the constant
// columns, and a summary at the end.
func writeTable(w io.Writer, in Input, opts Options) error {
	tables, err := Tables(in, opts)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	for _, t := range tables {
		heading := append([]string{t.Title + ":"}, quoted(t.Constants)...)
		width := opts.Width
		if t.Hidden > 0 { // a bench that chooses its columns wants a narrow table in files too
			width = cmp.Or(width, narrowTable)
		}
		fmt.Fprintln(b, texttab.Wrap(heading, width, "  "))
		if err := t.write(b, opts.Width); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	if note := noteOf(tables); note != "" {
		fmt.Fprintln(b, texttab.Wrap(strings.Fields(note), opts.Width, ""))
	}
	fmt.Fprintln(b, texttab.Wrap(strings.Fields(summary(tables)), opts.Width, "  "))
	return b.Flush()
}

// noteOf returns the note of the tables, which is shown once.
func noteOf(tables []Table) string {
	return cmp.Or(lists.Map(tables, func(t Table) string { return t.Note })...)
}

// narrowTable is the width of headings above a table of headline columns, if the terminal has none.
const narrowTable = 100

// quoted puts constants with spaces in quotes, so that they do not look like two.
func quoted(constants []string) []string {
	out := slices.Clone(constants)
	for i, s := range out {
		if name, value, ok := strings.Cut(s, "="); ok && strings.Contains(value, " ") {
			out[i] = fmt.Sprintf("%s=%q", name, value)
		}
	}
	return out
}

// write prints the table's table and its legend. If the table is too wide for the terminal, it leaves out
// columns from the right and says so. It leaves out none if the reader chose the columns, or if that would not be
// enough: then the lines are folded.
func (t Table) write(w io.Writer, width int) error {
	var dropped []string
	if width > 0 && !t.chosen {
		t, dropped = t.narrowed(width)
	}
	if err := t.layout().Write(w, width); err != nil {
		return err
	}
	below := lists.Map(t.Legend, func(text string) string { return texttab.Wrap(strings.Fields(text), width, "   ") })
	if len(dropped) > 0 {
		text := "not shown for lack of space: " + strings.Join(dropped, ", ")
		below = append(below, texttab.Wrap(strings.Fields(text), width, "  "))
	}
	if more := len(dropped) + t.Hidden; more > 0 {
		below = append(below, unit.Plural(more, "more column")+": show --columns all")
	}
	for _, text := range below {
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// narrowed returns the table without the columns that do not fit, and their headings. It returns the table as it is
// if too few columns may be left out.
func (t Table) narrowed(width int) (Table, []string) {
	out, dropped := t, []string(nil)
	for i := len(t.Columns) - 1; i >= 0 && out.layout().MinWidth() > width; i-- {
		if t.droppable(i) {
			dropped = append(dropped, t.Columns[i].Heading())
			out = out.Without(i)
		}
	}
	if out.layout().MinWidth() > width {
		return t, nil
	}
	slices.Reverse(dropped)
	return out, dropped
}

// droppable reports whether the i-th column may be left out of a narrow table: numbers other than the first,
// and how they spread.
func (t Table) droppable(i int) bool {
	c := t.Columns[i]
	switch c.Role {
	case Limit, Samples, Modes, Between, Detail:
		return true
	case Metric:
		return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Role == Metric }) != i
	case Trial:
		return c.aggregate
	}
	return false
}

// Without returns the table without its i-th column.
func (t Table) Without(i int) Table {
	t.Columns = slices.Delete(slices.Clone(t.Columns), i, i+1)
	t.Lines = lists.Map(t.Lines, func(l Line) Line {
		l.Cells = slices.Delete(slices.Clone(l.Cells), i, i+1)
		return l
	})
	return t
}

// layout returns the table as text.
func (t Table) layout() *texttab.Table {
	out := &texttab.Table{Lines: lists.Map(t.Lines, func(l Line) texttab.Line { return texttab.Line{Cells: l.Cells} })}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, texttab.Column{Title: c.Heading(), Right: c.Numeric})
	}
	if t.gap != "" {
		out.Lines = slices.Insert(out.Lines, t.gapAt, texttab.Line{Text: t.gap})
	}
	return out
}

// Exact returns the value of a cell in full precision and in the unit of the row, or "" if the text says all.
func (t Table) Exact(l Line, column int) string {
	c := t.Columns[column]
	text := ""
	switch {
	case len(l.Rows) == 1 && c.Role != Reason:
		text = c.Value(l.Rows[0])
	case c.Role == Metric:
		text = known(l.median(c.Key))
	}
	if text == l.Cells[column] {
		return ""
	}
	return text
}
