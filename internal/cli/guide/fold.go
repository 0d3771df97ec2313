package guide

import (
	"bytes"
	"cmp"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// leastFold is the smallest width to which lines are folded.
const leastFold = 40

// tooWide reports whether a line of a text does not fit a terminal of that width (0: no limit).
func tooWide(text string, width int) bool {
	return width > 0 && slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		return texttab.Width(line) > max(width, leastFold)
	})
}

// continued begins a line that continues the second column of a list.
const continued = "      "

// fold breaks the lines of a help text. Paragraphs that fit stay as they are.
func fold(text string, width int) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		if !tooWide(p, width) {
			continue
		}
		var items []string // paragraphs without indentation, and lines of lists and commands
		for _, line := range strings.Split(p, "\n") {
			last := len(items) - 1
			if last >= 0 && strings.HasPrefix(line, " ") == strings.HasPrefix(items[last], " ") &&
				(!strings.HasPrefix(line, " ") || strings.HasPrefix(line, continued)) {
				items[last] += " " + strings.TrimSpace(line)
			} else {
				items = append(items, line)
			}
		}
		paragraphs[i] = strings.Join(lists.Map(items, func(item string) string { return foldLine(item, width) }), "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}

// columns matches a line with two columns. Its second group is the second column.
var columns = regexp.MustCompile(`^( *\S.*?  +)(\S.*)$`)

// Columns is a writer that aligns two columns, which are separated by a tab, and breaks lines that are wider than the
// terminal.
type Columns struct {
	*tabwriter.Writer
	w     io.Writer
	text  *bytes.Buffer
	width int
}

// NewColumns returns a writer for a terminal of that width (0: no limit).
func NewColumns(w io.Writer, width int) Columns {
	text := new(bytes.Buffer)
	return Columns{tabwriter.NewWriter(text, 0, 4, 2, ' ', 0), w, text, width}
}

// Flush writes the lines.
func (c Columns) Flush() error {
	_ = c.Writer.Flush() // a bytes.Buffer does not fail
	for line := range strings.Lines(c.text.String()) {
		text := texttab.Block(foldLine(strings.TrimSuffix(line, "\n"), c.width))
		if err := texttab.ForTerminal(c.w).Printf("%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// foldLine breaks a line. Further lines begin at its second column, if it has any.
func foldLine(line string, width int) string {
	if !tooWide(line, width) {
		return line
	}
	words := strings.Fields(line)
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	if m := columns.FindStringSubmatch(line); m != nil {
		words, indent = append([]string{m[1][:len(m[1])-1]}, strings.Fields(m[2])...), strings.Repeat(" ", len(m[1]))
	} else {
		words[0] = indent + words[0]
	}
	return texttab.Wrap(words, max(width, leastFold), indent)
}

// foldCommands breaks the lines of commands as a shell reads them: with a backslash, and not in a quoted text.
func foldCommands(text string, width int) string {
	return strings.Join(lists.Map(strings.Split(text, "\n"), func(line string) string {
		return foldCommand(line, width)
	}), "\n")
}

func foldCommand(line string, width int) string {
	if !tooWide(line, width) {
		return line
	}
	begin := len(line) - len(strings.TrimLeft(line, " "))
	quote, blank, flag := byte(0), 0, 0 // the last blanks at which the line may be broken; flag is before a flag
	for i := begin; i < max(width, leastFold)-1; i++ {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ' ':
			blank = i
			if strings.HasPrefix(line[i:], " -") {
				flag = i
			}
		}
	}
	at := cmp.Or(flag, blank)
	if at == 0 {
		return line
	}
	return line[:at] + " \\\n" + foldCommand(continued+line[at+1:], width)
}
