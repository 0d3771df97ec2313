package texttab

import "strings"

// markdownEscapes are the characters that would end a cell or start markup
// inside a word; an underscore within a name does neither.
var markdownEscapes = strings.NewReplacer(`\`, `\\`, `|`, `\|`, `*`, `\*`, "`", "\\`", `[`, `\[`, `~`, `\~`, `<`,
	`&lt;`, `&`, `&amp;`)

// Markdown is text as a cell of a table in GitHub-flavoured Markdown.
func Markdown(s string) string { return markdownEscapes.Replace(s) }

// Markdown is the table in GitHub-flavoured Markdown. A remark between its lines is an ellipsis in every column.
func (t *Table) Markdown() string {
	var b strings.Builder
	line := func(cell func(column int) string) {
		for i := range t.Columns {
			b.WriteString("| " + cell(i) + " ")
		}
		b.WriteString("|\n")
	}
	line(func(i int) string { return Markdown(t.Columns[i].Title) })
	line(func(i int) string {
		if t.Columns[i].Right {
			return "--:"
		}
		return "---"
	})
	for _, l := range t.Lines {
		line(func(i int) string {
			if l.Text != "" {
				return Ellipsis
			}
			return Markdown(l.Cells[i])
		})
	}
	return b.String()
}
