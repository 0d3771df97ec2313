package journal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// names lists a folder, to detect temporary files left behind.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestWriteToPipe checks that a pipe, also through a symbolic link, and a device receive the
// data and are not replaced by a file, which root could do.
func TestWriteToPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	must.Do(t, os.Symlink("pipe", link))
	for _, path := range []string{pipe, link} {
		wrote := make(chan error, 1)
		go func() { wrote <- WriteFileAtomic(path, []byte("all of it")) }()
		if got := string(must.Get(os.ReadFile(pipe))(t)); got != "all of it" {
			t.Errorf("read %q", got)
		}
		must.Do(t, <-wrote)
	}
	if info := must.Get(os.Lstat(pipe))(t); info.Mode()&os.ModeNamedPipe == 0 ||
		!slices.Equal(names(t, dir), []string{"link", "pipe"}) {
		t.Errorf("the pipe is %v, the folder has %v", info.Mode(), names(t, dir))
	}
	if info := must.Get(os.Lstat(link))(t); info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v", info.Mode())
	}
}

func TestWriteFileAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "summary.csv")
	for _, text := range []string{"first, and longer", "second", ""} {
		must.Do(t, WriteFileAtomic(path, []byte(text)))
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("read %q, %v; want %q", got, err, text)
		}
	}
	// Results have the mode of any new file under this umask, not 0600.
	plain := filepath.Join(dir, "plain")
	must.Do(t, os.WriteFile(plain, nil, 0o666))
	a, errA := os.Stat(path)
	b, errB := os.Stat(plain)
	if errA != nil || errB != nil || a.Mode() != b.Mode() {
		t.Errorf("mode %v, want %v", a.Mode(), b.Mode())
	}
	if got := names(t, dir); !slices.Equal(got, []string{"plain", "summary.csv"}) {
		t.Errorf("the folder holds %v", got)
	}
}

func TestWriteFileAtomicErrors(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	must.Do(t, os.MkdirAll(filepath.Join(taken, "inner"), 0o755))
	if err := WriteFileAtomic(taken, []byte("x")); !errors.Is(err, syscall.EEXIST) && !errors.Is(err, syscall.EISDIR) {
		t.Errorf("over a folder: %v", err)
	}
	if err := WriteFileAtomic(filepath.Join(dir, "missing", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a missing folder: %v", err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"taken"}) {
		t.Errorf("the folder holds %v", got)
	}
}

// TestWriteFileAtomicWhole replaces a file from two goroutines while it is read. The reader
// must always see one of the two contents.
func TestWriteFileAtomicWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	contents := [][]byte{bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 50_000)}
	must.Do(t, WriteFileAtomic(path, contents[0]))
	var wg sync.WaitGroup
	for _, c := range contents {
		wg.Go(func() {
			for range 50 {
				if err := WriteFileAtomic(path, c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
	}
	wg.Wait()
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("the folder holds %v", got)
	}
}

func TestRaw(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	data := []byte{0, 1, 2, '\n', 255}
	must.Do(t, WriteRaw(dir, "0001-0.bin", data))
	if got, err := ReadRaw(dir, "0001-0.bin"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %v, %v", got, err)
	}
	if got := names(t, filepath.Join(dir, "samples")); !slices.Equal(got, []string{"0001-0.bin"}) {
		t.Errorf("samples/ holds %v", got)
	}
	if _, err := ReadRaw(dir, "other.bin"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := ReadRaw(filepath.Join(dir, "missing"), "0001-0.bin"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	for _, name := range []string{"", ".", "..", ".hidden", "../x", "a/b", "/etc/passwd", `a\b`, "a\x00b"} {
		if err := WriteRaw(dir, name, data); err == nil {
			t.Errorf("WriteRaw took the name %q", name)
		}
		if _, err := ReadRaw(dir, name); err == nil {
			t.Errorf("ReadRaw took the name %q", name)
		}
	}
}

// TestHostileRowFiles checks that files of a RUN folder made by somebody else cannot hang the
// reader, fill the memory or lead out of the folder.
func TestHostileRowFiles(t *testing.T) {
	dir := t.TempDir()
	samples := filepath.Join(dir, samplesDir)
	must.Do(t, os.Mkdir(samples, 0o755))
	must.Do(t, syscall.Mkfifo(filepath.Join(samples, "pipe"), 0o600))
	must.Do(t, os.Symlink("/dev/zero", filepath.Join(samples, "device")))
	must.Do(t, os.Symlink("/etc/passwd", filepath.Join(samples, "link")))
	must.Do(t, os.WriteFile(filepath.Join(samples, "sparse"), nil, 0o600))
	must.Do(t, os.Truncate(filepath.Join(samples, "sparse"), 40<<30))
	for _, name := range []string{"pipe", "device", "link", "sparse"} {
		if _, err := ReadRaw(dir, name); err == nil || !strings.Contains(err.Error(), filepath.Join(samples, name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileFolder checks that files of a RUN folder made by somebody else, which are links, pipes or devices, are
// neither followed nor waited for, whether they are read or written.
func TestHostileFolder(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for kind, plant := range map[string]func(path string) error{
		"link":   func(path string) error { return os.Symlink(elsewhere, path) },
		"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		must.Do(t, os.WriteFile(elsewhere, []byte("{}\n"), 0o600))
		dir := t.TempDir()
		must.Do(t, plant(filepath.Join(dir, FileName)))
		must.Do(t, plant(filepath.Join(dir, ".r.lock")))
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), FileName) {
			t.Errorf("%s: reading: %v", kind, err)
		}
		f := must.Get(Follow(dir))(t)
		if _, _, err := f.Next(); err == nil {
			t.Errorf("%s: it was followed", kind)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: opening: %v", kind, err)
		}
		if held, err := HolderOf(dir, "r"); held != nil || err != nil {
			t.Errorf("%s: held by %v, %v", kind, held, err)
		}
		if _, err := HoldRun(dir, "r"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: holding: %v", kind, err)
		}
		if text := must.Get(os.ReadFile(elsewhere))(t); string(text) != "{}\n" {
			t.Errorf("%s: the file elsewhere has %q", kind, text)
		}
	}
}

// TestWriteIn checks that nothing is written outside the folder, and that links and pipes are replaced.
func TestWriteIn(t *testing.T) {
	dir, elsewhere := filepath.Join(t.TempDir(), "run"), t.TempDir()
	write := func(name string) error {
		return WriteIn(dir, name, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err })
	}
	must.Do(t, write("a/b/file")) // makes the folders
	must.Do(t, os.Symlink("a", filepath.Join(dir, "in")))
	must.Do(t, write("in/file")) // a link within the folder is followed
	must.Do(t, os.Symlink(elsewhere, filepath.Join(dir, "out")))
	must.Do(t, os.Symlink(filepath.Join(elsewhere, "file"), filepath.Join(dir, "link")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, name := range []string{"out/file", "out/new/file", "../file", "/etc/kernbench"} {
		if err := write(name); err == nil {
			t.Errorf("%s was written", name)
		}
		if err := MakeNewIn(dir, name); err == nil {
			t.Errorf("the folder %s was made", name)
		}
	}
	for _, name := range []string{"link", "pipe", "a/file"} {
		must.Do(t, write(name))
		if text := must.Get(os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))))(t); string(text) != "text" {
			t.Errorf("%s has %q", name, text)
		}
	}
	if found := names(t, elsewhere); len(found) > 0 {
		t.Errorf("written outside: %v", found)
	}
	must.Do(t, MakeNewIn(dir, "logs/1"))
	if err := MakeNewIn(dir, "logs/1"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("making a folder again: %v", err)
	}
}

// TestWriteErrors checks that errors name the file and not the temporary one.
func TestWriteErrors(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	err := WriteIn(dir, "taken", func(io.Writer) error { return nil })
	if err == nil || strings.Contains(err.Error(), tempPrefix) ||
		!strings.Contains(err.Error(), filepath.Join(dir, "taken")) {
		t.Errorf("%v", err)
	}
}
