package inputs

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// TestChangedPrograms edits everything behind a program found through PATH.
func TestChangedPrograms(t *testing.T) {
	dir := t.TempDir()
	bin, tools := filepath.Join(dir, "bin"), filepath.Join(dir, "tools")
	write(t, filepath.Join(tools, "shell"), "interpreter one")
	write(t, filepath.Join(tools, "real"), "#!/usr/bin/env -S shell -u\necho 1\n")
	must.Do(t, os.MkdirAll(bin, 0o755))
	must.Do(t, os.Symlink(filepath.Join(tools, "real"), filepath.Join(bin, "prog")))
	environ := []string{"PATH=" + bin + ":" + tools + ":/usr/bin:/bin"}
	cases := []struct {
		name, want string
		change     func()
	}{
		{"nothing", "", func() {}},
		{"the file behind the link", "program prog", func() {
			write(t, filepath.Join(tools, "real"), "#!/usr/bin/env -S shell -u\necho 2\n")
		}},
		{"the interpreter", "interpreter shell", func() { write(t, filepath.Join(tools, "shell"), "interpreter two") }},
		{"another program earlier in PATH", "interpreter /usr/bin/env, interpreter shell, program prog", func() {
			must.Do(t, os.Remove(filepath.Join(bin, "prog")))
			write(t, filepath.Join(bin, "prog"), "binary")
		}},
		{"it is gone", "interpreter /usr/bin/env, interpreter shell, program prog", func() {
			must.Do(t, os.Remove(filepath.Join(bin, "prog")))
		}},
	}
	for _, c := range cases {
		if c.name == "it is gone" {
			write(t, filepath.Join(bin, "prog"), "#!/usr/bin/env shell\n")
		}
		s := must.Get(Find(func(s *Set) error { return s.Program("prog", dir, environ) }))(t)
		c.change()
		if got := strings.Join(must.Get(s.Changed())(t), ", "); got != c.want {
			t.Errorf("%s: changed %q, want %q", c.name, got, c.want)
		}
		if c.name == "another program earlier in PATH" {
			must.Do(t, os.Remove(filepath.Join(bin, "prog")))
			write(t, filepath.Join(bin, "prog"), "binary")
		}
	}
	missing := must.Get(Find(func(s *Set) error { return s.Program("prog", dir, environ) }))(t)
	if d := cmp.Diff([]string{"program prog: not found in PATH"}, missing.Unknown); d != "" {
		t.Error(d)
	}
}

func TestUnusualFiles(t *testing.T) {
	dir := t.TempDir()
	s := must.Get(Find(func(*Set) error { return nil }))(t)
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	if err := s.Glob("pipe", dir); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	if err := s.Glob("[", dir); err == nil {
		t.Error("a bad pattern is accepted")
	}
	huge := filepath.Join(dir, "huge")
	must.Do(t, os.WriteFile(huge, nil, 0o644))
	must.Do(t, os.Truncate(huge, hugeSize)) // a hole: it takes no space
	must.Do(t, s.File("huge", huge))
	if len(s.Unknown) != 1 || !strings.HasPrefix(s.Inputs["file huge"], "1073741824 bytes, changed ") {
		t.Errorf("a huge file: %q, unknown %q", s.Inputs["file huge"], s.Unknown)
	}
	if err := s.File("gone", filepath.Join(dir, "gone")); err == nil || !strings.Contains(err.Error(), "file gone") {
		t.Errorf("a missing file: %v", err)
	}
}

// TestVanished checks that a file that disappears during a run is an error that names it.
func TestVanished(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a"), "x")
	s := must.Get(Find(func(s *Set) error { return s.File("a", path) }))(t)
	must.Do(t, os.Remove(path))
	if _, err := s.Changed(); err == nil || !strings.Contains(err.Error(), "file a") {
		t.Errorf("a file that is gone: %v", err)
	}
}

// TestCache checks that a sum is reused only for exactly the same state of the file.
func TestCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big")
	old := time.Now().Add(-time.Hour)
	text := []byte(strings.Repeat("x", 1<<20))
	must.Do(t, os.WriteFile(path, text, 0o644))
	must.Do(t, os.Chtimes(path, old, old))
	st := stamp{}
	sum := func() string {
		t.Helper()
		got, _, err := hashFile(path)
		must.Do(t, err)
		st, _ = stampOf(must.Get(os.Stat(path))(t))
		return got
	}
	first := sum()
	if _, found := cached.Load(st); found {
		t.Error("the sum of a file that was changed a moment ago is cached")
	}
	cached.Store(st, "cached")
	if got := sum(); got != "cached" {
		t.Errorf("the cache is not used: %s", got)
	}
	s := must.Get(Find(func(s *Set) error { return s.File("big", path) }))(t)
	if changed := must.Get(s.Changed())(t); s.Inputs["file big"] != "cached" || len(changed) > 0 {
		t.Errorf("a set does not use the cache: %q, changed %q", s.Inputs, changed)
	}
	text[0] = 'y' // same size, and the times set back
	must.Do(t, os.WriteFile(path, text, 0o644))
	must.Do(t, os.Chtimes(path, old, old))
	if got := sum(); got == "cached" || got == first {
		t.Error("an edited file with its old size and time has the old sum")
	}
}

// TestFind checks that Refresh finds files that were not there before.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.txt"), "one")
	s := must.Get(Find(func(s *Set) error {
		if err := s.Program("./built", dir, nil); err != nil {
			return err
		}
		return s.Glob("*.txt", dir)
	}))(t)
	if len(s.Unknown) != 1 || s.Inputs["files *.txt"] != "a.txt" {
		t.Errorf("unknown %q, inputs %q", s.Unknown, s.Inputs)
	}
	write(t, filepath.Join(dir, "built"), "binary")
	write(t, filepath.Join(dir, "b.txt"), "two")
	must.Do(t, s.Refresh())
	if len(s.Unknown) != 0 || s.Inputs["files *.txt"] != "a.txt b.txt" || len(s.Inputs["program ./built"]) != 64 {
		t.Errorf("after a change: unknown %q, inputs %q", s.Unknown, s.Inputs)
	}
	if changed := must.Get(s.Changed())(t); len(changed) > 0 {
		t.Errorf("changed since: %q", changed)
	}
}

func BenchmarkHash100MB(b *testing.B) {
	path := filepath.Join(b.TempDir(), "big")
	if err := os.WriteFile(path, make([]byte, 100<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := readSum(path); err != nil {
			b.Fatal(err)
		}
	}
}
