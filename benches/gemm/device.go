package gemm

import (
	"context"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	_ "github.com/kernbench/kernbench/internal/kernel/gpugemm" // its providers
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// onDevices declares the backends beside this host's cores, and what a plain run takes there.
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
				"attn_out=4096x4096x4096",
				"mlp_up=4096x28672x4096", "mlp_down=4096x4096x14336", "decode=1x4096x4096"),
			bench.DTypes("dtype", "bf16"), bench.Strings("provider", providers...), bench.Ints("threads", "1")))
	}
	return items
}

// startPicoseconds is about what lies between an event and the first product behind it: a sample is made of as many
// products as hide that.
const startPicoseconds = 4_000_000

// onDevice measures the point with operands in the memory of a GPU.
func onDevice(ctx context.Context, s *bench.State, e gemm.Resident) error {
	dims, d := s.Dims("shape"), s.DType("dtype")
	m, n, k := int(dims[0]), int(dims[1]), int(dims[2])
	s.SampleAtMost(s.Float(bench.SecondsOption))
	flops := 2 * float64(m) * float64(n) * float64(k)

	s.Phase("fill")
	// B is made by columns, so that it need not be turned on the way.
	a, b, c := gemm.New(d, m, k), gemm.New(d, n, k).T(), gemm.New(gemm.Result(d), m, n)
	if err := exact(loaded{e}, c, a, b, s.Seed()); err != nil {
		return notExecuted(err)
	}
	contents(s, a, b)
	s.Phase("load")
	if err := e.Load(c, a, b); err != nil {
		return err
	}
	s.Warn("%v", e)
	for _, w := range e.Warnings() {
		s.Warn("%s", w)
	}
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
	peak, noPeak := e.Peak(d)
	if err := timed(ctx, s, e, flops); err != nil {
		return err
	}
	collectives.Observe(s, e, "after")
	if noPeak != nil {
		s.Warn("no peak to compare with: %v", noPeak)
		return nil
	}
	again, err := e.Peak(d)
	if err != nil {
		return err
	}
	peak = max(peak, again) // the clock may have changed meanwhile
	s.Limit("peak", flops/peak/1e3)
	s.Record("peak_gflops", peak)
	if rate := s.Metric("gflops"); rate > 0 {
		s.Record("peak_pct", 100*rate/peak)
	}
	return nil
}

// timed takes the samples, by the device's own clock.
func timed(ctx context.Context, s *bench.State, e gemm.Resident, flops float64) error {
	s.UseClock(clock.DeviceEvents(startPicoseconds))
	s.Flops(flops)
	err := s.Time(ctx, func() error { _, err := e.Sample(1); return err },
		bench.SampledBy(func(batch int, samples []int64) error {
			for i := range samples {
				us, err := e.Sample(batch)
				if err != nil {
					return err
				}
				samples[i] = int64(us * 1e6)
			}
			return nil
		}))
	if us := s.Metric("time_us"); err == nil && us > 0 && flops > 0 {
		s.Record("gflops", flops/us/1e3)
	}
	return err
}

// loaded multiplies as what is timed does, by the algorithm that was chosen for that.
type loaded struct{ gemm.Resident }

func (e loaded) Multiply(c, a, b gemm.Matrix) error {
	if err := e.Load(c, a, b); err != nil {
		return err
	}
	if _, err := e.Sample(1); err != nil {
		return err
	}
	return e.Fetch(c)
}
