package texttab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Legend collects remarks about the lines of a table. A line shows short marks (a, b, ...), and
// the legend below the table explains each mark once, with the number of lines that have it.
// Remarks that differ only in their numbers share a mark.
type Legend struct {
	entries []entry
	index   map[string]int
}

type entry struct {
	text  string // the first remark of its kind
	count int
	alike bool // the remarks differ in their numbers
}

// kind returns a remark with its numbers replaced by #, which is the same for all remarks of one
// kind. Large tables have many remarks, and a regular expression would take ten times as long.
func kind(remark string) string {
	var b strings.Builder
	b.Grow(len(remark))
	for at := 0; at < len(remark); {
		digits := at
		if c := remark[at]; c == '-' || c == '+' {
			digits++
		}
		end := skipDigits(remark, digits)
		if end == digits {
			b.WriteByte(remark[at])
			at++
			continue
		}
		if end+1 < len(remark) && remark[end] == '.' {
			if after := skipDigits(remark, end+1); after > end+1 {
				end = after
			}
		}
		b.WriteByte('#')
		at = end
	}
	return b.String()
}

func skipDigits(s string, at int) int {
	for at < len(s) && s[at] >= '0' && s[at] <= '9' {
		at++
	}
	return at
}

// Mark adds the remarks about one line and returns its marks in order, such as "a c".
func (l *Legend) Mark(remarks ...string) string {
	if l.index == nil {
		l.index = map[string]int{}
	}
	var at []int
	for _, text := range remarks {
		kind := kind(text)
		i, ok := l.index[kind]
		if !ok {
			i = len(l.entries)
			l.index[kind] = i
			l.entries = append(l.entries, entry{text: text})
		}
		e := &l.entries[i]
		e.alike = e.alike || e.text != text
		if !slices.Contains(at, i) {
			at = append(at, i)
			e.count++
		}
	}
	slices.Sort(at)
	return strings.Join(lists.Map(at, mark), " ")
}

// mark returns a, b, ... z, aa, ab and so on.
func mark(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return mark(i/26-1) + mark(i%26)
}

// Texts returns the remarks in the order of their marks, each with the number of lines that
// have it. line and lines are the nouns to count with, such as "row" and "rows".
func (l *Legend) Texts(line, lines string) []string {
	out := make([]string, len(l.entries))
	for i, e := range l.entries {
		switch {
		case e.alike && e.count > 1:
			out[i] = fmt.Sprintf("%s (and %d more like it)", e.text, e.count-1)
		case e.count == 1:
			out[i] = fmt.Sprintf("%s (1 %s)", e.text, line)
		default:
			out[i] = fmt.Sprintf("%s (%d %s)", e.text, e.count, lines)
		}
	}
	return out
}

// Lines returns the texts with their marks in front.
func (l *Legend) Lines(line, lines string) []string {
	out := l.Texts(line, lines)
	for i := range out {
		out[i] = mark(i) + ": " + out[i]
	}
	return out
}
