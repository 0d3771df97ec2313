package texttab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Legend collects remarks about the lines of a table. A line shows short marks (a, b, ...), and
// the legend below the table explains each mark once, with the number of lines that have it.
type Legend struct {
	entries []entry
	index   map[string]int
}

type entry struct {
	text  string
	count int
}

// Mark adds the remarks about one line and returns its marks in order, such as "a c".
func (l *Legend) Mark(remarks ...string) string {
	if l.index == nil {
		l.index = map[string]int{}
	}
	var at []int
	for _, text := range remarks {
		i, ok := l.index[text]
		if !ok {
			i = len(l.entries)
			l.index[text] = i
			l.entries = append(l.entries, entry{text: text})
		}
		if !slices.Contains(at, i) {
			at = append(at, i)
			l.entries[i].count++
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
	return lists.Map(l.entries, func(e entry) string {
		return fmt.Sprintf("%s (%s)", e.text, unit.Counted(e.count, line, lines))
	})
}

// Lines returns the texts with their marks in front.
func (l *Legend) Lines(line, lines string) []string {
	out := l.Texts(line, lines)
	for i := range out {
		out[i] = mark(i) + ": " + out[i]
	}
	return out
}
