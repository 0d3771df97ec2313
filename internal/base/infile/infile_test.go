package infile

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestRead checks which files are read and which are refused.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, []byte("12345678"), 0o600))
	if data, err := Read(file, 8); err != nil || string(data) != "12345678" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Read(file, 7); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "it has 8 bytes") {
		t.Errorf("a file above the limit: %v", err)
	}
	sparse := filepath.Join(dir, "sparse")
	must.Do(t, os.WriteFile(sparse, nil, 0o600))
	must.Do(t, os.Truncate(sparse, 40<<30))
	link := filepath.Join(dir, "link")
	must.Do(t, os.Symlink("/dev/zero", link))
	for path, want := range map[string]string{
		sparse: "too large", "/dev/zero": "is a device", link: "is a device", dir: "is a folder",
		filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := Read(path, Config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestRaise checks that the user's limit applies to kinds with a smaller one.
func TestRaise(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, []byte("12345678"), 0o600))
	Raise(8)
	defer Raise(0)
	if _, err := Read(file, 4); err != nil {
		t.Error(err)
	}
}

// TestPipe checks that a pipe named by the user is read to its end, however slowly it is written, that
// it is bounded, and that files not named by the user may not be pipes.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	write := func(text string) {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for _, part := range strings.SplitAfter(text, " ") {
			if _, err := f.WriteString(part); err != nil {
				return // the reader has had enough
			}
			time.Sleep(time.Millisecond)
		}
	}
	go write("one two three")
	if data, err := Read(pipe, Config); err != nil || string(data) != "one two three" {
		t.Errorf("%q, %v", data, err)
	}
	go write(strings.Repeat("word ", 100))
	if _, err := Read(pipe, 20); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a pipe above the limit: %v", err)
	}
	if _, err := ReadRegular(pipe, Config); err == nil || !strings.Contains(err.Error(), "is a pipe") {
		t.Errorf("a pipe that the user has not named: %v", err)
	}
}

// TestPipeInterrupted checks that SIGTERM ends the wait for a pipe that nobody writes.
func TestPipeInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTERM) // so that one sent before Read waits does not end the test
	defer signal.Stop(caught)
	failed := make(chan error)
	go func() {
		_, err := Read(pipe, Config)
		failed <- err
	}()
	for {
		select {
		case err := <-failed:
			if !strings.Contains(err.Error(), "interrupted (terminated)") {
				t.Error(err)
			}
			// The reader's goroutine still waits in open: let it end.
			f := must.Get(os.OpenFile(pipe, os.O_WRONLY, 0))(t)
			must.Do(t, f.Close())
			return
		case <-time.After(20 * time.Millisecond):
			must.Do(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		}
	}
}

// A file that does not exist is an error everywhere.
func TestMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, read := Read(path, Config)
	_, regular := ReadRegular(path, Config)
	_, open := Open(path, Config)
	for name, err := range map[string]error{"Read": read, "ReadRegular": regular, "Open": open} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
