package collectives

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Ranks of one machine that count as on several hosts are connected by TCP. The rows are correct, have
// no symmetric memory, and have loopback as their limit.
func TestHosts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	points := axes("op=allreduce,alltoall,sendrecv", "size=64,1M", "buffers=private,symmetric", "num_ranks=2,3")
	if testing.Short() {
		points = axes("op=allreduce,alltoall", "size=64", "buffers=private", "num_ranks=3")
	}
	p := planned(t, plan.Request{Axes: points,
		Options: axes("probe="+scriptedFile(t), "hosts=2")})
	sampleLittle(p)
	must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: os.Environ()}))(t)
	_, r := must.Get2(journal.LoadRun(dir))(t)
	good := 0
	for _, row := range dataset.Of(r).Rows {
		if row.Point.At("buffers").String() == symmetric && row.Status == journal.Skipped {
			continue
		}
		good++
		op := row.Point.At("op")
		if row.Status != journal.OK || row.Metrics["wrong"] != 0 || !(row.Limits["loopback"] > 0) ||
			op.String() == allReduce && row.Details["algorithm"] != "hierarchical" {
			t.Errorf("%s: %s %s, details %v, limits %v", row.Point, row.Status, row.Reason, row.Details, row.Limits)
		}
	}
	if good == 0 {
		t.Error("no row is good")
	}
}

// The bytes that must cross between two hosts, the first with ranks 0 and 1 and the second with rank
// 2. The vector has 12 elements, 48 bytes.
func TestDemand(t *testing.T) {
	type want struct{ out0, out1, in0, in1, total float64 }
	for op, want := range map[string]want{
		allReduce:        {48, 48, 48, 48, 96},
		"allgather":      {32, 16, 16, 32, 48},
		"reduce_scatter": {16, 32, 32, 16, 48},
		"alltoall":       {32, 32, 32, 32, 64},
		"broadcast":      {48, 0, 0, 48, 48},
		"reduce":         {0, 48, 48, 0, 48},
		"scatter":        {16, 0, 0, 16, 16},
		"gather":         {0, 16, 16, 0, 16},
		sendRecv:         {48, 48, 48, 48, 96}, // from rank 1 to 2, and from 2 to 0
		barrier:          {},
	} {
		sh := shape{op: op, count: 12, dtype: dtype.F32, ranks: 3}
		if op == barrier {
			sh.count = 0
		}
		out, in, total := crossingBytes(sh, []int{0, 0, 1}, 2)
		if got := [...]float64{out[0], out[1], in[0], in[1], total}; got != [...]float64{want.out0, want.out1, want.in0,
			want.in1, want.total} {
			t.Errorf("%s: %v, want %v", op, got, want)
		}
	}
}

// The limit is set by the slowest link that the data must cross. Here the first of three hosts sends
// at 0.0025 GB/s (20 Mbit/s).
func TestNetworkLimit(t *testing.T) {
	n := tcp.Network{Hosts: []string{"a", "b", "c"}, Ranks: []int{0, 1, 2}, Machines: 3, Pairs: []tcp.Pair{
		{From: 0, To: 1, LatencyUS: 20, GBps: 0.0025, BothGBps: 0.002}, {From: 1, To: 0, LatencyUS: 20, GBps: 1, BothGBps: 1},
		{From: 0, To: 2, LatencyUS: 50, GBps: 0.0025, BothGBps: 0.002}, {From: 2, To: 0, LatencyUS: 50, GBps: 1, BothGBps: 1},
		{From: 1, To: 2, LatencyUS: 10, GBps: 1, BothGBps: 1}, {From: 2, To: 1, LatencyUS: 10, GBps: 1, BothGBps: 1}}}
	for _, c := range []struct {
		op    string
		count int
		us    float64
	}{
		{allReduce, 250_000, 400_000}, // a megabyte out of the first host
		{"reduce", 250_000, 1000},     // into the first host, which receives fast
		{"broadcast", 250_000, 400_000},
		{allReduce, 1, 50}, // the latency to the farthest host
		{sendRecv, 1, 10},
		{barrier, 0, 50},
	} {
		if got := networkUS(n, shape{op: c.op, count: c.count, dtype: dtype.F32, ranks: 3}); math.Abs(got-c.us) > 1e-6*c.us {
			t.Errorf("%s of %d: %v us, want %v", c.op, c.count, got, c.us)
		}
	}
	// With equal links, three hosts need 4/3 of a vector in each direction: 2(3-1)/3.
	for i := range n.Pairs {
		n.Pairs[i].GBps, n.Pairs[i].BothGBps = 1, 1
	}
	if got := networkUS(n, shape{op: allReduce, count: 250_000, dtype: dtype.F32,
		ranks: 3}); math.Abs(got-4000./3) > 1e-6 {
		t.Errorf("%v us over equal links, want %v", got, 4000./3)
	}
}
