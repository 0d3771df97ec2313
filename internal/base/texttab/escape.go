package texttab

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain makes text safe for a table cell: control characters, line ends and invalid bytes become
// visible escapes, so that a value can neither break a line nor control the terminal.
func Plain(s string) string {
	printable := func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
	return escape(s, printable, func(b *strings.Builder, r rune) {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xff:
			fmt.Fprintf(b, `\u{%x}`, r)
		default:
			fmt.Fprintf(b, `\x%02x`, r)
		}
	})
}

// Lines makes a whole output safe for a terminal: control characters other than line ends and
// tabs become visible escapes. JSON stays valid and keeps its meaning.
func Lines(s string) string {
	harmless := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) }
	return escape(s, harmless, func(b *strings.Builder, r rune) {
		if r < ' ' {
			fmt.Fprintf(b, `\x%02x`, r)
			return
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	})
}

// Visible makes text safe for HTML and SVG: control characters other than line ends and tabs, and characters that
// change the direction of text or end a line, become visible escapes. Everything else is kept, also characters that
// join others, which some languages need. The escapes contain no character that means something to HTML.
func Visible(s string) string {
	return escape(s, shown, func(b *strings.Builder, r rune) { fmt.Fprintf(b, `\u{%x}`, r) })
}

func shown(r rune) bool {
	switch r {
	case '\n', '\t':
		return true
	case '\u2028', '\u2029', '\ufeff', '\ufffe', '\uffff':
		return false
	}
	return !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r)
}

// escape calls write for the characters that keep rejects. Bytes that are not UTF-8 become \xNN.
func escape(s string, keep func(rune) bool, write func(b *strings.Builder, r rune)) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !keep(r) }) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case keep(r):
			b.WriteRune(r)
		default:
			write(&b, r)
		}
	}
	return b.String()
}

var (
	// markdownEscapes replaces the characters that would end a cell or start markup. Underscores
	// stay, because they do neither within a name.
	markdownEscapes = strings.NewReplacer(`\`, `\\`, `|`, `\|`, `*`, `\*`, "`", "\\`", `[`, `\[`, `~`, `\~`, `<`,
		`&lt;`, `&`, `&amp;`)
	lineEnds = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")
	// blockStart matches the begin of a line that Markdown takes for a heading, a quotation, a rule or a list.
	blockStart = regexp.MustCompile(`^(\d*)([#>=]|--|[-+.)](?:\s|$))`)
)

// markdown escapes text for a line or a cell of GitHub-flavoured Markdown. Line ends become spaces. At the begin of a
// line, use Paragraph.
func markdown(s string) string { return markdownEscapes.Replace(Plain(lineEnds.Replace(s))) }

// Paragraph escapes text at the begin of a line in Markdown, so that it does not become a heading or a list.
func Paragraph(s string) Finished { return Begin(strings.Join(strings.Fields(s), " ")) }

// Begin is Paragraph for text that is continued, whose last space is kept.
func Begin(s string) Finished {
	return Finished{blockStart.ReplaceAllString(strings.TrimLeft(markdown(s), " "), `$1\$2`)}
}
