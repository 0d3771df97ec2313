package texttab

import "strings"

// markdownEscapes are the characters that would end a cell or start markup
// inside a word; an underscore within a name does neither.
var markdownEscapes = strings.NewReplacer(`\`, `\\`, `|`, `\|`, `*`, `\*`, "`", "\\`", `[`, `\[`, `~`, `\~`, `<`,
	`&lt;`, `&`, `&amp;`)

// Markdown is text as a cell of a table in GitHub-flavoured Markdown.
func Markdown(s string) string { return markdownEscapes.Replace(s) }
