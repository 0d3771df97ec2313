package milestone1h

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/report"
)

func TestMain(m *testing.M) {
	figure.Density = 24
	os.Exit(m.Run())
}

// sweep runs a bench over its default axes, without the points that are given.
func sweep(t testing.TB, b *bench.Bench, fabric topo.Fabric, without ...string) []journal.Row {
	t.Helper()
	must.Do(t, b.Validate())
	var rows []journal.Row
	for _, part := range b.Parts {
		points := []point.Point{{}}
		for _, axis := range part.Axes {
			var longer []point.Point
			for _, p := range points {
				for _, v := range axis.Values {
					longer = append(longer, p.With(axis.Name, v))
				}
			}
			points = longer
		}
		points = lists.Filter(points, func(p point.Point) bool { return !slices.Contains(without, fmt.Sprint(p)) })
		made := make([]journal.Row, len(points))
		var work sync.WaitGroup
		limit := make(chan struct{}, 2)
		for i, p := range points {
			work.Go(func() {
				limit <- struct{}{}
				defer func() { <-limit }()
				made[i] = row(b, part, p, fabric)
			})
		}
		work.Wait()
		rows = append(rows, made...)
	}
	for _, r := range rows {
		if r.Status != journal.OK {
			t.Fatalf("%s %v: %s %s", r.Part, r.Point, r.Status, r.Reason)
		}
	}
	return rows
}

func row(b *bench.Bench, part *decl.Part, p point.Point, fabric topo.Fabric) journal.Row {
	options := point.Point{}
	for _, o := range b.Options {
		options = options.With(o.Name, o.Default)
	}
	options = options.With("fabric", point.StringValue(string(fabric)))
	o, _ := part.Body(context.Background(), decl.Setting{Point: append(slices.Clone(p), options...), Backend: "ahbm"})
	return journal.Row{Bench: b.Name, Part: part.Name, Point: p, Options: options, Status: o.Status,
		Reason: journal.Text(o.Reason), Kind: o.Kind,
		Clock: o.Clock, Samples: o.Samples, Metrics: o.Metrics, Limits: o.Limits, Details: o.Details}
}

// The default evaluation, with both fabrics: every point runs and is correct, and every artifact is produced.
func TestWholeEvaluation(t *testing.T) {
	if testing.Short() {
		t.Skip("a point runs alone: the simulator's own tests show its races")
	}
	for _, fabric := range []topo.Fabric{topo.Flits, topo.Whole} {
		rows := sweep(t, CCL(), fabric)
		if len(rows) != 36+12 {
			t.Fatalf("%d rows", len(rows))
		}
		for _, r := range rows {
			sum := 0.0
			for _, part := range parts(sim.Breakdown{}) {
				sum += r.Metrics[part.name]
			}
			crit := r.Metrics["crit_ns"]
			if r.Kind != journal.Simulated || r.Samples != 1 || r.Metrics["wrong"] != 0 || math.Abs(sum-crit) > 1e-6 ||
				math.Abs(r.Metrics["time_us"]*1e3-crit) > 1e-6 {
				t.Errorf("%v: %s, %d samples, %v", r.Point, r.Kind, r.Samples, r.Metrics)
			}
			if bound := r.Limits["bandwidth"]; bound <= 0 || bound*1e3 > crit {
				t.Errorf("%v: %v ns, below the bandwidth bound of %v us", r.Point, crit, bound)
			}
		}
		published(t, fabric, rows)
		if fabric == topo.Flits {
			check(t, rows)
		}
	}
}

// published compares the buffer-kind sweep with its published values.
func published(t *testing.T, fabric topo.Fabric, rows []journal.Row) {
	got := map[string]float64{}
	for _, r := range rows {
		got[fmt.Sprint(r.Part, " ", dataset.Text(&r, "buffer_kind"), dataset.Text(&r, sipsAxis), " ",
			2*r.Point.At("n_elem").Int())] = r.Metrics["crit_ns"]
	}
	if fabric == topo.Whole {
		for point, want := range map[string]float64{
			"buffer-kind tcm 256": 1678.04, "buffer-kind tcm 2048": 1957.04, "buffer-kind tcm 16384": 4225.04,
			"buffer-kind tcm 65536": 12001.04,
			"buffer-kind hbm 256":   1858.04, "buffer-kind hbm 2048": 2389.04, "buffer-kind hbm 16384": 6673.04,
			"buffer-kind hbm 65536":  21361.04,
			"latency torus_2d 98304": 17200,
		} {
			if math.Abs(got[point]-want) > 0.02*want {
				t.Errorf("%s: %.2f ns, published %.2f", point, got[point], want)
			}
		}
	}
	if ns := got["latency torus_2d 98304"]; ns == 0 || ns >= 20_500 {
		t.Errorf("%s: the torus takes %.0f ns at 96 KB, the centre root's guard is 20500", fabric, ns)
	}
}

// written returns the files of a report by name, and its error.
func written(t testing.TB, b *bench.Bench, rows []journal.Row) (map[string]string, error) {
	t.Helper()
	dir := t.TempDir()
	run := &journal.Run{Header: *decl.ViewHeader(b), Rows: slices.Clone(rows)}
	for i := range run.Rows {
		run.Rows[i].Key = fmt.Sprint(i)
	}
	if b.Derive != nil {
		run.Rows = b.Derive(dataset.All(run.Rows)).Copy()
	}
	files, err := report.Render(dir, report.Input{Bench: b, Data: dataset.Of(run)})
	out := map[string]string{}
	for _, name := range files {
		short := filepath.ToSlash(must.Get(filepath.Rel(dir, name))(t))
		out[short] = string(must.Get(os.ReadFile(name))(t))
	}
	return out, err
}

// check produces all views of the rows. The report has every required file, or an error.
func check(t *testing.T, rows []journal.Row) {
	t.Helper()
	made, err := written(t, CCL(), rows)
	must.Do(t, err)
	for _, f := range benchtest.Figures(t, CCL(), dataset.All(rows)) {
		if !strings.Contains(made["index.html"], "figures/"+f.Name+".svg") || made["figures/"+f.Name+".png"] == "" {
			t.Errorf("the page does not show %s", f.Name)
		}
	}
	for name, want := range map[string]string{
		"summary.csv": "algorithm,sip_topology,n_sips,n_elem,bytes_per_pe,bytes_per_sip,latency_ns," +
			"fabric,topology,topology_sha256,root",
		"buffer_kind_sweep.csv": "buffer_kind,sip_topology,n_sips,n_elem,bytes_per_pe,latency_ns," +
			"fabric,topology,topology_sha256,root",
	} {
		records := must.Get(csv.NewReader(strings.NewReader(made[name])).ReadAll())(t)
		part := map[string]string{"summary.csv": latencyPart, "buffer_kind_sweep.csv": bufferPart}[name]
		if strings.Join(records[0], ",") != want || len(records) != 1+len(dataset.All(rows).Good().Part(part)) {
			t.Errorf("%s: %v and %d rows", name, records[0], len(records)-1)
		}
	}
	if len(sections(dataset.All(rows))) == 0 {
		t.Error("the report has nothing to say")
	}
}

// For any number of cubes, sums are exact in f16 and every cube contributes to some of them.
func TestInputsAreExact(t *testing.T) {
	for _, side := range []int{1, 6, 11, 12, 32, 40} {
		m := must.Get(topo.Default().WithSIPs(topo.Torus, side, side))(t)
		c := Case{Topo: m, CCL: ccl.Default(), N: 128}
		if sum := slices.Max(c.sums()); sum > exact || sum < exact/8 {
			t.Errorf("%dx%d SIPs: a sum is %d, want at most %d", side, side, sum, exact)
		}
		for sip := range m.SIPs.Count {
			for cube := range m.Cubes.Count() {
				part := 0
				for i := range c.N {
					part += c.input(sip, cube, i)
				}
				if part == 0 {
					t.Fatalf("%dx%d SIPs: sip%d.cube%d has no part in any sum", side, side, sip, cube)
				}
			}
		}
	}
}

// A wrong cube is found and named.
func TestWrongCubeIsFound(t *testing.T) {
	m := must.Get(topo.Default().WithSIPs(topo.Ring, 2, 1))(t)
	c := Case{Topo: m, CCL: ccl.Default(), N: 64, Verify: true}
	sums := c.sums()
	right := make([]dist.Float16, m.Cubes.Count()*c.N)
	for at := range right {
		right[at] = dtype.Float16From(float32(sums[at%c.N]))
	}
	if w := c.check(1, right, sums); w.Count != 0 {
		t.Fatal(w)
	}
	right[5*64+3]++
	if w := c.check(1, right, sums); w.Count != 1 || !strings.Contains(w.Detail, "element 3 of sip1.cube5") {
		t.Errorf("one wrong element: %v", w)
	}
	// A tile that was not added is found.
	c.fill(0, right)
	if w := c.check(0, right, sums); w.Count == 0 {
		t.Error("inputs pass for sums")
	}
}

// The required files depend on the rows: all of them, the ones of a single part, and the ones of a part whose rows
// all failed, which is then reported as missing.
func TestArtifacts(t *testing.T) {
	latency := func(kind string, s journal.Status) journal.Row {
		return journal.Row{Part: latencyPart, Status: s,
			Metrics: map[string]float64{"crit_ns": 1, "time_us": 0.001, "wire_ns": 1, "n_sips": 6, "cubes": 16},
			Point: point.Point{}.With("algorithm", point.StringValue(ccl.LRAB)).With(sipsAxis,
				point.StringValue(kind)).With("n_elem", point.IntValue(8)),
			Details: map[string]string{machine.Kind: kind, machine.Grid: "6x1", cubesDetail: "4x4"}}
	}
	ring := []string{"figures/comparison_fsim", "figures/latency_ring_1d", "figures/topology", "index.html", "summary.csv"}
	buffer := journal.Row{Part: bufferPart, Status: journal.Failed}
	for _, c := range []struct {
		rows    []journal.Row
		made    []string
		missing []string
	}{
		{nil, []string{"index.html"}, nil},
		{[]journal.Row{latency("ring_1d", journal.OK)}, ring, nil},
		{[]journal.Row{latency("ring_1d", journal.OK), buffer}, ring,
			[]string{"buffer_kind_sweep.csv", "figures/buffer_kind.png", "figures/buffer_kind.svg"}},
		{[]journal.Row{latency("ring_1d", journal.OK), latency("torus_2d", journal.Failed)}, ring,
			[]string{"figures/latency_torus_2d.png", "figures/latency_torus_2d.svg"}},
	} {
		files, err := written(t, CCL(), c.rows)
		var made []string
		for name := range files {
			if name, png := strings.CutSuffix(name, ".png"); png || name == "index.html" || name == "summary.csv" {
				made = append(made, name)
			}
		}
		slices.Sort(made)
		if !slices.Equal(made, c.made) {
			t.Errorf("made %v, want %v", made, c.made)
		}
		if (err != nil) != (len(c.missing) > 0) {
			t.Errorf("missing %v: %v", c.missing, err)
		}
		for _, name := range c.missing {
			if !strings.Contains(err.Error(), "the artifact "+name+" was not written") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Diagrams show the machine that the rows were made with, and not what its file says today.
func TestDiagramsAreOfTheRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	must.Do(t, os.WriteFile(file, topo.DefaultFile(), 0o600))
	row := journal.Row{Part: bufferPart, Status: journal.OK, Options: point.Point{}.With("topology",
		point.StringValue(file)).With("ccl", point.StringValue("")), Details: map[string]string{machine.Option: "mine.yaml"}}
	if figs := topologyFigures(dataset.Set{&row}); figs != nil {
		t.Errorf("the rows do not say what their machine is, but the diagram shows %q", figs[0].Panels[0].Title)
	}
	row.Details[machine.Kind], row.Details[machine.Grid], row.Details[cubesDetail] = "torus_2d", "5x2", "2x2"
	if figs := topologyFigures(dataset.Set{&row}); figs[0].Panels[0].Title != "torus_2d, 10 SIPs" {
		t.Errorf("%q", figs[0].Panels[0].Title)
	}
}

// The SIPs of a file are used: for its own kind unchanged, for other kinds their number. A size overrides the file.
// Impossible values are rejected with a hint.
func TestSIPs(t *testing.T) {
	of := func(kind topo.Kind, w, h int) *topo.Topology {
		return must.Get(topo.Default().WithSIPs(kind, w, h))(t)
	}
	for _, c := range []struct {
		machine *topo.Topology
		builtIn bool
		value   string
		want    topo.SIPs
		fault   string
	}{
		{of(topo.Ring, 2, 1), true, "ring_1d", topo.SIPs{Count: 6, Kind: topo.Ring, Grid: topo.Grid{W: 6, H: 1}}, ""},
		{of(topo.Ring, 2, 1), true, "torus_2d", topo.SIPs{Count: 6, Kind: topo.Torus, Grid: topo.Grid{W: 2, H: 3}}, ""},
		{of(topo.Ring, 8, 1), false, "ring_1d", topo.SIPs{Count: 8, Kind: topo.Ring, Grid: topo.Grid{W: 8, H: 1}}, ""},
		{of(topo.Ring, 8, 1), false, "mesh_2d_no_wrap", topo.SIPs{Count: 8, Kind: topo.Mesh, Grid: topo.Grid{W: 2, H: 4}},
			""},
		{of(topo.Torus, 8, 2), false, "mesh_2d_no_wrap", topo.SIPs{Count: 16, Kind: topo.Mesh, Grid: topo.Grid{W: 8, H: 2}},
			""},
		{of(topo.Torus, 8, 2), false, "ring_1d", topo.SIPs{Count: 16, Kind: topo.Ring, Grid: topo.Grid{W: 16, H: 1}}, ""},
		{of(topo.Torus, 8, 2), false, "4x4:torus", topo.SIPs{Count: 16, Kind: topo.Torus, Grid: topo.Grid{W: 4, H: 4}}, ""},
		{of(topo.Ring, 2, 1), true, "5:ring", topo.SIPs{Count: 5, Kind: topo.Ring, Grid: topo.Grid{W: 5, H: 1}}, ""},
		{of(topo.Ring, 2, 1), true, "4:torus", topo.SIPs{}, "want WIDTHxHEIGHT:torus"},
		{of(topo.Ring, 2, 1), true, "2x2:ring", topo.SIPs{}, "want a height of 1"},
		{of(topo.Ring, 2, 1), true, "0x2:mesh", topo.SIPs{}, "want WIDTHxHEIGHT:torus"},
		{of(topo.Ring, 2, 1), true, "4x4", topo.SIPs{}, "as in 4x4:torus"},
		{of(topo.Ring, 2, 1), true, "4x4:star", topo.SIPs{}, `unknown SIP topology "star"`},
	} {
		m, err := withSIPs(c.machine, c.builtIn, c.value)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want it to say %q", c.value, err, c.fault)
			}
		} else if err != nil || m.SIPs != c.want {
			t.Errorf("%s of %+v: %+v (%v), want %+v", c.value, c.machine.SIPs, m, err, c.want)
		}
	}
}

// An unreadable file is rejected. A row names its file, and so do the tables, figures and page.
func TestRowsNameTheirMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := strings.NewReplacer("count: 2", "count: 4", "flit_bytes: 256",
		"flit_bytes: few").Replace(string(topo.DefaultFile()))
	options := point.Point{}.With("topology", point.StringValue(file)).With("ccl", point.StringValue(""))
	write := func(text string) {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(text)
	if err := validate(point.Point{}, options); err == nil ||
		!strings.Contains(err.Error(), "mine.yaml:9:15: system.flit_bytes") {
		t.Errorf("a bad file: %v", err)
	}
	write(strings.ReplaceAll(text, "few", "256"))
	nowhere := options.With("trace", point.StringValue(filepath.Join(filepath.Dir(file), "nowhere", "t.json")))
	if err := validate(point.Point{}, nowhere); err == nil || !strings.Contains(err.Error(), "--trace") {
		t.Errorf("a trace that cannot be written: %v", err)
	}
	if err := validate(point.Point{}.With(sipsAxis, point.StringValue("ring_1d")), options); err != nil {
		t.Error(err)
	}
	row := journal.Row{Part: latencyPart, Status: journal.OK, Options: options,
		Metrics: map[string]float64{"crit_ns": 5, "time_us": 0.005, "wire_ns": 5, "n_sips": 4, "cubes": 16},
		Point: point.Point{}.With("algorithm", point.StringValue(ccl.LRAB)).With(sipsAxis,
			point.StringValue("2x2:torus")).With("n_elem", point.IntValue(8)),
		Details: map[string]string{machine.Kind: "torus_2d", machine.Option: "mine.yaml", machine.Hash: "0123456789abcdef",
			machine.Fabric: "whole"}}
	const says = "topology mine.yaml (sha256 0123456789ab), fabric whole"
	figs := benchtest.Figures(t, CCL(), dataset.Set{&row})
	if len(figs) != 2 {
		t.Errorf("%d figures", len(figs))
	}
	for _, f := range figs {
		if !strings.Contains(f.Caption, says) {
			t.Errorf("figure %s does not name the machine: %q", f.Name, f.Caption)
		}
	}
	made, _ := written(t, CCL(), []journal.Row{row}) // without the diagram, for which the row says too little
	for name, want := range map[string]string{"summary.csv": "torus_2d,4,8,16,256,5.000,whole,mine.yaml,0123456789abcdef",
		"index.html": says} {
		if !strings.Contains(made[name], want) {
			t.Errorf("%s does not say %q:\n%s", name, want, made[name])
		}
	}
}

// The axes fabric and root give rows of their own, with labels and a column that tell them apart.
func TestFabricAndRoot(t *testing.T) {
	rows := must.Get(benchtest.Rows(t, CCL(), "ahbm", "sips=ring_1d", "n_elem=8", "--fabric=flits,whole",
		"--root=center,corner", "buffer_kind=tcm"))(t)
	rows = rows.Part(latencyPart)
	ns := map[string]float64{}
	for _, r := range rows {
		ns[r.Details[machine.Fabric]+" "+r.Details[machine.Root]] = r.Metrics["crit_ns"]
	}
	if len(ns) != 4 || ns["flits center"] >= ns["flits corner"] || ns["whole center"] >= ns["whole corner"] {
		t.Errorf("%v", ns)
	}
	on := machine.Names(rows, sipsAxis, "n_elem", "algorithm")
	if got := on(rows[3]); got != "whole, root in the corner" {
		t.Errorf("the last curve is called %q", got)
	}
	made, err := written(t, CCL(), rows.Copy())
	must.Do(t, err)
	if text := made["summary.csv"]; strings.Count(text, ",corner\n") != 2 || strings.Count(text, ",center\n") != 2 {
		t.Errorf("%s", text)
	}
}

// Every view distinguishes several machines: a curve and a breakdown of each, the ratio, and rows of tables. The
// diagrams are drawn from the rows, so the files are not needed any more.
func TestTwoMachines(t *testing.T) {
	row := func(part, file, axis, value string, sips topo.Grid, n int64) journal.Row {
		return journal.Row{Part: part, Status: journal.OK,
			Metrics: map[string]float64{"crit_ns": 100, "time_us": 0.1, "wire_ns": 60, "n_sips": float64(sips.Count()),
				"cubes": 16},
			Limits: map[string]float64{"bandwidth": 0.05},
			Point: point.Point{}.With("topology", point.FileValue("gone/"+file, strings.Repeat(file[:1],
				64))).With("algorithm", point.StringValue(ccl.LRAB)).With(axis,
				point.StringValue(value)).With("n_elem", point.IntValue(n)),
			Details: map[string]string{machine.Kind: "torus_2d", machine.Grid: sips.String(), cubesDetail: "4x4",
				machine.Root:   "center",
				machine.Option: file, machine.Hash: file + "0123456789", machine.Fabric: "flits"}}
	}
	var rows []journal.Row
	for file, sips := range map[string]topo.Grid{"a.yaml": {W: 2, H: 2}, "b.yaml": {W: 4, H: 2}} {
		for _, n := range []int64{8, 32} {
			rows = append(rows, row(latencyPart, file, sipsAxis, "torus_2d", sips, n),
				row(bufferPart, file, "buffer_kind", "tcm", sips, n))
		}
	}
	slices.SortStableFunc(rows, func(a, b journal.Row) int {
		return strings.Compare(a.Details[machine.Option], b.Details[machine.Option])
	})
	names := map[string][]string{}
	for _, f := range benchtest.Figures(t, CCL(), dataset.All(rows)) {
		for _, p := range f.Panels {
			names[f.Name] = append(names[f.Name], p.Title)
			for _, s := range p.Series {
				names[f.Name] = append(names[f.Name], s.Name)
			}
		}
		names[f.Name] = append(names[f.Name], f.Title)
	}
	for figure, want := range map[string][]string{
		"latency_torus_2d": {"a.yaml", "b.yaml", "latency over that on a.yaml",
			"where the time goes, b.yaml", "All-reduce over 4 and 8 SIPs, torus_2d (simulated)"},
		"buffer_kind":     {"tcm, a.yaml", "tcm, b.yaml"},
		"comparison_fsim": {"simulated, torus_2d, a.yaml", "simulated, torus_2d, b.yaml"},
		"topology":        {"torus_2d, 4 SIPs", "torus_2d, 8 SIPs", "reduction in a SIP of 4 x 4 cubes"},
	} {
		for _, name := range want {
			if !slices.Contains(names[figure], name) {
				t.Errorf("%s has no %q, only %q", figure, name, names[figure])
			}
		}
	}
	for _, s := range sections(dataset.All(rows)) {
		if len(s.Table) != 3 || s.Table[1][0] != "torus_2d, a.yaml" || s.Table[2][0] != "torus_2d, b.yaml" {
			t.Errorf("%s: %q", s.Title, s.Table)
		}
	}
	_, err := written(t, CCL(), rows)
	must.Do(t, err)
}
