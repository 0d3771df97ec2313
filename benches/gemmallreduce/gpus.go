package gemmallreduce

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/cuda/overlap"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The axes and the option that only GPUs have.
const (
	providerAxis = "provider"
	methodAxis   = "method"
	pdlAxis      = "pdl"
	asideOption  = "aside"
)

// The methods: partitions on two streams, or one kernel that reduces its own tiles.
const (
	byStreams = "streams"
	oneKernel = "kernel"
)

// deviceShapes are products that take about as long as their all-reduce if two ranks share a GPU with
// 130 multiprocessors and 4 TB/s.
var deviceShapes = []string{"8192x8192x512", "8192x8192x1024", "8192x8192x2048"}

// gpuBackends returns the backends whose products are computed on GPUs.
func gpuBackends() []string {
	return dist.Backends(func(d dist.Description) bool { return d.Name == gpugemm.Backend })
}

// onDevices declares the axes and the option of GPUs, and their default shapes.
func onDevices() (out []bench.Clause) {
	for _, name := range gpuBackends() {
		out = append(out, bench.On(name, bench.Tuples(shapeAxis, deviceShapes...), bench.DTypes(dtypeAxis, "bf16")))
	}
	return append(out, bench.OnlyOn(gpuBackends(),
		bench.Strings(providerAxis, "builtin"),
		bench.Strings(methodAxis, byStreams),
		bench.Bools(pdlAxis, false),
		decl.Within(decl.AtLeast(0), bench.Option(asideOption, bench.KindInt, "0",
			"multiprocessors of a rank that are reserved for reductions while it multiplies; 0 selects an eighth of them"))),
		decl.OneOf(providerAxis, gpugemm.ProductProviders()...), decl.OneOf(methodAxis, byStreams, oneKernel))
}

// checkOnGPU returns an error if GPUs cannot run a point that has their axes.
func checkOnGPU(p point.Point, d dtype.DType) error {
	text := func(name string) string { v, _ := p.Get(name); return v.String() }
	shape, _ := p.Get(shapeAxis)
	provider, method := text(providerAxis), text(methodAxis)
	switch {
	case slices.Min(shape.Dims()) == 0:
		return fmt.Errorf("shape %v: want positive sizes, GPUs have no empty products", shape)
	case !slices.Contains(gpugemm.ProductTypes(provider), d):
		return fmt.Errorf("provider %s cannot multiply %v here, only %v", provider, d, gpugemm.ProductTypes(provider))
	case method != oneKernel:
		return nil
	case text(partitionsAxis) != auto:
		return fmt.Errorf("%s=%s has its own tiles as partitions: use %s=%s", methodAxis, oneKernel, partitionsAxis, auto)
	case text(splitAxis) != string(fused.SplitM) || text(overlapAxis) != "true" || text(pdlAxis) == "true" ||
		provider != "builtin":
		return fmt.Errorf("%s=%s requires %s=%s %s=true %s=false %s=builtin", methodAxis, oneKernel, splitAxis, fused.SplitM,
			overlapAxis, pdlAxis, providerAxis)
	}
	return nil
}

// eventPicoseconds is the resolution of a GPU's events.
const eventPicoseconds = 500_000

// runOnGPUs measures a point on GPUs.
func runOnGPUs(ctx context.Context, s *bench.State, plan fused.Plan) error {
	s.Phase("set-up")
	g, err := join(ctx, s)
	if err != nil {
		return collectives.JoinError(err)
	}
	defer g.Close()
	w := &gpuWork{s: s, group: g, plan: plan, seed: s.Seed()}
	w.rank, err = overlap.Open(g, overlap.Config{Provider: s.Str(providerAxis), DType: s.DType(dtypeAxis),
		Dependent: s.Bool(pdlAxis), SumMultiprocessors: s.Int(asideOption)})
	if missing, is := errors.AsType[*gemm.MissingError](err); is {
		return bench.NotExecuted(false, "%v", missing)
	}
	if err != nil {
		return err
	}
	defer w.rank.Close()
	w.describe()
	if err := w.prepare(ctx); err != nil {
		return err
	}
	s.SampleAtMost(s.Float(bench.SecondsOption))
	s.Refresh(func() error { return w.refresh(ctx) })
	s.Verify(w.verify)
	collectives.Observe(s, instrument.ObserverOf(g), "before")
	if err := s.Time(ctx, func() error { _, err := w.op.Run(); return err }, bench.Preamble(func() error {
		return w.preamble(ctx)
	}), collectives.SampleOnDevice(s, eventPicoseconds, w.sample)); err != nil {
		return err
	}
	collectives.Observe(s, instrument.ObserverOf(g), "after")
	return w.baselines.finish(ctx, s, w.reportedPlan)
}

// gpuWork is one rank's part of a point on GPUs.
type gpuWork struct {
	s     *bench.State
	group *dist.Group
	rank  *overlap.Rank
	plan  fused.Plan // with the number of partitions that C is verified in

	a, b  gemm.Matrix
	seed  uint64
	want  []int64 // product of C and a random vector; see expected
	fresh bool    // no call has used these operands yet

	op, whole    *overlap.Op
	reportedPlan fused.Plan // plan, with the number of tiles for one kernel
	baselines    baselines
}

// describe records the device of this rank.
func (w *gpuWork) describe() {
	sharing := w.group.Facts().RanksPerDevice
	w.s.Detail("engine", w.group.Facts().Library)
	w.s.Detail(journal.DeviceDetail, w.group.Facts().Device)
	if sharing < 2 {
		return
	}
	w.s.Detail(journal.SharingDetail, fmt.Sprint(sharing))
	w.s.Detail("multiprocessors", fmt.Sprintf("%d of each rank", w.rank.Multiprocessors()))
}

// prepare allocates operands and C, and prepares the operations: the point, its sequential baseline,
// and for auto all numbers of partitions to try.
func (w *gpuWork) prepare(ctx context.Context) error {
	p, one := w.plan, w.s.Str(methodAxis) == oneKernel
	counts := []int{1}
	switch {
	case one:
	case p.Partitions == 0:
		counts = fused.Candidates(p, dtype.F32.Size())
	case p.Partitions > 1:
		counts = append(counts, p.Partitions)
	}
	if err := w.rank.Alloc(p.M, p.N, p.K, slices.Max(counts)); err != nil {
		return err
	}
	w.s.Phase("fill")
	d := w.s.DType(dtypeAxis)
	w.a, w.b = gemm.New(d, p.M, p.K), gemm.New(d, p.N, p.K).T() // B is stored by columns, as on the GPU
	if err := w.refresh(ctx); err != nil {
		return err
	}
	var ops []*overlap.Op
	for _, n := range counts {
		op, err := w.prepareOp(n)
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	w.whole = ops[0]
	if one {
		return w.useOneKernel()
	}
	w.recordDetails(w.whole)
	chosen, err := len(counts)-1, error(nil)
	if p.Partitions == 0 {
		chosen, err = tune(ctx, w.s, counts, func(i int) (float64, error) { return ops[i].Run() })
	}
	w.use(counts[chosen], ops[chosen])
	return err
}

// prepareOp prepares the operation with C in this number of partitions. One partition is never
// overlapped.
func (w *gpuWork) prepareOp(partitions int) (*overlap.Op, error) {
	p := w.plan
	p.Partitions = partitions
	cut := overlap.Plan{Columns: p.Split == fused.SplitN, Overlap: p.Overlap && partitions > 1}
	cut.Ranges = lists.Map(p.Parts(), func(part fused.Part) overlap.Range {
		return overlap.Range{From: part.From, To: part.To}
	})
	return w.rank.Prepare(cut)
}

func (w *gpuWork) useOneKernel() error {
	op, err := w.rank.Prepare(overlap.Plan{OneKernel: true, Overlap: true})
	if err != nil {
		return err
	}
	w.use(1, op)
	w.reportedPlan.Partitions = op.Tiles()
	w.recordDetails(op)
	w.s.Detail("product_alone", w.whole.Details()["algorithm"])
	return nil
}

// recordDetails records the algorithms of an operation.
func (w *gpuWork) recordDetails(op *overlap.Op) {
	for name, text := range op.Details() {
		w.s.Detail(name, text)
	}
}

// use selects the operation of the point.
func (w *gpuWork) use(partitions int, op *overlap.Op) {
	w.plan.Partitions, w.op = partitions, op
	w.reportedPlan = w.plan
	var parts *operation
	if op != w.whole {
		parts = deviceOp(op)
	}
	w.baselines = newBaselines(deviceOp(w.whole), parts)
}

func deviceOp(o *overlap.Op) *operation {
	return &operation{run: o.Run, multiply: o.Multiply, reduce: o.Reduce}
}

// refresh generates operands that no call has used, and the expected result.
func (w *gpuWork) refresh(ctx context.Context) (err error) {
	w.seed += 1 << 10 // larger than the seeds of all ranks
	fused.Operands(w.a, w.b, w.s.Rank(), w.seed)
	if w.want, err = expected(ctx, w.s, w.plan, w.a, w.b, w.seed); err != nil {
		return err
	}
	w.fresh = true
	return w.rank.Load(w.a, w.b)
}

// preamble times a baseline before a call of the point. If the call will be verified, it then
// overwrites C, which may already hold the right result from the baseline.
func (w *gpuWork) preamble(ctx context.Context) error {
	if err := w.baselines.timeNext(ctx, w.s); err != nil || !w.fresh {
		return err
	}
	w.fresh = false
	if err := w.s.Barrier(ctx); err != nil { // no rank still reduces into C
		return err
	}
	return w.rank.Poison()
}

func (w *gpuWork) sample(calls int) (sum float64, err error) {
	for range calls {
		us, err := w.op.Run()
		if err != nil {
			return 0, err
		}
		sum += us
	}
	return sum, nil
}

func (w *gpuWork) verify() error {
	parts, err := w.op.Parts()
	if err != nil {
		return err
	}
	return w.plan.Verify(parts, w.want, w.seed)
}
