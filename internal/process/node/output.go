package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kernbench/kernbench/internal/process/culprit"
)

const (
	// maxQuotedLines and maxQuotedWidth limit the output quoted in a failure.
	maxQuotedLines, maxQuotedWidth = 8, 300
	// maxLine is the length at which the console splits long lines.
	maxLine = 64 << 10
)

// console writes the lines of all ranks. Lines of different ranks are never mixed.
type console struct {
	mu  sync.Mutex
	out [2]io.Writer // stdout, stderr
}

func (c *console) write(stream Streams, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out[stream-1].Write(text) // after an error, nobody reads the console any more, but the job continues
}

// tap forwards one output stream of a rank to the console and into a log, and remembers the last
// lines.
type tap struct {
	rank      int
	stream    Streams
	log       *os.File
	console   *console // nil if not shown
	tee       bool     // lines on the console begin with the rank
	warn      func(text string)
	ended     chan struct{}
	lineCount atomic.Int64 // lines read so far

	mu    sync.Mutex // guards tail and crash
	tail  []string   // the last maxQuotedLines lines
	crash []string   // the line before a Go program's crash report, and the report's first line
}

// open opens the log.
func (t *tap) open(log string) (err error) {
	t.ended = make(chan struct{})
	if log == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return fmt.Errorf("making the folder for logs: %w", err)
	}
	if t.log, err = createLog(log); err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	return nil
}

// createLog creates a new file. A file of an earlier launch is renamed to the next free name, such
// as rank0.out.1.
func createLog(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, os.ErrExist) {
			return f, err
		}
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a symbolic link: logs are not written through one", path)
		}
		backup := ""
		for n := 1; backup == "" || exists(backup); n++ {
			backup = fmt.Sprintf("%s.%d", path, n)
		}
		if err := os.Rename(path, backup); err != nil {
			return nil, err
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// run forwards the stream line by line until its last writer closes it. A log that cannot be
// written is closed with a warning; the console continues.
func (t *tap) run(stream io.Reader) {
	defer close(t.ended)
	in := bufio.NewScanner(stream)
	in.Buffer(make([]byte, 0, maxLine), maxLine)
	in.Split(splitLines)
	for in.Scan() {
		raw := in.Bytes()
		if t.log != nil {
			if _, err := t.log.Write(raw); err != nil {
				t.warn(fmt.Sprintf("a log of rank %d is not complete: %v", t.rank, err)) // it names the file
				t.remember(fmt.Sprintf("[kernbench: the log ends here: %v]", err))
				t.log.Close()
				t.log = nil
			}
		}
		text := bytes.TrimRight(raw, "\r\n")
		switch {
		case t.console == nil:
		case t.tee:
			t.console.write(t.stream, fmt.Appendf(nil, "[rank%d]: %s\n", t.rank, text))
		default:
			t.console.write(t.stream, raw)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			t.remember(strings.ToValidUTF8(string(text[:min(len(text), maxQuotedWidth)]), "\uFFFD"))
		}
		t.lineCount.Add(1)
	}
	if t.log != nil {
		t.log.Close()
	}
}

// remember keeps the last maxQuotedLines lines, for the message about a failed rank. It keeps the beginning of a crash
// report apart, because the stacks that follow would displace it.
func (t *tap) remember(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crash == nil && culprit.Crash(line) != "" {
		t.crash = append(slices.Clone(t.tail[max(0, len(t.tail)-1):]), line)
	}
	if len(t.tail) == maxQuotedLines {
		t.tail = append(t.tail[:0], t.tail[1:]...)
	}
	t.tail = append(t.tail, line)
}

// quoted returns the remembered lines.
func (t *tap) quoted() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crash != nil {
		return strings.Join(t.crash, "\n")
	}
	return strings.Join(t.tail, "\n")
}

// splitLines is a bufio.SplitFunc. It splits after a line feed, a carriage return (progress bars use it), both
// together, or maxLine bytes. Tokens include these characters, so that the concatenated tokens equal the input.
func splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && (atEOF || len(data) == maxLine):
		i = len(data)
	case i < 0:
		return 0, nil, nil
	case data[i] == '\n' || i+1 < len(data) && data[i+1] != '\n' || i+1 == len(data) && (atEOF || len(data) == maxLine):
		i++
	case i+1 == len(data):
		return 0, nil, nil // a line feed may follow
	default:
		i += 2
	}
	if i == 0 {
		return 0, nil, nil
	}
	return i, data[:i], nil
}

// Streams is a set of a rank's output streams, in torchrun's encoding.
type Streams int

const (
	Stdout Streams = 1
	Stderr Streams = 2
)

// Selection selects output streams by local rank. The zero value selects nothing.
type Selection struct {
	others Streams // of ranks not in byRank
	byRank map[int]Streams
}

// ParseSelection parses torchrun's notation: one number for all ranks (0 none, 1 stdout, 2 stderr,
// 3 both), or numbers for some local ranks, as in 0:3,1:2.
func ParseSelection(text string) (Selection, error) {
	fault := fmt.Errorf("%q: want 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such numbers by local rank, "+
		"as in 0:3,1:2", text)
	number := func(s string) (Streams, bool) {
		n, err := strconv.Atoi(s)
		return Streams(n), err == nil && n >= 0 && n <= 3
	}
	if !strings.Contains(text, ":") {
		n, ok := number(text)
		if !ok {
			return Selection{}, fault
		}
		return Selection{others: n}, nil
	}
	s := Selection{byRank: map[int]Streams{}}
	for part := range strings.SplitSeq(text, ",") {
		rank, streams, _ := strings.Cut(part, ":")
		n, err := strconv.Atoi(rank)
		which, ok := number(streams)
		if _, twice := s.byRank[n]; err != nil || n < 0 || !ok || twice {
			return Selection{}, fault
		}
		s.byRank[n] = which
	}
	return s, nil
}

// Has reports whether a stream of a local rank is selected.
func (s Selection) Has(local int, stream Streams) bool {
	if which, named := s.byRank[local]; named {
		return which&stream != 0
	}
	return s.others&stream != 0
}

// Empty reports whether nothing is selected.
func (s Selection) Empty() bool {
	for _, which := range s.byRank {
		if which != 0 {
			return false
		}
	}
	return s.others == 0
}

// Logs says where the output of the ranks goes. By default all of it goes to the console, unchanged.
type Logs struct {
	Dir       string    // folder for the logs of all streams; "" for no logs
	Redirects Selection // not shown on the console
	Tee       Selection // shown on the console even if redirected, each line with its rank
	Filter    []int     // local ranks shown on the console; nil for all
}

// shown reports whether a stream is shown on the console.
func (l Logs) shown(local int, stream Streams) bool {
	if l.Filter != nil && !slices.Contains(l.Filter, local) {
		return false
	}
	return !l.Redirects.Has(local, stream) || l.Tee.Has(local, stream)
}
