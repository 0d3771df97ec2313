package infile

import (
	"errors"
	"io"
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
	defer func(before time.Duration) { deadline = before }(deadline)
	deadline = time.Microsecond // of files of the kernel only
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
			if !errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), "interrupted (terminated)") {
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

// TestFileThatWaits checks that a file which looks regular, but may deliver nothing for ever, is given up at the
// deadline. The pipe stands for /proc/kmsg, which only root may open.
func TestFileThatWaits(t *testing.T) {
	defer func(before time.Duration) { deadline = before }(deadline)
	deadline = 50 * time.Millisecond
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close()
	f := &File{file: r, waits: r.SetReadDeadline(time.Time{}) == nil}
	if n, err := io.Copy(io.Discard, f); err == nil || !strings.Contains(err.Error(), "delivered nothing for 50ms") {
		t.Error(n, err)
	}
}

// TestOpenBelow checks that links are followed within a folder and not out of it.
func TestOpenBelow(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "outside"), []byte("secret"), 0o600))
	must.Do(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "run", "file"), []byte("text"), 0o600))
	must.Do(t, os.Symlink("file", filepath.Join(dir, "run", "in")))
	must.Do(t, os.Symlink("../outside", filepath.Join(dir, "run", "out")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "run", "pipe"), 0o600))
	root := must.Get(os.OpenRoot(filepath.Join(dir, "run")))(t)
	defer root.Close()
	f := must.Get(OpenBelow(root, "in", Config))(t)
	if data := must.Get(io.ReadAll(f))(t); string(data) != "text" {
		t.Errorf("%q", data)
	}
	must.Do(t, f.Close())
	for name, want := range map[string]string{"out": "leads out of the folder", "pipe": "is a pipe",
		"none": "no such file", "../outside": "leads out of the folder"} {
		if _, err := OpenBelow(root, name, Config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if data, err := ReadBelow(root.Name(), "in", Config); err != nil || string(data) != "text" {
		t.Errorf("%q, %v", data, err)
	}
	for most, want := range map[int64]string{2: "xt", 9: "text"} {
		if data, err := TailBelow(root.Name(), "in", most); err != nil || string(data) != want {
			t.Errorf("the last %d bytes are %q, %v", most, data, err)
		}
	}
	if _, err := TailBelow(root.Name(), "pipe", 9); err == nil {
		t.Error("TailBelow read a pipe")
	}
	if _, err := ReadBelow(root.Name(), "out", Config); err == nil {
		t.Error("ReadBelow followed a link out of the folder")
	}
	if _, err := ReadBelow(filepath.Join(dir, "none"), "file", Config); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := OpenBelow(root, "file", 3); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
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
