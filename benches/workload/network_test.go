package workload

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/must"
)

// TestFaults checks what a slow rank and a late start cost a step, and the energy of a step. The slow rank computes
// 10 µs longer before the all-reduce. That costs 9 µs, because rank 0, the root of the broadcast, ends the all-reduce
// 1 µs before rank 1. The other fault is a start that is 4 µs late.
func TestFaults(t *testing.T) {
	network := write(t, "n.yaml", round+"pj_per_byte: 2\npj_per_op: 0.5\n")
	timeline := filepath.Join(t.TempDir(), "t.json")
	rows := run(t, "--trace="+stored(t, nil), "--topology="+network, "--slow-rank=none,1:2x", "--start-offset=none,0:4us",
		"--perfetto="+timeline)
	if len(rows) != 4 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, want := range []struct {
		cost float64
		text string
	}{{0, ""}, {4, "start-offset 0:4µs: 4 µs"}, {9, "slow-rank 1:2x: 9 µs"},
		{9, "slow-rank 1:2x: 5 µs; start-offset 0:4µs: 0 µs"}} {
		row := rows[i]
		if got := row.Metrics[timeMetric]; math.Abs(got-13.15-want.cost) > 1e-9 {
			t.Errorf("%v: the step takes %g µs", row.Point, got)
		}
		if got := row.Metrics["fault_cost_us"]; math.Abs(got-want.cost) > 1e-9 || row.Details["faults"] != want.text {
			t.Errorf("%v: the faults cost %g µs: %q", row.Point, got, row.Details["faults"])
		}
		// 2,500 bytes over two links each; 2 * 4e9 operations, and 2 * 500 additions.
		if got, want := row.Metrics["energy_uj"], (2*2*2500+0.5*(8e9+1000))/1e6; math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %g µJ, want %g: %s", row.Point, got, want, row.Details["energy"])
		}
	}
	if files := must.Get(filepath.Glob(strings.TrimSuffix(timeline, ".json") + "*.json"))(t); len(files) != 4 {
		t.Errorf("timelines %v", files)
	}
	_, err := benchtest.Rows(t, Bench(), "flat", "--trace="+stored(t, nil), "algorithm=recorded", "--slow-rank=1:2x")
	if err == nil || !strings.Contains(err.Error(), "--slow-rank has no effect") {
		t.Errorf("%v", err)
	}
}
