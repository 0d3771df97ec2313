package launch

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/must"
)

// capturing returns a capture whose log is a pipe, and the other end of that pipe.
func capturing(t *testing.T) (*capture, *os.File) {
	t.Helper()
	read, write := must.Get2(os.Pipe())(t)
	t.Cleanup(func() { read.Close() })
	c, err := newCapture(fmt.Sprintf("/proc/self/fd/%d", write.Fd()), 1<<62)
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	go c.run()
	return c, read
}

// A slow reader of the log gets everything, even if that takes longer than the time limit for an
// unrelated process.
func TestSlowLog(t *testing.T) {
	// Reading the whole pipe takes longer than the limit, but each of the capture's reads of 32 KiB, which count as
	// progress, takes a small part of it.
	const size, portion, pause, patience = 576 << 10, 16 << 10, 50 * time.Millisecond, 700 * time.Millisecond
	c, log := capturing(t)
	must.Get(unix.FcntlInt(uintptr(c.write), unix.F_SETPIPE_SZ, 512<<10))(t)
	got := make(chan int)
	go func() {
		total, buf := 0, make([]byte, portion)
		for {
			n, err := io.ReadFull(log, buf)
			if total += n; err != nil {
				got <- total
				return
			}
			time.Sleep(pause)
		}
	}()
	for rest := make([]byte, size); len(rest) > 0; {
		n := must.Get(unix.Write(c.write, rest))(t)
		rest = rest[n:]
	}
	c.closeWrite() // like the end of the last descendant
	s := c.finish(patience)
	if n := <-got; n != size || s.Bytes != size || s.Dropped != 0 {
		t.Errorf("%d of %d bytes came, %d were read and %d dropped", n, size, s.Bytes, s.Dropped)
	}
}

// finish does not wait for an unrelated process that holds the program's end, whether or not it writes.
func TestStranger(t *testing.T) {
	for _, chatty := range []bool{false, true} {
		c, log := capturing(t)
		go io.Copy(io.Discard, log)
		end := c.write
		c.write = -1
		silent := make(chan struct{})
		go func() {
			defer close(silent)
			for chatty {
				if _, err := unix.Write(end, make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}()
		c.finish(20 * time.Millisecond) // must return
		<-silent
		unix.Close(end)
	}
}

// A log is not written through a symbolic link.
func TestLogNoLink(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	must.Do(t, os.Symlink(filepath.Join(t.TempDir(), "theirs"), log))
	if c, err := newCapture(log, 1); err == nil {
		c.abandon()
		t.Error("a link was followed")
	}
}
