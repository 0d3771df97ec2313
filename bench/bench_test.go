package bench_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// others is a program that uses the public packages other than bench and kernbench.
const others = `package main

import (
	"context"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/solve"
)

// total sums a vector over all ranks.
func total(ctx context.Context, c dist.Config, v []float32) error {
	g, err := dist.Init(ctx, c)
	if err != nil {
		return err
	}
	defer g.Close()
	return g.AllReduce(dist.Of(v), dist.Of(v), dist.Sum)
}

// solved sets a linear system up from a file and solves it.
func solved(g *dist.Group, file string) ([]float64, error) {
	s, err := solve.New(g, solve.Spec{MatrixFile: file, Partitioner: "simple", Method: "cg"})
	if err != nil {
		return nil, err
	}
	if _, err := s.Solve(0); err != nil {
		return nil, err
	}
	return s.Solution(), nil
}

// simulated launches a kernel on one PE of a simulated accelerator.
func simulated(kernel tl.Kernel) error {
	topology, ccl, err := accel.Load("", "")
	if err != nil {
		return err
	}
	system := accel.New(topology, ccl)
	_, err = system.Launch(kernel, accel.OnPE0(system, 0))
	return err
}

var _, _, _ = total, solved, simulated
`

// A user's program is in its own module. This test builds and runs the shipped examples outside the
// tree against the public packages.
func TestUsersOwnModule(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and runs another program: once is enough")
	}
	t.Parallel()
	root := must.Get(filepath.Abs(".."))(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	read := func(name string) string {
		t.Helper()
		data := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
		return string(data)
	}
	// The module has the same requirements as kernbench, so nothing has to be downloaded. A
	// workspace replaces the requirement of kernbench itself, so the build cache is shared with
	// all other tests.
	mod := strings.Replace(read("go.mod"), "module github.com/kernbench/kernbench", "module example.com/user", 1)
	mod, _, _ = strings.Cut(mod, "\ntool ")
	write("go.mod", mod)
	write("go.sum", read("go.sum"))
	write("main.go", read("examples/userbench/main.go"))
	write("others.go", others)
	must.Do(t, os.Mkdir(filepath.Join(dir, "heat"), 0o755))
	write("heat/main.go", read("examples/ownproblem/main.go"))

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
	for _, name := range []string{"ownbackend", "ownsolver"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		for _, file := range must.Get(filepath.Glob(filepath.Join(root, "examples", name, "*.go")))(t) {
			if base := filepath.Base(file); !strings.HasSuffix(base, "_test.go") {
				write(filepath.Join(name, base), read(filepath.Join("examples", name, base)))
			}
		}
	}
	run("go", "work", "init", ".", root)
	run("go", "vet", "./ownbackend", "./ownsolver") // they run in tests of their own
	run("go", "build", "-ldflags=-w", "-o", "userbench", ".")
	out := run("./userbench", "run", "--bench", "sort", "--count", "1K", "--ranks", "1,2")
	if !strings.Contains(out, "2 points: 2 ok") {
		t.Errorf("the user's bench did not run:\n%s", out)
	}
	run("go", "build", "-ldflags=-w", "-o", "ownproblem", "./heat")
	if out := run("./ownproblem"); !strings.Contains(out, "right to 6 digits: true") {
		t.Errorf("the user's own linear system:\n%s", out)
	}
	if list := run("./userbench", "list"); !strings.Contains(list, "sort random numbers") {
		t.Errorf("list: %s", list)
	}

	// A kernel for the simulated accelerator, once correct and once adding the wrong chunk.
	kernel := read("examples/accelkernel/main.go")
	must.Do(t, os.Mkdir(filepath.Join(dir, "kernel"), 0o755))
	for own, want := range map[string]string{"me - 2 - step": "2 points: 2 ok", "me - 1 - step": "wrong"} {
		write("kernel/main.go", strings.Replace(kernel, "me - 2 - step", own, 1))
		run("go", "build", "-ldflags=-w", "-o", "reducescatter", "./kernel")
		cmd := exec.Command("./reducescatter", "run", "--bench", "reduce-scatter", "--sips", "2,4", "--n_elem", "64")
		cmd.Dir = dir
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("the user's kernel with load(%s): %s", own, out)
		}
	}
}

// functions returns the exported functions of a package with the type of their only result.
func functions(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	found := map[string]string{}
	for _, path := range files {
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
				continue
			}
			result, _ := f.Type.Results.List[0].Type.(*ast.Ident)
			if found[f.Name.Name] = ""; result != nil {
				found[f.Name.Name] = result.Name
			}
		}
	}
	return found
}

// docs/writing-benches.md shows the program that is built and run above, and names every function.
func TestGuideShowsTheExample(t *testing.T) {
	guide := must.Get(os.ReadFile("../docs/writing-benches.md"))(t)
	example := must.Get(os.ReadFile("../examples/userbench/main.go"))(t)
	_, rest, _ := strings.Cut(string(guide), "```go\n")
	shown, _, _ := strings.Cut(rest, "```\n")
	if shown == "" || !strings.HasSuffix(string(example), "\n"+shown) {
		t.Errorf("the guide shows another program:\n%s", shown)
	}
	for name := range functions(t, ".") {
		item := strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example")
		if !item && !strings.Contains(string(guide), "`"+name) && !strings.Contains(string(guide), "bench."+name) &&
			!slices.Contains(unexplained, name) {
			t.Errorf("the guide does not name bench.%s", name)
		}
	}
}

// unexplained lists functions that only the package documentation mentions.
var unexplained = []string{"New", "DefaultMeasure", "ParseValue"}
