package kernbench_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
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

// layers lists the layers of docs/architecture.md, bottom first. A package may import
// packages of its own layer and of the layers below. A layer is a folder of internal
// and the public packages that belong to it.
var layers = []struct {
	name     string
	packages []string // folders; all packages below them belong to the layer
}{
	{"base", []string{"internal/base"}},
	{"host", []string{"internal/host"}},
	{"kernel", []string{"internal/kernel"}},
	{"process", []string{"internal/process"}},
	{"comm", []string{"internal/comm"}},
	{"accel", []string{"accel", "internal/accel"}},
	{"dist", []string{"dist", "internal/dist"}},
	{"solve", []string{"solve", "internal/solve"}},
	{"result", []string{"internal/result"}},
	{"workload", []string{"internal/workload"}},
	{"bench", []string{"bench", "internal/bench"}},
	{"view", []string{"docs", "internal/view"}},
	{"cli", []string{".", "internal/cli"}},
	{"benches", []string{"benches"}},
	{"programs", []string{"cmd", "examples", "scripts"}},
}

// onlyImporters lists, for some libraries, the packages that may import them.
var onlyImporters = map[string][]string{
	"gonum.org/v1/plot":            {"internal/result/draw"},
	"github.com/spf13/cobra":       {"internal/cli", "internal/cli/guide"},
	"github.com/goccy/go-yaml":     {"internal/base/yamlfile"},
	"github.com/yuin/goldmark":     {"internal/view/manual"},
	"github.com/vbauerster/mpb":    {"internal/cli/terminal"},
	"github.com/ebitengine/purego": {"internal/host/dynlib"},
	"google.golang.org/protobuf":   {"internal/workload/chakra"},
}

// edges lists the packages that may print, exit and read the environment. All other packages
// return values, so that tests can call them.
var edges = []string{"internal/cli", "internal/host/dynlib", "internal/host/proctest", "internal/host/cudatest",
	"internal/process/launch", "internal/bench/worker", "dist", "cmd", "examples", "scripts"}

// within reports whether a package is the folder or lies below it. The root package "." contains no other.
func within(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// layerOf returns the index of a package's layer, or -1 if it has none.
func layerOf(pkg string) int {
	for i, l := range layers {
		if slices.ContainsFunc(l.packages, func(folder string) bool { return within(pkg, folder) }) {
			return i
		}
	}
	return -1
}

// source is a Go file that is not a test.
type source struct {
	pkg     string // folder within the module
	file    string
	imports []string
	doc     bool // it has the package comment
	text    string
}

// sources reads the Go files of the module, without tests.
func sources(t *testing.T) []source {
	var out []source
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := must.Get(os.ReadFile(name))(t)
		f := must.Get(parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.ImportsOnly))(t)
		s := source{pkg: filepath.ToSlash(filepath.Dir(name)), file: name, doc: f.Doc != nil, text: string(text)}
		for _, imp := range f.Imports {
			p, _ := strconv.Unquote(imp.Path.Value)
			s.imports = append(s.imports, p)
		}
		out = append(out, s)
	}
	return out
}

// goFiles lists the Go files of the module, tests included.
func goFiles(t *testing.T) (files []string) {
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".go") {
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("listing the Go files: %v (%d files)", err, len(files))
	}
	return files
}

// importFault returns what is wrong with an import of package to in package from, or "".
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

// TestImportFaultIsFound checks that importFault rejects wrong imports.
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

// fileReaders lists the packages that may open files by themselves, and why.
var fileReaders = map[string]string{
	"internal/base/infile":    "it is the guarded reader",
	"internal/base/golden":    "test files",
	"internal/host":           "files of the kernel and of this program's own daemons",
	"internal/process":        "files of the kernel, and logs and sockets of this program",
	"internal/comm":           "shared memory and files of the kernel",
	"internal/cli/guide":      "creates files only",
	"internal/cli/selftest":   "files that it has just written",
	"internal/result/journal": "its own format, with locks",
	"internal/bench/run":      "logs that it has just written, of limited size",
}

// TestInputsAreReadWithBounds checks that files from outside are read through infile only.
func TestInputsAreReadWithBounds(t *testing.T) {
	for _, s := range sources(t) {
		if slices.ContainsFunc(slices.Collect(maps.Keys(fileReaders)), func(p string) bool { return within(s.pkg, p) }) {
			continue
		}
		for i, line := range strings.Split(s.text, "\n") {
			for _, call := range []string{"os.ReadFile(", "os.Open(", "os.OpenFile(", "os.DirFS("} {
				if strings.Contains(line, call) && !strings.Contains(line, `"/proc`) && !strings.Contains(line, `"/sys`) {
					t.Errorf("%s:%d uses %s: read it with infile, which bounds size and kind", s.file, i+1, call)
				}
			}
		}
	}
}

// printsForPeople reports whether a file makes text for people. Such a file prints through texttab.Out, which escapes
// its arguments, so that no text from outside can control a terminal, forge a line or become markup.
func printsForPeople(s source) bool {
	return within(s.pkg, "internal/cli") || slices.Contains([]string{"internal/view/document/markdown.go",
		"internal/view/export/markdown.go", "internal/view/compare/github.go", "internal/view/compare/print.go"},
		filepath.ToSlash(s.file))
}

func TestTextForPeopleIsEscaped(t *testing.T) {
	checked := 0
	for _, s := range sources(t) {
		if !printsForPeople(s) {
			continue
		}
		checked++
		for i, line := range strings.Split(s.text, "\n") {
			// A builder is for the text of a flag or a manual page.
			if strings.Contains(line, "fmt.Fprint") && !strings.Contains(line, "fmt.Fprintf(&b, ") {
				t.Errorf("%s:%d uses fmt.Fprint: print with texttab.Out, which escapes its arguments", s.file, i+1)
			}
		}
	}
	if checked < 25 {
		t.Errorf("only %d files were found", checked)
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
