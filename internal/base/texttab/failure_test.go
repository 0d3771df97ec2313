package texttab

import (
	"errors"
	"fmt"
	"testing"
)

type excerpt struct{}

func (excerpt) Error() string { return "f:1: bad\n  1 | \x1b" }
func (excerpt) Multiline()    {}

// TestVisible checks that only characters that control something are escaped.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[31m\u009b\x00b\r\n\tc":        `a\u{1b}[31m\u{9b}\u{0}b\u{d}` + "\n\tc",
		"\u202ea\u2066b\u200f\u061c":         `\u{202e}a\u{2066}b\u{200f}\u{61c}`,
		"a\u2028b\u2029\ufeff\xff":           `a\u{2028}b\u{2029}\u{feff}\xff`,
		"ä שלום 👩\u200d🔬 \u200c\u00a0\u00ad": "ä שלום 👩\u200d🔬 \u200c\u00a0\u00ad",
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// TestFailure checks that line ends in names are escaped, and line ends of errors with several lines are kept.
func TestFailure(t *testing.T) {
	forged := errors.New("no bench x\nkernbench: all is well\x1b[2J")
	for _, c := range []struct {
		err  error
		want string
	}{
		{forged, `no bench x\nkernbench: all is well\x1b[2J`},
		{fmt.Errorf("a\nb: %w: c\n", forged), `a\nb: no bench x\nkernbench: all is well\x1b[2J: c\n`},
		{errors.Join(forged, errors.New("second")), `no bench x\nkernbench: all is well\x1b[2J` + "\nsecond"},
		{fmt.Errorf("reading: %w", errors.Join(excerpt{}, errors.New("a\tb"))), "reading: f:1: bad\n  1 | \\x1b\na\\tb"},
		{fmt.Errorf("%w, then %w", errors.New("a\n"), errors.New("b\n")), `a\n, then b\n`},
		{WithDetail(forged, "line 1\nline\x1b 2\n"), `no bench x\nkernbench: all is well\x1b[2J` + "\nline 1\nline\\x1b 2"},
		{WithDetail(errors.New("alone"), " \n"), "alone"},
		{fmt.Errorf("hidden %.0w", errors.New("x")), "hidden "},
	} {
		if got := Failure(c.err).String(); got != c.want {
			t.Errorf("%q\n gives %q\n want  %q", c.err, got, c.want)
		}
	}
	if err := WithDetail(forged, "more"); !errors.Is(err, forged) || err.Error() != forged.Error()+"\nmore" {
		t.Error(err)
	}
}
