// Package gemm is the bench `gemm`: how fast this host multiplies matrices, by
// shape, element type, implementation and number of threads, and how far that
// is from the arithmetic its cores can do.
package gemm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// Bench declares it.
func Bench() *bench.Bench {
	cfg := bench.DefaultMeasure()
	cfg.Stop.MinSamples = 5 // a large product takes a second
	cfg.Stop.MaxTime = 2 * time.Second
	return bench.New("gemm", body,
		bench.Help("matrix multiplication on this host's cores by shape, element type, provider and threads"),
		bench.Doc(`Multiplies matrices, C = A x B, on this host's cores.

A shape is MxNxK: C has M rows and N columns. The labelled ones are layers of a
transformer with 8 billion parameters, for 512 tokens and for one. f16 and bf16
operands give an f32 result.

Providers are builtin, builtin held to a level of instructions (builtin-avx2),
and openblas, opened at run time. OpenBLAS may take a virtual machine for an old
processor; the row says so, and this sets it right:

    kernbench run --bench gemm --axis provider=builtin,openblas --env OPENBLAS_CORETYPE=SkylakeX

gflops is 2*M*N*K over the median time. peak_pct is its share of what the cores
reach in arithmetic alone, measured on one core in the same row (peak_gflops)
and multiplied with the number of threads. Every product is checked: exactly
with whole numbers, and within the error bound with reals.`),
		bench.Tuples("shape", "64x64x64", "256x256x256", "512x512x512", "1024x1024x1024", "2048x2048x2048",
			"qkv=512x6144x4096", "attn_out=512x4096x4096", "mlp_up=512x28672x4096", "mlp_down=512x4096x14336", "decode=1x4096x4096"),
		bench.DTypes("dtype", "f32", "f64", "bf16", "f16"),
		bench.Strings("provider", "builtin"),
		bench.Ints("threads", "1,2"),
		bench.Seconds("2", "most time to sample one point, but at least one call"),
		bench.Drop(unsupported),
		bench.Metric("gflops", "GFLOP/s", "higher"),
		bench.Metric("peak_pct", "%", "higher"),
		bench.Metric("peak_gflops", "GFLOP/s", ""),
		bench.Measure(cfg),
		bench.Timeout(3*time.Minute),
		bench.Figures(figures),
		bench.Sections(sections),
	)
}

// unsupported says why a point cannot be run.
func unsupported(p point.Point) error {
	name, _ := p.Get("provider")
	text, _ := p.Get("dtype")
	shape, _ := p.Get("shape")
	provider, err := gemm.Lookup(name.String())
	if err != nil {
		return err
	}
	if len(shape.Dims()) != 3 {
		return fmt.Errorf("shape %v: want MxNxK", shape)
	}
	d, err := dtype.Parse(text.String())
	if err != nil {
		return err
	}
	for _, has := range provider.Types() {
		if has == d {
			return nil
		}
	}
	return fmt.Errorf("%s cannot multiply %v, only %v", provider.Name(), d, provider.Types())
}

func body(ctx context.Context, s *bench.State) error {
	dims, d, threads := s.Dims("shape"), s.DType("dtype"), s.Int("threads")
	m, n, k := int(dims[0]), int(dims[1]), int(dims[2])
	provider, err := gemm.Lookup(s.Str("provider"))
	if err != nil {
		return err
	}
	engine, err := provider.Open(threads)
	if err != nil {
		return err
	}
	defer engine.Close()
	s.Warn("%v", engine)
	for _, w := range engine.Warnings() {
		s.Warn("%s", w)
	}
	if cpus := runtime.NumCPU(); threads > cpus {
		s.Warn("%d threads share %d processors", threads, cpus)
	}

	s.SampleAtMost(s.Float(bench.SecondsOption))
	flops := 2 * float64(m) * float64(n) * float64(k)
	if flops > longFlops*float64(threads) {
		s.Sampling().Warmup.MinCalls = 1 // the checks have warmed up
	}

	s.Phase("fill")
	a, b, c := gemm.New(d, m, k), gemm.New(d, k, n), gemm.New(gemm.Result(d), m, n)
	if err := exact(engine, c, a, b, s.Seed()); err != nil {
		return err
	}
	proof.Reals(a, s.Seed())
	proof.Reals(b, s.Seed()+1)
	proof.Spoil(c)
	s.Verify(func() error { return wrong(proof.Close(c, a, b, samples, s.Seed())) })

	peak := peakOf(d)
	if err := s.Time(ctx, func() error { return engine.Multiply(c, a, b) }); err != nil {
		return err
	}
	peak = max(peak, peakOf(d)) // the clock may have changed meanwhile
	s.Limit("peak", flops/(peak*float64(threads))/1e3)
	s.Report("peak_gflops", peak, "GFLOP/s", "")
	if us := s.Metric("time_us"); us > 0 && flops > 0 {
		gflops := flops / us / 1e3
		s.Report("gflops", gflops, "GFLOP/s", "higher")
		s.Report("peak_pct", 100*gflops/(peak*float64(threads)), "%", "higher")
	}
	return nil
}

// longFlops is a product that takes some tenths of a second on a core.
const longFlops = 1e10

// samples is how many elements of a product of reals are looked at.
const samples = 200

// exact multiplies whole numbers and checks every element.
func exact(e gemm.Engine, c, a, b gemm.Matrix, seed uint64) error {
	proof.Integers(a, seed)
	proof.Integers(b, seed+1)
	proof.Spoil(c)
	if err := e.Multiply(c, a, b); err != nil {
		return err
	}
	if err := wrong(proof.Exact(c, a, b, seed)); err != nil {
		return fmt.Errorf("product of whole numbers: %w", err)
	}
	return nil
}

// wrong gives the harness a count of wrong elements.
func wrong(err error) error {
	var m *proof.Mistake
	if errors.As(err, &m) {
		return &bench.Wrong{Count: m.Count, Detail: m.Detail}
	}
	return err
}

// peakOf measures the arithmetic of one core in GFLOP/s: the best of some
// millisecond-long runs, since whatever disturbs only takes away.
func peakOf(d dtype.DType) float64 {
	p := gemm.PeakOf(d)
	rounds, best := 1000, 0.0
	for range 12 {
		start := time.Now()
		p.Run(rounds)
		took := time.Since(start)
		best = max(best, p.Flops*float64(rounds)/float64(took.Nanoseconds()))
		if took < time.Millisecond {
			rounds *= 2
		}
	}
	return best
}
