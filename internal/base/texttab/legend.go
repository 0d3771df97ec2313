package texttab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Legend gathers what there is to say about the lines of a table, each remark once
// with how often it was made: the lines have marks, and their meaning stands below.
// Remarks that differ only in their numbers are one.
type Legend struct {
	entries []entry
	index   map[string]int
}

type entry struct {
	text  string // the first of them
	count int
	alike bool // not all are the same
}

// kind is a remark without its numbers, by which remarks of one kind differ. A large table has
// very many: a regular expression takes ten times as long.
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

// Mark adds the remarks of one line and returns its marks, "a c", in order.
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

// mark is a, b, ... z, aa, ab and so on.
func mark(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return mark(i/26-1) + mark(i%26)
}

// Texts are the remarks in order of first appearance, each with the number of
// lines that have it.
func (l *Legend) Texts(line, lines string) []string {
	out := make([]string, len(l.entries))
	for i, e := range l.entries {
		switch {
		case e.alike && e.count > 1:
			out[i] = fmt.Sprintf("%s (and %d more alike)", e.text, e.count-1)
		case e.count == 1:
			out[i] = fmt.Sprintf("%s (1 %s)", e.text, line)
		default:
			out[i] = fmt.Sprintf("%s (%d %s)", e.text, e.count, lines)
		}
	}
	return out
}

// Lines are the texts behind their marks.
func (l *Legend) Lines(line, lines string) []string {
	out := l.Texts(line, lines)
	for i := range out {
		out[i] = mark(i) + ": " + out[i]
	}
	return out
}
