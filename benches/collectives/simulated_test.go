package collectives

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/dist/flat"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// A plain run on the simulated accelerator takes what it supports, and the plan refuses the rest.
// The limits follow from the topology and are not exceeded.
func TestSimulated(t *testing.T) {
	for _, c := range []struct {
		name    string
		axes    []string
		refused string // by the plan
	}{
		{"plain", []string{"size=4,4K,256K", "num_ranks=2,3"}, ""},
		{"algorithms", []string{"size=4K", "num_ranks=4", "algorithm=lrab_hierarchical_allreduce,flat_ring,tree"}, ""},
		{"another type", []string{"size=4K", "dtype=f32"}, "backend ahbm has no element type f32, only f16"},
		{"another op", []string{"size=4K", "op=broadcast"}, "backend ahbm has no broadcast"},
		{"other memory", []string{"size=4K", "buffers=symmetric"}, "backend ahbm has no symmetric memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.refused != "" {
				_, err := plan.Make(Bench(), plan.Request{Backend: ahbm.Name, Axes: axes(c.axes...)})
				if err == nil || !strings.HasSuffix(err.Error(), c.refused) {
					t.Errorf("%v, want %q", err, c.refused)
				}
				return
			}
			for _, row := range simulated(t, ahbm.Name, nil, c.axes...) {
				if row.Status != journal.OK || row.Kind != journal.Simulated || row.Metrics["wrong"] != 0 ||
					len(row.Conditions) > 0 {
					t.Errorf("%v: %s (%s), %s, %v", row.Point, row.Status, row.Reason, row.Kind, row.Conditions.Sentences())
				}
				if pct := row.Metrics["pct_of_limit"]; !(pct > 0 && pct <= 100) || row.Details["probe"] != "" {
					t.Errorf("%v: %v %% of the limits %v", row.Point, pct, row.Limits)
				}
			}
		})
	}
}

// On a simulated network one rank stands for all, with any algorithm and number of ranks. The time
// follows the model's formula, and the rows say that no data moved and was verified.
func TestVirtual(t *testing.T) {
	network := filepath.Join(t.TempDir(), "net.yaml")
	const text = "name: mine\nlatency_ns: 1000\noverhead_ns: 100\ngap_ns: 0\nbandwidth_gbs: 10\n"
	must.Do(t, os.WriteFile(network, []byte(text), 0o600))
	rows := simulated(t, flat.Name, options("topology="+network), "size=64K", "num_ranks=4,4096",
		"algorithm=recursive-doubling,two-stage")
	if len(rows) != 4 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		if *row.NumRanks == 4096 && dataset.Text(&row, "algorithm") == "two-stage" {
			if row.Status != journal.Skipped ||
				!strings.Contains(string(row.Reason), "two-stage with 4096 ranks sends about 117M messages") {
				t.Errorf("reads of memory that are not proved: %s (%s)", row.Status, row.Reason)
			}
			continue
		}
		if row.Status != journal.OK || row.Kind != journal.Simulated ||
			row.Details["data"] != "schedule proved, data not executed" ||
			!strings.Contains(row.Details["machine"], "network mine: latency 1000 ns") {
			t.Errorf("%v: %s (%s), %s, %v", row.Point, row.Status, row.Reason, row.Kind, row.Details)
		}
		if _, checked := row.Metrics["wrong"]; checked {
			t.Errorf("%v: data that did not move was checked", row.Point)
		}
		rounds := map[int]float64{4: 2, 4096: 12}[*row.NumRanks]
		if want := rounds * (1.2 + 6.5536); dataset.Text(&row, "algorithm") == "recursive-doubling" &&
			math.Abs(row.Metrics["time_us"]-want) > 1e-3 {
			t.Errorf("%v: %v us, want %v", row.Point, row.Metrics["time_us"], want)
		}
	}
	if s := sections(dataset.All(rows)); len(s) != 1 || !strings.Contains(s[0].Text, "data was not executed") {
		t.Errorf("%+v", s)
	}
	for file, want := range map[string]string{"missing.yaml": "no such file", network: "is for simulated backends"} {
		backend := flat.Name
		if file == network {
			backend = "cpu"
		}
		if _, err := plan.Make(Bench(), plan.Request{Backend: backend, Options: options("topology=" + file)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s on %s: %v", file, backend, err)
		}
	}
}

// Rows on a network of links have the traffic by level, the energy, and what each fault costs. Faults are swept, and
// refused where they make no sense.
func TestNetworkFaults(t *testing.T) {
	network := filepath.Join(t.TempDir(), "net.yaml")
	const text = "name: mine\nmemory_pj_per_byte: 1\nlevels:\n- {name: leaf, size: 4, bandwidth_gbs: 10, latency_ns: " +
		"100, pj_per_byte: 2}\n"
	must.Do(t, os.WriteFile(network, []byte(text), 0o600))
	rows := simulated(t, flat.Name, options("topology="+network, "slow-link=none,1-leaf0:2x"), "size=40K",
		"num_ranks=4", "algorithm=ring", "inplace=true")
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	const bytes = 6 * 40960 // 2(N-1) messages of a quarter, by 4 ranks
	for i, row := range rows {
		// The slow link carries six messages one after the other. Its latency is hidden except at both ends.
		slow := float64(i) * (6*1.024 - 4*0.2)
		if got := row.Metrics["time_us"]; math.Abs(got-6*(0.2+1.024)-slow) > 1e-6 {
			t.Errorf("%v: %v us", row.Point, got)
		}
		if _, has := row.Metrics["fault_cost_us"]; has != (i == 1) || math.Abs(row.Metrics["fault_cost_us"]-slow) > 1e-6 {
			t.Errorf("%v: cost %v, want %v", row.Point, row.Metrics["fault_cost_us"], slow)
		}
		// Each byte takes two links and is read and written; the reductions of half the messages take three accesses.
		if got, want := row.Metrics["energy_uj"], (2*2*bytes+2*bytes+3*bytes/2)/1e6; math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v uJ (%s), want %v", row.Point, got, row.Details["energy"], want)
		}
		if !strings.HasPrefix(row.Details["links"], "leaf: 480KiB, busiest ") {
			t.Errorf("%q", row.Details["links"])
		}
	}
	on := machine.Names(dataset.All(rows))
	if on(&rows[0]) != "slow-link none" || on(&rows[1]) != "slow-link 1-leaf0:2x" {
		t.Errorf("curves %q and %q", on(&rows[0]), on(&rows[1]))
	}
	if got := rows[1].Details["faults"]; got != "slow-link 1-leaf0:2x: 5.34 µs" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct{ backend, option, want string }{
		{flat.Name, "slow-link=9-leaf0:2x", `unknown link "9-leaf0"`},
		{flat.Name, "dead-link=3-leaf0", "no path in both directions between ranks 0 and 3"},
		{flat.Name, "sips=2x2:torus", "--sips is not for backend flat"},
		{ahbm.Name, "slow-rank=1:2x", "--slow-rank is not for backend ahbm"},
		{"cpu", "start-offset=1:2us", "--start-offset is for simulated backends, which cpu is not"},
	} {
		chosen := options(c.option)
		if c.backend == flat.Name {
			chosen = append(chosen, options("topology="+network)...)
		}
		_, err := plan.Make(Bench(), plan.Request{Backend: c.backend, Options: chosen,
			Axes: options("num_ranks=4", "size=4K")})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %s: %v", c.option, c.backend, err)
		}
	}
}

// A topology file defines the simulated machine and its limits; its SIPs are the ranks.
func TestTopologyFile(t *testing.T) {
	text := must.Get(os.ReadFile("../../internal/accel/topo/topology.yaml"))(t)
	file := filepath.Join(t.TempDir(), "slow.yaml")
	slow := regexp.MustCompile(`latency_ns: 43.201`).ReplaceAll(text, []byte("latency_ns: 443.201"))
	if err := os.WriteFile(file, slow, 0o600); err != nil || len(slow) == len(text) {
		t.Fatal(err, "the file has changed")
	}
	one := filepath.Join(t.TempDir(), "one.yaml") // one link of one SIP is slow, and one PE
	must.Do(t, os.WriteFile(one, append(text, "overrides:\n  links:\n    sip1.pcie_ep -> switch: {latency_ns: 443.201}\n"+
		"  devices:\n    sip0.cube0.pe0: {efficiency: 0.01}\n"...), 0o600))
	times := map[string]journal.Row{}
	for _, path := range []string{"", file, one} {
		rows := simulated(t, ahbm.Name, options("topology="+path), "size=4K", "num_ranks=2")
		if len(rows) != 1 || rows[0].Status != journal.OK {
			t.Fatalf("%+v", rows)
		}
		times[path] = rows[0]
	}
	fast, slower := times[""], times[file]
	if slower.Metrics["time_us"] < fast.Metrics["time_us"]+0.8 || slower.Limits["hops"] <= fast.Limits["hops"] ||
		!strings.Contains(slower.Details["machine"], "slow.yaml: 2 SIPs") {
		t.Errorf("%v us and %v with slow links, %v us and %v without; %v", slower.Metrics["time_us"], slower.Limits,
			fast.Metrics["time_us"], fast.Limits, slower.Details)
	}
	if got := times[one]; got.Metrics["time_us"] < fast.Metrics["time_us"]+0.4 || len(got.Limits) > 0 ||
		got.Metrics["time_us"] == slower.Metrics["time_us"] {
		t.Errorf("%v us and %v with one slow link", got.Metrics["time_us"], got.Limits)
	}
	for _, c := range []struct{ sips, ranks, want string }{
		{"", "num_ranks=3", "take --ranks 2"},
		{"", "num_ranks=2", ""},
		{"2x2:torus", "num_ranks=4", ""},
		{"2x2:torus", "num_ranks=2", "take --ranks 4"},
		{"2x2:star", "num_ranks=4", `unknown SIP topology "star"`},
	} {
		_, err := plan.Make(Bench(), plan.Request{Backend: ahbm.Name, Options: options("topology="+file, "sips="+c.sips),
			Axes: axes("size=4K", c.ranks)})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := plan.Make(Bench(),
		plan.Request{Backend: "cpu", Options: options("sips=2x2:torus"), Axes: axes("size=4K")}); err == nil ||
		!strings.Contains(err.Error(), "--sips is for simulated backends") {
		t.Errorf("on processors: %v", err)
	}
}

// SIPs are an axis: their number is the number of ranks, and every arrangement is correct, within its
// limits and a curve of its own. The row names the arrangement.
func TestArrangements(t *testing.T) {
	rows := simulated(t, ahbm.Name, options("sips=4:ring,2x2:torus,3x2:mesh,mesh"), "size=64,64K")
	if len(rows) != 2*5 { // mesh alone runs with each number of SIPs that occurs: 4 and 6
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		sips := dataset.Text(&row, "sips")
		kind := map[string]string{"4:ring": "ring_1d", "2x2:torus": "torus_2d", "3x2:mesh": "mesh_2d_no_wrap",
			"mesh": "mesh_2d_no_wrap"}[sips]
		if row.Status != journal.OK || row.Details["sip_topology"] != kind || !(row.Metrics["pct_of_limit"] <= 100) ||
			row.Metrics["wrong"] != 0 {
			t.Errorf("%v: %s (%s) %v %v", row.Point, row.Status, row.Reason, row.Details, row.Metrics)
		}
		if want, fixed := map[string]int{"4:ring": 4, "2x2:torus": 4, "3x2:mesh": 6}[sips]; fixed && *row.NumRanks != want {
			t.Errorf("%s has %d ranks", sips, *row.NumRanks)
		}
	}
	figs := benchtest.Figures(t, Bench(), dataset.All(rows))
	if figs[0].Panels[0].Series[0].Name != "auto, private, 4:ring" ||
		!strings.Contains(figs[0].Caption, "topology built-in (sha256 ") {
		t.Errorf("%+v", figs[0])
	}
}

// simulated runs a sweep of the bench and returns its rows: one for each point, and one for each point left out.
func simulated(t *testing.T, backend string, options []plan.Assign, words ...string) []journal.Row {
	t.Helper()
	p := must.Get(plan.Make(Bench(), plan.Request{Backend: backend, Seed: 1, Options: options, Axes: axes(words...)}))(t)
	dir := filepath.Join(t.TempDir(), "run")
	must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: os.Environ()}))(t)
	_, r, err := journal.LoadRun(dir)
	if err != nil || len(r.Rows) < p.Points {
		t.Fatalf("%d rows of %d points: %v", len(r.Rows), p.Points, err)
	}
	return r.Rows
}

func options(texts ...string) (out []plan.Assign) {
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		out = append(out, plan.Assign{Name: name, Text: value})
	}
	return out
}
