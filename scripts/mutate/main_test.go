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

// loadCode makes a package of one file, in the current folder.
func loadCode(t *testing.T, code string) *schema {
	t.Helper()
	must.Do(t, os.WriteFile("p.go", []byte(code), 0o666))
	must.Do(t, os.WriteFile("go.mod", []byte("module p\ngo 1.21\n"), 0o666))
	return must.Get(load(".", []string{"p.go"}))(t)
}

// TestChoices checks that all mutations of a file can be compiled together, and that each of them is chosen where it
// should be.
func TestChoices(t *testing.T) {
	t.Chdir(t.TempDir())
	s := loadCode(t, code)
	together, sites := s.sample(1, 100)
	// Texts cannot be subtracted.
	if len(together) != 18 || sites != 19 {
		t.Errorf("%d of %d mutations compile", len(together), sites)
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
	line := described(t, mutation{path, 0})
	if want := path + ": func f(a int) bool { return a < 1 }  =>  func f(a int) bool { return a <= 1 }"; line != want {
		t.Errorf("got %s, want %s", line, want)
	}
}

// described returns the description of a mutation without the number of its line.
func described(t *testing.T, m mutation) string {
	text, line, err := m.describe()
	if err != nil || line == 0 {
		t.Fatalf("%v: line %d, %v", m, line, err)
	}
	return text
}

// TestOmitted checks that no mutation is at a place where a test could only restate the code.
func TestOmitted(t *testing.T) {
	t.Chdir(t.TempDir())
	s := loadCode(t, `package p

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
)

const limit = 3 + 1

func f(in io.Reader, n int) (int, int, bool) {
	bufio.NewReaderSize(in, 1<<16)
	_ = make([]int, n, n+1)
	_ = slices.Grow(make(map[int][]int, 2*n)[n], n-1)
	_ = make(chan [4]int, 1)
	_ = math.Inf(1)
	return 0, 0, false
}

func g() (int, error) {
	return 0, fmt.Errorf("above %d", 2*limit)
}
`)
	if chosen, sites := s.sample(1, 100); sites != 0 {
		t.Errorf("%d sites: %v", sites, described(t, chosen[0]))
	}
}

// TestStableSample checks that a new line brings no other mutants into the sample than its own.
func TestStableSample(t *testing.T) {
	t.Chdir(t.TempDir())
	lines := func(code string) map[string]bool {
		s := loadCode(t, code)
		chosen, _ := s.sample(1, 9)
		found := map[string]bool{}
		for _, m := range chosen {
			found[described(t, m)] = true
		}
		return found
	}
	before := lines(code)
	after := lines(strings.Replace(code, "a++", "a++\n\t\tb -= 2*a + 3", 1))
	for line := range after {
		if !before[line] && !strings.Contains(line, "b -= 2*a + 3") {
			t.Errorf("new in the sample: %s", line)
		}
	}
}

func TestSlowTests(t *testing.T) {
	const out = "--- PASS: TestA (0.01s)\n--- PASS: TestB (2.00s)\n    --- PASS: TestB/case (1.99s)\n" +
		"--- PASS: TestC (0.80s)\n--- SKIP: TestD (9.00s)\nPASS\n"
	if got, want := slowTests([]byte(out)), "^(TestB|TestC)$"; got != want {
		t.Errorf("slow tests %s, want %s", got, want)
	}
}
