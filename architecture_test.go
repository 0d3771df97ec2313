package kernbench_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

const module = "github.com/kernbench/kernbench/"

// layers is the order of docs/architecture.md, bottom first: a package may
// import packages of its own layer and of those before it. A layer is a folder
// of internal and the public packages that belong to it; the compiler itself
// sees to it that no two packages import each other.
var layers = []struct {
	name     string
	packages []string // folders: everything below them belongs to the layer
}{
	{"base", []string{"internal/base"}},
	{"host", []string{"internal/host"}},
	{"kernel", []string{"internal/kernel"}},
	{"process", []string{"internal/process"}},
	{"comm", []string{"internal/comm"}},
	{"accel", []string{"accel", "internal/accel"}},
	{"dist", []string{"dist"}},
	{"solve", []string{"solve", "internal/solve"}},
	{"result", []string{"internal/result"}},
	{"bench", []string{"bench", "internal/bench"}},
	{"view", []string{"internal/view"}},
	{"cli", []string{".", "internal/cli"}},
	{"benches", []string{"benches"}},
	{"programs", []string{"cmd", "examples"}},
}

// onlyImporters names the packages that may use a library.
var onlyImporters = map[string][]string{
	"gonum.org/v1/plot":            {"internal/result/draw"},
	"github.com/spf13/cobra":       {"internal/cli", "internal/cli/guide"},
	"github.com/goccy/go-yaml":     {"internal/base/yamlfile"},
	"github.com/vbauerster/mpb":    {"internal/cli/terminal"},
	"github.com/ebitengine/purego": {"internal/host/dynlib"},
}

// edges are the packages that may touch the process: print, exit, read the
// environment. Everything else returns values.
var edges = []string{"internal/cli", "internal/host/dynlib", "internal/host/proctest", "internal/host/cudatest",
	"internal/process/launch", "internal/bench/worker", "dist", "cmd", "examples"}

// within tells whether a package is the folder or lies below it. The module's
// root is a package, not a folder of others.
func within(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// layerOf is the place of a package's layer in the order, -1 without one.
func layerOf(pkg string) int {
	for i, l := range layers {
		if slices.ContainsFunc(l.packages, func(folder string) bool { return within(pkg, folder) }) {
			return i
		}
	}
	return -1
}

type source struct {
	pkg     string // folder within the module
	file    string
	imports []string
	doc     bool
	text    string
}

func sources(t *testing.T) []source {
	var out []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{pkg: filepath.ToSlash(filepath.Dir(name)), file: name, doc: f.Doc != nil, text: string(text)}
		for _, imp := range f.Imports {
			p, _ := strconv.Unquote(imp.Path.Value)
			s.imports = append(s.imports, p)
		}
		out = append(out, s)
		return nil
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("reading the sources: %v (%d files)", err, len(out))
	}
	return out
}

func importFault(from, to string) string {
	lower, upper := layerOf(to), layerOf(from)
	switch {
	case upper < 0:
		return from + " belongs to no layer: see layers and docs/architecture.md"
	case lower < 0:
		return to + " belongs to no layer: see layers and docs/architecture.md"
	case lower > upper:
		return from + " imports " + to + ", which lies above it"
	}
	return ""
}

func TestImportsGoDownward(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.imports {
			if to, ours := strings.CutPrefix(imp, module); ours {
				if fault := importFault(s.pkg, to); fault != "" {
					t.Errorf("%s: %s", s.file, fault)
				}
				continue
			}
			for lib, owners := range onlyImporters {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.Contains(owners, s.pkg) {
					t.Errorf("%s imports %s: only %s may", s.file, imp, strings.Join(owners, " and "))
				}
			}
		}
	}
}

// The rule itself must be able to fail.
func TestImportFaultIsFound(t *testing.T) {
	if importFault("internal/base/point", "internal/cli") == "" {
		t.Error("an import upward was accepted")
	}
	if importFault("internal/nowhere", "internal/base/point") == "" {
		t.Error("a package without a layer was accepted")
	}
	if fault := importFault("internal/cli", "internal/base/point"); fault != "" {
		t.Error(fault)
	}
}

func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		documented[s.pkg] = documented[s.pkg] || s.doc
	}
	guide := must.Get(os.ReadFile("docs/architecture.md"))(t)
	for pkg, has := range documented {
		if !has {
			t.Errorf("package %s has no package comment", pkg)
		}
		if strings.HasPrefix(pkg, "internal/") && !strings.Contains(string(guide), "`"+path.Base(pkg)+"`") {
			t.Errorf("docs/architecture.md does not mention `%s`", path.Base(pkg))
		}
	}
}

func TestOnlyTheEdgesTouchTheProcess(t *testing.T) {
	banned := []string{"os.Exit(", "os.Getenv(", "os.Setenv(", "fmt.Print(", "fmt.Printf(", "fmt.Println(", "os.Stdout",
		"log.Print", "log.Fatal"}
	for _, s := range sources(t) {
		if slices.ContainsFunc(edges, func(e string) bool { return within(s.pkg, e) }) {
			continue
		}
		for i, line := range strings.Split(s.text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			for _, b := range banned {
				if strings.Contains(line, b) {
					t.Errorf("%s:%d uses %s: return a value, let the edge print", s.file, i+1, strings.TrimSuffix(b, "("))
				}
			}
		}
	}
}
