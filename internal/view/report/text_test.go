package report

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/document"
)

// gridSection returns a section with a grid that has a cell of every status.
func gridSection() bench.Section {
	return bench.Section{Title: "Matrix", Lead: true, Text: "**Bold** and `code` | pipe <b>\n\n- one\n- two\n\n1. first",
		Table: [][]string{{"a|b", "c"}, {"1", "<i>"}},
		Grid: &decl.Grid{Corner: "algorithm", Columns: []string{"f32", "f16", "bf16", "f64", "i32"},
			Rows: []decl.GridRow{{Name: "ring", Cells: []decl.GridCell{
				{Status: journal.OK, Text: "20"}, {Status: journal.Failed, Text: "3 of 4", Note: "element \"3\""},
				{Status: journal.Skipped, Text: "skipped"},
				{Status: journal.NotExecuted, Text: "not run"}, {}}}}}}
}

func gridPage() document.Document {
	return newPage(&journal.Run{Header: journal.Header{Bench: "b"}}, nil,
		[]bench.Section{{Title: "Later", Text: "x"}, gridSection()}, nil, "")
}

// The cells of a grid have a class and a mark for their status, and lead sections come
// first.
func TestGrid(t *testing.T) {
	html := htmlOf(t, gridPage())
	for _, want := range []string{`<td class="ok">20</td>`, `<td class="failed" title="element &#34;3&#34;">3 of 4</td>`,
		`<td class="skipped">skipped</td>`,
		`<td class="missing">not run</td>`, `<td class="empty"></td>`, "<th>algorithm</th><th>f32</th>"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if s := html; !(strings.Index(s, "<h2>Matrix") < strings.Index(s, "<h2>Summary") &&
		strings.Index(s, "<h2>Summary") < strings.Index(s, "<h2>Later")) {
		t.Error("the sections are not in order")
	}
}

func TestMarkdownPage(t *testing.T) {
	text := markdownOf(t, gridPage())
	for _, want := range []string{"# b\n", "## Matrix\n\n**Bold** and `code` \\| pipe &lt;b>\n", "- one\n- two\n",
		"1. first\n",
		"| algorithm | f32 | f16 | bf16 | f64 | i32 |\n| --- | --- | --- | --- | --- | --- |\n| ring | ✓ 20 | ✗ 3 of 4 | – skipped | " +
			"○ not run |  |\n", "| a\\|b | c |\n| --: | --- |\n| 1 | &lt;i> |\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Index(text, "## Matrix") > strings.Index(text, "## Summary") {
		t.Error("what leads does not stand first")
	}
}

// The report names every run that it has rows of, with the command of the run.
func TestProvenanceOfAllRuns(t *testing.T) {
	h := func(run, ranks string) journal.Header {
		return journal.Header{Run: run, Argv: []string{"kernbench", "run", "--ranks", ranks}, Launcher: "join torchrun"}
	}
	p, _ := Document(&Input{Data: &dataset.Dataset{Header: h("r3", "4"), Earlier: []journal.Header{h("r1", "1"),
		h("r2", "1")}}},
		nil)
	text, html := markdownOf(t, p), htmlOf(t, p)
	for _, want := range []string{"Rows also of run r1", "Rows also of run r2", "kernbench run --ranks 4",
		"kernbench run --ranks 1"} {
		if !strings.Contains(text, want) || !strings.Contains(html, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
	if strings.Count(text, "--ranks 1") != 1 {
		t.Error("a command stands there twice")
	}
}
