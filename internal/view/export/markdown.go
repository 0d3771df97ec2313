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
	secs, all, err := sections(in, opts)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	m := texttab.ForMarkdown(&b)
	for _, s := range secs {
		m.Printf("**%s**", s.title)
		for _, c := range quoted(s.constants) {
			m.Printf(" %s", c)
		}
		m.Printf("\n\n")
		if len(s.columns) > 0 {
			m.Table(s.layout())
			m.Printf("\n")
		}
		for _, text := range s.legend {
			m.Printf("- %s\n", texttab.Paragraph(text))
		}
		if len(s.legend) > 0 {
			m.Printf("\n")
		}
		if s.gap != "" {
			m.Printf("%s\n\n", texttab.Paragraph(s.gap))
		}
	}
	if note := launchesNote(secs); note != "" {
		m.Printf("%s\n\n", texttab.Paragraph(note))
	}
	m.Printf("%s\n", texttab.Paragraph(summary(all)))
	_, err = w.Write(b.Bytes())
	return err
}
