// Package texttab prints text and tables with aligned columns on a terminal or in Markdown. It
// escapes all text for its medium: see Out and Table.
package texttab

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Ellipsis marks text that was shortened.
const Ellipsis = "…"

// gap separates two columns.
const gap = "  "

// minShrunk is the smallest width of a Shrink column: shorter texts are no longer understandable.
const minShrunk = 12

// Column is the heading and behaviour of one column.
type Column struct {
	Title  string
	Right  bool // aligned to the right, for numbers
	Shrink bool // shortened if the table is too wide, for long texts
}

// Table has a heading and lines. Every line has one cell per column, or is a remark. Titles, cells
// and remarks are text from outside: they are escaped when the table is printed.
type Table struct {
	Columns []Column
	Lines   []Line
}

// Line is a line of cells or, if Text is set, a remark that spans all columns.
type Line struct {
	Cells []string
	Text  string
}

// Add appends a line of cells.
func (t *Table) Add(cells ...string) { t.Lines = append(t.Lines, Line{Cells: cells}) }

// Widths returns the width that each column needs for its longest cell.
func (t *Table) Widths() []int {
	widths := lists.Map(t.Columns, func(c Column) int { return Width(Plain(c.Title)) })
	for _, l := range t.Lines {
		for i, cell := range l.Cells {
			widths[i] = max(widths[i], Width(Plain(cell)))
		}
	}
	return widths
}

// MinWidth returns the smallest width that Write can fit the table into without folding its lines.
func (t *Table) MinWidth() int {
	widths := t.Widths()
	t.shrink(widths, 1)
	return total(widths)
}

// total returns the width of a line whose columns have the given widths.
func total(widths []int) int {
	return len(gap)*max(0, len(widths)-1) + lists.Sum(widths)
}

// Write prints the table. If it is wider than width (0: no limit), the cells of Shrink columns
// are shortened, though not below minShrunk. If that is not enough, every line is folded: the columns that do not
// fit follow on indented lines, aligned too.
func (t *Table) Write(w io.Writer, width int) error {
	widths := t.Widths()
	if width > 0 {
		t.shrink(widths, width)
	}
	folds := fold(widths, width)
	b := bufio.NewWriter(w)
	titles := lists.Map(t.Columns, func(c Column) string { return c.Title })
	if len(titles) > 0 {
		t.folded(b, titles, widths, folds)
	}
	for _, l := range t.Lines {
		if l.Text != "" {
			b.WriteString(Wrap(strings.Split(l.Text, " "), width, foldIndent) + "\n")
			continue
		}
		t.folded(b, l.Cells, widths, folds)
	}
	return b.Flush()
}

// foldIndent begins the further lines of a folded line.
const foldIndent = "    "

// fold returns the index of the first column of every line of a folded line.
func fold(widths []int, width int) []int {
	folds, used := []int{0}, 0
	for i, w := range widths {
		if i > folds[len(folds)-1] {
			used += len(gap)
			if width > 0 && used+w > width {
				folds, used = append(folds, i), len(foldIndent)
			}
		}
		used += w
	}
	return folds
}

// folded writes a line of cells. Folded lines without any text are left out.
func (t *Table) folded(b *bufio.Writer, cells []string, widths, folds []int) {
	for i, from := range folds {
		to := len(cells)
		if i+1 < len(folds) {
			to = folds[i+1]
		}
		if i > 0 {
			if !slices.ContainsFunc(cells[from:to], func(cell string) bool { return cell != "" }) {
				continue
			}
			b.WriteString(foldIndent)
		}
		t.line(b, cells[from:to], from, widths)
	}
}

func (t *Table) shrink(widths []int, width int) {
	for i, c := range t.Columns {
		if excess := total(widths) - width; excess > 0 && c.Shrink {
			widths[i] = min(widths[i], max(minShrunk, widths[i]-excess))
		}
	}
}

// line writes the cells from a column on, padded to their columns, without trailing spaces.
func (t *Table) line(b *bufio.Writer, cells []string, from int, widths []int) {
	pending := 0 // spaces to write before the next cell; none are written at the end of the line
	for n, cell := range cells {
		i := from + n
		if n > 0 {
			pending += len(gap)
		}
		cell = Plain(cell)
		if t.Columns[i].Shrink {
			cell = Shorten(cell, widths[i])
		}
		pad := widths[i] - Width(cell)
		if t.Columns[i].Right {
			pending, pad = pending+pad, 0
		}
		if cell != "" {
			b.WriteString(strings.Repeat(" ", pending))
			b.WriteString(cell)
			pending = 0
		}
		pending += pad
	}
	b.WriteByte('\n')
}

// Width returns the number of terminal cells that s occupies: combining marks occupy none, wide
// East Asian characters two.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// Shorten cuts s to at most width cells. If it cuts anything, the last cell is an ellipsis.
func Shorten(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	used := 0
	for i, r := range s {
		w := runeWidth(r)
		if used+w > width-1 {
			return s[:i] + Ellipsis
		}
		used += w
	}
	return s
}

// Wrap joins words to lines of at most width cells (0: a single line). All lines but the first
// are indented. Words are escaped like the cells of a table.
func Wrap(words []string, width int, indent string) string {
	var b strings.Builder
	used := 0
	for i, word := range words {
		word = Plain(word)
		w := Width(word)
		switch {
		case i == 0:
		case width > 0 && used+1+w > width:
			b.WriteString("\n" + indent)
			used = Width(indent)
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += w
	}
	return b.String()
}

// Markdown returns the table in GitHub-flavoured Markdown. Remarks between lines become an ellipsis in
// every column.
func (t *Table) Markdown() string {
	var b strings.Builder
	line := func(cell func(column int) string) {
		for i := range t.Columns {
			b.WriteString("| " + cell(i) + " ")
		}
		b.WriteString("|\n")
	}
	line(func(i int) string { return markdown(t.Columns[i].Title) })
	line(func(i int) string {
		if t.Columns[i].Right {
			return "--:"
		}
		return "---"
	})
	for _, l := range t.Lines {
		line(func(i int) string {
			if l.Text != "" {
				return Ellipsis
			}
			return markdown(l.Cells[i])
		})
	}
	return b.String()
}
