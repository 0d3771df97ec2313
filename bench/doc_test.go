package bench_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// sources parses the package with its tests.
func sources(t *testing.T) (*token.FileSet, []*ast.File) {
	t.Helper()
	names := must.Get(filepath.Glob("*.go"))(t)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		f := must.Get(parser.ParseFile(fset, name, nil, parser.ParseComments))(t)
		files = append(files, f)
	}
	return fset, files
}

// Every exported name is documented, and every method of State has an example.
func TestDocumented(t *testing.T) {
	fset, files := sources(t)
	pkg := must.Get(doc.NewFromFiles(fset, files, "github.com/kernbench/kernbench/bench"))(t)
	need := func(name, text string) {
		t.Helper()
		if strings.TrimSpace(text) == "" {
			t.Errorf("%s has no comment", name)
		}
	}
	methods := 0
	functions := pkg.Funcs
	for _, typ := range pkg.Types {
		need(typ.Name, typ.Doc+specComment(typ.Decl, typ.Name))
		functions = append(functions, typ.Funcs...)
		for _, m := range typ.Methods {
			if m.Name != "Error" {
				need(typ.Name+"."+m.Name, m.Doc)
			}
			if typ.Name != "State" {
				continue
			}
			if methods++; len(m.Examples) == 0 {
				t.Errorf("State.%s has no example", m.Name)
			}
		}
	}
	for _, f := range functions {
		need(f.Name, f.Doc)
	}
	for _, v := range slices.Concat(pkg.Consts, pkg.Vars) {
		need(v.Names[0], v.Doc)
	}
	if methods < 20 || len(functions) < 40 {
		t.Errorf("only %d methods of State and %d functions were found", methods, len(functions))
	}
}

// specComment returns the comment of a type within a group.
func specComment(d *ast.GenDecl, name string) string {
	for _, s := range d.Specs {
		if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.Name == name {
			return ts.Doc.Text() + ts.Comment.Text()
		}
	}
	return ""
}

// Users of the package never need to name an internal package: types.go has public names for all
// types in its functions and structs.
func TestNothingInternalToName(t *testing.T) {
	_, files := sources(t)
	for _, f := range files {
		internal := map[string]bool{}
		for _, imp := range f.Imports {
			if p := strings.Trim(imp.Path.Value, `"`); strings.Contains(p, "/internal/") {
				internal[filepath.Base(p)] = true
			}
		}
		check := func(name string, n ast.Node) {
			ast.Inspect(n, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && internal[x.Name] {
						t.Errorf("%s mentions %s.%s", name, x.Name, sel.Sel.Name)
					}
				}
				return true
			})
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					check(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if !ok || !ts.Name.IsExported() || ts.Assign.IsValid() {
						continue
					}
					if st, ok := ts.Type.(*ast.StructType); ok {
						for _, field := range st.Fields.List {
							if len(field.Names) > 0 && field.Names[0].IsExported() {
								check(ts.Name.Name+"."+field.Names[0].Name, field.Type)
							}
						}
						continue
					}
					check(ts.Name.Name, ts.Type)
				}
			}
		}
	}
}

// The fields that the package documentation names exist.
func TestManualNamesFields(t *testing.T) {
	text := must.Get(os.ReadFile("doc.go"))(t)
	named := 0
	has := func(typ reflect.Type, names string) {
		for name := range strings.SplitSeq(names, ",") {
			named++
			if _, ok := typ.FieldByName(strings.TrimSpace(name)); !ok {
				t.Errorf("%s has no field %s", typ, name)
			}
		}
	}
	section := func(title string) string {
		_, after, _ := strings.Cut(string(text), "// # "+title+"\n")
		s, _, _ := strings.Cut(after, "// # ")
		return s
	}
	for _, m := range regexp.MustCompile(`(?m)^//\t([A-Z]\w+(?:, \w+)*)  `).FindAllStringSubmatch(section("Rows"), -1) {
		has(reflect.TypeFor[bench.Row](), m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^//\t([A-Z]\w+)  `).FindAllStringSubmatch(section("Sampling"), -1) {
		has(reflect.TypeFor[bench.Config](), m[1])
	}
	has(reflect.TypeFor[measure.Stop](), "RelNoise, MinSamples, MaxSamples, MinTime, MaxTime")
	if named < 40 {
		t.Errorf("only %d fields were found in the manual", named)
	}
	for _, m := range regexp.MustCompile(`(?m)^//\t[a-z ]+  ([A-Z]\w+(?:, \w+)*)$`).FindAllStringSubmatch(section("Bodies"), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			if _, ok := reflect.TypeFor[*bench.State]().MethodByName(name); !ok {
				t.Errorf("State has no method %s", name)
			}
		}
	}
}
