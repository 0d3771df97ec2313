package milestone1h

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/machine"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/point"
)

// The two parts of the evaluation of products.
const (
	sweepPart   = "sweep"
	scalingPart = "scaling"
)

// shapes are the published ones, M x K x N: tiles filled exactly, too little along
// K or M, deep, and large.
var shapes = []string{"32x32x32", "32x64x32", "32x128x32", "32x128x128", "32x3072x32", "8x128x128", "128x8x128",
	"512x512x512"}

// The epilogues, and what they are for the MATH engine.
var epilogues = map[string][]tl.Fn{"none": nil, "bias": {tl.Add}, "bias_max": {tl.Add, tl.Maximum}}

// GEMM declares milestone-1h-gemm.
func GEMM() *bench.Bench {
	common := []bench.Clause{bench.Timeout(2 * time.Minute), bench.Metric("crit_ns", "ns", "lower"),
		bench.Metric("mac_utilization", "%", "higher")}
	single := append([]bench.Clause{}, common...)
	single = append(single, bench.Metric("pe_window_ns", "ns", "lower"),
		bench.Metric("composite_window_ns", "ns", "lower"))
	for _, s := range stages() {
		single = append(single, bench.Metric(busyName(s), "ns", "lower"))
	}
	return bench.Suite("milestone-1h-gemm",
		bench.Help("matrix products on the simulated accelerator: the tile pipeline of a PE, and where more PEs stop helping"),
		bench.Doc(`Simulates products of f16 matrices on the AHBM accelerator and draws every figure
of the evaluation. Shapes are MxKxN here, as they were published; one number means
a cube.

sweep runs a composite product on one PE: tiles of 32x64x32 pass DMA read, fetch,
GEMM, epilogue, store and DMA write. variant says which operands are loaded before
(ref_ref none, load_ref A, load_load both). pe_window_ns is the time from the first
record of any engine to the last, composite_window_ns only of the pipeline's stages,
so without loading up front; mac_utilization is the share of the GEMM engine's
multiplications in that window that were useful. Each row's details have busy and
active time and records of every engine and stage.

scaling divides one product among more and more PEs, first of one cube and then of
more cubes, along M, N or K. Each PE has its own copy of the matrix that is not
split; with m_once and n_once all read it in the memory of the first.

Every element of every product is compared with the exact one unless
--verify-data=false.

  kernbench run --bench milestone-1h-gemm --only 'part=="sweep"' --shapes 256,64x1024x64
  kernbench run --bench milestone-1h-gemm --topology built-in,my.yaml   # bars and curves of both, in one figure`),
		bench.Version(accel.Version()),
		bench.Backends(ahbm.Name),
		bench.Out("benches/1H_milestone_output/gemm"),
		topologyFiles(),
		bench.FileOption("ccl", accel.CCLFile(), "collectives file (default: ccl.yaml here, else built in)"),
		bench.Choice("fabric", "how messages move: as the topology says, in flits, or whole", asTopology, string(topo.Flits), string(topo.Whole)),
		bench.Choice("epilogue", "what the MATH engine does to the results of the sweep: nothing, add a row, or also take "+
			"the larger of the two",
			"none", "bias", "bias_max"),
		bench.Option("verify-data", bench.KindBool, "true",
			"compute the data and compare every element with the exact product"),
		traceOption(),
		bench.Part(sweepPart, productBody(sweepCase), append(single,
			bench.Help("stages of the pipeline by shape and variant, on one PE"),
			bench.Tuples("shapes", shapes...),
			bench.Strings("variant", kernels.Variants()...), bench.Refuse(mistake))...),
		bench.Part(scalingPart, productBody(scalingCase), append(common,
			bench.Help("one product on more and more PEs"),
			bench.Tuples("scaling_shape", "512x512x512"),
			bench.Strings("split", splits()...),
			bench.Tuples("cubes_x_pes", "1x1", "1x2", "1x4", "1x8", "2x8", "4x8", "16x8"), bench.Refuse(mistake))...),
		bench.Figures(gemmFigures),
		bench.Sections(gemmSections),
		bench.Exports(gemmExports),
		bench.Artifacts(gemmArtifacts),
	)
}

// onceSuffix marks a split whose other operand is in the memory of one PE.
const onceSuffix = "_once"

// splits are the values of the axis split. Along K both operands are split.
func splits() []string {
	return append(kernels.Splits(), string(kernels.SplitM)+onceSuffix, string(kernels.SplitN)+onceSuffix)
}

// productCase is one product of the evaluation.
type productCase struct {
	kernels.Matmul
	topo   *topo.Topology
	system *accel.System
	verify bool
}

// productBody simulates one point, which the part describes.
func productBody(describe func(*bench.State) (kernels.Matmul, error)) bench.Body {
	return func(ctx context.Context, s *bench.State) error {
		on, err := files(s)
		if err != nil {
			return err
		}
		m, err := describe(s)
		if err != nil {
			return err
		}
		c := productCase{Matmul: m, topo: on.topo, system: accel.New(on.topo, on.ccl), verify: s.Bool("verify-data")}
		c.system.TimingOnly, c.system.Trace = !c.verify, s.Str("trace") != ""
		s.UseClock(c.system.Clock())
		s.Flops(2 * float64(m.M) * float64(m.K) * float64(m.N))
		var result *sim.Result
		err = s.Time(ctx, func() (err error) {
			result, err = c.run()
			return err
		})
		if err != nil {
			return err
		}
		if err := c.report(s, result); err != nil {
			return err
		}
		return writeTrace(s, result)
	}
}

func sweepCase(s *bench.State) (kernels.Matmul, error) {
	m, k, n, err := machine.Product(s.Value("shapes"))
	return kernels.Matmul{M: m, K: k, N: n, Variant: kernels.Variant(s.Str("variant")),
		Epilogue: epilogues[s.Str("epilogue")]}, err
}

// scalingCase streams B and loads A before, as the published figures do.
func scalingCase(s *bench.State) (kernels.Matmul, error) {
	m, k, n, err := machine.Product(s.Value("scaling_shape"))
	cubes, pes := workers(s.Value("cubes_x_pes"))
	if err == nil && cubes*pes < 1 {
		err = fmt.Errorf("cubes_x_pes %v: want the number of cubes and of PEs in each", s.Value("cubes_x_pes"))
	}
	split, once := strings.CutSuffix(s.Str("split"), onceSuffix)
	return kernels.Matmul{M: m, K: k, N: n, Variant: kernels.LoadRef, Cubes: cubes, PEs: pes, Split: kernels.Split(split),
		Once: once}, err
}

func workers(v point.Value) (cubes, pes int) {
	if d := v.Dims(); len(d) == 2 {
		return int(d[0]), int(d[1])
	}
	return 0, 0
}

// stages lists the stages of the pipeline, in its order.
func stages() []sim.Activity {
	return []sim.Activity{sim.DMARead, sim.Fetch, sim.Gemm, sim.Math, sim.Store, sim.DMAWrite}
}

// busyName is the metric of a stage's busy time.
func busyName(a sim.Activity) string { return strings.ToLower(a.String()) + "_ns" }

// usage is what an engine or stage did, as it is stored.
type usage struct {
	Busy    float64 `json:"busy_ns"`   // sum of the durations
	Active  float64 `json:"active_ns"` // from the start of the first to the end of the last
	Records int     `json:"records"`
}

func usageOf(u sim.Usage) usage {
	return usage{u.Busy.Nanoseconds(), u.Active().Nanoseconds(), u.Count}
}

// usages are all of a PE's, by name.
type usages struct {
	Engines map[string]usage `json:"engines"`
	Stages  map[string]usage `json:"stages"`
}

// usageDetail is the row's detail that holds usages as JSON.
const usageDetail = "usage"

func (c productCase) report(s *bench.State, r *sim.Result) error {
	if c.verify {
		s.Record("wrong", 0) // or run had failed
	}
	g := program.Gemm{M: c.M, K: c.K, N: c.N}
	tile := program.TileOf(c.topo)
	s.Record("crit_ns", r.Crit.Nanoseconds())
	macs := func(window float64, pes int) float64 {
		perTile := float64(tile.M) * float64(tile.K) * float64(tile.N)
		return 100 * float64(c.M) * float64(c.K) * float64(c.N) / perTile * c.topo.PE.TileCost.Nanoseconds() / (window * float64(pes))
	}
	if c.Cubes > 0 { // of all PEs, sums included
		s.Report("total_pes", float64(len(r.Exec)), "", "")
		s.Record("mac_utilization", macs(r.Crit.Nanoseconds(), len(r.Exec)))
		return nil
	}
	u := &r.Usage[0]
	all := u.Of(func(sim.Activity) bool { return true })
	composite := u.Of(sim.Activity.Stage)
	s.Record("pe_window_ns", all.Active().Nanoseconds())
	s.Record("composite_window_ns", composite.Active().Nanoseconds())
	s.Report("tiles", float64(g.Tiles(tile)), "", "")
	s.Report("tile_fill", g.Fill(tile), "", "")
	s.Record("mac_utilization", macs(composite.Active().Nanoseconds(), 1))
	s.Report("mac_utilization_theoretical", 100*kernels.Ideal(c.topo, c.Matmul).Utilization(), "%", "")
	stored := usages{map[string]usage{}, map[string]usage{}}
	for _, stage := range stages() {
		s.Record(busyName(stage), u[stage].Busy.Nanoseconds())
		stored.Stages[stage.String()] = usageOf(u[stage])
	}
	for _, name := range sim.Engines() {
		stored.Engines[name] = usageOf(u.Of(func(a sim.Activity) bool { return a.Engine() == name }))
	}
	text, err := json.Marshal(stored)
	s.Detail(usageDetail, string(text))
	return err
}
