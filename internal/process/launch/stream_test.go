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

// capturing is a capture whose log is a pipe, and that pipe's other end.
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

// A slow reader of the log gets all of it, though it takes longer than an unrelated process
// is waited for.
func TestSlowLog(t *testing.T) {
	// The pipe holds so much that what is in it takes longer than the patience, and yet each of the capture's reads of
	// 32 KiB, which are what shows that there is progress, takes a small part of it.
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
	c.closeWrite() // as the end of the last descendant does
	s := c.finish(patience)
	if n := <-got; n != size || s.Bytes != size || s.Dropped != 0 {
		t.Errorf("%d of %d bytes came, %d were read and %d dropped", n, size, s.Bytes, s.Dropped)
	}
}

// An unrelated process that has the program's end is not waited for, whether or not it writes.
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
		c.finish(20 * time.Millisecond) // returns
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
