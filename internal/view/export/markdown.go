package export

import (
	"bytes"
	"io"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

func init() {
	Formats.Register(Format{Name: "markdown", Help: "the table in Markdown", Write: writeMarkdown})
}

// writeMarkdown writes the content of the table format as GitHub-flavored Markdown, for a report. It ignores
// Options.Width, because browsers wrap lines.
func writeMarkdown(w io.Writer, in Input, opts Options) error {
	tables, err := Tables(in, opts)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	m := texttab.ForMarkdown(&b)
	for _, t := range tables {
		m.Printf("**%s**", t.Title)
		for _, c := range quoted(t.Constants) {
			m.Printf(" %s", c)
		}
		m.Printf("\n\n")
		if len(t.Columns) > 0 {
			m.Table(t.layout())
			m.Printf("\n")
		}
		for _, text := range t.Legend {
			m.Printf("- %s\n", texttab.Paragraph(text))
		}
		if len(t.Legend) > 0 {
			m.Printf("\n")
		}
		if t.gap != "" {
			m.Printf("%s\n\n", texttab.Paragraph(t.gap))
		}
	}
	if note := noteOf(tables); note != "" {
		m.Printf("%s\n\n", texttab.Paragraph(note))
	}
	m.Printf("%s\n", texttab.Paragraph(summary(tables)))
	_, err = w.Write(b.Bytes())
	return err
}
