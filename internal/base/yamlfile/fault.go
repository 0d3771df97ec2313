package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is an error in a file and its position.
type Fault struct {
	Line, Column int // from 1; the column counts characters
	Msg          string
	Excerpt      string // the line with a caret under the column
}

// Error is the list of faults of a file, in the order of its lines.
type Error struct {
	File    string
	Faults  []Fault
	Omitted int // number of further faults
}

// Multiline marks the error for texttab.Failure: each fault has an excerpt of the file.
func (e *Error) Multiline() {}

func (e *Error) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s\n%s", e.File, f.Line, f.Column, f.Msg, f.Excerpt)
	}
	if e.Omitted > 0 {
		fmt.Fprintf(&b, "\n%s: and %d more", e.File, e.Omitted)
	}
	return b.String()
}

// source is the text of a file and its faults.
type source struct {
	name   string
	lines  []string
	faults []Fault
}

func newSource(name string, data []byte) source {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	return source{name: name, lines: strings.Split(text, "\n")}
}

// line returns line n of the file, counted from 1, or "" beyond its end.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

func (s *source) add(line, column int, msg string) {
	s.faults = append(s.faults, Fault{Line: line, Column: column, Msg: msg})
}

// maxFaults is the largest number of faults that an error lists.
const maxFaults = 20

// Err returns all faults as one *Error, or nil.
func (s *source) Err() error {
	if len(s.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(s.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	shown := s.faults[:min(len(s.faults), maxFaults)]
	for i, f := range shown {
		shown[i].Excerpt = s.excerpt(f.Line, f.Column)
	}
	return &Error{s.name, shown, len(s.faults) - len(shown)}
}

// maxExcerpt is the largest number of characters of a line that an excerpt shows.
const maxExcerpt = 100

// excerpt returns the line with its number, and below it a caret under the column.
func (s *source) excerpt(line, column int) string {
	shown := []rune(strings.ToValidUTF8(s.line(line), "?"))
	at := min(max(column-1, 0), len(shown))
	if len(shown) > maxExcerpt {
		from := min(max(at-maxExcerpt/2, 0), len(shown)-maxExcerpt)
		shown, at = shown[from:from+maxExcerpt], at-from
	}
	// Tabs are copied to the line of the caret, so that it stands under its column at any tab width.
	indent := make([]rune, min(at, len(shown)))
	for i := range indent {
		indent[i] = ' '
		if shown[i] == '\t' {
			indent[i] = '\t'
		}
	}
	number := fmt.Sprint(line)
	return fmt.Sprintf("  %s | %s\n  %s | %s^", number, string(shown), strings.Repeat(" ", len(number)), string(indent))
}
