package kernbench_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
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
	"go.yaml.in/yaml/v3":           {"internal/base/yamlfile"},
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

// fileReaders lists the packages and files that may open files by themselves, and why.
var fileReaders = map[string]string{
	"internal/base/infile":              "it is the guarded reader",
	"internal/base/golden":              "test files",
	"internal/host":                     "files of the kernel and of this program's own daemons",
	"internal/process":                  "files of the kernel, and logs and sockets of this program",
	"internal/comm":                     "shared memory and files of the kernel",
	"internal/cli/guide":                "creates files only",
	"internal/cli/selftest":             "files that it has just written",
	"internal/result/journal/writer.go": "opens the journal and its locks without following links",
	"internal/result/journal/files.go":  "writes files of a RUN folder below an os.Root",
	"internal/result/journal/read.go":   "opens a RUN folder as an os.Root for infile",
	"internal/view/web/live.go":         "lists the logs of a RUN folder below an os.Root",
}

// readers lists the functions that open a file or a folder for reading, by import path. Methods of os.Root are
// among them, because a value of that type comes from one of these functions.
var readers = map[string][]string{
	"os":                    {"ReadFile", "Open", "OpenFile", "DirFS", "CopyFS", "OpenRoot", "OpenInRoot"},
	"io/ioutil":             {"ReadFile"},
	"syscall":               {"Open", "Openat"},
	"golang.org/x/sys/unix": {"Open", "Openat", "Openat2", "OpenByHandleAt"},
	// These take the name of a file and open it.
	"archive/zip":     {"OpenReader"},
	"crypto/tls":      {"LoadX509KeyPair"},
	"debug/buildinfo": {"ReadFile"},
	"debug/elf":       {"Open"},
	"html/template":   {"ParseFiles", "ParseGlob"},
	"net/http":        {"Dir", "ServeFile"},
	"text/template":   {"ParseFiles", "ParseGlob"},
}

// unguardedReads returns the uses of readers in a file, as "line: name". Files of the kernel are left out, if the
// call names them.
func unguardedReads(name, text string) (found []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, 0)
	if err != nil {
		return nil, err
	}
	imported := map[string]string{} // import paths by the name in this file
	for _, imp := range file.Imports {
		importPath, _ := strconv.Unquote(imp.Path.Value)
		local := path.Base(importPath)
		if imp.Name != nil {
			local = imp.Name.Name
		}
		if local == "." && readers[importPath] != nil {
			found = append(found, "0: a dot import of "+importPath)
		}
		imported[local] = importPath
	}
	kernel := map[ast.Expr]bool{} // functions of calls whose argument is a file of the kernel
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if len(n.Args) > 0 && ofKernel(n.Args[0]) {
				kernel[n.Fun] = true
			}
		case *ast.SelectorExpr:
			of, is := n.X.(*ast.Ident)
			if is && slices.Contains(readers[imported[of.Name]], n.Sel.Name) && !kernel[n] {
				found = append(found, fmt.Sprintf("%d: %s.%s", set.Position(n.Pos()).Line, of.Name, n.Sel.Name))
			}
		}
		return true
	})
	return found, nil
}

// ofKernel reports whether an expression begins with the path of a file of the kernel.
func ofKernel(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strings.HasPrefix(e.Value, `"/proc/`) || strings.HasPrefix(e.Value, `"/sys/`)
	case *ast.BinaryExpr:
		return ofKernel(e.X)
	case *ast.CallExpr: // fmt.Sprintf("/proc/%d", pid)
		return len(e.Args) > 0 && ofKernel(e.Args[0])
	}
	return false
}

// TestInputsAreReadWithBounds checks that files from outside are read through infile only.
func TestInputsAreReadWithBounds(t *testing.T) {
	for _, s := range sources(t) {
		file := filepath.ToSlash(s.file)
		if slices.ContainsFunc(slices.Collect(maps.Keys(fileReaders)), func(p string) bool { return within(file, p) }) {
			continue
		}
		for _, use := range must.Get(unguardedReads(s.file, s.text))(t) {
			t.Errorf("%s:%s: read it with infile, which bounds size, kind and time", s.file, use)
		}
	}
	for file, why := range fileReaders {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s (%s) is gone: remove it from the list", file, why)
		}
	}
}

// notFuzzed lists the packages that open files of users and have no fuzz target, with the reason.
var notFuzzed = map[string]string{
	"bench":                 "the benches read their own files",
	"internal/accel/graph":  "loggp fuzzes the files that contain its networks",
	"internal/bench/inputs": "it hashes files",
	"internal/bench/run":    "package sweep parses the logs of programs that it reads",
	"internal/bench/wheel":  "it copies files",
	"internal/cli":          "other packages read the files that it opens",
	"scripts/image":         "it copies files of this module",
}

// Every package that reads files of users has a fuzz target.
func TestReadersAreFuzzed(t *testing.T) {
	fuzzed := map[string]bool{}
	for _, name := range goFiles(t) {
		text := must.Get(os.ReadFile(name))(t)
		pkg := filepath.ToSlash(filepath.Dir(name))
		fuzzed[pkg] = fuzzed[pkg] || strings.HasSuffix(name, "_test.go") && bytes.Contains(text, []byte("\nfunc Fuzz"))
	}
	reads := map[string]bool{}
	for _, s := range sources(t) {
		reads[s.pkg] = reads[s.pkg] || s.pkg != "internal/base/infile" && slices.ContainsFunc(s.imports, func(i string) bool {
			return i == module+"internal/base/infile" || i == module+"internal/base/yamlfile"
		})
	}
	for pkg, reader := range reads {
		if _, excused := notFuzzed[pkg]; reader && fuzzed[pkg] == excused {
			t.Errorf("%s reads files of users: want either a fuzz target or a reason in notFuzzed", pkg)
		}
	}
	for pkg := range notFuzzed {
		if !reads[pkg] {
			t.Errorf("%s reads no files of users: delete it from notFuzzed", pkg)
		}
	}
}

// TestUnguardedReadsAreFound checks that unguardedReads finds every known way to open a file.
func TestUnguardedReadsAreFound(t *testing.T) {
	for code, want := range map[string]int{
		`import "os"; var x, _ = os.ReadFile("x")`:                                      1,
		`import "os"; var open = os.Open`:                                               1,
		`import o "os"; var x, _ = o.OpenFile("x", 0, 0)`:                               1,
		`import . "os"; var x, _ = Open("x")`:                                           1,
		`import "io/ioutil"; var x, _ = ioutil.ReadFile("x")`:                           1,
		`import "syscall"; var x, _ = syscall.Open("x", 0, 0)`:                          1,
		`import "golang.org/x/sys/unix"; var x, _ = unix.Openat(0, "x", 0, 0)`:          1,
		`import "os"; var x = os.DirFS("x")`:                                            1,
		`import "os"; var x, _ = os.OpenRoot("x")`:                                      1,
		`import "debug/elf"; var x, _ = elf.Open("x")`:                                  1,
		`import "net/http"; var x = http.Dir("x")`:                                      1,
		`import "os"; var x, _ = os.ReadFile("/proc/self/maps")`:                        0,
		`import ("fmt"; "os"); var x, _ = os.ReadFile(fmt.Sprintf("/proc/%d/stat", 1))`: 0,
		`import "os"; var x, _ = os.Create("x")`:                                        0,
		`import os "example.com/os"; var x, _ = os.Open("x")`:                           0,
	} {
		if found := must.Get(unguardedReads("planted.go", "package planted; "+code))(t); len(found) != want {
			t.Errorf("%s: %v, want %d", code, found, want)
		}
	}
}

// printsForPeople reports whether a file makes text for people. Such a file prints through texttab.Out, which escapes
// its arguments, so that no text from outside can control a terminal, forge a line or become markup.
func printsForPeople(s source) bool {
	return within(s.pkg, "internal/cli") || slices.Contains([]string{"internal/view/document/markdown.go",
		"internal/view/export/markdown.go", "internal/result/verdict/github.go", "internal/result/verdict/print.go"},
		filepath.ToSlash(s.file))
}

// rawWriters lists the lines that write past texttab.Out, and why they may.
var rawWriters = map[string]string{
	"fmt.Fprintf(&b, ":                                     "the text of a flag or of a manual page",
	"io.WriteString(g.w, texttab.Lines(":                   "it is the escaping of a whole output",
	`io.WriteString(out.Writer(), "  "+text+"\n")`:         "the text is escaped; a plan may have a million lines",
	"io.WriteString(a.streams[0], chart.Text(":             "chart escapes control characters itself",
	`io.WriteString(p.w, p.name+": "+string(text))`:        "the lines of a progress, which are escaped",
	"a.environ, a.streams[0], a.streams[1]":                "the output of the user's program, as it is",
	"io.WriteString(w, xml.Header":                         "encoding/xml escapes it",
	"service.Serve(cmd.Context(), os.Stdin, a.streams[0]":  "a binary protocol",
	"terminal.NewProgress(a.stderr.Writer(), a.streams[1]": "the progress bar moves the cursor",
	"export.WriteSamples(a.streams[0]":                     "binary samples",
}

// writesRaw reports whether a line of code writes text past texttab.Out.
func writesRaw(line string) bool {
	for raw := range rawWriters {
		if strings.Contains(line, raw) {
			return false
		}
	}
	for _, call := range []string{"fmt.Fprint", "io.WriteString(", ".streams[", "os.Stdout.Write", "os.Stderr.Write"} {
		if strings.Contains(line, call) {
			return true
		}
	}
	return false
}

func TestTextForPeopleIsEscaped(t *testing.T) {
	checked := 0
	for _, s := range sources(t) {
		if !printsForPeople(s) {
			continue
		}
		checked++
		for i, line := range strings.Split(s.text, "\n") {
			document := within(s.pkg, "internal/view") || within(s.pkg, "internal/result/verdict")
			whole := document && strings.Contains(line, "io.WriteString(w, b.String())")
			if writesRaw(line) && !whole {
				t.Errorf("%s:%d prints past texttab.Out, which escapes its arguments: %s", s.file, i+1, strings.TrimSpace(line))
			}
		}
	}
	if checked < 25 {
		t.Errorf("only %d files were found", checked)
	}
	for _, planted := range []string{"fmt.Fprintln(w, name)", "io.WriteString(a.stdout.Writer(), name)",
		"a.streams[1].Write([]byte(name))", "os.Stdout.WriteString(name)"} {
		if !writesRaw(planted) {
			t.Errorf("%s was not found", planted)
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

// otherProcess matches the path of a file of /proc about any process.
var otherProcess = regexp.MustCompile(`proc/%[dsv]/(%s|stat|environ|task|cgroup|cmdline|syscall)|proc/" ?\+`)

// TestOnlyProcReadsOtherProcesses checks that package proc alone reads what the kernel tells about other processes.
func TestOnlyProcReadsOtherProcesses(t *testing.T) {
	reads := map[string]bool{}
	for _, s := range sources(t) {
		reads[s.pkg] = reads[s.pkg] || otherProcess.MatchString(s.text)
	}
	for pkg := range reads {
		if reads[pkg] && pkg != "internal/host/proc" && pkg != "internal/host/proctest" {
			t.Errorf("%s reads /proc about other processes: use package proc", pkg)
		}
	}
	if !reads["internal/host/proc"] {
		t.Error("package proc was not found to read /proc")
	}
}

// parses lists where texts for people may be taken apart: where a failure is blamed on a rank, and where files of other
// tools are read.
var parses = []string{"internal/bench/run", "internal/process", "internal/result/imports", "internal/result/nccltable"}

// writers lists where a reason may become a string, besides where it may be taken apart: it is written there for
// people, or joined to a longer sentence.
var writers = append([]string{"benches", "internal/cli", "internal/view", "internal/result", "internal/bench/tune"},
	parses...)

// convertedReasons returns the places in a file that make a string of a reason. Reasons are of the type journal.Text,
// so strings.Contains and its like do not take them without that.
func convertedReasons(files *token.FileSet, f *ast.File) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		to, toName := call.Fun.(*ast.Ident)
		of, ofField := call.Args[0].(*ast.SelectorExpr)
		if toName && to.Name == "string" && ofField && of.Sel.Name == "Reason" {
			found = append(found, files.Position(n.Pos()).String())
		}
		return true
	})
	return found
}

// parsedTexts returns the places in a file that search or compare texts that are written for people: reasons of
// failures, sentences of conditions, notes.
func parsedTexts(files *token.FileSet, f *ast.File) (found []string) {
	text := func(e ast.Expr) bool {
		has := false
		ast.Inspect(e, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				has = has || slices.Contains([]string{"Reason", "Why", "Sentence", "Sentences", "Incomplete"}, s.Sel.Name)
			}
			_, nested := n.(*ast.FuncLit)
			return !nested
		})
		return has
	}
	searches := []string{"Contains", "HasPrefix", "HasSuffix", "Index", "LastIndex", "Cut", "Split", "Fields",
		"EqualFold", "Count", "Match", "Find", "Replace", "Map"}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			of, named := ast.Expr(nil), false
			if ok {
				of = s.X
				id, isID := of.(*ast.Ident)
				named = isID && slices.Contains([]string{"strings", "regexp", "bytes"}, id.Name) ||
					strings.HasSuffix(s.Sel.Name, "String") && !strings.HasPrefix(s.Sel.Name, "Write")
			}
			if named && slices.ContainsFunc(searches, func(p string) bool { return strings.HasPrefix(s.Sel.Name, p) }) &&
				slices.ContainsFunc(n.Args, text) {
				found = append(found, files.Position(n.Pos()).String())
			}
		case *ast.BinaryExpr:
			for _, pair := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
				literal, ok := pair[0].(*ast.BasicLit)
				if ok && (n.Op == token.EQL || n.Op == token.NEQ) && literal.Kind == token.STRING && literal.Value != `""` &&
					text(pair[1]) {
					found = append(found, files.Position(n.Pos()).String())
				}
			}
		}
		return true
	})
	return found
}

// TestNobodyParsesTexts checks that no decision depends on a sentence: conditions have codes and values, failures have
// a status, a phase and a rank.
func TestNobodyParsesTexts(t *testing.T) {
	files := token.NewFileSet()
	for _, name := range goFiles(t) {
		in := func(p string) bool { return within(path.Dir(name), p) }
		if strings.HasSuffix(name, "_test.go") || slices.ContainsFunc(parses, in) {
			continue
		}
		file := must.Get(parser.ParseFile(files, name, nil, 0))(t)
		for _, at := range parsedTexts(files, file) {
			t.Errorf("%s: a text for people is searched or compared", at)
		}
		if slices.ContainsFunc(writers, in) {
			continue
		}
		for _, at := range convertedReasons(files, file) {
			t.Errorf("%s: a text for people becomes a string where nothing is written for people", at)
		}
	}
	planted := must.Get(parser.ParseFile(files, "planted.go", `package p
func f(r row, c condition) {
	_ = strings.HasPrefix(r.Reason, "x")
	_ = c.Sentence() == "disturbed"
	_, _, _ = strings.Cut(row.Why(), ":")
	_ = number.FindString(c.Sentence())
	_ = r.Reason != "" && strings.Join(c.Sentences(), "; ") == ""
	_ = string(r.Reason)
}`, 0))(t)
	if n := len(parsedTexts(files, planted)); n != 4 {
		t.Errorf("%d of 4 planted faults are found", n)
	}
	if n := len(convertedReasons(files, planted)); n != 1 {
		t.Errorf("%d of 1 planted conversions are found", n)
	}
}
