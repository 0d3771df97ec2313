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
	"github.com/kernbench/kernbench/internal/base/point"
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
		all := maps.Clone(bench.Parts[0].Command.Inputs)
		maps.Copy(all, bench.Tracked.Inputs)
		// python3 may be a script itself.
		maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasPrefix(name, "interpreter ") })
		return all
	}
	first := load()
	if diff := cmp.Diff([]string{"command", "file bench.py", "metrics", "program python3"},
		slices.Sorted(maps.Keys(first))); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	// SHA-256 of "abc", the first test vector of FIPS 180-2.
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; first["file bench.py"] != want {
		t.Errorf("bench.py: %s, want %s", first["file bench.py"], want)
	}
	write(t, script, "abd")
	if second := load(); second["file bench.py"] == first["file bench.py"] || second["command"] != first["command"] {
		t.Errorf("after a change of the script: %v, before %v", second, first)
	}
}

// Files whose names contain an axis are inputs of the points that name them.
func TestInputsOfPoints(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.yaml")
	write(t, file, "name: x\ncommand: [\"./{who}/prog\", \"{n}\", -o, \"{who}.out\"]\naxes: {who: [a, b], n: [1, 2]}\n"+
		"metrics: {t: {wall: true}}\n")
	write(t, filepath.Join(dir, "a/prog"), "#!/bin/sh\necho a\n")
	write(t, filepath.Join(dir, "1"), "a number is no file")
	write(t, filepath.Join(dir, "a.out"), "an output is no input")
	b := must.Get(Load(file))(t)
	at := func(who string) map[string]string {
		return b.Content(point.Point{{Name: "who", Value: point.StringValue(who)}, {Name: "n", Value: point.IntValue(1)}},
			nil)
	}
	first := at("a")
	if diff := cmp.Diff([]string{"interpreter /bin/sh", "program ./a/prog"}, slices.Sorted(maps.Keys(first))); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	if got := at("b")["program ./b/prog"]; got != "unknown: no such file on this host" {
		t.Errorf("a program that is not there: %q", got)
	}
	write(t, filepath.Join(dir, "a/prog"), "#!/bin/sh\necho c\n")
	if at("a")["program ./a/prog"] == first["program ./a/prog"] {
		t.Error("an edited program has the same content")
	}
}

func TestDeclaredFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.yaml")
	write(t, file, "name: x\ncommand: [true]\nfiles: [\"lib/*.sh\"]\nmetrics: {t: {wall: true}}\n")
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), `no file matches "lib/*.sh"`) {
		t.Errorf("without such a file: %v", err)
	}
	write(t, filepath.Join(dir, "lib/one.sh"), "1")
	one := must.Get(Load(file))(t).Tracked.Inputs
	write(t, filepath.Join(dir, "lib/two.sh"), "2")
	two := must.Get(Load(file))(t).Tracked.Inputs
	if diff := cmp.Diff([]string{"file lib/two.sh", "files lib/*.sh"}, one.Changed(two)); diff != "" {
		t.Errorf("changed by another file (-want +got):\n%s", diff)
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
