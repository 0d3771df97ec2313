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
	secs, all, err := sections(in, opts)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	for _, s := range secs {
		heading := append([]string{s.title + ":"}, quoted(s.constants)...)
		width := opts.Width
		if s.hidden > 0 { // a bench that chooses its columns wants a narrow table in files too
			width = cmp.Or(width, narrowTable)
		}
		fmt.Fprintln(b, texttab.Wrap(heading, width, "  "))
		if err := s.write(b, opts.Width); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	if note := launchesNote(secs); note != "" {
		fmt.Fprintln(b, texttab.Wrap(strings.Fields(note), opts.Width, ""))
	}
	fmt.Fprintln(b, texttab.Wrap(strings.Fields(summary(all)), opts.Width, "  "))
	return b.Flush()
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

// write prints the section's table and its legend. If the table is too wide for the terminal, it leaves out
// columns from the right and says so. It leaves out none if the reader chose the columns, or if that would not be
// enough: then the lines are folded.
func (s section) write(w io.Writer, width int) error {
	var dropped []string
	if width > 0 && !s.chosen {
		s, dropped = s.narrowed(width)
	}
	if err := s.layout().Write(w, width); err != nil {
		return err
	}
	below := lists.Map(s.legend, func(text string) string { return texttab.Wrap(strings.Fields(text), width, "   ") })
	if len(dropped) > 0 {
		text := "not shown for lack of space: " + strings.Join(dropped, ", ")
		below = append(below, texttab.Wrap(strings.Fields(text), width, "  "))
	}
	if more := len(dropped) + s.hidden; more > 0 {
		below = append(below, unit.Plural(more, "more column")+": show --columns all")
	}
	for _, text := range below {
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// narrowed returns the section without the columns that do not fit, and their headings. It returns the section as it is
// if too few columns may be left out.
func (s section) narrowed(width int) (section, []string) {
	out, t, dropped := s, s.layout(), []string(nil)
	for i := len(s.columns) - 1; i >= 0 && t.MinWidth() > width; i-- {
		if s.droppable(i) {
			dropped = append(dropped, s.columns[i].heading())
			out = out.without(i)
			t = out.layout()
		}
	}
	if t.MinWidth() > width {
		return s, nil
	}
	slices.Reverse(dropped)
	return out, dropped
}

// droppable reports whether the i-th column may be left out of a narrow table: numbers other than the first,
// and how they spread.
func (s section) droppable(i int) bool {
	c := s.columns[i]
	switch c.Role {
	case Limit, Samples, Modes, Between, Detail:
		return true
	case Metric:
		return slices.IndexFunc(s.columns, func(c Column) bool { return c.Role == Metric }) != i
	case Trial:
		return c.aggregate
	}
	return false
}

// without returns the section without its i-th column.
func (s section) without(i int) section {
	s.columns = slices.Delete(slices.Clone(s.columns), i, i+1)
	s.cells = lists.Map(s.cells, func(line []string) []string { return slices.Delete(slices.Clone(line), i, i+1) })
	return s
}

// layout returns the section as an aligned table.
func (s section) layout() *texttab.Table {
	column := func(c Column) texttab.Column { return texttab.Column{Title: c.heading(), Right: c.numeric} }
	line := func(cells []string) texttab.Line { return texttab.Line{Cells: cells} }
	t := &texttab.Table{Columns: lists.Map(s.columns, column), Lines: lists.Map(s.cells, line)}
	if s.gap != "" {
		t.Lines = slices.Insert(t.Lines, s.gapAt, texttab.Line{Text: s.gap})
	}
	return t
}
