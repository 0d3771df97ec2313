package cudatest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A library in the cache is used without a compiler, unless sources or flags have changed.
func TestCompiledOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	src := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(src, "a.c"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"-shared", "-fPIC", "a.c"}
	write("int answer(void) { return 41; }")
	first, err := compiled(src, flags)
	if err != nil {
		t.Fatal(err)
	}
	write("int answer(void) { return 42; }")
	second, err := compiled(src, flags)
	if err != nil || bytes.Equal(first, second) {
		t.Fatalf("other sources, the same library (%v)", err)
	}
	t.Setenv("PATH", "")
	if again, err := compiled(src, flags); err != nil || !bytes.Equal(again, second) {
		t.Errorf("what was kept is not had again: %v", err)
	}
	if _, err := compiled(src, append([]string{"-O1"}, flags...)); err == nil {
		t.Error("what was compiled by other flags was taken")
	}
}
