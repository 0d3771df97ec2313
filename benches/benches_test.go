package benches

import (
	"testing"

	_ "github.com/kernbench/kernbench/dist/all"
	"github.com/kernbench/kernbench/internal/bench/plan"
)

// TestConformance checks every built-in bench: its declaration is valid, its default points
// can be planned, and its views accept a run without rows.
func TestConformance(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range All() {
		t.Run(b.Name, func(t *testing.T) {
			if seen[b.Name] || b.Help == "" {
				t.Error("the name is taken, or there is no help")
			}
			seen[b.Name] = true
			for _, p := range b.Parts {
				if n := len(p.Headline); n > 8 || n == 0 && len(p.Metrics) > 0 {
					t.Errorf("part %q chooses %d columns of its table, want 1 to 8", p.Name, n)
				}
			}
			if err := b.Validate(); err != nil {
				t.Fatal(err)
			}
			var req plan.Request
			if len(b.Backends) > 0 {
				req.Backend = b.Backends[0]
			}
			if _, err := plan.Make(b, req); err != nil {
				t.Error(err)
			}
			if b.Figures != nil {
				b.Figures(nil)
			}
			if b.Sections != nil {
				b.Sections(nil)
			}
		})
	}
}
