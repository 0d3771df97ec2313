package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// code has every kind of site, several of them at the same place.
const code = `package p

import "errors"

const limit = 3 + 1

func f(a, b int, s string) (int, error) {
	if a < b && s+"x" != "yx" {
		a++
	}
	for i := 0; i < 2*b; i++ {
		a -= i / 1
	}
	var err error
	if a == 7 || b >= limit {
		err = errors.New(s)
	}
	return a, err
}
`

// TestChoices checks that all mutations of a file can be compiled together, except in constants, and that each of them
// is chosen where it should be.
func TestChoices(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(code), 0o666))
	must.Do(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module p\n"), 0o666))
	t.Chdir(dir)
	s := must.Get(load(".", []string{"p.go"}))(t)
	var together, alone []mutation
	for i := range s.sites["p.go"] {
		if m := (mutation{"p.go", i}); s.selectable(m) {
			together = append(together, m)
		} else {
			alone = append(alone, m)
		}
	}
	// Two numbers and an addition of a constant, and an addition of texts, which cannot be subtracted.
	if len(together) != 18 || len(alone) != 4 {
		t.Errorf("%d mutations together, %d alone", len(together), len(alone))
	}
	text := s.source(together)["p.go"]
	must.Do(t, s.check(map[string]string{"p.go": text}))
	for k := range together {
		if name := fmt.Sprintf("on_(%q)", strconv.Itoa(k)); !strings.Contains(text, name) {
			t.Errorf("%s is not in\n%s", name, text)
		}
	}
	for _, part := range []string{`err_(on_("`, `a = add_(on_("`, `mul_[int](on_("`, `quo_[int](on_("`,
		`lit_[int](on_("`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in\n%s", part, text)
		}
	}
}

func TestDescribe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.go")
	must.Do(t, os.WriteFile(path, []byte("package p\n\nfunc f(a int) bool { return a < 1 }\n"), 0o666))
	line, _ := must.Get2(mutation{path, 0}.describe())(t)
	if want := path + ": func f(a int) bool { return a < 1 }  =>  func f(a int) bool { return a <= 1 }"; line != want {
		t.Errorf("got %s, want %s", line, want)
	}
}
