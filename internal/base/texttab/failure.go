package texttab

import (
	"strings"
)

// Multiline marks an error whose own text has several lines on purpose, such as one with an excerpt of a file.
type Multiline interface {
	error
	Multiline()
}

// detailed is an error with further lines below it.
type detailed struct {
	error
	detail string
}

func (d *detailed) Error() string { return d.error.Error() + "\n" + d.detail }
func (d *detailed) Unwrap() error { return d.error }

// WithDetail adds lines below an error, such as the output of a program. Empty ones change nothing.
func WithDetail(err error, lines string) error {
	if lines = strings.TrimSpace(lines); lines == "" {
		return err
	}
	return &detailed{err, lines}
}

// Failure is the text of an error for a terminal. A line end is kept only where the error has several lines on
// purpose: between joined errors, before details, and in Multiline. All others come from a name or a value and are
// escaped, so that these cannot forge a line.
func Failure(err error) Finished { return Finished{failure(err)} }

func failure(err error) string {
	text := err.Error()
	var inner []error
	switch e := err.(type) {
	case Multiline:
		return Lines(text)
	case *detailed:
		return failure(e.error) + "\n" + Lines(e.detail)
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	var b strings.Builder
	for _, e := range inner {
		if e == nil || e.Error() == "" {
			continue
		}
		before, after, found := strings.Cut(text, e.Error())
		if !found {
			continue
		}
		if before == "\n" { // joined errors
			b.WriteString(before)
		} else {
			b.WriteString(Plain(before))
		}
		b.WriteString(failure(e))
		text = after
	}
	b.WriteString(Plain(text))
	return b.String()
}
