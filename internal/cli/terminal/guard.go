package terminal

import (
	"io"
	"sync"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

// Guard passes text on with control characters made visible, line ends and tabs
// excepted: what a program has printed, or a journal holds, must not drive the
// terminal of who looks at it.
func Guard(w io.Writer) io.Writer { return &guard{w: w} }

type guard struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the start of a character whose end is still to come
}

func (g *guard) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := append(g.rest, p...)
	g.rest = nil
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if last := text[len(text)-back:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				text, g.rest = text[:len(text)-back], append([]byte(nil), last...)
			}
			break
		}
	}
	if _, err := io.WriteString(g.w, texttab.Lines(string(text))); err != nil {
		return 0, err
	}
	return len(p), nil
}
