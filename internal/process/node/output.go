package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// lastLines and lastWidth bound what a failure quotes of a rank's output.
	lastLines, lastWidth = 8, 300
	// maxLine is where a longer line is cut in two on the console.
	maxLine = 64 << 10
)

// console is where the ranks' lines come together, each written whole.
type console struct {
	mu  sync.Mutex
	out [2]io.Writer // stdout, stderr
}

func (c *console) line(stream Streams, rank int, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// What cannot be written has no reader any more, which is no reason to stop.
	_, _ = c.out[stream-1].Write(fmt.Appendf(nil, "[rank%d]: %s\n", rank, text))
}

// tap takes one output stream of a rank: to the console, into a log, and the
// last lines into memory. The agent writes into a pipe of ours.
type tap struct {
	rank    int
	stream  Streams
	read    *os.File
	write   *os.File // until the agent has opened it for itself
	log     *os.File
	console *console // nil when not shown
	warn    func(text string)
	ended   chan struct{}
	passed  atomic.Int64 // lines

	mu   sync.Mutex
	last []string
}

// openTap makes the pipe and the log, and starts to read.
func openTap(rank int, stream Streams, log string, c *console, warn func(text string)) (*tap, error) {
	t := &tap{rank: rank, stream: stream, console: c, warn: warn, ended: make(chan struct{})}
	var err error
	if log != "" {
		if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
			return nil, fmt.Errorf("making the folder for logs: %w", err)
		}
		if t.log, err = createLog(log); err != nil {
			return nil, fmt.Errorf("opening a log: %w", err)
		}
	}
	if t.read, t.write, err = os.Pipe(); err != nil {
		if t.log != nil {
			t.log.Close()
		}
		return nil, fmt.Errorf("making a pipe for a rank's output: %w", err)
	}
	go t.run()
	return t, nil
}

// createLog makes a new file. What an earlier launch has left there is kept under the
// next name that is free, such as rank0.out.1.
func createLog(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, os.ErrExist) {
			return f, err
		}
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a symbolic link: logs are not written through one", path)
		}
		kept := ""
		for n := 1; kept == "" || exists(kept); n++ {
			kept = fmt.Sprintf("%s.%d", path, n)
		}
		if err := os.Rename(path, kept); err != nil {
			return nil, err
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// path is how another process of this user opens the pipe for writing.
func (t *tap) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), t.write.Fd()) }

// handedOver gives up our own writing end, so that the rank's end ends the stream.
func (t *tap) handedOver() { t.write.Close() }

func (t *tap) run() {
	defer close(t.ended)
	defer t.read.Close()
	in := bufio.NewScanner(t.read)
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
		if t.console != nil {
			t.console.line(t.stream, t.rank, text)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			t.remember(strings.ToValidUTF8(string(text[:min(len(text), lastWidth)]), "\uFFFD"))
		}
		t.passed.Add(1)
	}
	if t.log != nil {
		t.log.Close()
	}
}

func (t *tap) remember(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) == lastLines {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, line)
}

func (t *tap) lines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.last, "\n")
}

// splitLines cuts after a line feed, a carriage return (progress bars have no
// other), both together, or maxLine bytes. Nothing is lost: the tokens joined
// are the input.
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
