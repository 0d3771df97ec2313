package node

import (
	"bufio"
	"bytes"
	"testing"
)

// No byte of a rank's output is lost or changed, and no line is longer than the limit.
func FuzzSplitLines(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\rd\r\r\n\x00\xff"))
	f.Add(append(bytes.Repeat([]byte("x"), maxLine-1), "\r\n"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewScanner(bytes.NewReader(data))
		in.Buffer(make([]byte, maxLine), maxLine)
		in.Split(splitLines)
		var got []byte
		for in.Scan() {
			if line := in.Bytes(); len(line) > maxLine || bytes.ContainsAny(line[:len(line)-1], "\n") {
				t.Errorf("%q has the line %q", data, line)
			}
			got = append(got, in.Bytes()...)
		}
		if err := in.Err(); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q became %q, %v", data, got, err)
		}
	})
}

// A selection that is read names streams that exist.
func FuzzParseSelection(f *testing.F) {
	for _, text := range []string{"3", "0:3,1:2", "4", "0:3,0:1", "-1:1", "+1", "0x1:1", "1:", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelection(text)
		if err != nil {
			return
		}
		if s.others > Stdout|Stderr || s.others != 0 && s.byRank != nil {
			t.Errorf("%q selects %+v", text, s)
		}
		for rank, streams := range s.byRank {
			if rank < 0 || streams < 0 || streams > Stdout|Stderr {
				t.Errorf("%q selects %+v", text, s)
			}
		}
	})
}
