// Command mutate tests the tests of a package: it changes one thing in the code at a time, such as an operator, a
// number or a returned error, and expects a test of the package to fail.
//
//	go run ./scripts/mutate [-seed N] [-n 40] FOLDER...
//
// It changes no file: the compiler gets each mutant as an overlay. A mutant that survives is printed. If it is
// equivalent to the original, so that no test can tell them apart, its line belongs into scripts/mutants.txt with the
// reason; it then counts as explained. The exit code is 1 if a survivor is not explained.
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
	if out, err := goTest(dir, "", limit); err != nil {
		return false, fmt.Errorf("the tests of %s fail without a mutation: %v\n%s", dir, err, out)
	}
	var all []mutation
	for _, name := range pkg.GoFiles {
		path := filepath.Join(dir, name)
		_, _, sites, err := parse(path)
		if err != nil {
			return false, err
		}
		for i := range sites {
			all = append(all, mutation{path, i})
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	known := explained()
	killed, survivors, equivalent := 0, 0, 0
	for _, m := range all {
		if killed+survivors+equivalent == count {
			break
		}
		line, passed, compiled, err := m.test(dir, limit)
		switch {
		case err != nil:
			return false, err
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

// test runs the package's tests with the mutation and returns the changed line, before and after.
func (m mutation) test(dir string, limit time.Duration) (line string, passed, compiled bool, err error) {
	set, file, sites, err := parse(m.file)
	if err != nil {
		return "", false, false, err
	}
	before, err := source(set, file)
	if err != nil {
		return "", false, false, err
	}
	sites[m.index]()
	after, err := source(set, file)
	if err != nil {
		return "", false, false, err
	}
	line = m.file + ": " + difference(before, after)
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", false, false, err
	}
	defer os.RemoveAll(tmp)
	mutant, overlay := filepath.Join(tmp, "mutant.go"), filepath.Join(tmp, "overlay.json")
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", false, false, err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutant}})
	if err := errors.Join(err, os.WriteFile(mutant, after, 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return "", false, false, err
	}
	out, err := goTest(dir, overlay, limit)
	return line, err == nil, !bytes.Contains(out, []byte("[build failed]")), nil
}

func goTest(dir, overlay string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-short", "-count=1", "-failfast", "-vet=off",
		"-timeout", limit.String(), "-overlay", overlay, "./"+filepath.Clean(dir))
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// parse parses a file and returns its sites: functions that each change one thing in the tree.
func parse(path string) (*token.FileSet, *ast.File, []func(), error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
	if err != nil {
		return nil, nil, nil, err
	}
	var sites []func()
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr:
			for _, op := range swaps[n.Op] {
				sites = append(sites, func() { n.Op = op })
			}
		case *ast.IncDecStmt:
			sites = append(sites, func() { n.Tok = token.INC + token.DEC - n.Tok })
		case *ast.IfStmt:
			sites = append(sites, func() { n.Cond = &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: n.Cond}} })
		case *ast.BasicLit:
			if value, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
				sites = append(sites, func() { n.Value = strconv.Itoa(value + 1) })
			}
		case *ast.ReturnStmt: // drop an error
			if len(n.Results) > 0 {
				if id, is := n.Results[len(n.Results)-1].(*ast.Ident); is && id.Name == "err" {
					sites = append(sites, func() { id.Name = "nil" })
				}
			}
		}
		return true
	})
	return set, file, sites, nil
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
