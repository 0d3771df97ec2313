package manual

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

// Text returns the page for a terminal of that width (0: no limit).
func (p Page) Text(width int) string {
	w := writer{page: p, width: width}
	for n := p.parse(markdown()).FirstChild(); n != nil; n = n.NextSibling() {
		w.block(n, "")
	}
	return strings.TrimRight(w.out.String(), "\n") + "\n"
}

// writer writes a page as text.
type writer struct {
	page  Page
	width int
	out   bytes.Buffer
}

// block writes a block, indented by a prefix, and an empty line.
func (w *writer) block(n ast.Node, indent string) {
	switch n := n.(type) {
	case *ast.Heading:
		title := w.inline(n)
		line := "-"
		if n.Level == 1 {
			line = "="
		}
		w.out.WriteString(indent + title + "\n" + indent + strings.Repeat(line, texttab.Width(title)) + "\n\n")
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		lines := n.Lines()
		for i := range lines.Len() {
			at := lines.At(i)
			w.out.WriteString(indent + "    " + strings.TrimRight(string(at.Value(w.page.text)), "\n") + "\n")
		}
		w.out.WriteByte('\n')
	case *ast.List:
		w.list(n, indent)
	case *ast.Blockquote:
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			w.block(c, indent+"  ")
		}
	case *extast.Table:
		w.table(n, indent)
	default:
		w.paragraph(w.inline(n), indent, indent)
	}
}

// paragraph writes wrapped text. The first line starts with another prefix than the others.
func (w *writer) paragraph(text, first, indent string) {
	width := w.width
	if width > 0 {
		width = max(20, width-texttab.Width(first))
	}
	wrapped := texttab.Wrap(strings.Fields(text), width, "\x00")
	w.out.WriteString(first + strings.ReplaceAll(wrapped, "\x00", indent) + "\n\n")
}

func (w *writer) list(n *ast.List, indent string) {
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		first := indent + "- "
		if n.IsOrdered() {
			first = fmt.Sprintf("%s%d. ", indent, number)
			number++
		}
		for c := item.FirstChild(); c != nil; c = c.NextSibling() {
			switch c.(type) {
			case *ast.TextBlock, *ast.Paragraph:
				w.paragraph(w.inline(c), first, indent+"  ")
			default:
				w.block(c, indent+"  ")
			}
			if n.IsTight {
				w.tighten()
			}
			first = indent + "  "
		}
	}
	if n.IsTight {
		w.out.WriteByte('\n')
	}
}

// table writes an aligned table if it fits the terminal, else each line as a list of its cells.
func (w *writer) table(n *extast.Table, indent string) {
	var t texttab.Table
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			cells = append(cells, w.inline(c))
		}
		if _, heading := row.(*extast.TableHeader); heading {
			for i, title := range cells {
				t.Columns = append(t.Columns, texttab.Column{Title: title, Right: n.Alignments[i] == extast.AlignRight})
			}
			continue
		}
		t.Add(cells...)
	}
	if w.width == 0 || t.MinWidth()+len(indent) <= w.width {
		var b strings.Builder
		_ = t.Write(&b, 0) // a strings.Builder does not fail
		w.out.WriteString(indent + strings.ReplaceAll(strings.TrimRight(b.String(), "\n"), "\n", "\n"+indent) + "\n\n")
		return
	}
	for _, line := range t.Lines {
		for i, cell := range line.Cells {
			if cell == "" {
				continue
			}
			if title := t.Columns[i].Title; title != "" {
				cell = title + ": " + cell
			}
			first := indent + "  "
			if i == 0 {
				first = indent + "- "
			}
			w.paragraph(cell, first, indent+"    ")
			w.tighten()
		}
	}
	w.out.WriteByte('\n')
}

// tighten removes the empty line after the last paragraph.
func (w *writer) tighten() {
	w.out.Truncate(len(bytes.TrimSuffix(w.out.Bytes(), []byte("\n\n"))) + 1)
}

// inline returns the text of a node's children. Code keeps its backquotes; a link to another page names its
// topic, and a link to a site its address.
func (w *writer) inline(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Value(w.page.text))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.CodeSpan:
			b.WriteString("`" + w.inline(c) + "`")
		case *ast.AutoLink:
			b.Write(c.URL(w.page.text))
		case *ast.Link:
			b.WriteString(w.link(c))
		case *ast.Image:
			b.WriteString("(picture: " + w.inline(c) + ")")
		default:
			b.WriteString(w.inline(c))
		}
	}
	return b.String()
}

func (w *writer) link(n *ast.Link) string {
	text := w.inline(n)
	topic, _, ok := w.page.target(string(n.Destination))
	switch {
	case ok && (topic == w.page.Topic || topic == text || strings.Contains(text, "docs "+topic)):
		return text
	case ok:
		return text + " (`docs " + topic + "`)"
	}
	if file, ok := w.page.source(string(n.Destination)); !ok {
		return text + " (" + string(n.Destination) + ")"
	} else if strings.Trim(text, "`/") != file {
		return text + " (" + file + ")"
	}
	return text
}
