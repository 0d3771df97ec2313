package sweep

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

const minimal = "name: x\ncommand: [python3, bench.py, \"{M}.json\", missing.txt]\naxes: {M: [1]}\nmetrics: {t: " +
	"{wall: true}}\n"

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}

// A changed script, command or metric changes the inputs; another axis value does not.
func TestInputs(t *testing.T) {
	dir := t.TempDir()
	file, script := filepath.Join(dir, "sweep.yaml"), filepath.Join(dir, "bench.py")
	write(t, file, minimal)
	write(t, script, "abc")
	write(t, filepath.Join(dir, "1.json"), "not an input: its name depends on the point")
	load := func() map[string]string {
		t.Helper()
		bench := must.Get(Load(file))(t)
		return bench.Parts[0].Command.Inputs
	}
	first := load()
	if diff := cmp.Diff([]string{"bench.py", "command", "metrics"}, slices.Sorted(maps.Keys(first))); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	// SHA-256 of "abc", the first test vector of FIPS 180-2.
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; first["bench.py"] != want {
		t.Errorf("bench.py: %s, want %s", first["bench.py"], want)
	}
	write(t, script, "abd")
	if second := load(); second["bench.py"] == first["bench.py"] || second["command"] != first["command"] {
		t.Errorf("after a change of the script: %v, before %v", second, first)
	}
}

// The program runs in the folder of its sweep file, not in the current folder.
func TestDir(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/sweep.yaml"), minimal)
	write(t, filepath.Join(dir, "a/below.yaml"), minimal+"dir: ../b\n")
	write(t, filepath.Join(dir, "a/nowhere.yaml"), minimal+"dir: c\n")
	write(t, filepath.Join(dir, "a/file.yaml"), minimal+"dir: sweep.yaml\n")
	write(t, filepath.Join(dir, "a/absolute.yaml"), minimal+"dir: "+dir+"\n")
	write(t, filepath.Join(dir, "b/bench.py"), "")
	t.Chdir(filepath.Join(dir, "b"))
	for file, want := range map[string]string{"../a/sweep.yaml": "a", "../a/below.yaml": "b", "../a/absolute.yaml": ""} {
		bench, err := Load(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := bench.Parts[0].Command.Dir; got != filepath.Join(dir, want) {
			t.Errorf("%s: dir %s, want %s", file, got, filepath.Join(dir, want))
		}
	}
	for file, want := range map[string]string{
		"../a/nowhere.yaml": "no such file or directory", "../a/file.yaml": "is not a folder",
		"../a/missing.yaml": "reading a sweep file",
	} {
		if _, err := Load(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
