package ahbm_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// TestDocumentedSpawn runs the program of docs/accelerator.md.
func TestDocumentedSpawn(t *testing.T) {
	ctx := t.Context()
	err := ahbm.Spawn(ctx, ahbm.Machine{}, func(ctx context.Context, g *dist.Group) error {
		x := dist.Make(dist.F16, 1024)
		return g.AllReduce(x, x, dist.Sum)
	})
	must.Do(t, err)
	source := strings.ReplaceAll(string(must.Get(os.ReadFile("documented_test.go"))(t)), "\n\t", "\n")
	for _, b := range golden.Pages(t)["docs/accelerator.md"] {
		if b.Kind == "go" && !strings.Contains(source, b.Text) {
			t.Errorf("%s shows another program", b)
		}
	}
}
