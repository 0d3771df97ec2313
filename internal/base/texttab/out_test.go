package texttab

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
)

// hostile has everything that a text could do to a reader: control a terminal, forge a line, reverse the direction of
// writing, end a table cell, and become markup.
const hostile = "a\x1b[31m\r\nFORGED\u202e\u009b | `b` <script> [l](http://evil) **c** ~d~ &amp; \xff"

type named string

func TestOut(t *testing.T) {
	const plain = `a\x1b[31m\x0d\nFORGED\u{202e}\x9b | ` + "`b` <script> [l](http://evil) **c** ~d~ &amp; " + `\xff`
	const markdown = `a\\x1b\[31m FORGED\\u{202e}\\x9b \| ` + "\\`b\\` &lt;script> \\[l](http://evil) " +
		`\*\*c\*\* \~d\~ &amp;amp; \\xff`
	for _, c := range []struct {
		out  func(b *strings.Builder) Out
		want string
	}{
		{func(b *strings.Builder) Out { return ForTerminal(b) }, plain},
		{func(b *strings.Builder) Out { return ForMarkdown(b) }, markdown},
	} {
		for _, arg := range []any{hostile, named(hostile), errors.New(hostile), Finished{c.want}} {
			var b strings.Builder
			must.Do(t, c.out(&b).Printf("<%s|%v>\n", arg, arg))
			if want := "<" + c.want + "|" + c.want + ">\n"; b.String() != want {
				t.Errorf("%T is printed as\n%q, want\n%q", arg, b.String(), want)
			}
		}
		var b strings.Builder
		must.Do(t, c.out(&b).Printf("%d %.1f %v %t %s %v", 1, 2.5, time.Second, true, []string{"x\n"}, nil))
		if want := "1 2.5 1s true "; !strings.HasPrefix(b.String(), want) || strings.Contains(b.String(), "\n") {
			t.Errorf("%q", b.String())
		}
	}
}

// TestTableEscapes checks that cells, titles and remarks stay in their line, and that the columns are as wide as the
// escaped text.
func TestTableEscapes(t *testing.T) {
	tab := Table{Columns: []Column{{Title: "t\n"}, {Title: "u", Right: true}}, Lines: []Line{{Text: "r\r\n"}}}
	tab.Add("a\x1b", "1")
	tab.Add("b", "2|")
	var b strings.Builder
	must.Do(t, tab.Write(&b, 0))
	if want := "t\\n     u\nr\\x0d\\n\na\\x1b   1\nb      2|\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	if got, want := tab.Markdown(), "| t  | u |\n| --- | --: |\n| … | … |\n| a\\\\x1b | 1 |\n| b | 2\\| |\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMarkdownParts(t *testing.T) {
	for _, c := range []struct {
		got  Finished
		want string
	}{
		{Code("a b"), "`a b`"},
		{Code("a`b``c"), "``` a`b``c ```"},
		{Code("a\n\x1b"), "`a \\x1b`"},
		{CodeLine("a\nb"), "    a b"},
		{Link("a b(c)<d>\n"), "a%20b%28c%29%3Cd%3E\\n"},
		{Block("a\nb\x1b"), "a\nb\\x1b"},
		{Paragraph(" # a\nb "), `\# a b`},
		{Paragraph("> a"), `\> a`},
		{Paragraph("- a"), `\- a`},
		{Paragraph("-1 %"), `-1 %`},
		{Paragraph("---"), `\---`},
		{Paragraph("==="), `\===`},
		{Paragraph("12. a"), `12\. a`},
		{Paragraph("1.5 a"), `1.5 a`},
		{Paragraph("12 ok"), `12 ok`},
		{Paragraph("    a"), `a`},
		{Begin("- a "), `\- a `},
	} {
		if c.got.String() != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
