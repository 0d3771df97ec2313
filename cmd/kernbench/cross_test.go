//go:build !race

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/packages"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestOtherArchitecture shows that every package, tests included, has what it needs on the
// architecture that these tests do not run on: its types are checked from the sources, and
// its assembly against its declarations. To compile all of it would find no more, and takes
// ten times as long; `make cross` compiles what is written for one architecture.
func TestOtherArchitecture(t *testing.T) {
	t.Parallel()
	if missing := faultsOn(t, otherArchitecture(), nil, "./..."); len(missing) > 0 {
		t.Errorf("on %s: %s", otherArchitecture(), strings.Join(missing, "\n"))
	}
}

// A function that only one architecture has is found where another uses it.
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

// So is assembly whose arguments are not those of its declaration.
func TestAssemblyOnOtherArchitecture(t *testing.T) {
	t.Parallel()
	const name = "internal/kernel/vec/spin.go"
	text := must.Get(os.ReadFile("../../" + name))(t)
	planted := map[string][]byte{name: []byte(strings.Replace(string(text), "func Own(p *byte, n int)", "func Own(p *byte, bytes int)", 1))}
	if found := faultsOn(t, otherArchitecture(), planted, "./internal/kernel/vec"); !strings.Contains(strings.Join(found, "\n"), "Own: unknown variable n") {
		t.Errorf("found %q", found)
	}
}

func otherArchitecture() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// faultsOn are the errors of packages on an architecture, with other contents of some files.
func faultsOn(t *testing.T, arch string, contents map[string][]byte, patterns ...string) (faults []string) {
	t.Helper()
	root := must.Get(filepath.Abs("../.."))(t)
	overlay := map[string][]byte{}
	for name, text := range contents {
		overlay[filepath.Join(root, name)] = text
	}
	loaded := must.Get(packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedTypesInfo | packages.NeedSyntax,
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
	loaded = slices.DeleteFunc(loaded, func(p *packages.Package) bool { return len(p.OtherFiles) == 0 })
	graph := must.Get(checker.Analyze([]*analysis.Analyzer{asmdecl.Analyzer}, loaded, nil))(t)
	for _, a := range graph.Roots {
		for _, d := range a.Diagnostics {
			faults = append(faults, d.Message)
		}
	}
	return faults
}
