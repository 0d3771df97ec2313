package bench_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A user's program lives in a module of its own. This one is the shipped
// example, built and run outside the tree against the public package.
func TestUsersOwnModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	// The requirements are ours, so that nothing has to be looked up.
	mod := strings.Replace(read("go.mod"), "module github.com/kernbench/kernbench", "module example.com/user", 1)
	mod, _, _ = strings.Cut(mod, "\ntool ")
	write("go.mod", mod+"\nrequire github.com/kernbench/kernbench v0.0.0\n\nreplace github.com/kernbench/kernbench => "+root+"\n")
	write("go.sum", read("go.sum"))
	write("main.go", read("examples/userbench/main.go"))

	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("go", "build", "-mod=mod", "-o", "userbench", ".")
	out := run("./userbench", "run", "--bench", "sort", "--count", "1K", "--ranks", "1,2")
	if !strings.Contains(out, "2 points: 2 ok") {
		t.Errorf("the user's bench did not run:\n%s", out)
	}
	if list := run("./userbench", "list"); !strings.Contains(list, "sort random numbers") {
		t.Errorf("list: %s", list)
	}
}
