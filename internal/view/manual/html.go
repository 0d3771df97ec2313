package manual

import (
	"bytes"
	"fmt"
	"html"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

// HTML returns the page as HTML for the page's own address, /docs/TOPIC. Links lead to other topics, pictures
// to /docs/files/PATH. A link to a file that only the source tree has becomes its path. Style sheets are under /assets.
func (p Page) HTML() ([]byte, error) {
	m := markdown()
	root := p.parse(m)
	var files []*ast.Link
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			n.Destination = []byte("/docs/files/" + path.Join(path.Dir(p.path), string(n.Destination)))
		case *ast.Link:
			if topic, heading, ok := p.target(string(n.Destination)); ok {
				n.Destination = []byte("/docs/" + topic)
				if heading != "" {
					n.Destination = append(n.Destination, "#"+heading...)
				}
			} else if _, ok := p.source(string(n.Destination)); ok {
				files = append(files, n)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, fmt.Errorf("page %s: %w", p.Topic, err)
	}
	for _, n := range files {
		p.replaceByPath(n)
	}
	var body bytes.Buffer
	if err := m.Renderer().Render(&body, p.text, root); err != nil {
		return nil, fmt.Errorf("page %s: %w", p.Topic, err)
	}
	return frame(p.Title, body.String()), nil
}

// replaceByPath replaces a link by its text and the path of its file in the source tree.
func (p Page) replaceByPath(n *ast.Link) {
	text := (&writer{page: p}).inline(n)
	parent := n.Parent()
	for c := n.FirstChild(); c != nil; c = n.FirstChild() {
		parent.InsertBefore(parent, n, c)
	}
	if file, _ := p.source(string(n.Destination)); strings.Trim(text, "`/") != file {
		address := ast.NewString([]byte(" (<code>" + html.EscapeString(file) + "</code>)"))
		address.SetCode(true) // written as it is
		parent.InsertBefore(parent, n, address)
	}
	parent.RemoveChild(parent, n)
}

// titles are the headings in the contents before the first page of a place.
var titles = map[int]string{reference: "Reference and background", result: "Results"}

// Contents returns a page with links to all pages.
func Contents() []byte {
	var body bytes.Buffer
	body.WriteString("<h1>Documentation</h1>\n<p>New here? Start with the tutorial.</p>\n" +
		"<h2>Tutorial and guides</h2>\n<ul>\n")
	place := tutorial
	for _, p := range Pages() {
		if title := titles[p.place()]; title != "" && p.place() != place {
			body.WriteString("</ul>\n<h2>" + title + "</h2>\n<ul>\n")
		}
		place = p.place()
		fmt.Fprintf(&body, "<li><a href=\"/docs/%s\">%s</a></li>\n", p.Topic, html.EscapeString(p.Title))
	}
	body.WriteString("</ul>\n")
	return frame("Documentation", body.String())
}

// Missing returns a page that says why a page does not exist.
func Missing(why string) []byte {
	return frame("Page not found", fmt.Sprintf("<h1>Page not found</h1>\n<p class=\"notice bad\">%s</p>\n"+
		"<p><a href=\"/\">All runs</a> · <a href=\"/docs/\">Documentation</a></p>\n", html.EscapeString(texttab.Visible(why))))
}

// frame completes a body to a page.
func frame(title, body string) []byte {
	return fmt.Appendf(nil, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s - kernbench</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/style.css">
<link rel="stylesheet" href="/assets/docs.css">
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<a class="brand" href="/">kernbench</a>
<nav><a href="/docs/">Documentation</a></nav>
</header>
<main id="main" class="docs" tabindex="-1">
%s</main>
</body>
</html>
`, html.EscapeString(title), body)
}
