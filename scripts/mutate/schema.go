package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// All mutants of a sample are compiled into one test binary, where the variable mutantVar chooses one of them. That
// takes a tenth of the time of a build for each mutant.
const mutantVar = "KERNBENCH_MUTANT"

// helperFile is added to the package. on_ reports whether a mutant is chosen, and the other functions compute an
// expression as it was, or as the mutant changes it.
const helperFile = `
import "os"

var mutant_ = os.Getenv("` + mutantVar + `")

func on_(mutant string) bool { return mutant_ == mutant }

type number_ interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func add_[T number_](on bool, a, b T) T { if on { return a - b }; return a + b }
func sub_[T number_](on bool, a, b T) T { if on { return a + b }; return a - b }
func mul_[T number_](on bool, a, b T) T { if on { return a / b }; return a * b }
func quo_[T number_](on bool, a, b T) T { if on { return a * b }; return a / b }
func lit_[T number_](on bool, n T) T    { if on { return n + 1 }; return n }
func err_(on bool, err error) error     { if on { return nil }; return err }
`

// ownPath stands for the import path of the package under test.
const ownPath = "own"

// schema is a package with the types of its expressions.
type schema struct {
	dir, name string
	imports   types.Importer
	set       *token.FileSet
	files     map[string]*ast.File
	text      map[string][]byte
	sites     map[string][]*site // by file
	info      types.Info
}

// site is a place in a file that a mutation changes.
type site struct {
	apply func()   // changes the syntax tree
	node  ast.Node // what the mutation replaces
	// choice returns the source of the node with both versions. The expression on chooses one of them. text returns the
	// source of a part of the node. It returns "" if there is no such source.
	choice func(on string, text func(ast.Node) string) string
}

// load type-checks the package in a folder, without its tests.
func load(dir string, names []string) (*schema, error) {
	s := &schema{dir: dir, set: token.NewFileSet(), files: map[string]*ast.File{}, text: map[string][]byte{},
		sites: map[string][]*site{}, info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	exports, err := exportFiles(dir)
	if err != nil {
		return nil, err
	}
	s.imports = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return infile.Open(exports[path], infile.Data)
	})
	for _, name := range names {
		path := filepath.Join(dir, name)
		if s.text[path], err = infile.Read(path, infile.Table); err != nil {
			return nil, err
		}
		if s.files[path], err = parser.ParseFile(s.set, path, s.text[path], parser.ParseComments); err != nil {
			return nil, err
		}
		s.name = s.files[path].Name.Name
		s.sites[path] = sitesOf(s.files[path], &s.info)
	}
	return s, s.check(nil)
}

// exportFiles returns the compiled form of the packages that a package imports.
func exportFiles(dir string) (map[string]string, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}",
		"./"+filepath.Clean(dir), "os").Output() // os is for helperFile
	if err != nil {
		return nil, fmt.Errorf("compiling the imports of %s: %w", dir, err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	return files, nil
}

// check type-checks the package. If changed is given, its files replace files of the package, and the types of the
// original stay as they are.
func (s *schema) check(changed map[string]string) error {
	set, info, files := s.set, &s.info, []*ast.File(nil)
	if changed != nil {
		set, info = token.NewFileSet(), nil
	}
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		file := s.files[path]
		if changed != nil {
			var err error
			if file, err = parser.ParseFile(set, path, cmp.Or(changed[path], string(s.text[path])), 0); err != nil {
				return err
			}
		}
		files = append(files, file)
	}
	if changed != nil {
		file, err := parser.ParseFile(set, "mutate.go", "package "+s.name+helperFile, 0)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: s.imports, Sizes: types.SizesFor("gc", "amd64")}
	_, err := config.Check(ownPath, set, files, info)
	return err
}

// source returns the package's files that a choice among these mutations changes.
func (s *schema) source(mutations []mutation) map[string]string {
	chosen := map[string][]placed{}
	for k, m := range mutations {
		one := s.sites[m.file][m.index]
		chosen[m.file] = append(chosen[m.file], placed{one, m.index, fmt.Sprintf("on_(%q)", strconv.Itoa(k))})
	}
	changed := map[string]string{}
	for path, places := range chosen {
		file := s.set.File(s.files[path].Pos())
		changed[path] = s.render(path, file, 0, file.Size(), places)
	}
	return changed
}

// placed is a site with the expression that turns its mutation on.
type placed struct {
	*site
	index int // in the file
	on    string
}

// render returns the source of a part of a file with the choices of the sites in it.
func (s *schema) render(path string, file *token.File, from, to int, places []placed) string {
	begin := func(p placed) int { return file.Offset(p.node.Pos()) }
	end := func(p placed) int { return file.Offset(p.node.End()) }
	var b strings.Builder
	for from < to {
		inside := lists.Filter(places, func(p placed) bool { return begin(p) >= from && end(p) <= to })
		if len(inside) == 0 {
			b.Write(s.text[path][from:to])
			break
		}
		// The outermost of the first ones. A condition and its negation are the same text, and the negation comes first.
		p := slices.MinFunc(inside, func(p, q placed) int {
			return cmp.Or(begin(p)-begin(q), end(q)-end(p), p.index-q.index)
		})
		rest := lists.Filter(inside, func(q placed) bool { return q.index != p.index })
		b.Write(s.text[path][from:begin(p)])
		b.WriteString(p.choice(p.on, func(n ast.Node) string {
			return s.render(path, file, file.Offset(n.Pos()), file.Offset(n.End()), rest)
		}))
		from = end(p)
	}
	return b.String()
}

// sample returns the mutations with the smallest hashes, and the number of sites among which it chose.
func (s *schema) sample(seed uint64, count int) (chosen []mutation, sites int) {
	type ranked struct {
		mutation
		hash [sha256.Size]byte
	}
	var all []ranked
	for path, list := range s.sites {
		file, seen := s.set.File(s.files[path].Pos()), map[string]int{}
		lines := strings.Split(string(s.text[path]), "\n")
		for i, one := range list {
			line := strings.TrimSpace(lines[file.Line(one.node.Pos())-1])
			hash := sha256.Sum256(fmt.Appendf(nil, "%d %s %d %s", seed, path, seen[line], line))
			seen[line]++
			all = append(all, ranked{mutation{path, i}, hash})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	for _, r := range all {
		if len(chosen) == count {
			break
		}
		if s.compiles(r.mutation) {
			chosen = append(chosen, r.mutation)
		}
	}
	return chosen, len(all)
}

// compiles reports whether the package can be compiled with a choice of this mutation. It cannot if the expression must
// be constant, or if the mutation subtracts texts.
func (s *schema) compiles(m mutation) bool {
	one := s.sites[m.file][m.index]
	if one.choice("on_(\"0\")", func(ast.Node) string { return "x" }) == "" {
		return false
	}
	return s.check(s.source([]mutation{m})) == nil
}

// build compiles the package's tests with all mutations.
func (s *schema) build(mutations []mutation, program string) error {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	replace := map[string]string{}
	add := func(path, text string) error {
		path, err := filepath.Abs(path)
		file := filepath.Join(tmp, strconv.Itoa(len(replace))+".go")
		replace[path] = file
		return errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
	}
	err = add(filepath.Join(s.dir, "mutate_helper.go"), "package "+s.name+helperFile)
	for path, text := range s.source(mutations) {
		err = errors.Join(err, add(path, text))
	}
	overlay := filepath.Join(tmp, "overlay.json")
	text, jsonErr := json.Marshal(map[string]any{"Replace": replace})
	if err = errors.Join(err, jsonErr, os.WriteFile(overlay, text, 0o600)); err != nil {
		return err
	}
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-o", program, "-overlay", overlay,
		"./"+filepath.Clean(s.dir)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compiling the mutants of %s: %w\n%s", s.dir, err, out)
	}
	return nil
}

// run runs the tests with one mutant, or with none if mutant is "". Further arguments choose tests. It returns their
// processor time. A limit on that ends endless loops also on a busy machine, where the tests take long.
func (s *schema) run(program, mutant string, limit, cpu time.Duration, args ...string) (time.Duration, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	args = append([]string{"-c", `ulimit -t "$0" && exec "$@"`, strconv.Itoa(int(cpu.Seconds())), program,
		"-test.short", "-test.failfast", "-test.timeout", limit.String()}, args...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir, cmd.WaitDelay = s.dir, time.Second
	cmd.Env = append(os.Environ(), mutantVar+"="+mutant)
	out, err := cmd.CombinedOutput()
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), out, err
}
