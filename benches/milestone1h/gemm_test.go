package milestone1h

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The default evaluation: every point runs and is correct, and every artifact is produced.
func TestWholeGEMMEvaluation(t *testing.T) {
	if testing.Short() {
		t.Skip("a point runs alone: the simulator's own tests show its races")
	}
	// In the point that is left out 128 PEs send 16,256 messages to each other. It takes as long as half of the others.
	rows := sweep(t, GEMM(), topo.Flits, "scaling_shape=512x512x512 split=k cubes_x_pes=16x8")
	if want := 24 + 34; len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	for _, r := range rows {
		if r.Kind != journal.Simulated || r.Samples != 1 || r.Metrics["wrong"] != 0 || !(r.Metrics["tflops"] > 0) {
			t.Errorf("%v: %s, %d samples, %v", r.Point, r.Kind, r.Samples, r.Metrics)
		}
		if u := r.Metrics["mac_utilization"]; !(u > 0 && u <= 100) {
			t.Errorf("%v: %v %% of the multiplications are of use", r.Point, u)
		}
	}
	rows = deriveSpeedup(dataset.All(rows)).Copy()
	files, err := written(t, GEMM(), rows)
	must.Do(t, err) // with an error if a file is missing
	for _, name := range []string{"figures/gemm_stage_breakdown.png", "figures/gemm_mac_utilization_measured.png",
		"figures/gemm_mac_utilization_theoretical_vs_measured.svg", "figures/gemm_scaling.svg", "index.html"} {
		if files[name] == "" {
			t.Errorf("%s was not made", name)
		}
	}
	if !strings.HasPrefix(files["gemm_scaling.csv"], "shape,split,cubes,pes_per_cube,total_pes,latency_ns,speedup,"+
		"mac_utilization,fabric,topology,topology_sha256\n512x512x512,m,1,1,1,") {
		t.Errorf("%.300s", files["gemm_scaling.csv"])
	}
	if sections := gemmSections(dataset.All(rows)); len(sections) != 2 || len(sections[1].Table) != 1+5 {
		t.Errorf("%+v", sections)
	}
	sweepFile(t, files["gemm_sweep.json"], dataset.All(rows).Good().Part(sweepPart))
	pipelines(t, dataset.All(rows).Good().Part(sweepPart))
	scaling(t, dataset.All(rows).Good().Part(scalingPart))
}

// sweepFile reads the exported JSON.
func sweepFile(t *testing.T, text string, rows dataset.Set) {
	var entries []map[string]any
	if err := json.Unmarshal([]byte(text), &entries); err != nil || len(entries) != len(rows) {
		t.Fatalf("%v: %d entries of %d rows", err, len(entries), len(rows))
	}
	e := entries[len(entries)-1]
	for _, key := range []string{"M", "K", "N", "variant", "tiles", "tile_fill", "pe_window_ns", "composite_window_ns",
		"engines", "stages"} {
		if _, has := e[key]; !has {
			t.Errorf("an entry has no %s: %v", key, e)
		}
	}
	if entries[0]["M"] != 32.0 || entries[0]["K"] != 32.0 || len(e["stages"].(map[string]any)) != 6 ||
		len(e["engines"].(map[string]any)) != 4 {
		t.Errorf("%v", e)
	}
}

// publishedTiles holds the published tile counts and fill factors.
var publishedTiles = map[string]struct {
	tiles int
	fill  float64
}{
	"32x32x32": {1, 0.5}, "32x64x32": {1, 1}, "32x128x32": {2, 1}, "32x128x128": {8, 1}, "32x3072x32": {48, 1},
	"8x128x128": {8, 0.25}, "128x8x128": {16, 0.125}, "512x512x512": {2048, 1},
}

// pipelines compares each product with the values that follow from its tiles.
func pipelines(t *testing.T, rows dataset.Set) {
	windows := map[string]float64{}
	for _, r := range rows {
		want := publishedTiles[dataset.Text(r, "shapes")]
		tiles, fill := int(r.Metrics["tiles"]), r.Metrics["tile_fill"]
		if tiles != want.tiles || fill != want.fill {
			t.Errorf("%v: %d tiles, %v filled; published %+v", r.Point, tiles, fill, want)
		}
		variant := kernels.Variant(dataset.Text(r, "variant"))
		if variant == kernels.LoadRef { // efficiency = tile_fill x tiles/(tiles+2)
			if ideal := 100 * fill * float64(tiles) / float64(tiles+
				2); math.Abs(r.Metrics["mac_utilization_theoretical"]-ideal) > 1e-9 {
				t.Errorf("%v: theoretical %v, published %v", r.Point, r.Metrics["mac_utilization_theoretical"], ideal)
			}
		}
		if r.Metrics["mac_utilization"] > r.Metrics["mac_utilization_theoretical"] {
			t.Errorf("%v: %v %% used, more than the ideal pipeline's %v", r.Point, r.Metrics["mac_utilization"],
				r.Metrics["mac_utilization_theoretical"])
		}
		var u usages
		must.Do(t, json.Unmarshal([]byte(r.Details[usageDetail]), &u))
		m, _, n, _ := machine.Product(mustValue(r, "shapes"))
		outputs := tl.Cdiv(m, 32) * tl.Cdiv(n, 32)
		reads := map[kernels.Variant]int{kernels.RefRef: 2 * tiles, kernels.LoadRef: tiles, kernels.LoadLoad: 0}[variant]
		for stage, records := range map[string]int{"DMA_READ": reads, "FETCH": tiles, "GEMM": tiles, "MATH": 0,
			"STORE": outputs, "DMA_WRITE": outputs} {
			if got := u.Stages[stage]; got.Records != records || got.Busy > got.Active+1e-9 ||
				got.Active > r.Metrics["composite_window_ns"]+1e-9 {
				t.Errorf("%v: %s %+v, want %d records within %v ns", r.Point, stage, got, records, r.Metrics["composite_window_ns"])
			}
		}
		loads := map[kernels.Variant]int{kernels.RefRef: 0, kernels.LoadRef: 1, kernels.LoadLoad: 2}[variant]
		if got := u.Engines["pe_dma"].Records; got != reads+outputs+loads {
			t.Errorf("%v: %d DMA records, want %d", r.Point, got, reads+outputs+loads)
		}
		if w := r.Metrics["composite_window_ns"]; w > r.Metrics["pe_window_ns"] ||
			variant == kernels.RefRef && w != r.Metrics["pe_window_ns"] {
			t.Errorf("%v: pipeline %v ns, all engines %v ns", r.Point, w, r.Metrics["pe_window_ns"])
		}
		if gemm := u.Stages["GEMM"].Busy; gemm != 16*float64(tiles) {
			t.Errorf("%v: %d tiles in %v ns", r.Point, tiles, gemm)
		}
		windows[dataset.Text(r, "shapes")+" "+string(variant)] = r.Metrics["composite_window_ns"]
	}
	for shape := range publishedTiles { // operands that are loaded up front are not read again
		if a, b, c := windows[shape+" ref_ref"], windows[shape+" load_ref"], windows[shape+" load_load"]; a < b || b < c {
			t.Errorf("%s: the pipeline takes %v, %v and %v ns with more and more loaded before", shape, a, b, c)
		}
	}
}

func mustValue(r *journal.Row, axis string) point.Value {
	return r.Point.At(axis)
}

// scaling checks the knees of the curves.
func scaling(t *testing.T, rows dataset.Set) {
	knees := map[string]int{}
	gain := map[string]float64{} // beyond 16 PEs
	for _, c := range curves(rows) {
		pes, _ := knee(c.Items)
		knees[c.Key] = int(pes)
		at16 := 0.0
		for _, r := range c.Items {
			speedup := r.Metrics["speedup"]
			if r.Metrics["total_pes"] == 16 {
				at16 = speedup
			}
			if at16 > 0 {
				gain[c.Key] = max(gain[c.Key], speedup/at16)
			}
			if pes := r.Metrics["total_pes"]; speedup > pes*1.0001 {
				t.Errorf("split %s: %v times faster on %v PEs", c.Key, speedup, pes)
			}
		}
	}
	// Along M there are 16 tiles, so more than 16 PEs gain only by loading less of A. Along N every PE first loads all
	// of A, which is worse. Split k has to add up partial sums. A single memory can feed only few PEs.
	if knees["m"] < 16 || gain["m"] > 1.1 || knees["n"] < 8 || knees["n"] > 32 || knees["k"] > 16 ||
		knees["m_once"] > 4 || knees["n_once"] > 8 {
		t.Errorf("used at least half up to %v PEs; beyond 16 they gain %v", knees, gain)
	}
}

func product(v kernels.Variant) productCase {
	m := topo.Default()
	return productCase{Matmul: kernels.Matmul{M: 64, K: 128, N: 64, Variant: v}, topo: m,
		system: accel.New(m, ccl.Default()), verify: true}
}

// The verification finds a planted error in every variant and split.
func TestPlantedErrorInProduct(t *testing.T) {
	for name, plant := range map[string]func(c *productCase){
		"ref_ref: A from elsewhere": func(c *productCase) {
			c.K = c.N // so that C is as large as A
			c.Corrupt = func(p *tl.PE, g *tl.Gemm) { g.A = tl.Ref(g.Out) }
		},
		"load_ref: B from elsewhere": func(c *productCase) {
			c.Variant, c.K = kernels.LoadRef, c.M
			c.Corrupt = func(p *tl.PE, g *tl.Gemm) { g.B = tl.Ref(g.Out) }
		},
		"load_load: A was never loaded": func(c *productCase) {
			c.Variant = kernels.LoadLoad
			c.Corrupt = func(p *tl.PE, g *tl.Gemm) { g.A = tl.Loaded(p.Scratch(64 * 128)) }
		},
		"the last of K is left out": func(c *productCase) { c.M = 1; c.Corrupt = func(p *tl.PE, g *tl.Gemm) { g.K -= 64 } },
		"a row is left out":         func(c *productCase) { c.Corrupt = func(p *tl.PE, g *tl.Gemm) { g.M-- } },
		"the epilogue is left out": func(c *productCase) {
			c.Epilogue = epilogues["bias"]
			c.Corrupt = func(p *tl.PE, g *tl.Gemm) { g.Epilogue = nil }
		},
		"half of it is left out": func(c *productCase) {
			c.Epilogue = epilogues["bias_max"]
			c.Corrupt = func(p *tl.PE, g *tl.Gemm) { g.Epilogue = g.Epilogue[:1] }
		},
		"split m: one PE does none": onOnePE(kernels.SplitM, false),
		"split n: one PE does none": onOnePE(kernels.SplitN, false),
		"split k: one PE does none": onOnePE(kernels.SplitK, false),
		"m_once: one PE does none":  onOnePE(kernels.SplitM, true),
		"n_once: one PE does none":  onOnePE(kernels.SplitN, true),
	} {
		t.Run(name, func(t *testing.T) {
			c := product(kernels.RefRef)
			plant(&c)
			_, err := c.run()
			if strings.Contains(name, "from elsewhere") { // the sanitizer finds it before there is a product
				if err == nil || !strings.Contains(err.Error(), "out overlaps") {
					t.Errorf("not found: %v", err)
				}
				return
			}
			var wrong *bench.Wrong
			if !errors.As(err, &wrong) || wrong.Count < 1 || !strings.Contains(wrong.Detail, "of the product is") {
				t.Errorf("not found: %v", err)
			}
			c.Corrupt = nil
			if _, err := c.run(); err != nil {
				t.Errorf("without the error: %v", err)
			}
		})
	}
}

// onOnePE divides a product among 2 x 4 PEs and lets the last one multiply zeros.
func onOnePE(split kernels.Split, once bool) func(*productCase) {
	return func(c *productCase) {
		c.Split, c.Once, c.Cubes, c.PEs = split, once, 2, 4
		c.Variant = kernels.LoadRef
		c.Corrupt = func(p *tl.PE, g *tl.Gemm) {
			if p.ID() == (topo.PEID{Cube: 1, PE: 3}) {
				g.A = tl.Loaded(p.Scratch(g.M * g.K))
			}
		}
	}
}

// Any single wrong element is found.
func TestWrongElement(t *testing.T) {
	c := product(kernels.RefRef)
	p := must.Get(c.Matmul.Run(c.system, c.operands()))(t)
	for _, bits := range []uint16{0x3c00, 0x7e00, 0x7c00, 0x0001, 0xfbff} {
		for _, at := range []int{0, 63, 64*64 - 1} {
			old := p.C[at]
			if p.C[at] = dtype.Float16(bits); p.C[at] == old {
				continue
			}
			var wrong *bench.Wrong
			if err := c.check(p.C); !errors.As(err, &wrong) || wrong.Count != 1 {
				t.Errorf("bits %#x at %d: %v", bits, at, err)
			}
			p.C[at] = old
		}
	}
	if err := c.check(p.C); err != nil {
		t.Error(err)
	}
}

// Invalid shapes are rejected with the reason.
func TestShapes(t *testing.T) {
	for text, want := range map[string]string{"64": "", "64x32x16": "", "64x32": "want MxKxN"} {
		v, err := point.Parse(point.Tuple, text)
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = machine.Product(v)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
