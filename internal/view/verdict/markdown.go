package verdict

import (
	"fmt"
	"io"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// maxMarkdown is how many lines a table of a pull request has: GitHub refuses comments of
// more than 64 KiB.
const maxMarkdown = 200

// writeMarkdown is for a pull request: what is not well first, the rest on demand.
func (r Report) writeMarkdown(w io.Writer, _ int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", texttab.Markdown(strings.TrimSuffix(strings.Join(r.Heading, " "), ":")))
	good := lists.Filter(r.Lines, func(l Line) bool { return l.Outcome == Passed })
	r.markdownTable(&b, lists.Filter(r.Lines, func(l Line) bool { return l.Outcome != Passed }))
	for _, remark := range r.Remarks {
		if remark != "" {
			b.WriteString(texttab.Markdown(remark) + "\n\n")
		}
	}
	if len(good) > 0 {
		fmt.Fprintf(&b, "<details><summary>%d without a finding</summary>\n\n", len(good))
		r.markdownTable(&b, good)
		b.WriteString("</details>\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) markdownTable(b *strings.Builder, lines []Line) {
	if len(lines) == 0 {
		return
	}
	t := texttab.Table{Columns: r.Columns}
	for _, l := range lines[:min(len(lines), maxMarkdown)] {
		t.Add(l.Cells...)
	}
	b.WriteString(t.Markdown())
	if more := len(lines) - maxMarkdown; more > 0 {
		fmt.Fprintf(b, "\nand %d more\n", more)
	}
	b.WriteByte('\n')
}
