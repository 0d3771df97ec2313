// Package manual shows the pages of the documentation, in a terminal and as HTML. A page is known by its
// topic, the name of its file without folder and ending.
package manual

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/kernbench/kernbench/docs"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Page is a page of the documentation.
type Page struct {
	Topic string
	Title string
	Guide bool   // a guide, which leads through one task
	path  string // below docs
	text  []byte // Markdown
}

// overview is the file with the overview of a folder. Its topic is the name of the folder.
const overview = "README.md"

// Pages returns all pages: first the tutorial, then the guides, the others by topic, and the results by date.
func Pages() []Page {
	var pages []Page
	err := fs.WalkDir(docs.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		data, err := docs.Files.ReadFile(name)
		if err != nil {
			return err
		}
		p := Page{Topic: topicOf(name), Guide: path.Dir(name) == "guides", path: name, text: data}
		first, _, _ := strings.Cut(string(data), "\n")
		p.Title = strings.TrimPrefix(first, "# ")
		pages = append(pages, p)
		return nil
	})
	if err != nil {
		panic(err) // cannot happen: the files are embedded
	}
	slices.SortStableFunc(pages, func(a, b Page) int { return a.place() - b.place() })
	return pages
}

// The places of pages, ordered by how early a reader needs them.
const (
	tutorial = iota
	guide
	reference
	result
)

func (p Page) place() int {
	switch {
	case p.Topic == "tutorial":
		return tutorial
	case p.Guide:
		return guide
	case path.Dir(p.path) == "results":
		return result
	}
	return reference
}

func topicOf(file string) string {
	if path.Base(file) == overview {
		return path.Base(path.Dir(file))
	}
	return strings.TrimSuffix(path.Base(file), ".md")
}

// Find returns the page of a topic.
func Find(topic string) (Page, error) {
	pages := Pages()
	p, ok := lists.First(pages, func(p Page) bool { return p.Topic == topic })
	if !ok {
		return Page{}, suggest.Unknown("topic", topic, lists.Map(pages, func(p Page) string { return p.Topic }))
	}
	return p, nil
}

// Mention is a line of a page that contains the words of a search.
type Mention struct {
	Topic string
	Line  string
}

// Search returns the first line of each page that contains the words, in any case.
func Search(words string) []Mention {
	var found []Mention
	wanted := strings.ToLower(words)
	for _, p := range Pages() {
		for line := range strings.Lines(string(p.text)) {
			if strings.Contains(strings.ToLower(line), wanted) {
				found = append(found, Mention{p.Topic, strings.TrimSpace(line)})
				break
			}
		}
	}
	return found
}

// markdown reads pages. Headings have ids, so that links can lead to them.
func markdown(options ...goldmark.Option) goldmark.Markdown {
	return goldmark.New(append([]goldmark.Option{
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	}, options...)...)
}

func (p Page) parse(m goldmark.Markdown) ast.Node { return m.Parser().Parse(text.NewReader(p.text)) }

// target returns the page that a link of this page leads to, and the heading within it. Links to other
// files of the source tree and to other sites have no page.
func (p Page) target(link string) (topic, heading string, ok bool) {
	file, heading, _ := strings.Cut(link, "#")
	if strings.Contains(file, "://") {
		return "", "", false
	}
	if file == "" {
		return p.Topic, heading, true
	}
	full := path.Join(path.Dir(p.path), file)
	if _, err := fs.Stat(docs.Files, full); err != nil || path.Ext(full) != ".md" {
		return "", "", false
	}
	return topicOf(full), heading, true
}

// source returns the path in the source tree of a file that a link of this page leads to.
func (p Page) source(link string) (file string, ok bool) {
	file, _, _ = strings.Cut(link, "#")
	return path.Join("docs", path.Dir(p.path), file), !strings.Contains(file, "://")
}
