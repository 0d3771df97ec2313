package report

import (
	"regexp"
	"strings"
)

// Block is a paragraph or a list of the light Markdown of a section. It holds
// plain texts: whatever markup the source tries is escaped by the template.
type Block struct {
	List    bool // Items are list entries; otherwise there is one, a paragraph
	Ordered bool
	Items   [][]Span
}

// Span is a run of text in one style.
type Span struct {
	Text       string
	Code, Bold bool
}

var (
	bulletRE  = regexp.MustCompile(`^\s*[-*]\s+(.*)$`)
	orderedRE = regexp.MustCompile(`^\s*[0-9]+[.)]\s+(.*)$`)
)

// Markdown reads paragraphs separated by empty lines, lists of - or * or 1.,
// `code` and **bold**. Everything else is text.
func Markdown(text string) []Block {
	var out []Block
	var open *Block // what the next line may continue
	var lines []string
	flush := func() { // ends the paragraph or list entry under way
		if open != nil && len(lines) > 0 {
			open.Items = append(open.Items, inline(strings.Join(lines, " ")))
		}
		lines = nil
	}
	begin := func(list, ordered bool) {
		flush()
		if open == nil || !list || open.List != list || open.Ordered != ordered {
			out = append(out, Block{List: list, Ordered: ordered})
			open = &out[len(out)-1]
		}
	}
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		bullet, number := bulletRE.FindStringSubmatch(line), orderedRE.FindStringSubmatch(line)
		switch {
		case strings.TrimSpace(line) == "":
			flush()
			open = nil
			continue
		case bullet != nil:
			begin(true, false)
			line = bullet[1]
		case number != nil:
			begin(true, true)
			line = number[1]
		case open == nil:
			begin(false, false)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	flush()
	return out
}

// inline finds code and bold. A mark without its partner is text.
func inline(s string) []Span {
	var out []Span
	bold := false
	emit := func(text string, code bool) {
		last := len(out) - 1
		switch {
		case text == "":
		case last >= 0 && out[last].Code == code && out[last].Bold == bold:
			out[last].Text += text
		default:
			out = append(out, Span{text, code, bold})
		}
	}
	for {
		i := strings.IndexAny(s, "`*")
		if i < 0 {
			emit(s, false)
			return out
		}
		end := -1
		if s[i] == '`' {
			end = strings.IndexByte(s[i+1:], '`')
		}
		switch {
		case end > 0:
			emit(s[:i], false)
			emit(s[i+1:i+1+end], true)
			s = s[i+1+end+1:]
		case strings.HasPrefix(s[i:], "**") && (bold || strings.Contains(s[i+2:], "**")):
			emit(s[:i], false)
			bold = !bold
			s = s[i+2:]
		default:
			emit(s[:i+1], false)
			s = s[i+1:]
		}
	}
}
