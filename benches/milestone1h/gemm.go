package milestone1h

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
)

// The parts of the evaluation of products.
const (
	sweepPart   = "sweep"
	scalingPart = "scaling"
)

// shapes holds the published shapes, M x K x N: tiles filled exactly, tiles too small along K or M, deep products
// and a large one.
var shapes = []string{"32x32x32", "32x64x32", "32x128x32", "32x128x128", "32x3072x32", "8x128x128", "128x8x128",
	"512x512x512"}

// epilogues holds the functions of the MATH engine for each epilogue.
var epilogues = map[string][]tl.Fn{"none": nil, "bias": {tl.Add}, "bias_max": {tl.Add, tl.Maximum}}

// GEMM declares milestone-1h-gemm.
func GEMM() *bench.Bench {
	common := []bench.Clause{bench.Timeout(2 * time.Minute),
		bench.Metric("crit_ns", "ns", "lower", "time of the slowest PE from the common start"),
		bench.Metric("mac_utilization", "%", "higher", "share of the GEMM engine's possible multiplications"),
		bench.Headline("time_us", "mac_utilization=MAC utilization (%)")}
	single := append(slices.Clip(common),
		bench.Metric("pe_window_ns", "ns", "lower", "from the first record of any engine to the last"),
		bench.Metric("composite_window_ns", "ns", "lower", "the same for the stages of the composite only"),
		bench.Reports("tiles", "", "tiles of the product"),
		bench.Reports("tile_fill", "", "share of the tiles that is used"),
		bench.Reports("mac_utilization_theoretical", "%", "utilization of the ideal pipeline"))
	for _, s := range stages() {
		single = append(single, bench.Metric(busyName(s), "ns", "lower", "sum of the times in which the stage was busy"))
	}
	return bench.Suite("milestone-1h-gemm", slices.Concat(append(machine.AcceleratorOptions(), decl.RenderVar(fastVar),
		bench.Help("matrix products on the simulated accelerator: the tile pipeline of a PE, and where more PEs stop "+
			"helping"),
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
		bench.Choice("epilogue", "what the MATH engine does to the results of the sweep: nothing, add a row, or also take "+
			"the larger of the two",
			"none", "bias", "bias_max"),
		bench.Option("verify-data", bench.KindBool, "true",
			"compute the data and compare every element with the exact product"),
		traceOption,
		bench.Part(sweepPart, productBody(sweepCase), append(single,
			bench.Help("stages of the pipeline by shape and variant, on one PE"),
			bench.Tuples("shapes", shapes...),
			bench.Strings("variant", kernels.Variants()...), bench.Refuse(validate))...),
		bench.Part(scalingPart, productBody(scalingCase), append(slices.Clip(common),
			bench.Help("one product on more and more PEs"),
			bench.Reports("total_pes", "", "PEs that share the product"),
			bench.Metric("speedup", "", "higher", "times faster than one PE, extrapolated from the fewest PEs"),
			bench.Tuples("scaling_shape", "512x512x512"),
			bench.Strings("split", splits()...),
			bench.Tuples("cubes_x_pes", "1x1", "1x2", "1x4", "1x8", "2x8", "4x8", "16x8"), bench.Refuse(validate))...),
	), gemmViews())...)
}

// onceSuffix marks a split for which the operand that is not split is in the memory of one PE only.
const onceSuffix = "_once"

// splits returns the values of the axis split. Split k has no _once, because it splits both operands.
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

// productBody returns the body of a part. describe returns the product of a point.
func productBody(describe func(*bench.State) (kernels.Matmul, error)) bench.Body {
	return func(ctx context.Context, s *bench.State) error {
		on, err := machine.ReadAccelerator(s)
		if err != nil {
			return err
		}
		m, err := describe(s)
		if err != nil {
			return err
		}
		c := productCase{Matmul: m, topo: on.Topo, system: accel.New(on.Topo, on.CCL), verify: s.Bool("verify-data")}
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

// scalingCase loads A up front and streams B, as in the published figures.
func scalingCase(s *bench.State) (kernels.Matmul, error) {
	m, k, n, err := machine.Product(s.Value("scaling_shape"))
	workers := s.Value("cubes_x_pes").Dims()
	if err == nil && (len(workers) != 2 || workers[0]*workers[1] < 1) {
		err = fmt.Errorf("cubes_x_pes %v: want the number of cubes and of PEs in each", s.Value("cubes_x_pes"))
	}
	if err != nil {
		return kernels.Matmul{}, err
	}
	split, once := strings.CutSuffix(s.Str("split"), onceSuffix)
	return kernels.Matmul{M: m, K: k, N: n, Variant: kernels.LoadRef, Cubes: int(workers[0]), PEs: int(workers[1]),
		Split: kernels.Split(split), Once: once}, nil
}

// stages returns the stages of the pipeline in order.
func stages() []sim.Activity {
	return []sim.Activity{sim.DMARead, sim.Fetch, sim.Gemm, sim.Math, sim.Store, sim.DMAWrite}
}

// busyName returns the name of the metric for a stage's busy time.
func busyName(a sim.Activity) string { return strings.ToLower(a.String()) + "_ns" }

// usage is the stored form of sim.Usage.
type usage struct {
	Busy    float64 `json:"busy_ns"`   // sum of the durations
	Active  float64 `json:"active_ns"` // from the start of the first to the end of the last
	Records int     `json:"records"`
}

func usageOf(u sim.Usage) usage {
	return usage{u.Busy.Nanoseconds(), u.Active().Nanoseconds(), u.Count}
}

// usages holds the usage of a PE's engines and stages by name.
type usages struct {
	Engines map[string]usage `json:"engines"`
	Stages  map[string]usage `json:"stages"`
}

// usageDetail is the detail of a row that has its usages as JSON.
const usageDetail = "usage"

// report records the metrics of a product: times, the utilisation of the GEMM engine, and the use of all engines.
func (c productCase) report(s *bench.State, r *sim.Result) error {
	if c.verify {
		s.Record("wrong", 0) // otherwise run would have failed
	}
	g := program.Gemm{M: c.M, K: c.K, N: c.N}
	tile := program.TileOf(c.topo)
	s.Record("crit_ns", r.Crit.Nanoseconds())
	macs := func(window float64, pes int) float64 {
		perTile := float64(tile.M) * float64(tile.K) * float64(tile.N)
		useful := float64(c.M) * float64(c.K) * float64(c.N) / perTile * c.topo.PE.TileCost.Nanoseconds()
		return 100 * useful / (window * float64(pes))
	}
	if c.Cubes > 0 { // scaling: over all PEs, including the final sums
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

// Elements of operands are -1, 0 or 1, hashed from their position; the epilogue's row has whole numbers up to 8.
// Sums are exact in f32 for every K. Results grow with the square root of K and are exact in f16 up to 2048,
// enough for every K in use. A larger result is an error.

const exactF16 = 2048

// entry returns element i of A (0) or B (1).
func entry(matrix, i int) int { return input(matrix, 0, i, 2) - 1 }

// rowEntry returns element i of the epilogue's row.
func rowEntry(i int) int { return input(2, 0, i, 16) - 8 }

func cells(n int, value func(i int) int) []dtype.Float16 {
	out := make([]dtype.Float16, n)
	for i := range out {
		out[i] = dtype.Float16From(float32(value(i)))
	}
	return out
}

func (c productCase) operands() kernels.Operands {
	element := func(matrix int) func(int) int { return func(i int) int { return entry(matrix, i) } }
	return kernels.Operands{A: cells(c.M*c.K, element(0)), B: cells(c.K*c.N, element(1)), Row: cells(c.N, rowEntry)}
}

// run computes the product once and verifies all of it.
func (c productCase) run() (*sim.Result, error) {
	var in kernels.Operands
	if c.verify {
		in = c.operands()
	}
	p, err := c.Matmul.Run(c.system, in)
	if err != nil {
		return nil, err
	}
	if c.verify {
		if err := c.check(p.C); err != nil {
			return nil, err
		}
	}
	return p.Result, nil
}

// exactProducts caches A x B by shape, because the variants and splits of a sweep share it.
var exactProducts sync.Map // of [3]int to []int32

// exactProduct returns A x B in integers, row by row.
func (c productCase) exactProduct() []int32 {
	shape := [3]int{c.M, c.K, c.N}
	if known, ok := exactProducts.Load(shape); ok {
		return known.([]int32)
	}
	b := make([]int32, c.K*c.N)
	for i := range b {
		b[i] = int32(entry(1, i))
	}
	out := make([]int32, c.M*c.N)
	for i := range c.M * c.K {
		a, row := int32(entry(0, i)), out[i/c.K*c.N:][:c.N]
		for n, v := range b[i%c.K*c.N:][:c.N] {
			row[n] += a * v
		}
	}
	exactProducts.Store(shape, out)
	return out
}

// check compares every element of the result with the exact one.
func (c productCase) check(got []dtype.Float16) error {
	var wrong bench.Wrong
	for i, sum := range c.exactProduct() {
		m, n := i/c.N, i%c.N
		want := c.finish(int(sum), rowEntry(n))
		if want > exactF16 || want < -exactF16 {
			return fmt.Errorf("element %d,%d of the product is %d, which f16 cannot hold exactly: K = %d is too large to "+
				"verify", m, n, want, c.K)
		}
		if have := got[i].Float32(); have != float32(want) {
			wrong.Note("element %d,%d of the product is %v, want %d", m, n, have, want)
		}
	}
	return wrong.Err()
}

// finish applies the epilogue in integers.
func (c productCase) finish(sum, row int) int {
	for _, fn := range c.Epilogue {
		switch fn {
		case tl.Add:
			sum += row
		case tl.Maximum:
			sum = max(sum, row)
		}
	}
	return sum
}
