// Package gemm is the bench `gemm`. It measures matrix multiplication on the cores or the GPU of this host, by shape,
// element type, implementation and number of threads, and compares the rate with the peak of the arithmetic units.
package gemm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	_ "github.com/kernbench/kernbench/internal/kernel/gpugemm" // registers the GPU providers
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// Bench declares the bench.
func Bench() *bench.Bench {
	cfg := bench.DefaultMeasure()
	cfg.Stop.MinSamples = 5 // a large product takes a second
	cfg.Stop.MaxTime = 2 * time.Second
	return bench.New("gemm", body, append([]bench.Clause{
		bench.Help("matrix multiplication on this host's cores or its GPU by shape, element type, provider and threads"),
		bench.Doc(`Multiplies matrices, C = A x B, on this host's cores or on its GPU.

A shape is MxNxK: C has M rows and N columns. The labelled shapes are layers of a
transformer with 8 billion parameters, for 512 tokens (4096 on a GPU), and for one
token (decode). f16 and bf16 operands have an f32 result, and on a GPU also tf32 and
e4m3 (fp8). i8 and u8 operands have an exact i32 result. --b-dtype gives B another sign,
and --scales multiplies the sums by a scale per row and per column.

The providers for cores are builtin, builtin restricted to an instruction set
(builtin-avx2), openblas and onednn; onednn-packed and builtin-packed pack B before the
timing. The providers for a GPU are builtin, cublaslt, with the first algorithm of its
heuristic, and cublaslt-exhaustive, with the fastest of all.

  kernbench run --bench gemm --axis provider=builtin,onednn --dtype bf16,i8
  kernbench run --bench gemm --dtype u8 --b-dtype i8 --scales
  kernbench run --bench gemm --axis provider=builtin,openblas --env OPENBLAS_CORETYPE=SkylakeX
  kernbench run --bench gemm --backend cuda --axis provider=builtin,cublaslt --dtype bf16,e4m3 --shape 4096x4096x4096

gflops is 2*M*N*K divided by the median time. peak_pct is the share of the peak, which
is arithmetic without memory access. For cores, the peak is measured on one core in the
same row (peak_gflops) and multiplied by the number of threads. For a GPU, it is the
peak of the whole GPU. Every product is verified: exactly with integers, and within the
error bound with real numbers. 'kernbench docs gemm' explains providers and checks.`),
		bench.Tuples("shape", "64x64x64", "256x256x256", "512x512x512", "1024x1024x1024", "2048x2048x2048",
			"qkv=512x6144x4096", "attn_out=512x4096x4096", "mlp_up=512x28672x4096", "mlp_down=512x4096x14336",
			"decode=1x4096x4096"),
		bench.DTypes("dtype", "f32", "f64", "bf16", "f16"),
		bench.Strings("provider", builtin),
		bench.Ints("threads", "1,2"),
		bench.Choice(dataOption, "contents of the timed operands", randomData, "zeros", "ones"),
		bench.OnlyOn([]string{gemm.Host}, byteOptions()...),
		bench.Seconds("2", "longest time to sample one point, but at least one call"),
		bench.Drop(checkPoint),
		bench.Metric("gflops", "GFLOP/s", "higher", "operations of the product divided by the time"),
		bench.Metric("peak_pct", "%", "higher", "gflops as a share of peak_gflops"),
		bench.Metric("peak_gflops", "GFLOP/s", "", "arithmetic speed of the processor or GPU, measured in registers"),
		bench.Headline("time_us", "gflops", "peak_pct=of peak (%)"),
		bench.Measure(cfg),
		bench.Timeout(3 * time.Minute),
		rates,
		bench.Sections(sections),
	}, onDevices()...)...)
}

// onDevices declares the backends other than this host's cores, and their default axes.
func onDevices() []bench.Clause {
	items := []bench.Clause{bench.Backends(gemm.Backends()...)}
	for _, backend := range gemm.Backends()[1:] {
		var providers []string
		for _, p := range gemm.On(backend) {
			if !strings.Contains(p.Name(), "-") { // the others are variants of these
				providers = append(providers, p.Name())
			}
		}
		items = append(items, bench.On(backend,
			bench.Tuples("shape", "2048x2048x2048", "4096x4096x4096", "8192x8192x8192", "qkv=4096x6144x4096",
				"attn_out=4096x4096x4096", "mlp_up=4096x28672x4096", "mlp_down=4096x4096x14336", "decode=1x4096x4096"),
			bench.DTypes("dtype", "bf16"), bench.Strings("provider", providers...), bench.Ints("threads", "1")))
	}
	return items
}

// builtin is the name of kernbench's own provider, on every backend.
const builtin = "builtin"

// The option for the contents of the timed operands, and its default.
const (
	dataOption = "data"
	randomData = "random"
)

// fillTimed fills the operands that are timed.
func fillTimed(s *bench.State, a, b gemm.Matrix) error {
	switch s.Str(dataOption) {
	case "zeros":
		proof.Constant(a, 0)
		proof.Constant(b, 0)
	case "ones":
		proof.Constant(a, 1)
		proof.Constant(b, 1)
	default:
		return proof.Reals(a, b, s.Seed())
	}
	return nil
}

// checkPoint returns an error if the backend cannot run a point. If the backend is not known yet, it returns an error
// if no backend can run the point.
func checkPoint(p point.Point) error {
	name := p.At("provider").String()
	shape := p.At("shape")
	if len(shape.Dims()) != 3 {
		return fmt.Errorf("shape %v: want MxNxK", shape)
	}
	if slices.Contains(shape.Dims(), 0) {
		return fmt.Errorf("shape %v: an empty product takes no time and has nothing to verify", shape)
	}
	d, err := dtype.Parse(p.At("dtype").String())
	if err != nil {
		return err
	}
	backends := gemm.Backends()
	if planned, ok := p.Get(bench.BackendName); ok && slices.Contains(backends, planned.String()) {
		backends = []string{planned.String()}
	}
	var known []string
	var unsupported error
	for _, backend := range backends {
		for _, provider := range gemm.On(backend) {
			if known = append(known, provider.Name()); provider.Name() != name {
				continue
			}
			if unsupported = checkType(provider, d); unsupported == nil {
				return checkOnDevice(backends, p, sizeOf(shape.Dims(), d))
			}
			if len(backends) == 1 {
				unsupported = fmt.Errorf("on %s %w", backend, unsupported)
			}
		}
	}
	if unsupported != nil {
		return unsupported
	}
	return bench.Unknown("provider", name, known)
}

// checkOnDevice returns an error if a point is planned on a GPU that cannot run it.
func checkOnDevice(backends []string, p point.Point, size product) error {
	if len(backends) > 1 || backends[0] == gemm.Backends()[0] {
		return nil
	}
	if threads := p.At("threads").Int(); threads != 1 {
		return fmt.Errorf("--threads %d: a GPU has its own threads, and one thread of the host starts its work", threads)
	}
	check := dist.Describe(backends[0]).CheckMemory
	if check == nil {
		return nil
	}
	return check(1, int64(size.bytes()))
}

func checkType(p gemm.Provider, d dtype.DType) error {
	if slices.Contains(p.Types(), d) {
		return nil
	}
	return fmt.Errorf("%s cannot multiply %v, only %v", p.Name(), d, p.Types())
}

// providerOf returns the point's provider on its backend.
func providerOf(s *bench.State) (gemm.Provider, error) {
	provider, err := gemm.Lookup(s.Backend(), s.Str("provider"))
	if err != nil {
		return nil, bench.Skip("%v", err)
	}
	if err := checkType(provider, s.DType("dtype")); err != nil {
		return nil, bench.Skip("on %s %v", s.Backend(), err)
	}
	return provider, nil
}

func body(ctx context.Context, s *bench.State) error {
	dims, threads := s.Dims("shape"), s.Int("threads")
	p := sizeOf(dims, s.DType("dtype"))
	provider, err := providerOf(s)
	if err != nil {
		return err
	}
	engine, err := provider.Open(threads)
	if err != nil {
		return notExecuted(err)
	}
	defer engine.Close()
	s.SampleAtMost(s.Float(bench.SecondsOption))
	if resident, ok := engine.(gemm.Resident); ok {
		return onDevice(ctx, s, resident, p)
	}
	return onCores(ctx, s, engine, p, threads)
}

// product is the size of a product and its operand type.
type product struct {
	d       dtype.DType
	m, n, k int
}

func sizeOf(dims []int64, d dtype.DType) product {
	return product{d: d, m: int(dims[0]), n: int(dims[1]), k: int(dims[2])}
}

// bytes returns the memory of both operands and the result.
func (p product) bytes() int {
	return (p.m+p.n)*p.k*p.d.Size() + p.m*p.n*gemm.Result(p.d).Size()
}

func (p product) flops() float64 { return 2 * float64(p.m) * float64(p.n) * float64(p.k) }

// onCores measures a point on this host's cores.
func onCores(ctx context.Context, s *bench.State, engine gemm.Engine, p product, threads int) error {
	warn(s, engine)
	if cpus := runtime.NumCPU(); threads > cpus {
		s.Warn("%d threads share %d CPUs", threads, cpus)
	}
	if p.flops() > longFlops*float64(threads) {
		s.Sampling().Warmup.MinCalls = 1 // the exact check has warmed up
	}

	s.Phase("check")
	typeB, err := typeOfB(s, p.d)
	if err != nil {
		return err
	}
	a, b, c := gemm.New(p.d, p.m, p.k), gemm.New(typeB, p.k, p.n), gemm.New(gemm.Result(p.d), p.m, p.n)
	if err := checkExact(engine, c, a, b, s.Seed()); err != nil {
		return err
	}
	if err := fillTimed(s, a, b); err != nil {
		return err
	}
	if keeper, ok := engine.(gemm.Keeper); ok {
		if err := keeper.Keep(b); err != nil {
			return err
		}
	}
	proof.Spoil(c)
	multiply, verify := func() error { return engine.Multiply(c, a, b) },
		func() error { return proof.Close(c, a, b, samples, s.Seed()) }
	if s.Bool(scalesOption) {
		if multiply, verify, err = scaled(engine, c, a, b, verify); err != nil {
			return err
		}
	}
	s.Verify(verify)

	peak := probe.PeakGFLOPS(p.d)
	if err := s.Time(ctx, multiply); err != nil {
		return err
	}
	s.Detail("engine", engine.String())
	recordRate(s, p.flops())
	recordPeak(s, p.flops(), max(peak, probe.PeakGFLOPS(p.d)), threads)
	return nil
}

// onDevice measures a point with operands in the memory of a GPU.
func onDevice(ctx context.Context, s *bench.State, e gemm.Resident, p product) error {
	s.Phase("check")
	// B is generated by columns, as the GPU stores it, so that it need not be transposed.
	a, b, c := gemm.New(p.d, p.m, p.k), gemm.New(p.d, p.n, p.k).T(), gemm.New(gemm.Result(p.d), p.m, p.n)
	if err := checkExact(asTimed{e}, c, a, b, s.Seed()); err != nil {
		return notExecuted(err)
	}
	if err := fillTimed(s, a, b); err != nil {
		return err
	}
	s.Phase("load")
	if err := e.Load(c, a, b); err != nil {
		return err
	}
	warn(s, e)
	for name, text := range e.Details() {
		s.Detail(name, text)
	}
	s.Verify(func() error {
		if err := e.Fetch(c); err != nil {
			return err
		}
		return proof.Close(c, a, b, samples, s.Seed())
	})

	collectives.Observe(s, e, "before")
	limitByMemory(s, e, p)
	peak, noPeak := e.Peak(p.d)
	if err := timeOnDevice(ctx, s, e, p.flops()); err != nil {
		return err
	}
	collectives.Observe(s, e, "after")
	if noPeak != nil {
		s.Warn("no peak to compare with: %v", noPeak)
		return nil
	}
	peakAfter, err := e.Peak(p.d)
	if err == nil {
		recordPeak(s, p.flops(), max(peak, peakAfter), 1)
	}
	return err
}

// limitByMemory records the time to read both operands once and to write the result.
func limitByMemory(s *bench.State, e gemm.Resident, p product) {
	gbps, err := e.ReadSpeed()
	if err != nil || gbps == 0 {
		s.Warn("no memory bandwidth to compare with: %v", err)
		return
	}
	s.Limit("memory", float64(p.bytes())/gbps/1e3)
}

// eventOverhead is about the time between a CUDA event and the first product after it, in picoseconds. A sample has
// enough products to make it negligible.
const eventOverhead = 4_000_000

// timeOnDevice takes the samples with the GPU's clock.
func timeOnDevice(ctx context.Context, s *bench.State, e gemm.Resident, flops float64) error {
	s.Flops(flops)
	err := s.Time(ctx, func() error { _, err := e.Sample(1); return err },
		collectives.SampleOnDevice(s, eventOverhead, e.Sample))
	if err == nil {
		recordRate(s, flops)
	}
	return err
}

// asTimed multiplies like the timed products, with the algorithm that Load chose.
type asTimed struct{ gemm.Resident }

func (e asTimed) Multiply(c, a, b gemm.Matrix) error {
	if err := e.Load(c, a, b); err != nil {
		return err
	}
	if _, err := e.Sample(1); err != nil {
		return err
	}
	return e.Fetch(c)
}

// warn adds the engine's description and warnings to the row.
func warn(s *bench.State, e gemm.Engine) {
	s.Warn("%v", e)
	for _, w := range e.Warnings() {
		s.Warn("%s", w)
	}
}

// recordRate records the rate of a timed product.
func recordRate(s *bench.State, flops float64) {
	if us := s.Metric("time_us"); us > 0 && flops > 0 {
		s.Record("gflops", flops/us/1e3)
	}
}

// recordPeak compares the rate with a peak in GFLOP/s per thread. Callers measure the peak before and after the product
// and pass the larger value, because the clock frequency may have changed.
func recordPeak(s *bench.State, flops, peak float64, threads int) {
	all := peak * float64(threads)
	s.Limit("peak", flops/all/1e3)
	s.Record("peak_gflops", peak)
	if rate := s.Metric("gflops"); rate > 0 {
		s.Record("peak_pct", 100*rate/all)
	}
}

// notExecuted marks a row as not executed if the machine lacks something that the provider needs.
func notExecuted(err error) error {
	if missing, is := errors.AsType[*gemm.MissingError](err); is {
		return bench.NotExecuted(false, "%v", missing)
	}
	return err
}

// longFlops is the work of a product that takes some tenths of a second on a core.
const longFlops = 1e10

// samples is the number of elements that are verified in a product of real numbers.
const samples = 200

// checkExact multiplies integers and verifies every element.
func checkExact(e gemm.Engine, c, a, b gemm.Matrix, seed uint64) error {
	if err := proof.Operands(a, b, seed); err != nil {
		return err
	}
	proof.Spoil(c)
	if err := e.Multiply(c, a, b); err != nil {
		return err
	}
	if err := proof.Exact(c, a, b, seed); err != nil {
		return fmt.Errorf("product of integers: %w", err)
	}
	return nil
}
