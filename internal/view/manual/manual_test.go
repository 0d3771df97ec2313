package manual

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/docs"
	"github.com/kernbench/kernbench/internal/base/must"
)

// Every page has a title and is found by its topic, and no two pages share one.
func TestPages(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Pages() {
		if p.Title == "" || strings.HasPrefix(p.Title, "#") || seen[p.Topic] {
			t.Errorf("page %v: no title, or a second page of this topic", p)
		}
		seen[p.Topic] = true
		if q := must.Get(Find(p.Topic))(t); q.path != p.path {
			t.Errorf("topic %s finds %s", p.Topic, q.path)
		}
	}
	if first := Pages()[0].Topic; first != "tutorial" {
		t.Errorf("the first page is %s", first)
	}
	if _, err := Find("statistic"); err == nil || !strings.Contains(err.Error(), `did you mean "statistics"`) {
		t.Errorf("a wrong topic: %v", err)
	}
}

// The HTML of every page has its own links only: to pages that exist, to pictures that exist, and to other
// sites. It contains no script.
func TestHTML(t *testing.T) {
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	pages := map[string]string{}
	for _, p := range Pages() {
		pages[p.Topic] = string(must.Get(p.HTML())(t))
	}
	for _, p := range Pages() {
		page := pages[p.Topic]
		if strings.Contains(page, "<script") || !strings.Contains(page, "<title>") {
			t.Errorf("%s: a script, or no title", p.Topic)
		}
		for _, m := range links.FindAllStringSubmatch(page, -1) {
			if fault := broken(m[1], pages); fault != "" {
				t.Errorf("%s: %s", p.Topic, fault)
			}
		}
	}
	if want := "(example (<code>examples/networks/levels.yaml</code>))"; !strings.Contains(pages["networks"], want) {
		t.Errorf("the page networks lacks %s", want)
	}
	contents := string(Contents())
	at := 0
	for _, part := range []string{"/docs/tutorial", "/docs/track-nightly",
		"<h2>Reference and background</h2>", "/docs/accelerator", "<h2>Results</h2>"} {
		n := strings.Index(contents, part)
		if n < at {
			t.Errorf("%s is not there, or not in its place:\n%s", part, contents)
		}
		at = n
	}
}

// broken returns what is wrong with a link, or "". pages has the HTML of each topic.
func broken(link string, pages map[string]string) string {
	if !strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "#") && !strings.Contains(link, "://") {
		return fmt.Sprintf("link %s: it leads to no page", link)
	} else if file, ok := strings.CutPrefix(link, "/docs/files/"); ok {
		if _, err := fs.Stat(docs.Files, file); err != nil {
			return fmt.Sprintf("picture %s: %v", link, err)
		}
	} else if topic, ok := strings.CutPrefix(link, "/docs/"); ok && topic != "" {
		topic, heading, _ := strings.Cut(topic, "#")
		if page, is := pages[topic]; !is || heading != "" && !strings.Contains(page, `id="`+heading+`"`) {
			return fmt.Sprintf("link %s: no such page or heading", link)
		}
	}
	return ""
}

// A page for the terminal is wrapped, keeps its code as it is, and names the topics of its links.
func TestText(t *testing.T) {
	p := Page{Topic: "one", path: "one.md", text: []byte("# One page\n\nSome `code` and a [link](tutorial.md), **bold** " +
		"text of two lines.\n\n    kernbench run --bench memory --a-long-line-that-stays\n\n- first\n  - second\n\n1. one ([file](../bench/doc.go))\n2. two\n\n" +
		"| a | b |\n|---|--:|\n| x | 1 |\n| long cell of some words | 22 |\n")}
	want := `One page
========

Some ` + "`code`" + ` and a link (` + "`docs\ntutorial`" + `), bold text of two lines.

    kernbench run --bench memory --a-long-line-that-stays

- first
  - second

1. one (file (bench/doc.go))
2. two

a                         b
x                         1
long cell of some words  22
`
	if got := p.Text(40); got != want {
		t.Errorf("have\n%s\nwant\n%s", got, want)
	}
	if got := p.Text(24); !strings.Contains(got, "- a: long cell of some\n    words\n  b: 22\n") {
		t.Errorf("a narrow table:\n%s", got)
	}
	for _, p := range Pages() {
		if text := p.Text(80); strings.ContainsAny(text, "\x00\x1b") {
			t.Errorf("%s has control characters", p.Topic)
		}
	}
}

func TestSearch(t *testing.T) {
	found := Search("BUSBW")
	if len(found) < 3 || found[0].Line == "" {
		t.Errorf("found %v", found)
	}
}
