package launch

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// tail keeps the last TailSize bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > TailSize {
		p = p[len(p)-TailSize:]
	}
	// Twice the size before the old half is dropped, so each byte is moved about once.
	if len(t.buf)+len(p) > 2*TailSize {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-min(TailSize, len(t.buf)):]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.buf[max(0, len(t.buf)-TailSize):]...)
}

// capture moves one output stream from a pipe into a log file. It always reads on, whatever happens to the file, so the
// program never waits for a full pipe, and it never holds more than its buffer and the tail.
type capture struct {
	read  *os.File
	write int // the process's end; -1 once closed here
	log   *os.File
	limit int64
	done  chan struct{}
	moved atomic.Int64 // bytes

	stream Stream // the reader's own until done is closed
	last   tail
}

// newCapture opens the log (none when path is empty) and the pipe.
func newCapture(path string, limit int64) (*capture, error) {
	c := &capture{write: -1, limit: limit, done: make(chan struct{})}
	if path != "" {
		var err error
		// Appended, so that a second try of the same point does not wipe out the first one's output.
		how := os.O_WRONLY | os.O_APPEND | os.O_CREATE
		if !strings.HasPrefix(path, "/proc/") { // a descriptor of the supervisor's; any other link may lead anywhere
			how |= unix.O_NOFOLLOW
		}
		c.log, err = os.OpenFile(path, how, 0o644)
		if err != nil {
			return nil, fmt.Errorf("opening the log: %w", err)
		}
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		c.abandon()
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	// Only the agent's end is non-blocking: a program that finds its own so would lose output.
	unix.SetNonblock(fds[0], true)
	c.read, c.write = os.NewFile(uintptr(fds[0]), "output pipe"), fds[1]
	return c, nil
}

// closeWrite gives up the agent's copy of the program's end.
func (c *capture) closeWrite() {
	if c.write >= 0 {
		unix.Close(c.write)
		c.write = -1
	}
}

// abandon closes everything of a capture that was never run.
func (c *capture) abandon() {
	c.closeWrite()
	if c.read != nil {
		c.read.Close()
	}
	if c.log != nil {
		c.log.Close()
	}
}

// run reads until the last writer has closed the pipe.
func (c *capture) run() {
	defer close(c.done)
	defer c.read.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := c.read.Read(buf)
		if n > 0 {
			c.keep(buf[:n])
			c.moved.Add(int64(n))
		}
		if err != nil {
			break // end of file, or finish has lost patience
		}
	}
	c.stream.Tail = c.last.bytes()
	c.closeLog()
}

func (c *capture) keep(p []byte) {
	c.last.Write(p)
	kept := c.stream.Bytes - c.stream.Dropped
	c.stream.Bytes += int64(len(p))
	n := 0
	if c.log != nil && c.stream.LogError == "" && c.stream.Dropped == 0 {
		var err error
		if n, err = c.log.Write(p[:min(int64(len(p)), c.limit-kept)]); err != nil {
			c.stream.LogError = err.Error()
		}
	}
	if c.log != nil {
		c.stream.Dropped += int64(len(p) - n)
	}
}

func (c *capture) closeLog() {
	if c.log == nil {
		return
	}
	if c.stream.Dropped > 0 && c.stream.LogError == "" {
		_, err := fmt.Fprintf(c.log, "\n[kernbench: %d more bytes were dropped here, the limit is %d bytes]\n",
			c.stream.Dropped, c.limit)
		if err != nil {
			c.stream.LogError = err.Error()
		}
	}
	if err := c.log.Close(); err != nil && c.stream.LogError == "" {
		c.stream.LogError = err.Error()
	}
}

// finish returns the stream once it is complete. With every descendant gone that takes as long as whoever reads the log
// needs for what they wrote, unless a program has handed its end to an unrelated process, which is not waited for:
// neither when nothing comes for a time, counted in looks because a slow machine must not pass for one, nor when more
// comes than a pipe holds.
func (c *capture) finish(patience time.Duration) Stream {
	const look = 20 * time.Millisecond
	seen := c.moved.Load()
	most := seen + maxPipe
	for still := time.Duration(0); still < patience && seen <= most; still += look {
		select {
		case <-c.done:
			return c.stream
		case <-time.After(look):
		}
		if now := c.moved.Load(); now != seen {
			seen, still = now, 0
		}
	}
	c.read.SetReadDeadline(time.Now())
	<-c.done
	return c.stream
}

// maxPipe is the most that a pipe holds, by what the kernel lets ordinary users ask for.
const maxPipe = 1 << 20

var _ io.Writer = (*tail)(nil)
