package collectives

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Ranks of one machine that count as on several hosts are connected by TCP: the
// rows are right, have no symmetric memory, and loopback as their limit.
func TestHosts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	p := planned(t, plan.Request{Axes: axes("op=allreduce,alltoall,sendrecv", "size=64,1M", "buffers=private,symmetric", "num_ranks=2,3"),
		Options: axes("probe="+scriptedFile(t), "hosts=2")})
	sampleLittle(p)
	if _, err := run.Run(t.Context(), p, run.Options{Dir: dir, Environ: os.Environ()}); err != nil {
		t.Fatal(err)
	}
	_, r, err := journal.LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	good := 0
	for _, row := range r.Latest() {
		buffers, _ := row.Point.Get("buffers")
		if buffers.String() == symmetric && row.Status == journal.Skipped {
			continue
		}
		good++
		op, _ := row.Point.Get("op")
		if row.Status != journal.OK || row.Metrics["wrong"] != 0 || !(row.Limits["loopback"] > 0) ||
			op.String() == allReduce && row.Details["algorithm"] != "hierarchical" {
			t.Errorf("%s: %s %s, details %v, limits %v", row.Point, row.Status, row.Reason, row.Details, row.Limits)
		}
	}
	if good == 0 {
		t.Error("no row is good")
	}
}

func TestCrossing(t *testing.T) {
	for op, want := range map[string]float64{allReduce: 40, "allgather": 20, "broadcast": 40, sendRecv: 40, barrier: 0, "scatter": 20} {
		if got := crossing(shape{op: op, count: 10, dtype: dtype.F32, ranks: 2}); got != want {
			t.Errorf("%s of 40 bytes: %v must cross, want %v", op, got, want)
		}
	}
}
