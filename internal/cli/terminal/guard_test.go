package terminal

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// No control character passes, and everything else does, regardless of how the text is split into
// writes.
func TestGuard(t *testing.T) {
	const text = "µs\tfine\n\x1b]0;title\a\r\n\u202e\u009b31m\xff 日本 \u00a0end\n"
	const want = "µs\tfine\n" + `\x1b]0;title\x07\x0d` + "\n" + `\u202e\u009b31m\xff 日本 ` + "\u00a0end\n"
	for step := 1; step <= len(text); step++ {
		var b strings.Builder
		w := Guard(&b)
		for rest := text; rest != ""; {
			n := must.Get(w.Write([]byte(rest[:min(step, len(rest))])))(t)
			rest = rest[n:]
		}
		if b.String() != want {
			t.Fatalf("in writes of %d bytes: %q, want %q", step, b.String(), want)
		}
	}
}
