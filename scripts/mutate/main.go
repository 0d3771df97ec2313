// Command mutate tests the tests of a package: it changes one thing in the code at a time, such as an operator, a
// number or a returned error, and expects a test of the package to fail.
//
//	go run ./scripts/mutate [-seed N] [-n 40] FOLDER...
//
// It changes no file: the compiler gets the mutants as an overlay, all of them in one build. A mutant that survives is
// printed. If it is equivalent to the original, so that no test can tell them apart, add its line to
// scripts/mutants.txt with the reason; it then counts as explained. The exit code is 1 if a survivor is not explained.
//
// These places are never changed, because a test of them would only restate the code:
//   - declarations of constants, and other expressions that must be constant, such as the length of an array;
//   - capacities of slices, maps, channels and buffers, and the argument of math.Inf;
//   - numbers that are returned beside an error or false, where callers ignore them;
//   - the arguments of a returned fmt.Errorf.
//
// A hash of the seed and the line decides whether a mutant belongs to the sample. An edit therefore replaces only the
// mutants of the edited lines.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
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
	sample, sites := s.sample(seed, count)
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	program := filepath.Join(tmp, "mutants.test")
	if err := s.build(sample, program); err != nil {
		return false, err
	}
	cpu, out, err := s.run(program, "", limit, limit, "-test.v")
	if err != nil {
		return false, fmt.Errorf("the tests of %s fail without a mutation: %v\n%s", dir, err, out)
	}
	cpu, slow := 5*time.Second+3*cpu, slowTests(out)

	known := explained()
	killed, survivors, equivalent := 0, 0, 0
	for k, m := range sample {
		line, at, err := m.describe()
		if err != nil {
			return false, err
		}
		for _, which := range [][]string{{"-test.skip", slow}, {"-test.run", slow}} {
			if _, _, err = s.run(program, strconv.Itoa(k), limit, cpu, which...); err != nil {
				break
			}
		}
		switch {
		case err != nil:
			killed++
		case known[line]:
			equivalent++
		default:
			survivors++
			fmt.Printf("survived at line %d: %s\n", at, line)
		}
	}
	fmt.Printf("%s: %d of %d mutants killed, %d explained as equivalent, %d survived (%d sites, seed %d)\n", dir, killed,
		len(sample), equivalent, survivors, sites, seed)
	return survivors == 0, nil
}

// passed matches the result of a test that is not a subtest, with its time in seconds.
var passed = regexp.MustCompile(`(?m)^--- PASS: (\w+) \((.*)s\)$`)

// slowTests returns a pattern for the tests that take more than a tenth of the time. They run last, because most
// mutants are found without them.
func slowTests(out []byte) string {
	times, total := map[string]float64{}, 0.0
	for _, m := range passed.FindAllSubmatch(out, -1) {
		seconds, _ := strconv.ParseFloat(string(m[2]), 64)
		times[string(m[1])] = seconds
		total += seconds
	}
	maps.DeleteFunc(times, func(_ string, seconds float64) bool { return seconds < total/10 })
	return "^(" + strings.Join(slices.Sorted(maps.Keys(times)), "|") + ")$"
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

// describe returns the changed line, before and after, and its number.
func (m mutation) describe() (text string, line int, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, m.file, nil, parser.ParseComments)
	if err != nil {
		return "", 0, err
	}
	before, err := source(set, file)
	if err != nil {
		return "", 0, err
	}
	sitesOf(file, nil)[m.index].apply()
	after, err := source(set, file)
	text, line = difference(before, after)
	return m.file + ": " + text, line, err
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

// difference returns the first line that differs, before and after, and its number.
func difference(before, after []byte) (text string, line int) {
	old, new := strings.Split(string(before), "\n"), strings.Split(string(after), "\n")
	for i := range old {
		if i >= len(new) || old[i] != new[i] {
			return fmt.Sprintf("%s  =>  %s", strings.TrimSpace(old[i]), strings.TrimSpace(new[min(i, len(new)-1)])), i + 1
		}
	}
	return "no difference", 0
}
