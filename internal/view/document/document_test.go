package document

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"one\ntwo\n\nthree", "[one two][three]"},
		{"a **b** `c`", "[a /B:b/ /C:c]"},
		{"- a\n- b\n  more\n* c", "[- a| b more| c]"},
		{"1. a\n2) b\n\ntext", "[# a| b][text]"},
		{"intro\n- a\nrest\n\n- b", "[intro][- a rest][- b]"},
		{"2 * 3 ** 4 `open", "[2 * 3 ** 4 `open]"},
		{"**a `b` c**", "[B:a /CB:b/B: c]"},
		{"``", "[``]"},
		{"<b>&amp;</b>", "[<b>&amp;</b>]"},
		{" \n\n", ""},
	} {
		if got := outline(parse(c.text)); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

// outline writes blocks on one line: [- item| item] is a list, / separates spans.
func outline(blocks []Block) string {
	var b strings.Builder
	for _, bl := range blocks {
		var items []string
		for _, spans := range bl.Items {
			var parts []string
			for _, s := range spans {
				style := ""
				if s.Code {
					style += "C"
				}
				if s.Bold {
					style += "B"
				}
				if style != "" {
					style += ":"
				}
				parts = append(parts, style+s.Text)
			}
			items = append(items, strings.Join(parts, "/"))
		}
		mark := ""
		switch {
		case bl.Ordered:
			mark = "# "
		case bl.List:
			mark = "- "
		}
		b.WriteString("[" + mark + strings.Join(items, "| ") + "]")
	}
	return b.String()
}

// Parsing loses no letters.
func FuzzParse(f *testing.F) {
	f.Add("a **b** `c`\n- d\n1. e")
	f.Add("**`**`")
	f.Fuzz(func(t *testing.T, text string) {
		var got strings.Builder
		for _, b := range parse(text) {
			for _, item := range b.Items {
				for _, s := range item {
					got.WriteString(s.Text)
				}
			}
		}
		if want, have := letters(text), letters(got.String()); want != have {
			t.Fatalf("%q became %q", want, have)
		}
	})
}

func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '<' || r == '&' {
			return r
		}
		return -1
	}, s)
}

// In the terminal, numbers are aligned to the right and words to the left, and long texts are wrapped.
func TestWriteText(t *testing.T) {
	s := NewSection(bench.Section{Title: "Best choice",
		Text: "Every time is an estimate.\n\n- not validated: sizes above 512Mi",
		Table: [][]string{{"size", "fastest", "gain"}, {"1Ki", "ring", "+2.5 %"}, {"16Ki", "tree", "not possible"},
			{"4Mi", "ring", "-12 %"}}})
	var b strings.Builder
	must.Do(t, s.WriteText(&b, 30))
	want := "Best choice\n" +
		"size  fastest          gain\n" +
		" 1Ki  ring           +2.5 %\n" +
		"16Ki  tree     not possible\n" +
		" 4Mi  ring            -12 %\n" +
		"Every time is an estimate.\n\n- not validated: sizes above\n  512Mi\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A section on a terminal shows control characters as escapes.
func TestWriteTextEscapes(t *testing.T) {
	s := NewSection(bench.Section{Title: "a\x1b[2J", Text: "b\x1b[0m\nc", Table: [][]string{{"h\a"}, {"\x1b]0;x"}}})
	var b strings.Builder
	must.Do(t, s.WriteText(&b, 80))
	if got := b.String(); strings.ContainsAny(got, "\x1b\a") || !strings.Contains(got, `\x1b[2J`) {
		t.Errorf("written: %q", got)
	}
}
