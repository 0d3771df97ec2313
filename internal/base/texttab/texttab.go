// Package texttab lays out text in aligned columns for a terminal. It knows
// nothing of rows, metrics or formats: cells are finished text. It is shared
// by every view that prints a table.
package texttab

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Ellipsis marks text that was shortened.
const Ellipsis = "…"

// gap separates two columns.
const gap = "  "

// minShrunk is the least a Shrink column keeps: below it a reason says nothing.
const minShrunk = 12

// Column is the heading and behaviour of one column.
type Column struct {
	Title  string
	Right  bool // numbers: aligned to the right
	Shrink bool // long text: shortened first when the table is too wide
}

// Table is a heading and lines of cells; every line has one cell per column.
type Table struct {
	Columns []Column
	Lines   []Line
}

// Line is one line of the table, or, with Text set, a remark that spans it.
type Line struct {
	Cells []string
	Text  string
}

// Add appends a line of cells.
func (t *Table) Add(cells ...string) { t.Lines = append(t.Lines, Line{Cells: cells}) }

// Widths are the display widths the columns need in full.
func (t *Table) Widths() []int {
	widths := lists.Map(t.Columns, func(c Column) int { return Width(c.Title) })
	for _, l := range t.Lines {
		for i, cell := range l.Cells {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	return widths
}

// MinWidth is the least the table can be made to fit in.
func (t *Table) MinWidth() int {
	widths := t.Widths()
	t.shrink(widths, 1)
	return total(widths)
}

// total is the width of a line whose columns have these widths.
func total(widths []int) int {
	return len(gap)*max(0, len(widths)-1) + lists.Sum(widths)
}

// Write prints the table. Lines longer than width (0: no limit) are made to
// fit by shortening the Shrink columns as far as that helps.
func (t *Table) Write(w io.Writer, width int) error {
	widths := t.Widths()
	if width > 0 {
		t.shrink(widths, width)
	}
	b := bufio.NewWriter(w)
	titles := lists.Map(t.Columns, func(c Column) string { return c.Title })
	if len(titles) > 0 {
		t.line(b, titles, widths)
	}
	for _, l := range t.Lines {
		if l.Text != "" {
			b.WriteString(l.Text + "\n")
			continue
		}
		t.line(b, l.Cells, widths)
	}
	return b.Flush()
}

func (t *Table) shrink(widths []int, width int) {
	for i, c := range t.Columns {
		if excess := total(widths) - width; excess > 0 && c.Shrink {
			widths[i] = min(widths[i], max(minShrunk, widths[i]-excess))
		}
	}
}

// line writes cells padded to their columns, without trailing spaces.
func (t *Table) line(b *bufio.Writer, cells []string, widths []int) {
	owed := 0 // spaces not yet written; dropped at the end of the line
	for i, cell := range cells {
		if i > 0 {
			owed += len(gap)
		}
		if t.Columns[i].Shrink {
			cell = Shorten(cell, widths[i])
		}
		pad := widths[i] - Width(cell)
		if t.Columns[i].Right {
			owed, pad = owed+pad, 0
		}
		if cell != "" {
			b.WriteString(strings.Repeat(" ", owed))
			b.WriteString(cell)
			owed = 0
		}
		owed += pad
	}
	b.WriteByte('\n')
}

// Width is how many terminal cells s takes: marks that sit on the letter
// before them take none, East Asian wide characters two.
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

// Shorten cuts s to at most width cells, the last one an ellipsis if anything
// was cut.
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

// Plain makes any text fit for one cell of a terminal: control characters,
// line ends and bytes that are no text become visible escapes, so that a value
// can neither break a line nor drive the terminal.
func Plain(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			hex(&b, uint32(s[i]))
		case unprintable(r):
			hex(&b, uint32(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// Lines makes whole output fit for a terminal: control characters other than line ends
// and tabs become visible escapes. What is JSON stays so, and means the same.
func Lines(s string) string {
	drives := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, drives) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			hex(&b, uint32(s[i]))
		case !drives(r):
			b.WriteRune(r)
		case r < ' ':
			hex(&b, uint32(r))
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

func hex(b *strings.Builder, v uint32) {
	if v > 0xff {
		fmt.Fprintf(b, `\u{%x}`, v)
		return
	}
	fmt.Fprintf(b, `\x%02x`, v)
}

// Wrap breaks words into lines of at most width cells (0: one line), further
// lines indented.
func Wrap(words []string, width int, indent string) string {
	var b strings.Builder
	used := 0
	for i, word := range words {
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
