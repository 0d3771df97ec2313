package guide

import (
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	const text = `A paragraph that fits.

A paragraph of two lines that is wider than the terminal, and
which is wrapped again.

  one        a line of a list
  two, three the first line of a second column,
             and its second line
  command --flag`
	const want = `A paragraph that fits.

A paragraph of two lines that is wider
than the terminal, and which is wrapped
again.

  one        a line of a list
  two, three the first line of a second
  column, and its second line
  command --flag`
	if got := fold(text, 40); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := fold(text, 0); got != text {
		t.Errorf("without a limit: got\n%s", got)
	}
}

func TestFoldLine(t *testing.T) {
	got := foldLine("  compare     Show what became faster or slower between two runs", 40)
	if want := "  compare     Show what became faster or\n              slower between two runs"; got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestFoldCommands(t *testing.T) {
	const text = "  short\n" +
		"  program run --only 'size>=1M && n==2' --size 4K:256M:x4 --ranks 1,2 a very long word at the end here"
	const want = `  short
  program run --only 'size>=1M && n==2' \
      --size 4K:256M:x4 \
      --ranks 1,2 a very long word at \
      the end here`
	got := foldCommands(text, 42)
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if joined := strings.ReplaceAll(got, " \\\n     ", ""); joined != text {
		t.Errorf("joined again: %s", joined)
	}
	if got := foldCommands("  "+strings.Repeat("x", 60), 50); strings.Contains(got, "\n") {
		t.Errorf("a word was broken: %s", got)
	}
}
