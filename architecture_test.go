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
)

const module = "github.com/kernbench/kernbench/"

// layers is the order of docs/architecture.md, bottom first: a package may
// import packages of lower layers, and of its own only those listed before it.
// A nested package belongs to the layer of its parent unless it is named itself.
var layers = [][]string{
	{"internal/suggest", "internal/unit", "internal/dtype", "internal/hostinfo", "internal/vec", "internal/epilogue", "internal/dynlib", "internal/cores", "internal/jobenv", "internal/sealed", "internal/yamlfile", "internal/proctest"},
	{"internal/point", "internal/agree", "internal/figure", "internal/launch", "internal/station", "internal/rendezvous", "internal/mpi", "internal/doctor", "internal/schedule", "internal/transport", "internal/wire", "internal/gemm", "internal/accel", "internal/sparse", "internal/partition"},
	{"dist", "internal/quant", "internal/verify", "dist/disttest", "internal/measure", "internal/node", "internal/journal", "internal/probe", "internal/krylov", "internal/fused", "internal/solve", "internal/model", "internal/foreign"},
	{"internal/decl"},
	{"internal/plan", "internal/sweep", "internal/worker"},
	{"internal/export", "internal/compare", "internal/speedup", "internal/report"},
	{"internal/run"},
	{"internal/cli"},
	{"benches", "bench"},
	{"cmd", "examples"},
}

// onlyImporter names the one package that may use a library.
var onlyImporter = map[string]string{
	"gonum.org/v1/plot":            "internal/figure",
	"github.com/spf13/cobra":       "internal/cli",
	"github.com/goccy/go-yaml":     "internal/yamlfile",
	"github.com/vbauerster/mpb":    "internal/cli",
	"github.com/ebitengine/purego": "internal/dynlib",
}

// edges are the packages that may touch the process: print, exit, read the
// environment. Everything else returns values.
var edges = []string{"internal/cli", "internal/dynlib", "internal/launch", "internal/worker", "dist", "cmd", "examples"}

func layerOf(pkg string) (layer, place int) {
	layer, place = -1, -1
	longest := 0
	for i, names := range layers {
		for k, name := range names {
			if (pkg == name || strings.HasPrefix(pkg, name+"/")) && len(name) > longest {
				layer, place, longest = i, k, len(name)
			}
		}
	}
	return layer, place
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
	fl, fk := layerOf(from)
	tl, tk := layerOf(to)
	switch {
	case fl < 0:
		return from + " has no layer: add it to layers and to docs/architecture.md"
	case tl < 0:
		return to + " has no layer: add it to layers and to docs/architecture.md"
	case tl > fl, tl == fl && tk > fk:
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
			for lib, owner := range onlyImporter {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && s.pkg != owner && !strings.HasPrefix(s.pkg, owner+"/") {
					t.Errorf("%s imports %s: only %s may", s.file, imp, owner)
				}
			}
		}
	}
}

// The rule itself must be able to fail.
func TestImportFaultIsFound(t *testing.T) {
	if importFault("internal/point", "internal/cli") == "" {
		t.Error("an import upward was accepted")
	}
	if importFault("internal/nowhere", "internal/point") == "" {
		t.Error("a package without a layer was accepted")
	}
	if fault := importFault("internal/cli", "internal/point"); fault != "" {
		t.Error(fault)
	}
}

func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		documented[s.pkg] = documented[s.pkg] || s.doc
	}
	guide, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
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
	banned := []string{"os.Exit(", "os.Getenv(", "os.Setenv(", "fmt.Print(", "fmt.Printf(", "fmt.Println(", "os.Stdout", "log.Print", "log.Fatal"}
	for _, s := range sources(t) {
		if slices.ContainsFunc(edges, func(e string) bool { return s.pkg == e || strings.HasPrefix(s.pkg, e+"/") }) {
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
