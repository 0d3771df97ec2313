//go:build !race

package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestOtherArchitecture checks the packages, tests included, for the architecture that the tests do
// not run on. It type-checks all sources. For files of one architecture it also runs vet, assembles
// the assembly, and checks that each function without a Go body has one in assembly. Compiling
// everything would find nothing more and take ten times as long.
func TestOtherArchitecture(t *testing.T) {
	t.Parallel()
	if missing := faultsOn(t, otherArchitecture(), nil, "./..."); len(missing) > 0 {
		t.Errorf("on %s: %s", otherArchitecture(), strings.Join(missing, "\n"))
	}
}

// A use of a function that exists only on the other architecture is found.
func TestMissingOnOtherArchitecture(t *testing.T) {
	t.Parallel()
	planted := map[string][]byte{"internal/kernel/quant/loops_other.go": []byte("package quant\n")}
	if runtime.GOARCH != "amd64" {
		planted = map[string][]byte{"internal/kernel/quant/loops_amd64.go": []byte("package quant\n")}
	}
	if missing := faultsOn(t, otherArchitecture(), planted, "./internal/kernel/quant"); len(missing) == 0 {
		t.Error("a file without its functions was taken")
	}
}

// Assembly whose arguments differ from its declaration is found.
func TestAssemblyOnOtherArchitecture(t *testing.T) {
	t.Parallel()
	const name = "internal/kernel/vec/spin.go"
	text := must.Get(os.ReadFile("../../" + name))(t)
	planted := map[string][]byte{name: []byte(strings.Replace(string(text), "func Own(p *byte, n int)",
		"func Own(p *byte, bytes int)", 1))}
	if found := faultsOn(t, otherArchitecture(), planted,
		"./internal/kernel/vec"); !strings.Contains(strings.Join(found, "\n"), "Own: unknown variable n") {
		t.Errorf("found %q", found)
	}
}

// Invalid assembly, and functions without a body in Go or assembly, are found.
func TestAssembledOnOtherArchitecture(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "f_"+otherArchitecture()+".s")
	p := &packages.Package{PkgPath: "planted", Types: types.NewPackage("planted", "planted"), OtherFiles: []string{file}}
	p.Types.Scope().Insert(types.NewConst(0, p.Types, "answer", types.Typ[types.Int], constant.MakeInt64(42)))
	declared := must.Get(parser.ParseFile(token.NewFileSet(), "f.go",
		"package planted\nfunc one()\nfunc two()\nfunc three() {}\n", 0))(t)
	p.Syntax = append(p.Syntax, declared)
	for text, want := range map[string]string{
		"TEXT ·one(SB), 4, $0-0\n\tRET\nTEXT ·two(SB), 4, $0-0\n\tRET\n":                                   "",
		"#include \"go_asm.h\"\nTEXT ·one(SB), 4, $0-const_answer\n\tRET\nTEXT ·two(SB), 4, $0-0\n\tRET\n": "",
		"TEXT ·one(SB), 4, $0-0\n\tRET\n":                                                                  "two has no body",
		"TEXT ·one(SB), 4, $0-0\n\tRTE\nTEXT ·two(SB), 4, $0-0\n\tRET\n": "unrecognized " +
			"instruction",
		"TEXT ·one(SB), 4, $0-const_question\n\tRET\nTEXT ·two(SB), 4, $0-0\n\tRET\n": "argument size must be",
	} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		found := strings.Join(unassembled(t, otherArchitecture(), p), "\n")
		if (found == "") != (want == "") || !strings.Contains(found, want) {
			t.Errorf("%s\nfound %q, want %q", text, found, want)
		}
	}
}

func otherArchitecture() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// faultsOn returns the errors of packages on an architecture. contents replaces the contents of some
// files.
func faultsOn(t *testing.T, arch string, contents map[string][]byte, patterns ...string) (faults []string) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // otherwise half of the time is garbage collection
	root := must.Get(filepath.Abs("../.."))(t)
	overlay := map[string][]byte{}
	for name, text := range contents {
		overlay[filepath.Join(root, name)] = text
	}
	loaded := must.Get(packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedTypesInfo | packages.NeedSyntax,
		Env: append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0"), Tests: true, Overlay: overlay,
	}, patterns...))(t)
	if len(loaded) == 0 {
		t.Fatal("no packages were found")
	}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			faults = append(faults, e.Error())
		}
	})
	written := slices.DeleteFunc(loaded, func(p *packages.Package) bool {
		return len(p.OtherFiles)+len(p.IgnoredFiles) == 0
	})
	graph := must.Get(checker.Analyze(vet.Suite, written, nil))(t)
	for _, a := range graph.Roots {
		if a.Err != nil {
			faults = append(faults, a.Err.Error())
		}
		for _, d := range a.Diagnostics {
			faults = append(faults, d.Message)
		}
	}
	for _, p := range written {
		faults = append(faults, unassembled(t, arch, p)...)
	}
	return faults
}

// unassembled returns the errors in the assembly of a package, and its functions that have no body
// in Go or assembly.
func unassembled(t *testing.T, arch string, p *packages.Package) (faults []string) {
	t.Helper()
	dir := t.TempDir()
	var constants, assembly strings.Builder
	for _, name := range p.Types.Scope().Names() {
		if c, is := p.Types.Scope().Lookup(name).(*types.Const); is && c.Val().Kind() == constant.Int {
			fmt.Fprintf(&constants, "#define const_%s %s\n", name, c.Val().ExactString())
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "go_asm.h"), []byte(constants.String()), 0o600))
	root := must.Get(exec.Command("go", "env", "GOROOT").Output())(t)
	for _, file := range p.OtherFiles {
		if filepath.Ext(file) != ".s" {
			continue
		}
		assembly.Write(must.Get(os.ReadFile(file))(t))
		asm := exec.Command("go", "tool", "asm", "-p", p.PkgPath, "-I", dir, "-I",
			filepath.Join(strings.TrimSpace(string(root)), "pkg/include"), "-o", filepath.Join(dir, "object"), file)
		asm.Dir, asm.Env = filepath.Dir(file), append(os.Environ(), "GOARCH="+arch)
		if out, err := asm.CombinedOutput(); err != nil {
			faults = append(faults, fmt.Sprintf("%v: %s", err, out))
		}
	}
	for _, file := range p.Syntax {
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Body == nil && !strings.Contains(assembly.String(), "·"+f.Name.Name+"(SB)") {
				faults = append(faults, f.Name.Name+" has no body")
			}
		}
	}
	return faults
}
