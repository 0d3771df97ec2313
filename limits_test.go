package kernbench_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/must"
)

// The limits keep files and functions small enough to be read in one go.
const (
	maxFileLines = 500 // in a source file
	maxFuncLines = 70
	maxDepth     = 2   // folders below internal
	maxColumns   = 120 // characters in a line, tests included; a tab counts as one
)

// allowed lists the exceptions and their reasons.
var allowed = map[string]string{
	"dist/mpi/collective.go: prepare": "a table of MPI's calls, one case per collective",
}

func TestLimitsOfTheTree(t *testing.T) {
	used := map[string]bool{}
	exceeds := func(what string, have, limit int) {
		if have <= limit {
			return
		}
		if allowed[what] != "" {
			used[what] = true
			return
		}
		t.Errorf("%s: %d, the limit is %d", what, have, limit)
	}
	for pkg, files := range packages(t) {
		if below, internal := strings.CutPrefix(pkg, "internal/"); internal {
			exceeds(pkg+": folders below internal", strings.Count(below, "/")+1, maxDepth)
		}
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			exceeds(file+": lines", strings.Count(string(text), "\n"), maxFileLines)
			for name, lines := range functions(t, file, text) {
				exceeds(file+": "+name, lines, maxFuncLines)
			}
		}
	}
	for what, why := range allowed {
		if !used[what] {
			t.Errorf("%s (%s) is within the limit: remove it from the list", what, why)
		}
	}
}

// longLine matches the lines that may exceed maxColumns: URLs, C prototypes quoted in comments,
// regular expressions and raw text, which cannot be broken without changing their meaning, and the
// rows of tables.
var longLine = regexp.MustCompile("https?://|^//\\t|regexp\\.MustCompile|`|^\t+\\{?\"")

func TestLinesAreShort(t *testing.T) {
	for _, file := range goFiles(t) {
		raw := false // inside a raw string
		for i, line := range strings.Split(string(must.Get(os.ReadFile(file))(t)), "\n") {
			inside := raw || longLine.MatchString(line)
			if strings.Count(line, "`")%2 == 1 {
				raw = !raw
			}
			if n := utf8.RuneCountInString(line); n > maxColumns && !inside {
				t.Errorf("%s:%d has %d columns, the limit is %d", file, i+1, n, maxColumns)
			}
		}
	}
}

// packages lists the source files of each package, without tests.
func packages(t *testing.T) map[string][]string {
	found := map[string][]string{}
	for _, s := range sources(t) {
		if _, ok := found[s.pkg]; ok {
			continue
		}
		entries := must.Get(os.ReadDir(s.pkg))(t)
		for _, e := range entries {
			ext := filepath.Ext(e.Name())
			if (ext == ".go" || ext == ".s") && !strings.HasSuffix(e.Name(), "_test.go") {
				found[s.pkg] = append(found[s.pkg], filepath.Join(s.pkg, e.Name()))
			}
		}
	}
	return found
}

// functions returns the number of lines of each function in a file.
func functions(t *testing.T, file string, text []byte) map[string]int {
	if filepath.Ext(file) != ".go" {
		return nil
	}
	set := token.NewFileSet()
	f := must.Get(parser.ParseFile(set, file, text, 0))(t)
	lines := map[string]int{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			lines[fn.Name.Name] = max(lines[fn.Name.Name], set.Position(fn.End()).Line-set.Position(fn.Pos()).Line+1)
		}
	}
	return lines
}

// TestFunctionsAreMeasured checks the counting of lines.
func TestFunctionsAreMeasured(t *testing.T) {
	text := "package p\n\nfunc short() {}\n\nfunc long() {\n" + strings.Repeat("\tshort()\n", 70) + "}\n"
	if got := fmt.Sprint(functions(t, "p.go", []byte(text))); got != "map[long:72 short:1]" {
		t.Error(got)
	}
}
