package texttab

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

func TestWrite(t *testing.T) {
	tab := Table{Columns: []Column{{Title: "name"}, {Title: "n", Right: true}, {Title: "why", Shrink: true}}}
	tab.Add("日本", "1", "")
	tab.Add("é", "1000", "a reason that is too long for the width")
	tab.Lines = append(tab.Lines, Line{Text: "… a remark"})
	var b strings.Builder
	must.Do(t, tab.Write(&b, 30))
	want := "name     n  why\n" +
		"日本     1\n" +
		"é     1000  a reason that is …\n" +
		"… a remark\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A table that is still too wide is folded, with its columns aligned, and without lines of empty cells.
func TestFold(t *testing.T) {
	tab := Table{Columns: []Column{{Title: "point"}, {Title: "time", Right: true}, {Title: "rate", Right: true},
		{Title: "remarks"}}}
	tab.Add("ring 1", "10.5", "7", "a b")
	tab.Add("tree", "9", "12", "")
	tab.Add("mesh", "8", "", "")
	tab.Lines = append(tab.Lines, Line{Text: "… 12 lines left out"})
	for width, want := range map[int]string{
		30: "point   time  rate  remarks\nring 1  10.5     7  a b\ntree       9    12\nmesh       8\n… 12 lines left out\n",
		17: "point   time\n    rate  remarks\nring 1  10.5\n       7  a b\ntree       9\n      12\nmesh       8\n" +
			"… 12 lines left\n    out\n",
	} {
		var b strings.Builder
		must.Do(t, tab.Write(&b, width))
		if b.String() != want {
			t.Errorf("in %d columns\n%s\nwant\n%s", width, b.String(), want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(12, 40).Draw(t, "width")
		var tab Table
		cell := rapid.StringMatching("[a-z]{0,8}")
		for range rapid.IntRange(1, 9).Draw(t, "columns") {
			tab.Columns = append(tab.Columns, Column{Title: cell.Draw(t, "title"), Right: rapid.Bool().Draw(t, "right")})
		}
		for range 3 {
			tab.Add(rapid.SliceOfN(cell, len(tab.Columns), len(tab.Columns)).Draw(t, "cells")...)
		}
		var b strings.Builder
		if err := tab.Write(&b, width); err != nil {
			t.Fatal(err)
		}
		var got, wanted []string
		for _, line := range strings.Split(b.String(), "\n") {
			if Width(line) > width {
				t.Fatalf("%q is wider than %d", line, width)
			}
			got = append(got, strings.Fields(line)...)
		}
		for _, c := range tab.Columns {
			wanted = append(wanted, strings.Fields(c.Title)...)
		}
		for _, l := range tab.Lines {
			wanted = append(wanted, strings.Fields(strings.Join(l.Cells, " "))...)
		}
		if !slices.Equal(got, wanted) {
			t.Fatalf("got %q, want %q", got, wanted)
		}
	})
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "e\u0301": 1, "日本": 4, "π…": 2} {
		if got := Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
}

// TestShorten checks that shortened text fits and is a prefix, and that text that fits is kept.
func TestShorten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, width := rapid.String().Draw(t, "s"), rapid.IntRange(1, 20).Draw(t, "width")
		got := Shorten(s, width)
		if Width(got) > width {
			t.Fatalf("%q is wider than %d", got, width)
		}
		if got != s && (Width(s) <= width || !strings.HasPrefix(s, strings.TrimSuffix(got, Ellipsis))) {
			t.Fatalf("Shorten(%q, %d) = %q", s, width, got)
		}
	})
}

func TestPlain(t *testing.T) {
	for s, want := range map[string]string{"a b": "a b", "a\nb\tc": `a\nb\tc`, "\x1b[1m": `\x1b[1m`, "\u202e": `\u{202e}`,
		"\xff": `\xff`, "größe": "größe"} {
		if got := Plain(s); got != want {
			t.Errorf("Plain(%q) = %q, want %q", s, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.Rune()).Draw(t, "s")
		if got := Plain(s); strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("Plain(%q) = %q", s, got)
		}
	})
}

func TestWrap(t *testing.T) {
	if got, want := Wrap([]string{"aaa", "bbb", "ccc"}, 7, "  "), "aaa bbb\n  ccc"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Wrap([]string{"aaa", "bbb"}, 0, "  "); got != "aaa bbb" {
		t.Errorf("no limit gives %q", got)
	}
}
