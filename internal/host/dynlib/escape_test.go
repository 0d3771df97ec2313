package dynlib_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

const module = "github.com/kernbench/kernbench/"

// gates are the functions that pass addresses to C, with the compiler's message (-gcflags=-m) that
// their arguments escape to the heap.
var gates = map[string]struct{ pkg, says string }{
	"(" + module + "internal/host/dynlib.Func).Call":     {"internal/host/dynlib", "marking args as escaping ...uintptr"},
	"(*" + module + "internal/host/cuda.Driver).call":    {"internal/host/cuda", "marking args as escaping ...uintptr"},
	"(*" + module + "internal/host/cuda.Driver).result":  {"internal/host/cuda", "marking args as escaping ...uintptr"},
	"(*" + module + "internal/host/cuda.management).ask": {"internal/host/cuda", "marking args as escaping ...uintptr"},
	"(*" + module + "internal/comm/mpi.Library).call":    {"internal/comm/mpi", "leaking param content: args"},
}

// TestAddressesOfStackMemoryDoNotReachC finds unsafe conversions of pointers. The compiler does not
// know that a uintptr is an address: the memory may be on a stack, which moves, or be
// collected. In files that use C libraries, pointers may therefore be converted only in the
// arguments of a gate, or within a gate.
func TestAddressesOfStackMemoryDoNotReachC(t *testing.T) {
	for _, g := range gates {
		out, err := exec.Command("go", "build", "-gcflags=-m", module+g.pkg).CombinedOutput()
		if err != nil || !strings.Contains(string(out), g.says+"\n") {
			t.Errorf("the compiler does not say of %s: %s (%v)", g.pkg, g.says, err)
		}
	}
	pkgs := users(t)
	for _, must := range []string{"dist/mpi", "internal/comm/mpi", "internal/solve/partition", "internal/kernel/gemm"} {
		if !slices.ContainsFunc(pkgs, func(p listed) bool { return p.path == module+must }) {
			t.Errorf("%s is not among the packages that call C", must)
		}
	}
	imports := exports(t)
	for _, p := range pkgs {
		faults, err := conversions(p, imports)
		for _, f := range faults {
			t.Error(f)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestConversionsAreFound(t *testing.T) {
	const source = `package planted
import ("unsafe"; "` + module + `internal/host/dynlib")
func address[E any](s []E) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) } // line 3
func call(f dynlib.Func) (r int32) {
	ok := make([]int32, 2)
	f.Call(address(ok), uintptr(unsafe.Pointer(&r)))
	at := uintptr(unsafe.Pointer(&ok[0])) // line 7
	p := unsafe.Pointer(&ok[1])
	f.Call(at, uintptr(p))
	go dynlib.Bytes(uintptr(p), 4) // line 10
	return r
}`
	file := filepath.Join(t.TempDir(), "planted.go")
	must.Do(t, os.WriteFile(file, []byte(source), 0o600))
	faults := must.Get(conversions(listed{"planted", []string{file}}, exports(t)))(t)
	for i, line := range []string{":3:", ":7:", ":10:"} {
		if len(faults) != 3 || !strings.Contains(faults[i], line) {
			t.Fatalf("found %q, want lines 3, 7 and 10", faults)
		}
	}
}

// listed is a package and its files.
type listed struct {
	path  string
	files []string
}

// users lists the packages that import this one or package mpi.
func users(t *testing.T) (all []listed) {
	for _, line := range list(t, `{{.ImportPath}} {{.Dir}} {{join .GoFiles ","}} {{join .Imports ","}}`, module+"...") {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.Contains(f[3], module+"internal/host/dynlib") &&
			!strings.Contains(f[3], module+"internal/comm/mpi") {
			continue
		}
		p := listed{path: f[0]}
		for _, name := range strings.Split(f[2], ",") {
			p.files = append(p.files, filepath.Join(f[1], name))
		}
		all = append(all, p)
	}
	return all
}

// exports returns an importer that reads the export data of the compiler.
func exports(t *testing.T) types.Importer {
	files := map[string]string{}
	for _, line := range list(t, "{{.ImportPath}} {{.Export}}", "-export", "-deps", module+"...") {
		path, file, _ := strings.Cut(line, " ")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(files[path])
	})
}

func list(t *testing.T, format string, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-f", format}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// conversions returns the conversions of pointers outside of gates.
func conversions(p listed, imports types.Importer) (faults []string, err error) {
	fset := token.NewFileSet()
	var files []*ast.File
	var broken []error
	for _, name := range p.files {
		f, err := parser.ParseFile(fset, name, nil, 0)
		files, broken = append(files, f), append(broken, err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}}
	_, err = (&types.Config{Importer: imports}).Check(p.path, fset, files, info)
	if err := errors.Join(append(broken, err)...); err != nil {
		return nil, err
	}
	isGate := func(fn types.Object) bool {
		f, ok := fn.(*types.Func)
		if !ok {
			return false
		}
		// The system calls of package unix are in assembly, and the compiler keeps their arguments
		// in place.
		_, gate := gates[f.FullName()]
		return gate || strings.HasPrefix(f.FullName(), "golang.org/x/sys/unix.RawSyscall")
	}
	good := map[ast.Expr]bool{}
	for _, file := range files {
		if !usesC(info, file) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return !isGate(info.Defs[n.Name])
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && isGate(info.Uses[s.Sel]) {
					for _, arg := range n.Args {
						good[arg] = true
					}
				}
				if len(n.Args) == 1 && toNumber(info, n) && !good[n] {
					faults = append(faults, fmt.Sprintf("%s: a pointer becomes a uintptr that is not an argument of dynlib's Call",
						fset.Position(n.Pos())))
				}
			}
			return true
		})
	}
	return faults, nil
}

// usesC reports whether a file uses a package with gates. Other files of the same package call
// assembly, which has its own rules.
func usesC(info *types.Info, file *ast.File) (uses bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && info.Uses[id] != nil && info.Uses[id].Pkg() != nil {
			for _, g := range gates {
				uses = uses || info.Uses[id].Pkg().Path() == module+g.pkg
			}
		}
		return !uses
	})
	return uses
}

// toNumber reports whether a call is a conversion of an unsafe.Pointer to a number.
func toNumber(info *types.Info, call *ast.CallExpr) bool {
	from, isBasic := info.TypeOf(call.Args[0]).Underlying().(*types.Basic)
	to, toBasic := info.TypeOf(call).Underlying().(*types.Basic)
	return info.Types[call.Fun].IsType() && isBasic && toBasic && from.Kind() == types.UnsafePointer &&
		to.Kind() == types.Uintptr
}
