package main

import (
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// TestDistPage checks that docs/dist.md shows the function of this program. The tests of cmd/kernbench run the program.
func TestDistPage(t *testing.T) {
	source := string(must.Get(os.ReadFile("main.go"))(t))
	found := false
	for _, b := range golden.Pages(t)["docs/dist.md"] {
		if b.Kind == "go" {
			found = true
			if !strings.Contains(source, b.Text) {
				t.Errorf("%s shows another program", b)
			}
		}
	}
	if !found {
		t.Error("the page shows no program")
	}
}
