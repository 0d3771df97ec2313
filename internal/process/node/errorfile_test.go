package node

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The message of an error file is one line of limited length, whatever a program has written.
func FuzzErrorFile(f *testing.F) {
	f.Add([]byte(`{"message": {"message": "ValueError: bad\n  matrix", "extraInfo": {"timestamp": "1"}}}`))
	f.Add([]byte(`{"message": "text"}`))
	f.Add([]byte(`{"message": 3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text := parseErrorFile(data)
		if strings.ContainsAny(text, "\n\r") || utf8.RuneCountInString(text) > maxQuotedWidth+1 {
			t.Errorf("%q", text)
		}
	})
}
