package verdict

import (
	"fmt"
	"io"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
)

const (
	maxComment = 20 // changed points in a comment; the linked report has all of them
	maxNames   = 5  // names of points in one line of a comment
)

// writeGitHub writes a short comment for a pull request: the answer in one sentence, a table of the points
// that changed, a line about the equal points, a line about the undecided points, and a link to the report.
func (d Document) writeGitHub(w io.Writer, _ int) error {
	var b strings.Builder
	m := texttab.ForMarkdown(&b)
	m.Printf("### kernbench: %s\n\n", strings.TrimSuffix(d.Heading[0], ":"))
	if d.Sentence != "" {
		m.Printf("**%s**\n\n", d.Sentence)
	}
	d.writeDifferences(m)
	changed := lists.Filter(d.Lines, func(l Line) bool { return l.Outcome != Equal && l.Outcome != Undecided })
	more := max(0, len(changed)-maxComment)
	d.writeMarkdownTable(m, changed[:len(changed)-more])
	if more > 0 {
		m.Printf("%d more changed.\n\n", more)
	}
	for _, kind := range []struct {
		title string
		is    func(Line) bool
	}{
		{"Equal", func(l Line) bool { return l.Outcome == Equal }},
		{"Cannot tell", func(l Line) bool { return l.Outcome == Undecided }},
	} {
		if lines := lists.Filter(d.Lines, kind.is); len(lines) > 0 {
			m.Printf("%s: %s\n\n", kind.title, nameLines(lines))
		}
	}
	d.writeNotes(m, len(changed) > 0)
	if d.Link != "" {
		m.Printf("[Report](%s)\n", texttab.Link(d.Link))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeNotes writes the remarks in a folded section: the warnings and, if there is a table, the notes that
// it refers to.
func (d Document) writeNotes(m texttab.Out, table bool) {
	remarks := lists.Filter(d.Remarks, func(text string) bool {
		return text != "" && text != d.Sentence && (table || strings.HasPrefix(text, "warning: "))
	})
	if len(remarks) == 0 {
		return
	}
	m.Printf("<details><summary>Notes</summary>\n\n")
	for _, text := range remarks {
		m.Printf("- %s\n", texttab.Paragraph(text))
	}
	m.Printf("\n</details>\n\n")
}

// nameLines counts lines by verdict and names the first few: "3 points, no slowdown (a, b, c)".
func nameLines(lines []Line) string {
	names := lists.Map(lines[:min(len(lines), maxNames)], func(l Line) string { return l.Name })
	if len(lines) > maxNames {
		names = append(names, "...")
	}
	var verdicts lists.Set[string]
	for _, l := range lines {
		verdicts.Add(l.Verdict)
	}
	return fmt.Sprintf("%s, %s (%s)", unit.Plural(len(lines), "point"), strings.Join(verdicts.List, " or "),
		strings.Join(names, "; "))
}
