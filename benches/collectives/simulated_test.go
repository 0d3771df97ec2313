package collectives

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// A plain run on the simulated accelerator takes what it has; what it lacks is
// skipped with the reason; the limits are the topology's and hold.
func TestSimulated(t *testing.T) {
	for _, c := range []struct {
		name    string
		axes    []string
		skipped string
	}{
		{"plain", []string{"size=4,4K,256K", "num_ranks=2,3"}, ""},
		{"algorithms", []string{"size=4K", "num_ranks=4", "algorithm=lrab_hierarchical_allreduce,flat_ring,tree"}, ""},
		{"another type", []string{"size=4K", "dtype=f32"}, "no element type f32"},
		{"another op", []string{"size=4K", "op=broadcast"}, "no broadcast"},
		{"other memory", []string{"size=4K", "buffers=symmetric"}, "no symmetric memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.Make(Bench(), plan.Request{Backend: ahbm.Name, Seed: 1, Axes: axes(c.axes...)})
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "run")
			if _, err := run.Run(t.Context(), p, run.Options{Dir: dir, Environ: os.Environ()}); err != nil {
				t.Fatal(err)
			}
			_, r, err := journal.LoadRun(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Rows) != p.Points {
				t.Errorf("%d rows of %d points", len(r.Rows), p.Points)
			}
			for _, row := range r.Rows {
				if c.skipped != "" {
					if row.Status != journal.Skipped || !strings.Contains(row.Reason, c.skipped) {
						t.Errorf("%v: %s (%s)", row.Point, row.Status, row.Reason)
					}
					continue
				}
				if row.Status != journal.OK || row.Kind != journal.Simulated || row.Metrics["wrong"] != 0 || len(row.Warnings) > 0 {
					t.Errorf("%v: %s (%s), %s, %v", row.Point, row.Status, row.Reason, row.Kind, row.Warnings)
				}
				if pct := row.Metrics["pct_of_limit"]; !(pct > 0 && pct <= 100) || row.Details["probe"] != "" {
					t.Errorf("%v: %v %% of the limits %v", row.Point, pct, row.Limits)
				}
			}
		})
	}
}
