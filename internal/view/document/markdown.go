package document

import (
	"fmt"
	"io"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// maxFailures is the number of failed rows that a Markdown file lists. rows.csv has
// all of them.
const maxFailures = 100

// gridMarks stand for the colors of a grid's cells, by class.
var gridMarks = map[string]string{"ok": "✓", "failed": "✗", "skipped": "–", "missing": "○", "empty": ""}

// markdownWriter prints Markdown. All arguments are escaped.
type markdownWriter struct{ texttab.Out }

// WriteMarkdown writes the document for places that do not show HTML. It lists only
// the rows that failed, because rows.csv has all rows.
func (d Document) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	m := markdownWriter{texttab.ForMarkdown(&b)}
	m.Printf("# %s\n\n%s\n\n", d.Title, texttab.Paragraph(d.Subtitle))
	if len(d.Counts) > 0 {
		counts := lists.Map(d.Counts, func(c Count) string { return fmt.Sprintf("%d %s", c.N, c.Status) })
		if d.Doubtful > 0 {
			counts = append(counts, fmt.Sprintf("%d disturbed", d.Doubtful))
		}
		m.Printf("Rows: %s.\n\n", strings.Join(counts, ", "))
	}
	m.sections(d.Sections, true)
	m.Printf("## Summary\n\n%s\n\n", texttab.Paragraph(d.Summary))
	for _, r := range d.Remarks {
		m.Printf("- %s\n", texttab.Paragraph(r))
	}
	if len(d.Remarks) > 0 {
		m.Printf("\n")
	}
	if len(d.Figures) > 0 || d.NoFigure != "" {
		m.Printf("## Figures\n\n")
	}
	if d.NoFigure != "" {
		m.Printf("%s\n\n", texttab.Paragraph(d.NoFigure))
	}
	for _, f := range d.Figures {
		title, _, _ := strings.Cut(f.Alt, ". ")
		m.Printf("![%s](figures/%s.png)\n\n", strings.NewReplacer("[", "(", "]", ")").Replace(title),
			texttab.Link(f.Name))
	}
	m.sections(d.Sections, false)
	m.failures(d.Tables)
	m.Printf("## Provenance\n\n")
	for _, f := range d.Facts {
		m.Printf("- %s: %s\n", texttab.Paragraph(f.Name), f.Value)
	}
	for _, f := range d.Inputs {
		m.Printf("- input %s: SHA-256 %s\n", f.Name, texttab.Code(f.Value))
	}
	m.Printf("\n## How to reproduce\n\n")
	for _, c := range d.Commands {
		m.Printf("%s\n\n", texttab.CodeLine(c))
	}
	m.Printf("To write these views again from the stored rows, run this in the folder of this file:\n\n%s\n\n",
		texttab.CodeLine(d.Redraw))
	m.Printf("`rows.csv` has all rows, `journal.jsonl` everything that was recorded.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// failures lists the rows that failed, with the place of their output.
func (m markdownWriter) failures(tables []Table) {
	listed, more := 0, 0
	for _, t := range tables {
		for _, r := range t.Rows {
			switch {
			case r.Status != "failed":
				continue
			case listed == maxFailures:
				more++
				continue
			case listed == 0:
				m.Printf("## Rows that failed\n\n")
			}
			listed++
			cells := lists.NonEmpty(lists.Map(r.Cells, func(c Cell) string { return c.Text })...)
			m.Printf("- %s: %s: %s", texttab.Paragraph(t.Title), strings.Join(cells, " "), r.Reason)
			if r.Logs != "" {
				m.Printf(" (%s)", texttab.Code(r.Logs))
			}
			m.Printf("\n")
			for _, end := range r.Ranks {
				m.Printf("  - %s\n", texttab.Paragraph(end))
			}
		}
	}
	if more > 0 {
		m.Printf("- and %d more\n", more)
	}
	if listed > 0 {
		m.Printf("\n")
	}
}

// sections writes the sections that lead, or the others.
func (m markdownWriter) sections(sections []Section, lead bool) {
	for _, s := range sections {
		if s.Lead != lead {
			continue
		}
		m.Printf("## %s\n\n", s.Title)
		for _, block := range s.Blocks {
			m.block(block)
		}
		if g := s.Grid; g != nil {
			rows := [][]string{append([]string{g.Corner}, g.Columns...)}
			for _, r := range g.Rows {
				row := []string{r.Name}
				for _, c := range r.Cells {
					row = append(row, strings.TrimSpace(gridMarks[gridClass(c.Status)]+" "+c.Text))
				}
				rows = append(rows, row)
			}
			m.table(rows, nil)
			m.Printf("✓ passed, ✗ failed, – skipped, ○ not executed\n\n")
		}
		if len(s.Table) > 0 {
			m.table(s.Table, s.Right)
		}
	}
}

func (m markdownWriter) block(b Block) {
	for i, item := range b.Items {
		switch {
		case b.Ordered:
			m.Printf("%d. ", i+1)
		case b.List:
			m.Printf("- ")
		}
		for k, span := range item {
			switch {
			case span.Code:
				m.Printf("%s", texttab.Code(span.Text))
			case span.Bold:
				m.Printf("**%s**", span.Text)
			case k == 0:
				m.Printf("%s", texttab.Begin(span.Text))
			default:
				m.Printf("%s", span.Text)
			}
		}
		m.Printf("\n")
	}
	m.Printf("\n")
}

// table writes a table whose first row is the heading. right has the columns of numbers.
func (m markdownWriter) table(rows [][]string, right []bool) {
	tab := texttab.Table{Columns: columns(lists.Map(rows[0], oneLine), right)}
	for _, r := range rows[1:] {
		tab.Add(lists.Map(r, oneLine)...)
	}
	m.Table(&tab)
	m.Printf("\n")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// WriteText writes the section for a terminal of the given width: title, table, text.
func (s Section) WriteText(w io.Writer, width int) error {
	var b strings.Builder
	b.WriteString(texttab.Plain(s.Title) + "\n")
	if len(s.Table) > 0 {
		tab := texttab.Table{Columns: columns(s.Table[0], s.Right)}
		for _, line := range s.Table[1:] {
			tab.Add(line...)
		}
		if err := tab.Write(&b, width); err != nil {
			return err
		}
	}
	if s.Text != "" {
		for line := range strings.SplitSeq(s.Text, "\n") {
			b.WriteString(wrap(texttab.Lines(line), width) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a line that is longer than width (0: no limit). The rest of an item of a list is indented.
func wrap(line string, width int) string {
	if width == 0 || texttab.Width(line) <= width {
		return line
	}
	indent := ""
	if strings.HasPrefix(line, "- ") {
		indent = "  "
	}
	return texttab.Wrap(strings.Fields(line), width, indent)
}

// columns returns columns with the given titles. right marks the ones that are aligned to the right.
func columns(titles []string, right []bool) []texttab.Column {
	out := lists.Map(titles, func(title string) texttab.Column { return texttab.Column{Title: title} })
	for i, is := range right {
		out[i].Right = is
	}
	return out
}
