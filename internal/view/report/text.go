package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// maxFaults is how many rows that failed a Markdown file lists; the rest is in
// rows.csv.
const maxFaults = 100

// marks stand for the colours of a grid.
var marks = map[string]string{"ok": "✓", "failed": "✗", "skipped": "–", "missing": "○", "empty": ""}

func (p page) writeText(w io.Writer) error {
	_, err := io.WriteString(w, p.text())
	return err
}

// text is the page as Markdown, for places that show no HTML. It has everything
// but the rows that are ok, which rows.csv holds.
func (p page) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s\n\n%s\n", plain(p.Title), plain(p.Subtitle))
	counts := lists.Map(p.Counts, func(c count) string { return fmt.Sprintf("%d %s", c.N, plain(c.Text)) })
	if len(counts) > 0 {
		line("Rows: %s.\n", strings.Join(counts, ", "))
	}
	for _, s := range p.Lead {
		b.WriteString(s.text())
	}
	line("## Summary\n\n%s\n", plain(p.Summary))
	for _, r := range p.Remarks {
		line("- %s", plain(r))
	}
	if len(p.Remarks) > 0 {
		line("")
	}
	if len(p.Pictures) > 0 || p.NoFigure != "" {
		line("## Figures\n")
	}
	if p.NoFigure != "" {
		line("%s\n", plain(p.NoFigure))
	}
	for _, f := range p.Pictures {
		title, _, _ := strings.Cut(f.Alt, ". ") // the picture speaks for itself where it is shown
		line("![%s](figures/%s.png)\n", strings.NewReplacer("[", "(", "]", ")").Replace(plain(title)), f.Name)
	}
	for _, s := range p.Sections {
		b.WriteString(s.text())
	}
	p.faults(line)
	line("## Provenance\n")
	for _, f := range p.Facts {
		line("- %s: %s", plain(f.Name), plain(f.Value))
	}
	for _, f := range p.Inputs {
		line("- input %s: SHA-256 `%s`", plain(f.Name), f.Value)
	}
	line("\n## How to reproduce\n")
	for _, c := range p.Commands {
		line("    %s\n", oneLine(c))
	}
	line("The views again from the stored rows, in this folder:\n\n    %s\n", oneLine(p.Redraw))
	line("All rows are in `rows.csv`, everything that was recorded in `journal.jsonl`.")
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// faults lists the rows that failed, with where their output is.
func (p page) faults(line func(string, ...any)) {
	listed, left := 0, 0
	for _, t := range p.Tables {
		for _, r := range t.Rows {
			bad := false
			var cells []string
			for _, c := range r.Cells {
				bad = bad || c.Status == "failed"
				if c.Text != "" {
					cells = append(cells, c.Text)
				}
			}
			switch {
			case !bad:
				continue
			case listed == maxFaults:
				left++
				continue
			case listed == 0:
				line("## Rows that failed\n")
			}
			listed++
			where := ""
			if r.Logs != "" {
				where = fmt.Sprintf(" (`%s`)", r.Logs)
			}
			line("- %s: %s: %s%s", plain(t.Title), plain(strings.Join(cells, " ")), plain(r.Reason), where)
			for _, end := range r.Ranks {
				line("  - %s", plain(end))
			}
		}
	}
	if left > 0 {
		line("- and %d more", left)
	}
	if listed > 0 {
		line("")
	}
}

func (s section) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", plain(s.Title))
	for _, block := range s.Blocks {
		for i, item := range block.Items {
			switch {
			case block.Ordered:
				fmt.Fprintf(&b, "%d. ", i+1)
			case block.List:
				b.WriteString("- ")
			}
			for _, span := range item {
				switch {
				case span.Code:
					fmt.Fprintf(&b, "`%s`", span.Text)
				case span.Bold:
					fmt.Fprintf(&b, "**%s**", escaped.Replace(span.Text))
				default:
					b.WriteString(escaped.Replace(span.Text))
				}
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	if g := s.Grid; g != nil {
		rows := [][]string{append([]string{g.Corner}, g.Columns...)}
		for _, r := range g.Rows {
			row := []string{r.Name}
			for _, c := range r.Cells {
				row = append(row, strings.TrimSpace(marks[cellClass(c.Status)]+" "+c.Text))
			}
			rows = append(rows, row)
		}
		b.WriteString(pipes(rows))
		b.WriteString("✓ passed, ✗ failed, – skipped, ○ not executed\n\n")
	}
	if len(s.Head) > 0 {
		b.WriteString(pipes(append([][]string{s.Head}, s.Rows...)))
	}
	return b.String()
}

// pipes is a table, its first row the heading.
func pipes(rows [][]string) string {
	var b strings.Builder
	for i, r := range rows {
		b.WriteString("|")
		for _, c := range r {
			b.WriteString(" " + plain(c) + " |")
		}
		b.WriteString("\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(r)) + "|\n")
		}
	}
	b.WriteString("\n")
	return b.String()
}

// plain keeps a text from being taken for markup, and on one line.
func plain(s string) string { return escaped.Replace(oneLine(s)) }

var escaped = strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "\\`", "*", `\*`, "\n", " ")

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Headlines prints the sections that the bench wants to be read first, as text
// of the given width. It reports whether there was any.
func Headlines(w io.Writer, b *bench.Bench, rows []journal.Row, width int) (written bool, err error) {
	all, err := sectionsOf(b, rows)
	if err != nil {
		return false, err
	}
	for _, s := range all {
		if !s.Headline {
			continue
		}
		if written {
			fmt.Fprintln(w)
		}
		written = true
		if _, err := fmt.Fprintf(w, "%s\n", s.Title); err != nil {
			return written, err
		}
		if len(s.Table) > 0 {
			column := func(title string) texttab.Column { return texttab.Column{Title: title, Right: true} }
			tab := texttab.Table{Columns: lists.Map(s.Table[0], column)}
			for _, line := range s.Table[1:] {
				tab.Add(line...)
			}
			if err := tab.Write(w, width); err != nil {
				return written, err
			}
		}
		if s.Text != "" {
			fmt.Fprintln(w, s.Text)
		}
	}
	return written, nil
}
