// Command mutate tests the tests of a package: it changes one thing in the code at a time, such as an operator, a
// number or a returned error, and expects a test of the package to fail.
//
//	go run ./scripts/mutate [-seed N] [-n 40] FOLDER...
//
// It changes no file: the compiler gets the mutants as an overlay, all of them in one build. A mutant that survives is
// printed. If it is equivalent to the original, so that no test can tell them apart, its line belongs into
// scripts/mutants.txt with the reason; it then counts as explained. The exit code is 1 if a survivor is not explained.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// mutation is one change of a file. It is applied to a fresh syntax tree, where it is the index-th site.
type mutation struct {
	file  string
	index int
}

const explainedFile = "scripts/mutants.txt"

func main() {
	seed := flag.Uint64("seed", 1, "seed of the sample")
	count := flag.Int("n", 40, "mutants for each package")
	limit := flag.Duration("timeout", 5*time.Minute, "time limit of the tests of one mutant")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/mutate [-seed N] [-n 40] FOLDER...")
		os.Exit(2)
	}
	survived := false
	for _, dir := range flag.Args() {
		ok, err := testPackage(dir, *seed, *count, *limit)
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(2)
		}
		survived = survived || !ok
	}
	if survived {
		os.Exit(1)
	}
}

// testPackage tests a sample of a package's mutants, and reports whether every survivor is explained.
func testPackage(dir string, seed uint64, count int, limit time.Duration) (ok bool, err error) {
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return false, err
	}
	s, err := load(dir, pkg.GoFiles)
	if err != nil {
		return false, err
	}
	var all []mutation
	for _, name := range pkg.GoFiles {
		path := filepath.Join(dir, name)
		for i := range s.sites[path] {
			all = append(all, mutation{path, i})
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	program := filepath.Join(tmp, "mutants.test")
	together := lists.Filter(all[:min(len(all), 2*count)], s.selectable)
	together = together[:min(len(together), count)]
	if err := s.build(together, program); err != nil {
		return false, err
	}
	cpu, out, err := s.run(program, "", limit, limit)
	if err != nil {
		return false, fmt.Errorf("the tests of %s fail without a mutation: %v\n%s", dir, err, out)
	}
	cpu = 5*time.Second + 3*cpu

	known := explained()
	killed, survivors, equivalent := 0, 0, 0
	for _, m := range all {
		if killed+survivors+equivalent == count {
			break
		}
		line, after, err := m.describe()
		if err != nil {
			return false, err
		}
		passed, compiled := false, true
		if k := slices.Index(together, m); k >= 0 {
			_, _, err := s.run(program, strconv.Itoa(k), limit, cpu)
			passed = err == nil
		} else if passed, compiled, err = m.test(dir, after, limit); err != nil {
			return false, err
		}
		switch {
		case !compiled: // such as an unused variable
		case !passed:
			killed++
		case known[line]:
			equivalent++
		default:
			survivors++
			fmt.Println("survived:", line)
		}
	}
	fmt.Printf("%s: %d of %d mutants killed, %d explained as equivalent, %d survived (%d sites, seed %d)\n", dir, killed,
		killed+survivors+equivalent, equivalent, survivors, len(all), seed)
	return survivors == 0, nil
}

// explained returns the mutants that are known to be equivalent to the original.
func explained() map[string]bool {
	text, _ := infile.Read(explainedFile, infile.Config) // there may be none
	known := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			mutant, _, _ := strings.Cut(line, "  # ")
			known[strings.TrimSpace(mutant)] = true
		}
	}
	return known
}

// describe returns the changed line, before and after, and the changed file.
func (m mutation) describe() (line string, after []byte, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, m.file, nil, parser.ParseComments)
	if err != nil {
		return "", nil, err
	}
	before, err := source(set, file)
	if err != nil {
		return "", nil, err
	}
	sitesOf(file, nil)[m.index].apply()
	after, err = source(set, file)
	return m.file + ": " + difference(before, after), after, err
}

// test compiles and runs the package's tests with this mutation alone.
func (m mutation) test(dir string, after []byte, limit time.Duration) (passed, compiled bool, err error) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, false, err
	}
	defer os.RemoveAll(tmp)
	mutant, overlay := filepath.Join(tmp, "mutant.go"), filepath.Join(tmp, "overlay.json")
	path, err := filepath.Abs(m.file)
	if err != nil {
		return false, false, err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutant}})
	if err := errors.Join(err, os.WriteFile(mutant, after, 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return false, false, err
	}
	out, err := goTest(dir, overlay, limit)
	return err == nil, !bytes.Contains(out, []byte("[build failed]")), nil
}

func goTest(dir, overlay string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-short", "-count=1", "-failfast", "-vet=off",
		"-timeout", limit.String(), "-overlay", overlay, "./"+filepath.Clean(dir))
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// swaps maps operators to the ones that replace them.
var swaps = map[token.Token][]token.Token{
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.LSS: {token.LEQ}, token.LEQ: {token.LSS}, token.GTR: {token.GEQ}, token.GEQ: {token.GTR},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND},
}

func source(set *token.FileSet, file *ast.File) ([]byte, error) {
	var b bytes.Buffer
	err := format.Node(&b, set, file)
	return b.Bytes(), err
}

// difference returns the first line that differs, before and after.
func difference(before, after []byte) string {
	old, new := strings.Split(string(before), "\n"), strings.Split(string(after), "\n")
	for i := range old {
		if i >= len(new) || old[i] != new[i] {
			return fmt.Sprintf("%s  =>  %s", strings.TrimSpace(old[i]), strings.TrimSpace(new[min(i, len(new)-1)]))
		}
	}
	return "no difference"
}
