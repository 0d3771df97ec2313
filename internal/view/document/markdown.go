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

// markdownWriter collects lines of Markdown.
type markdownWriter struct{ strings.Builder }

func (m *markdownWriter) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// WriteMarkdown writes the document for places that do not show HTML. It lists only
// the rows that failed, because rows.csv has all rows.
func (d Document) WriteMarkdown(w io.Writer) error {
	var m markdownWriter
	m.line("# %s\n\n%s\n", plain(d.Title), plain(d.Subtitle))
	if len(d.Counts) > 0 {
		counts := lists.Map(d.Counts, func(c Count) string { return fmt.Sprintf("%d %s", c.N, plain(string(c.Status))) })
		m.line("Rows: %s.\n", strings.Join(counts, ", "))
	}
	m.sections(d.Sections, true)
	m.line("## Summary\n\n%s\n", plain(d.Summary))
	for _, r := range d.Remarks {
		m.line("- %s", plain(r))
	}
	if len(d.Remarks) > 0 {
		m.line("")
	}
	if len(d.Figures) > 0 || d.NoFigure != "" {
		m.line("## Figures\n")
	}
	if d.NoFigure != "" {
		m.line("%s\n", plain(d.NoFigure))
	}
	for _, f := range d.Figures {
		title, _, _ := strings.Cut(f.Alt, ". ")
		m.line("![%s](figures/%s.png)\n", strings.NewReplacer("[", "(", "]", ")").Replace(plain(title)), f.Name)
	}
	m.sections(d.Sections, false)
	m.failures(d.Tables)
	m.line("## Provenance\n")
	for _, f := range d.Facts {
		m.line("- %s: %s", plain(f.Name), plain(f.Value))
	}
	for _, f := range d.Inputs {
		m.line("- input %s: SHA-256 `%s`", plain(f.Name), oneLine(f.Value))
	}
	m.line("\n## How to reproduce\n")
	for _, c := range d.Commands {
		m.line("    %s\n", oneLine(c))
	}
	m.line("To write these views again from the stored rows, run this in the folder of this file:\n\n    %s\n",
		oneLine(d.Redraw))
	m.line("`rows.csv` has all rows, `journal.jsonl` everything that was recorded.")
	_, err := io.WriteString(w, strings.ToValidUTF8(m.String(), "\uFFFD"))
	return err
}

// failures lists the rows that failed, with the place of their output.
func (m *markdownWriter) failures(tables []Table) {
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
				m.line("## Rows that failed\n")
			}
			listed++
			where := ""
			if r.Logs != "" {
				where = fmt.Sprintf(" (`%s`)", r.Logs)
			}
			cells := lists.NonEmpty(lists.Map(r.Cells, func(c Cell) string { return c.Text })...)
			m.line("- %s: %s: %s%s", plain(t.Title), plain(strings.Join(cells, " ")), plain(r.Reason), where)
			for _, end := range r.Ranks {
				m.line("  - %s", plain(end))
			}
		}
	}
	if more > 0 {
		m.line("- and %d more", more)
	}
	if listed > 0 {
		m.line("")
	}
}

// sections writes the sections that lead, or the others.
func (m *markdownWriter) sections(sections []Section, lead bool) {
	for _, s := range sections {
		if s.Lead != lead {
			continue
		}
		m.line("## %s\n", plain(s.Title))
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
			m.table(rows)
			m.line("✓ passed, ✗ failed, – skipped, ○ not executed\n")
		}
		if len(s.Table) > 0 {
			m.table(s.Table)
		}
	}
}

func (m *markdownWriter) block(b Block) {
	for i, item := range b.Items {
		switch {
		case b.Ordered:
			fmt.Fprintf(m, "%d. ", i+1)
		case b.List:
			m.WriteString("- ")
		}
		for _, span := range item {
			switch {
			case span.Code:
				fmt.Fprintf(m, "`%s`", span.Text)
			case span.Bold:
				fmt.Fprintf(m, "**%s**", texttab.Markdown(span.Text))
			default:
				m.WriteString(texttab.Markdown(span.Text))
			}
		}
		m.line("")
	}
	m.line("")
}

// table writes a table whose first row is the heading.
func (m *markdownWriter) table(rows [][]string) {
	tab := texttab.Table{Columns: lists.Map(rows[0], func(title string) texttab.Column {
		return texttab.Column{Title: oneLine(title)}
	})}
	for _, r := range rows[1:] {
		tab.Add(lists.Map(r, oneLine)...)
	}
	m.line("%s", tab.Markdown())
}

// plain escapes markup in a text and puts it on one line.
func plain(s string) string { return texttab.Markdown(oneLine(s)) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// WriteText writes the section for a terminal of the given width: title, table, text.
func (s Section) WriteText(w io.Writer, width int) error {
	var b strings.Builder
	b.WriteString(texttab.Plain(s.Title) + "\n")
	if len(s.Table) > 0 {
		column := func(title string) texttab.Column { return texttab.Column{Title: texttab.Plain(title), Right: true} }
		tab := texttab.Table{Columns: lists.Map(s.Table[0], column)}
		for _, line := range s.Table[1:] {
			tab.Add(lists.Map(line, texttab.Plain)...)
		}
		if err := tab.Write(&b, width); err != nil {
			return err
		}
	}
	if s.Text != "" {
		b.WriteString(texttab.Lines(s.Text) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
