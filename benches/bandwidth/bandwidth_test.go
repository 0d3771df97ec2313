package bandwidth

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	_ "github.com/kernbench/kernbench/dist/cuda"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// run times points on a backend and returns their rows.
func run(t *testing.T, backend string, axes ...string) (rows []journal.Row) {
	t.Helper()
	p := must.Get(plan.Make(Bench(), plan.Request{Backend: backend, Seed: 1, Axes: benchtest.Assign(axes...)}))(t)
	cfg := bench.DefaultMeasure()
	cfg.Stop.MinSamples, cfg.Stop.MaxSamples, cfg.Stop.MinTime = 1, 1, 0
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			o := benchtest.Perform(t, bench.New("b", body).Parts[0].Body, task, p.Options,
				decl.Setting{Backend: backend, Measure: cfg})[0]
			status := o.Status
			if status == "" {
				status = journal.OK
			}
			rows = append(rows, journal.Row{Key: task.Key, Point: task.Point, Status: status, Reason: journal.Text(o.Reason),
				Metrics: o.Metrics,
				Details: o.Details, Host: "here"})
		}
	}
	return rows
}

func check(t *testing.T, rows []journal.Row, want int) {
	t.Helper()
	if len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, r := range rows {
		metric := "gbps"
		if dataset.Text(&r, "op") == chase {
			metric = "latency_ns"
		}
		if r.Status != journal.OK || r.Metrics[metric] <= 0 {
			t.Errorf("%v: %s %s, %v", r.Point, r.Status, r.Reason, r.Metrics)
		}
	}
}

// Every operation runs on this host, in one part and in several, and every element is right.
func TestHost(t *testing.T) {
	rows := append(run(t, "cpu", "size=4K,640K"), run(t, "cpu", "size=9M", "op=read,triad")...)
	check(t, rows, 2*(len(loops)+1)+2)
	s := benchtest.Sections(t, Bench(), dataset.All(rows))
	if len(s) != 1 || len(s[0].Table) != 1+len(loops)+1 || s[0].Title != "Bandwidth and latency" {
		t.Errorf("sections: %+v", s)
	}
	if f := benchtest.Figures(t, Bench(), dataset.All(rows)); len(f) != 2 || len(f[0].Panels[0].Series) != len(loops) ||
		len(f[1].Panels[0].Series) != 1 {
		t.Errorf("figures: %+v", f)
	}
}

// Every operation runs on a GPU, and a copy or a loop that leaves something out is found. A fake driver stands in.
func TestDevice(t *testing.T) {
	cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable)
	rows := append(run(t, gpuBackend, "size=4K"), run(t, gpuBackend, "size=9M", "op=both,read,triad")...)
	alone := slices.IndexFunc(rows, func(r journal.Row) bool { return dataset.Text(&r, "op") == peerToPeer })
	if r := rows[alone]; r.Status != journal.NotExecuted ||
		r.Reason != "p2p copies between GPUs, and there is one GPU (Fake GPU 0)" {
		t.Errorf("one GPU: %s %s", r.Status, r.Reason)
	}
	rows = slices.Delete(rows, alone, alone+1)
	check(t, rows, len(allOps)+2)
	for _, r := range rows {
		op := dataset.Text(&r, "op")
		unlimited := slices.Contains(transfers, op) || op == chase || dataset.Number(&r, "size") < 9<<20 // cached
		if r.Details["gpu"] != "Fake GPU 0" || (r.Metrics["pct_of_limit"] > 0) == unlimited {
			t.Errorf("%v: %v, %v", r.Point, r.Details, r.Metrics)
		}
	}
	if s := benchtest.Sections(t, Bench(), dataset.All(rows)); len(s) != 2 || len(s[0].Table) != len(allOps) ||
		len(s[1].Table) != 3 {
		t.Errorf("sections: %+v", s)
	}
	for fault, ops := range map[string][]string{"lost upload": {hostToDevice, bothWays, pageableUp},
		"lost download": {deviceToHost, bothWays, pageableDown}, "lost pack": append(slices.Clone(loops), chase)} {
		t.Setenv(cudatest.ProductVariable, fault)
		for _, r := range run(t, gpuBackend, "size=8K", "op="+strings.Join(ops, ",")) {
			if r.Status == journal.OK {
				t.Errorf("%v: %s is not found", r.Point, fault)
			}
		}
	}
	os.Unsetenv(cudatest.ProductVariable)
	f := benchtest.Figures(t, Bench(), dataset.All(rows))
	if len(f) != 3 || f[0].Name != "memories" || len(f[0].Panels[0].X.Categories) != 2 {
		t.Errorf("figures: %+v", f)
	}
}

// Copies between GPUs are timed and checked for every ordered pair, and drawn as a matrix.
func TestPeers(t *testing.T) {
	cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable)
	t.Setenv(cudatest.DevicesVariable, "3")
	rows := run(t, gpuBackend, "size=8K,64K", "op=h2d,p2p")
	check(t, rows, 4)
	var matrix figure.Figure
	for _, f := range benchtest.Figures(t, Bench(), dataset.All(rows)) {
		if f.Name == "memories" {
			matrix = f
		}
	}
	if len(matrix.Panels) != 1 {
		t.Fatalf("figures: %+v", benchtest.Figures(t, Bench(), dataset.All(rows)))
	}
	p := matrix.Panels[0]
	if got := strings.Join(p.X.Categories, ", "); got != "host, GPU 0, GPU 1, GPU 2" {
		t.Errorf("memories: %s", got)
	}
	for i, line := range p.Content.(*figure.HeatMap).Cells {
		for k, cell := range line {
			if want := i != k && (i > 0 && k > 0 || i == 0 && k == 1); want != (cell.Value > 0) {
				t.Errorf("from %s to %s: %v", p.Y.Categories[i], p.X.Categories[k], cell.Value)
			}
		}
	}
	if d := rows[len(rows)-1].Details["peer_access"]; !strings.HasPrefix(d, "6 of 6 pairs") {
		t.Errorf("peer access: %s", d)
	}
	t.Setenv(cudatest.ProductVariable, "lost copy")
	for _, r := range run(t, gpuBackend, "size=8K", "op=p2p,d2d") {
		if r.Status == journal.OK {
			t.Errorf("%v: a lost copy is not found", r.Point)
		}
	}
}

// On a real GPU, every operation gives the right result; scripts/gpu-sanitizer.sh checks its kernels so.
func TestOnRealGPU(t *testing.T) {
	if os.Getenv(cudatest.RealVariable) == "" {
		t.Skip("the stand-in is tested by TestDevice")
	}
	ops := slices.DeleteFunc(slices.Clone(allOps), func(op string) bool { return op == peerToPeer })
	check(t, run(t, gpuBackend, "size=64K", "op="+strings.Join(ops, ",")), len(ops))
}

// Points that do not exist are left out with the reason, and unknown values are refused.
func TestPoints(t *testing.T) {
	cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable)
	for _, c := range []struct{ backend, axes, want string }{
		{"cpu", "op=h2d", "h2d needs a GPU: --backend cuda"},
		{gpuBackend, "op=chase size=2G", "chase has at most 1 GiB"},
		{gpuBackend, "op=tirad", `unknown op "tirad", did you mean "triad"?`},
		{"cpu", "size=5000", "size must be a multiple of 4096 bytes"},
		{gpuBackend, "op=triad size=4G", "the buffers need 12.0 GiB, and a GPU (Fake GPU 0) has 1.0 GiB"},
	} {
		_, err := plan.Make(Bench(), plan.Request{Backend: c.backend, Axes: benchtest.Assign(strings.Fields(c.axes)...)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.axes, err, c.want)
		}
	}
}
