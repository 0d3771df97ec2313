package document

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestHostileMarkdown puts markup and control characters into every text of a document. A reader of Markdown must find
// the same headings, lists, links and pictures as with harmless text, no HTML, and no control characters.
func TestHostileMarkdown(t *testing.T) {
	shape := func(s string) string {
		grid := &decl.Grid{Corner: s, Columns: []string{s}, Rows: []decl.GridRow{{Name: s,
			Cells: []decl.GridCell{{Status: journal.OK, Text: s}}}}}
		section := NewSection(bench.Section{Title: s, Table: [][]string{{s, s}, {s, s}}, Grid: grid})
		section.Blocks = []Block{{Items: [][]Span{{{Text: s}, {Text: s, Bold: true}, {Text: s, Code: true}}}},
			{List: true, Items: [][]Span{{{Text: s, Code: true}}, {{Text: s}}}}}
		d := Document{Title: s, Subtitle: s, Counts: []Count{{N: 1, Status: journal.Status(s)}}, Summary: s,
			Remarks: []string{s, s}, NoFigure: s, Figures: []Figure{{Figure: figure.Figure{Name: "f"}, Alt: s}},
			Sections: []Section{section}, Facts: []Fact{{s, s}}, Inputs: []Fact{{s, s}}, Commands: []string{s}, Redraw: s,
			Tables: []Table{{Title: s, Rows: []TableRow{{Status: "failed", Cells: []Cell{{Text: s}},
				Trouble: Trouble{Reason: s, Logs: s, Ranks: []string{s}}}}}}}
		var b strings.Builder
		must.Do(t, d.WriteMarkdown(&b))
		if strings.ContainsAny(b.String(), "\x1b\r\a\u202e\u009b\u2028") {
			t.Errorf("%q is printed as\n%q", s, b.String())
		}
		return outlineOf(t, b.String())
	}
	want := shape("harmless")
	for _, s := range []string{"# a", "a\n# b", "a\n\n- b", "- a", "1. a", "> a", "a\n===", "---", "```\na\n```", "`a", "a``b`",
		"<script>alert(1)</script>", "<!-- a", "a <b>c</b>", "[a](http://evil)", "![a](http://evil)", "<http://evil>",
		"a | b", "**a** *b*", "~~a~~", "&lt;a", `a\`, `\`, "a\x1b[31m\r\nb\a\u202e\u009b\u2028c", "| a |\n|---|\n| b |",
		"[a]: http://evil", "\ta", "    a"} {
		if got := shape(s); got != want {
			t.Errorf("%q changes the document from\n%s to\n%s", s, want, got)
		}
	}
}

// TestHostileHTML checks that control characters and directions of text are visible in the page.
func TestHostileHTML(t *testing.T) {
	s := "a\x1b[31m\r\a\u202e\u009b\u2028\u2066b<script>alert(1)</script>"
	d := Document{Title: s, Subtitle: s, Summary: s, Remarks: []string{s}, NoFigure: s, Facts: []Fact{{s, s}},
		Commands: []string{s}, Sections: []Section{NewSection(bench.Section{Title: s, Text: s, Table: [][]string{{s}, {s}}})}}
	var b strings.Builder
	must.Do(t, d.WriteHTML(&b))
	if at := strings.IndexAny(b.String(), "\x1b\r\a\u202e\u009b\u2028\u2066"); at >= 0 {
		t.Errorf("%q", b.String()[max(0, at-40):at+20])
	}
	if strings.Contains(b.String(), "<script>alert") || !strings.Contains(b.String(), `a\u{1b}[31m\u{d}\u{7}\u{202e}`) {
		t.Error("the text is not shown as text")
	}
}

// outlineOf returns the structure of a Markdown text as GitHub sees it, without the plain text and its emphasis.
func outlineOf(t *testing.T, markdown string) string {
	t.Helper()
	var b strings.Builder
	parser := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser()
	root := parser.Parse(text.NewReader([]byte(markdown)))
	must.Do(t, ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n.Kind() {
		case ast.KindText, ast.KindString, ast.KindEmphasis: // Markdown ignores ** beside a space
		default:
			if entering {
				fmt.Fprint(&b, n.Kind(), " ")
			}
		}
		return ast.WalkContinue, nil
	}))
	return b.String()
}
