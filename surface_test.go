package kernbench_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// publicPackages are the packages that other modules build on.
var publicPackages = []string{"bench", "dist", "solve", "accel", "accel/tl"}

// maxSurface limits the names of the public packages together. It counts the declared names with the methods and
// fields of their types, and the methods and fields that users reach through aliases of internal types.
const maxSurface = 1000

// TestPublicSurface compares the exported names with a golden file, so that reviewers see every change.
func TestPublicSurface(t *testing.T) {
	var all []string
	for _, pkg := range publicPackages {
		names, undocumented := surface(t, pkg)
		for _, name := range undocumented {
			t.Errorf("%s: %s has no doc comment", pkg, name)
		}
		for _, name := range names {
			all = append(all, pkg+" "+name)
		}
	}
	if len(all) > maxSurface {
		t.Errorf("the public packages have %d names, the limit is %d", len(all), maxSurface)
	}
	golden.Check(t, "surface.txt", strings.Join(all, "\n")+"\n")
}

// surface returns the exported names of a package, and the package-level ones that have no doc comment.
func surface(t *testing.T, pkg string) (names, undocumented []string) {
	add := func(kind, name string, documented bool) {
		if !ast.IsExported(name[strings.LastIndexByte(name, '.')+1:]) {
			return
		}
		names = append(names, kind+" "+name)
		if !documented {
			undocumented = append(undocumented, name)
		}
	}
	for _, file := range must.Get(filepath.Glob(filepath.Join(pkg, "*.go")))(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments))(t)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add("func", d.Name.Name, d.Doc != nil)
				} else if recv := receiver(d.Recv.List[0].Type); ast.IsExported(recv) {
					add("method", recv+"."+d.Name.Name, true)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addSpec(d, spec, add)
					names = append(names, aliasMembers(t, f, spec)...)
				}
			}
		}
	}
	slices.Sort(names)
	return names, undocumented
}

func addSpec(d *ast.GenDecl, spec ast.Spec, add func(kind, name string, documented bool)) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			add(d.Tok.String(), n.Name, d.Doc != nil || s.Doc != nil || s.Comment != nil)
		}
	case *ast.TypeSpec:
		add("type", s.Name.Name, d.Doc != nil || s.Doc != nil)
		if !ast.IsExported(s.Name.Name) {
			return
		}
		var fields *ast.FieldList
		switch body := s.Type.(type) {
		case *ast.StructType:
			fields = body.Fields
		case *ast.InterfaceType:
			fields = body.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, n := range field.Names {
				add("field", s.Name.Name+"."+n.Name, true)
			}
		}
	}
}

// aliasMembers returns the methods and fields of the internal type that an exported alias stands for.
func aliasMembers(t *testing.T, f *ast.File, spec ast.Spec) (names []string) {
	alias, ok := spec.(*ast.TypeSpec)
	if !ok || !alias.Assign.IsValid() || !ast.IsExported(alias.Name.Name) {
		return nil
	}
	target, ok := alias.Type.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	for _, imp := range f.Imports {
		dir, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module)
		if !ours || path.Base(dir) != target.X.(*ast.Ident).Name || slices.Contains(publicPackages, dir) {
			continue
		}
		members, _ := surface(t, dir)
		for _, m := range members {
			kind, name, _ := strings.Cut(m, " ")
			if member, found := strings.CutPrefix(name, target.Sel.Name+"."); found {
				names = append(names, fmt.Sprintf("alias %s %s.%s", kind, alias.Name.Name, member))
			}
		}
	}
	return names
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return fmt.Sprintf("%T", e)
}
