// Package gemm is the bench `gemm`: how fast this host, or its GPU, multiplies
// matrices, by shape, element type, implementation and number of threads, and how
// far that is from the arithmetic that its units can do.
package gemm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// Bench declares it.
func Bench() *bench.Bench {
	cfg := bench.DefaultMeasure()
	cfg.Stop.MinSamples = 5 // a large product takes a second
	cfg.Stop.MaxTime = 2 * time.Second
	return bench.New("gemm", body, append([]bench.Clause{
		bench.Help("matrix multiplication on this host's cores or its GPU by shape, element type, provider and threads"),
		bench.Doc(`Multiplies matrices, C = A x B, on this host's cores or on its GPU.

A shape is MxNxK: C has M rows and N columns. The labelled ones are layers of a
transformer with 8 billion parameters, for 512 tokens (4096 on a GPU) and for one.
f16 and bf16 operands give an f32 result; so do tf32 and e4m3 (fp8) on a GPU.

On cores the providers are builtin, builtin held to a level of instructions (builtin-avx2),
and openblas, opened at run time. OpenBLAS may take a virtual machine for an old
processor; the row says so, and this sets it right:

    kernbench run --bench gemm --axis provider=builtin,openblas --env OPENBLAS_CORETYPE=SkylakeX

On a GPU they are builtin, which needs the driver alone, cublaslt, opened at run
time, with the algorithm that its heuristic names first, and cublaslt-exhaustive,
with the fastest of all that it has. The row says which algorithm that is. Products
are timed by the GPU, many in a row; B lies by columns, as a layer's weights do:

    kernbench run --bench gemm --backend cuda --axis provider=builtin,cublaslt --dtype bf16,e4m3 --shape 4096x4096x4096

gflops is 2*M*N*K over the median time. peak_pct is its share of what the cores
reach in arithmetic alone, measured on one core in the same row (peak_gflops)
and multiplied with the number of threads, or of what the whole GPU reaches. Every
product is checked: exactly with whole numbers, and within the error bound with
reals, which are what is timed: with --data zeros a GPU is faster than it will be.`),
		bench.Tuples("shape", "64x64x64", "256x256x256", "512x512x512", "1024x1024x1024", "2048x2048x2048",
			"qkv=512x6144x4096", "attn_out=512x4096x4096", "mlp_up=512x28672x4096", "mlp_down=512x4096x14336",
			"decode=1x4096x4096"),
		bench.DTypes("dtype", "f32", "f64", "bf16", "f16"),
		bench.Strings("provider", builtin),
		bench.Ints("threads", "1,2"),
		bench.Choice(dataOption, "what the timed operands hold", randomData, "zeros", "ones"),
		bench.Seconds("2", "most time to sample one point, but at least one call"),
		bench.Drop(unsupported),
		bench.Metric("gflops", "GFLOP/s", "higher"),
		bench.Metric("peak_pct", "%", "higher"),
		bench.Metric("peak_gflops", "GFLOP/s", ""),
		bench.Measure(cfg),
		bench.Timeout(3 * time.Minute),
		bench.Figures(figures),
		bench.Sections(sections),
	}, onDevices()...)...)
}

// builtin is the name of our own provider on every backend.
const builtin = "builtin"

// What the timed operands hold.
const (
	dataOption = "data"
	randomData = "random"
)

// contents fills the operands that are timed.
func contents(s *bench.State, a, b gemm.Matrix) {
	switch s.Str(dataOption) {
	case "zeros":
		proof.Constant(a, 0)
		proof.Constant(b, 0)
	case "ones":
		proof.Constant(a, 1)
		proof.Constant(b, 1)
	default:
		proof.Reals(a, s.Seed())
		proof.Reals(b, s.Seed()+1)
	}
}

// unsupported says why a point cannot be run on any backend.
func unsupported(p point.Point) error {
	name := p.At("provider")
	shape := p.At("shape")
	if len(shape.Dims()) != 3 {
		return fmt.Errorf("shape %v: want MxNxK", shape)
	}
	d, err := dtype.Parse(p.At("dtype").String())
	if err != nil {
		return err
	}
	var known []string
	var lacking error
	for _, backend := range gemm.Backends() {
		for _, provider := range gemm.On(backend) {
			if known = append(known, provider.Name()); provider.Name() != name.String() {
				continue
			}
			if lacking = lacks(provider, d); lacking == nil {
				return nil
			}
		}
	}
	if lacking != nil {
		return lacking
	}
	return bench.Unknown("provider", name.String(), known)
}

func lacks(p gemm.Provider, d dtype.DType) error {
	if slices.Contains(p.Types(), d) {
		return nil
	}
	return fmt.Errorf("%s cannot multiply %v, only %v", p.Name(), d, p.Types())
}

// providerOf finds the point's provider among those of its backend.
func providerOf(s *bench.State) (gemm.Provider, error) {
	provider, err := gemm.Lookup(s.Backend(), s.Str("provider"))
	if err != nil {
		return nil, bench.Skip("%v", err)
	}
	if err := lacks(provider, s.DType("dtype")); err != nil {
		return nil, bench.Skip("on %s %v", s.Backend(), err)
	}
	return provider, nil
}

func body(ctx context.Context, s *bench.State) error {
	dims, d, threads := s.Dims("shape"), s.DType("dtype"), s.Int("threads")
	m, n, k := int(dims[0]), int(dims[1]), int(dims[2])
	provider, err := providerOf(s)
	if err != nil {
		return err
	}
	engine, err := provider.Open(threads)
	if err != nil {
		return notExecuted(err)
	}
	defer engine.Close()
	if resident, ok := engine.(gemm.Resident); ok {
		return onDevice(ctx, s, resident)
	}
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
	contents(s, a, b)
	proof.Spoil(c)
	s.Verify(func() error { return proof.Close(c, a, b, samples, s.Seed()) })

	peak := probe.PeakGFLOPS(d)
	if err := s.Time(ctx, func() error { return engine.Multiply(c, a, b) }); err != nil {
		return err
	}
	peak = max(peak, probe.PeakGFLOPS(d)) // the clock may have changed meanwhile
	s.Limit("peak", flops/(peak*float64(threads))/1e3)
	s.Record("peak_gflops", peak)
	if us := s.Metric("time_us"); us > 0 && flops > 0 {
		gflops := flops / us / 1e3
		s.Record("gflops", gflops)
		s.Record("peak_pct", 100*gflops/(peak*float64(threads)))
	}
	return nil
}

// notExecuted is what a row says where the machine lacks what the provider needs.
func notExecuted(err error) error {
	if missing, is := errors.AsType[*gemm.MissingError](err); is {
		return bench.NotExecuted(false, "%v", missing)
	}
	return err
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
	if err := proof.Exact(c, a, b, seed); err != nil {
		return fmt.Errorf("product of whole numbers: %w", err)
	}
	return nil
}
