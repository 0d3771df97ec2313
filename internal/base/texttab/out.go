package texttab

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Out prints text for people. It treats every argument as text from outside, such as a name in somebody else's journal
// or the error of a program, and escapes it for the medium. It is not an io.Writer, and its formats are constants, so
// that a text cannot get past the escaping by mistake: that would not compile.
type Out struct {
	w      io.Writer
	escape func(string) string
}

// ForTerminal returns an Out whose arguments can neither control a terminal nor forge a line.
func ForTerminal(w io.Writer) Out { return Out{w, Plain} }

// ForMarkdown returns an Out whose arguments are shown literally in Markdown, in one line each.
func ForMarkdown(w io.Writer) Out { return Out{w, markdown} }

// constant is a string that is known at compile time: other packages have no value of this type but the constants in
// their source.
type constant string

// Finished is text that an Out prints as it is.
type Finished struct{ text string }

func (f Finished) String() string { return f.text }

// Block is text of several lines for a terminal, such as an error with an excerpt of a file. Only its control
// characters are escaped.
func Block(s string) Finished { return Finished{Lines(s)} }

// Code is a code span for Markdown. Its fence is longer than any run of backquotes in the text, which therefore cannot
// end it.
func Code(s string) Finished {
	s = Plain(strings.Join(strings.Fields(s), " "))
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		s = " " + s + " "
	}
	return Finished{fence + s + fence}
}

// CodeLine is a paragraph of code for Markdown: a line that is indented by four spaces.
func CodeLine(s string) Finished {
	return Finished{"    " + Plain(strings.Join(strings.Fields(s), " "))}
}

// Link is the address of a link in Markdown, or a part of it.
func Link(s string) Finished {
	return Finished{linkEscapes.Replace(Plain(s))}
}

var linkEscapes = strings.NewReplacer("(", "%28", ")", "%29", " ", "%20", "<", "%3C", ">", "%3E")

// Printf prints to o like fmt.Printf, with the arguments escaped. Numbers are printed as they are.
func (o Out) Printf(format constant, args ...any) error {
	escaped := make([]any, len(args))
	for i, arg := range args {
		escaped[i] = o.safe(arg)
	}
	_, err := fmt.Fprintf(o.w, string(format), escaped...)
	return err
}

func (o Out) safe(arg any) any {
	switch arg := arg.(type) {
	case Finished:
		return arg.text
	case error, fmt.Stringer:
		return o.escape(fmt.Sprint(arg))
	}
	switch kind := reflect.ValueOf(arg).Kind(); {
	case kind >= reflect.Bool && kind <= reflect.Complex128:
		return arg
	}
	return o.escape(fmt.Sprint(arg))
}

// Table prints a table in Markdown.
func (o Out) Table(t *Table) error {
	_, err := io.WriteString(o.w, t.Markdown())
	return err
}

// Writer returns the underlying writer, for a package that renders a whole document and escapes it itself.
func (o Out) Writer() io.Writer { return o.w }
