package milestone1h

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// The parts of the evaluations, as conditions of their views.
const (
	ofLatency = `part=="` + latencyPart + `"`
	ofBuffers = `part=="` + bufferPart + `"`
	ofSweep   = `part=="` + sweepPart + `"`
	ofScaling = `part=="` + scalingPart + `"`
)

// cclViews declares the figures and tables of the all-reduce with their published names and columns.
func cclViews() []bench.Clause {
	byBytes := func(keys string, words ...bench.ViewText) bench.Clause {
		return bench.Plot("x=2*n_elem,"+keys, append(words, bench.Label("x", "bytes per PE", string(figure.Bytes)),
			bench.Label("root", "root in the {}"), bench.Label("bandwidth", "links alone (bound)"))...)
	}
	latency := []bench.ViewText{bench.Named("latency_{" + sipsAxis + "}"),
		bench.Title("All-reduce over {n_sips} SIPs, {" + sipsAxis + "} (simulated)")}
	stack := slices.Concat(latency, []bench.ViewText{bench.Label("panel", "where the time goes"),
		bench.Label("y", "share of the critical path")})
	for _, part := range parts(sim.Breakdown{}) {
		stack = append(stack, bench.Label(part.name, part.label))
	}
	slowest := bench.Label("y", "time of the slowest PE", "us")
	where := []string{"fabric=detail.fabric", "topology=detail.topology", "topology_sha256=detail.topology_sha256",
		"root=detail.root"}
	return []bench.Clause{
		decl.Figures(topologyFigures),
		byBytes("y=time_us,yscale=log,columns=2,where="+ofLatency, append(latency, slowest, bench.Label("panel", "latency"),
			bench.Label("time_us", "simulated"))...),
		byBytes("y=time_us,over=first,where="+ofLatency, append(latency, bench.Label("y", "ratio"),
			bench.Label("panel", "latency over that on {first}"))...),
		byBytes("y="+strings.Join(lists.Map(parts(sim.Breakdown{}), breakdownPart.metric), "+")+
			",share=crit_ns,kind=stack,where="+ofLatency, stack...),
		byBytes("y=time_us,yscale=log,limit=none,by=buffer_kind,where="+ofBuffers, bench.Named("buffer_kind"), slowest,
			bench.Title("All-reduce by where receive slots lie, {"+machine.Kind+"} of {n_sips} SIPs (simulated)")),
		byBytes("y=time_us,limit=none,by="+sipsAxis+",where="+ofLatency, bench.Named("comparison_fsim"),
			bench.Title("Simulated, estimated and reference all-reduce"), bench.Label("y", "latency", "us"),
			bench.Label(sipsAxis, "simulated, {}"), func(w *views.Words) { w.Finish = addReference }),
		bench.Sections(sections),
		bench.TableFile("summary.csv", ofLatency, append([]string{"algorithm", "sip_topology=detail.sip_topology", "n_sips",
			"n_elem", "bytes_per_pe=2*n_elem", "bytes_per_sip=2*n_elem*cubes", "latency_ns=crit_ns %.3f"}, where...)...),
		bench.TableFile("buffer_kind_sweep.csv", ofBuffers, append([]string{"buffer_kind", "sip_topology=detail.sip_topology",
			"n_sips", "n_elem", "bytes_per_pe=2*n_elem", "latency_ns=crit_ns %.3f"}, where...)...),
		bench.Page("index.html", "All-reduce on the simulated accelerator",
			"The data were computed, and every cube compared with the exact sum, unless --verify-data=false."),
	}
}

// fsim is the data of the external simulator, one device.
var fsim = figure.Point{X: 98304, Y: 366}

// addReference adds a manual estimate (1346 ns plus 1.20 ns for each packet of 128 bits) and the external reference to
// the curves. The reference is so much slower that the axis is broken.
func addReference(f *figure.Figure, _ dataset.Set) {
	p := &f.Panels[0]
	estimate := figure.Series{Name: "theoretical (estimate)", Dashed: true, NoMarker: true}
	for _, at := range p.Series[0].Points {
		estimate.Points = append(estimate.Points, figure.Point{X: at.X, Y: (1346 + 1.20*at.X*8/128) / 1e3})
	}
	p.Series = append(p.Series, estimate)
	var highest float64
	for _, s := range p.Series {
		for _, at := range s.Points {
			highest = max(highest, at.Y)
		}
	}
	p.Y.Scale, p.Y.Min, p.Legend = figure.Linear, new(float64), ""
	p.Series = append(p.Series, figure.Series{Name: "FSIM, one device (reference)", Kind: figure.Scatter,
		Points: []figure.Point{fsim}})
	if from, to := 1.15*highest, 0.97*fsim.Y; from < to {
		p.Y.Break = &[2]float64{from, to}
	}
}

// longest returns the metric with the largest share of the total, as NAME (SHARE %).
func longest(r *journal.Row, total string, metrics, names []string) string {
	at := 0
	for i, m := range metrics {
		if r.Metrics[m] > r.Metrics[metrics[at]] {
			at = i
		}
	}
	return fmt.Sprintf("%s (%.0f %%)", names[at], 100*r.Metrics[metrics[at]]/r.Metrics[total])
}

// sections shows the largest vector for each SIP topology and machine.
func sections(rows dataset.Set) []bench.Section {
	table := [][]string{{"SIPs", "bytes per PE", "latency", "bandwidth bound", "largest part"}}
	metrics := lists.Map(parts(sim.Breakdown{}), breakdownPart.metric)
	names := lists.Map(parts(sim.Breakdown{}), func(p breakdownPart) string { return p.label })
	rows = rows.Good().Part(latencyPart).At("algorithm", ccl.LRAB)
	for _, g := range byMachine(rows, sipsAxis, "n_elem") {
		r := g.Items[len(g.Items)-1]
		table = append(table, []string{g.Key, unit.FormatBytes(2 * r.Point.At("n_elem").Int()),
			fmt.Sprintf("%.2f µs", r.Metrics["crit_ns"]/1e3), fmt.Sprintf("%.2f µs", r.Limits["bandwidth"]),
			longest(r, "crit_ns", metrics, names)})
	}
	if len(rows) == 0 {
		return nil
	}
	return []bench.Section{{Title: "The largest vectors", Table: table,
		Text: "Latency is the time of the slowest PE from the common start. The bandwidth bound is the time that the bytes " +
			"need on the links of the critical path; the rest is latency, slot access and compute."}}
}

// gemmViews declares the figures and tables of the products with their published names and columns.
func gemmViews() []bench.Clause {
	use := bench.Label("y", "useful multiplications", "%")
	byShape := func(keys string, words ...bench.ViewText) bench.Clause {
		return bench.Plot("x=shapes,kind=bars,"+keys, append(words, bench.Label("x", "M x K x N"))...)
	}
	stageWords := []bench.ViewText{bench.Named("gemm_stage_breakdown"), bench.Label("y", "busy"),
		bench.Title("How busy each stage of the tile pipeline is (simulated)"),
		bench.Caption("Busy time of the stage as a share of the time from the pipeline's first record to its last. Loading " +
			"operands up front comes before it and is not in it.")}
	for _, s := range stages() {
		stageWords = append(stageWords, bench.Label(busyName(s), s.String()))
	}
	byPEs := func(keys, panel string, words ...bench.ViewText) bench.Clause {
		return bench.Plot("x=total_pes,by=split,xscale=log,where="+ofScaling+","+keys, append(words,
			bench.Named("gemm_scaling"), bench.Label("panel", panel), bench.Label("x", "PEs"), bench.Label("split", "split {}"),
			bench.Title("One product of {scaling_shape} on more PEs (simulated)"),
			bench.Caption("Up to 8 PEs of one cube, then 8 PEs in each of several cubes. Splits m and n divide the rows and "+
				"columns of the result. Split k divides the inner dimension, and the PEs add up their partial sums afterwards. "+
				"Every PE has its own copy of the operand that is not split; with _once all PEs read it from the memory of one "+
				"PE."))...)
	}
	where := []string{"fabric=detail.fabric", "topology=detail.topology", "topology_sha256=detail.topology_sha256"}
	return []bench.Clause{
		byShape("y="+strings.Join(lists.Map(stages(), busyName), "+")+
			",share=composite_window_ns,panel=variant,columns=1,where="+ofSweep, stageWords...),
		byShape("y=mac_utilization,by=variant,where="+ofSweep, bench.Named("gemm_mac_utilization_measured"), use,
			bench.Title("Use of the GEMM engine in the pipeline, as simulated")),
		byShape("y=mac_utilization_theoretical+mac_utilization,where="+ofSweep+` && variant=="load_ref"`,
			bench.Named("gemm_mac_utilization_theoretical_vs_measured"), use, bench.Label("mac_utilization", "simulated"),
			bench.Label("mac_utilization_theoretical", "theoretical"),
			bench.Title("Use of the GEMM engine: ideal pipeline and simulation, {variant}"),
			bench.Caption("In the ideal pipeline (theoretical) all stages work at the same time, each as long as the slowest; "+
				"its numbers follow from the topology file. The simulation is slower mainly because the DMA channel is "+
				"occupied during the round trip of each read to the HBM.")),
		byPEs("y=speedup,yscale=log,ideal=x,columns=2", "speed-up", bench.Label("y", "times faster than 1 PE")),
		byPEs("y=mac_utilization", "use of the GEMM engines", use),
		bench.Derive(deriveSpeedup),
		bench.Sections(gemmSections),
		bench.TableFile("gemm_sweep.json", ofSweep, append(append([]string{"M=shapes.0", "K=shapes.1", "N=shapes.2",
			"variant", "tiles", "tile_fill=tile_fill %.4g", "pe_window_ns=pe_window_ns %.3f",
			"composite_window_ns=composite_window_ns %.3f", "mac_utilization=mac_utilization/100 %.4f",
			"mac_utilization_theoretical=mac_utilization_theoretical/100 %.4f"}, where...), "*=detail."+usageDetail)...),
		bench.TableFile("gemm_scaling.csv", ofScaling, append([]string{"shape=scaling_shape", "split", "cubes=cubes_x_pes.0",
			"pes_per_cube=cubes_x_pes.1", "total_pes", "latency_ns=crit_ns %.3f", "speedup=speedup %.3f",
			"mac_utilization=mac_utilization/100 %.4f"}, where...)...),
		bench.Page("index.html", "Matrix products on the simulated accelerator",
			"The data were computed, and every element compared with the exact product, unless --verify-data=false."),
	}
}

// byMachine groups rows by the value of an axis and by all else in which they differ, except the ignored coordinates.
func byMachine(rows dataset.Set, axis string, ignore ...string) []lists.Group[string, dataset.Set] {
	on := machine.Names(rows, append(ignore, axis)...)
	return lists.GroupBy(rows, func(r *journal.Row) string {
		return strings.Join(lists.NonEmpty(dataset.Text(r, axis), on(r)), ", ")
	})
}

// curves returns the good rows of each split on each machine, by number of PEs.
func curves(rows dataset.Set) []lists.Group[string, dataset.Set] {
	return byMachine(rows.Good().Part(scalingPart), "split", "cubes_x_pes")
}

// deriveSpeedup adds the speed-up over one PE, extrapolated from the first row of the curve, which has the fewest PEs.
func deriveSpeedup(rows dataset.Set) dataset.Set {
	rows = rows.Clone()
	for _, c := range curves(rows) {
		one := c.Items[0].Metrics["total_pes"] * c.Items[0].Metrics["crit_ns"]
		for _, r := range c.Items {
			r.Metrics = maps.Clone(r.Metrics)
			r.Metrics["speedup"] = one / r.Metrics["crit_ns"]
		}
	}
	return rows
}

// knee returns the largest number of PEs with an efficiency of at least half, and the fastest row.
func knee(curve dataset.Set) (pes float64, best *journal.Row) {
	best = curve[0]
	for _, r := range curve {
		if n := r.Metrics["total_pes"]; r.Metrics["speedup"] >= n/2 {
			pes = max(pes, n)
		}
		if r.Metrics["crit_ns"] < best.Metrics["crit_ns"] {
			best = r
		}
	}
	return pes, best
}

// gemmSections summarizes the figures.
func gemmSections(rows dataset.Set) []bench.Section {
	var out []bench.Section
	if sweep := rows.Good().Part(sweepPart); len(sweep) > 0 {
		table := [][]string{{"M x K x N", "tiles", "filled", "variant", "pipeline", "used", "ideal", "busiest stage"}}
		on := machine.Names(sweep, "shapes", "variant")
		for _, r := range sweep {
			table = append(table, []string{dataset.Text(r, "shapes"), strconv.Itoa(int(r.Metrics["tiles"])),
				fmt.Sprintf("%.4g", r.Metrics["tile_fill"]), strings.Join(lists.NonEmpty(dataset.Text(r, "variant"), on(r)), ", "),
				fmt.Sprintf("%.0f ns", r.Metrics["composite_window_ns"]), fmt.Sprintf("%.1f %%", r.Metrics["mac_utilization"]),
				fmt.Sprintf("%.1f %%", r.Metrics["mac_utilization_theoretical"]),
				longest(r, "composite_window_ns", lists.Map(stages(), busyName), lists.Map(stages(), sim.Activity.String))})
		}
		out = append(out, bench.Section{Title: "The pipeline by shape", Table: table,
			Text: "Used is the useful share of the GEMM engine's multiplications in the window of the pipeline; ideal is " +
				"the share that a pipeline without latencies would reach with the same tiles."})
	}
	table := [][]string{{"split", "used at least half up to", "fastest with", "time", "times faster"}}
	for _, c := range curves(rows) {
		pes, best := knee(c.Items)
		table = append(table, []string{c.Key, fmt.Sprintf("%.0f PEs", pes),
			fmt.Sprintf("%.0f PEs", best.Metrics["total_pes"]), fmt.Sprintf("%.2f µs", best.Metrics["crit_ns"]/1e3),
			fmt.Sprintf("%.1f", math.Round(10*best.Metrics["speedup"])/10)})
	}
	if len(table) > 1 {
		out = append(out, bench.Section{Title: "Where more PEs stop helping", Table: table,
			Text: "A product stops scaling when its parts no longer fill the tiles (splits m and n), when adding up partial " +
				"sums takes longer than multiplying (k), or when all PEs read from one memory (m_once, n_once)."})
	}
	return out
}
