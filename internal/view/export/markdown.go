package export

import (
	"bytes"
	"fmt"
	"io"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

func init() {
	Formats.Register(Format{Name: "markdown", Help: "the table in Markdown", Write: writeMarkdown})
}

// writeMarkdown writes the content of the table format as GitHub-flavored Markdown, for a
// report. It ignores Options.Width, since browsers wrap.
func writeMarkdown(w io.Writer, in Input, opts Options) error {
	secs, all, err := sections(in, opts)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, s := range secs {
		fmt.Fprintf(&b, "**%s**", texttab.Markdown(s.title))
		for _, c := range quoted(s.constants) {
			b.WriteString(" " + texttab.Markdown(c))
		}
		b.WriteString("\n\n")
		if len(s.columns) > 0 {
			b.WriteString(s.layout().Markdown() + "\n")
		}
		for _, text := range s.legend {
			b.WriteString("- " + texttab.Markdown(text) + "\n")
		}
		if len(s.legend) > 0 {
			b.WriteByte('\n')
		}
		if s.gap != "" {
			b.WriteString(texttab.Markdown(s.gap) + "\n\n")
		}
	}
	if note := launchesNote(secs); note != "" {
		b.WriteString(texttab.Markdown(note) + "\n\n")
	}
	b.WriteString(texttab.Markdown(summary(all)) + "\n")
	_, err = w.Write(b.Bytes())
	return err
}
