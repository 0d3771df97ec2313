package node

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

func TestParseSelection(t *testing.T) {
	for text, want := range map[string]string{ // stdout and stderr of ranks 0, 1, 2
		"0": "-- -- --", "1": "o- o- o-", "2": "-e -e -e", "3": "oe oe oe",
		"0:3": "oe -- --", "0:1,2:2": "o- -- -e", "1:0": "-- -- --",
	} {
		s, err := ParseSelection(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		var got []string
		for rank := range 3 {
			flags := []byte("--")
			if s.Has(rank, Stdout) {
				flags[0] = 'o'
			}
			if s.Has(rank, Stderr) {
				flags[1] = 'e'
			}
			got = append(got, string(flags))
		}
		if g := strings.Join(got, " "); g != want || s.Empty() != (want == "-- -- --") {
			t.Errorf("%s: got %s (empty %t), want %s", text, g, s.Empty(), want)
		}
	}
	for _, text := range []string{"", "4", "-1", "x", "0:4", "0:1,0:2", "-1:3", "0:", ":1", "0:1,", "0:1,2"} {
		if s, err := ParseSelection(text); err == nil || !strings.Contains(err.Error(), "0:3,1:2") {
			t.Errorf("%q: got %+v, %v", text, s, err)
		}
	}
}

func TestShown(t *testing.T) {
	all, first := Selection{others: 3}, Selection{byRank: map[int]Streams{0: Stdout}}
	for _, c := range []struct {
		name string
		logs Logs
		want []bool // stdout of ranks 0 and 1
	}{
		{"by default", Logs{}, []bool{true, true}},
		{"redirected", Logs{Redirects: all}, []bool{false, false}},
		{"redirected, but one", Logs{Redirects: all, Tee: first}, []bool{true, false}},
		{"one redirected", Logs{Redirects: first}, []bool{false, true}},
		{"filtered", Logs{Filter: []int{1}}, []bool{false, true}},
		{"the filter is stronger", Logs{Tee: all, Filter: []int{1}}, []bool{false, true}},
	} {
		for rank, want := range c.want {
			if got := c.logs.shown(rank, Stdout); got != want {
				t.Errorf("%s, rank %d: %t", c.name, rank, got)
			}
		}
	}
}

func TestSplitLines(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\n": "a\n|b\n", "a": "a", "": "", "10%\r20%\r": "10%\r|20%\r", "dos\r\nend": "dos\r\n|end", "\n\n": "\n|\n",
		"a\r": "a\r",
	} {
		if got := strings.Join(split(strings.NewReader(text)), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	long := strings.Repeat("x", maxLine+5)
	if got := split(strings.NewReader(long)); len(got) != 2 || strings.Join(got, "") != long {
		t.Errorf("a long line came in %d pieces", len(got))
	}
}

func split(in interface{ Read([]byte) (int, error) }) (pieces []string) {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, maxLine), maxLine)
	s.Split(splitLines)
	for s.Scan() {
		pieces = append(pieces, s.Text())
	}
	return pieces
}

// Lines are neither lost nor changed, whatever the sizes of the reads.
func TestSplitLinesKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOf(rapid.StringMatching(`[ab\r\n]{0,5}`)).Draw(t, "chunks")
		got := split(&chunked{chunks: chunks})
		if joined, want := strings.Join(got, ""), strings.Join(chunks, ""); joined != want {
			t.Fatalf("got %q, want %q", joined, want)
		}
		for _, piece := range got {
			if body := strings.TrimRight(piece, "\r\n"); strings.ContainsAny(body, "\r\n") {
				t.Fatalf("two lines in one piece: %q", piece)
			}
		}
	})
}

// chunked returns its input in the given pieces.
type chunked struct {
	chunks []string
	rest   bytes.Buffer
}

func (c *chunked) Read(p []byte) (int, error) {
	for c.rest.Len() == 0 && len(c.chunks) > 0 {
		c.rest.WriteString(c.chunks[0])
		c.chunks = c.chunks[1:]
	}
	return c.rest.Read(p)
}

// A log is not written through a symbolic link.
func TestLogNoLink(t *testing.T) {
	log, elsewhere := filepath.Join(t.TempDir(), "rank0.out"), filepath.Join(t.TempDir(), "theirs")
	must.Do(t, os.Symlink(elsewhere, log))
	if err := (&tap{stream: Stdout}).open(log); err == nil {
		t.Error("a link was followed")
	}
}

// If a log cannot be written, here because the disk is full, there is a warning and the rank continues.
func TestLogThatIsNotComplete(t *testing.T) {
	full := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	read, write := must.Get2(os.Pipe())(t)
	var said []string
	out := &tap{rank: 3, stream: Stdout, log: full, ended: make(chan struct{}), warn: func(text string) {
		said = append(said, text)
	}}
	go out.run(read)
	write.WriteString("one\ntwo\n")
	write.Close()
	<-out.ended
	if len(said) != 1 || said[0] != "a log of rank 3 is not complete: write /dev/full: no space left on device" ||
		out.lineCount.Load() != 2 {
		t.Errorf("%d lines passed, said %q", out.lineCount.Load(), said)
	}
}
