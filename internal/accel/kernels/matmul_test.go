package kernels

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// Products of random shape, variant, split and number of PEs are exact. Their stages have matching
// counts, and the breakdown adds up to the time.
func TestMatmul(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Matmul{Variant: Variant(rapid.SampledFrom(Variants()).Draw(t, "variant")),
			Split: Split(rapid.SampledFrom(Splits()).Draw(t, "split")),
			Cubes: rapid.IntRange(1, 3).Draw(t, "cubes"), PEs: rapid.IntRange(1, 4).Draw(t, "pes"),
			Once: rapid.Bool().Draw(t, "once")}
		count := m.Cubes * m.PEs
		dim := func(name string, split Split) int {
			n := rapid.IntRange(1, 70).Draw(t, name)
			if split == m.Split || split == SplitM && m.Split == SplitK { // SplitK divides the rows of C too
				n = tl.Cdiv(n, count) * count
			}
			return n
		}
		m.M, m.K, m.N = dim("M", SplitM), dim("K", SplitK), dim("N", SplitN)
		in := Operands{A: filled(m.M*m.K, 1), B: filled(m.K*m.N, 2), Row: filled(m.N, 3)}
		want := naive(in.A, in.B, m.M, m.K, m.N)
		if m.Split != SplitK && rapid.Bool().Draw(t, "epilogue") {
			m.Epilogue = []tl.Fn{tl.Add, tl.Maximum}
			for i := range want {
				want[i] = max(want[i]+in.Row[i%m.N].Float32(), in.Row[i%m.N].Float32())
			}
		}
		machine := topo.Default()
		machine.Fabric = topo.Fabric(rapid.SampledFrom([]string{string(topo.Flits), string(topo.Whole)}).Draw(t, "fabric"))
		p := must.Get(m.Run(accel.New(machine, ccl.Default()), in))(t)
		for i, v := range p.C {
			if v.Float32() != want[i] {
				t.Fatalf("element %d is %v, want %v", i, v.Float32(), want[i])
			}
		}
		for i, u := range p.Result.Usage {
			if p.Result.Breakdown.Total() != p.Result.Crit {
				t.Fatalf("the breakdown adds up to %v of %v", p.Result.Breakdown.Total(), p.Result.Crit)
			}
			if u[sim.Fetch].Count != u[sim.Gemm].Count || u[sim.Store].Count != u[sim.DMAWrite].Count ||
				u[sim.Math].Count != len(m.Epilogue)*u[sim.Store].Count {
				t.Fatalf("PE %d: %+v", i, u)
			}
			for a, use := range u { // an engine does one thing at a time, so it is never busy for longer than it is active
				if use.Busy > use.Active() {
					t.Fatalf("PE %d: %v busy for %v within %v", i, sim.Activity(a), use.Busy, use.Active())
				}
			}
		}
	})
}

// Invalid products give an error with the reason.
func TestBadMatmul(t *testing.T) {
	good := Matmul{M: 32, K: 32, N: 32, Variant: RefRef}
	for want, change := range map[string]func(*Matmul){
		"unknown variant":                func(m *Matmul) { m.Variant = "ref" },
		"unknown split":                  func(m *Matmul) { m.Split = "x" },
		"epilogue with split k":          func(m *Matmul) { m.Split, m.Epilogue = SplitK, []tl.Fn{tl.Add} },
		"cannot be divided equally":      func(m *Matmul) { m.PEs, m.M = 3, 32 },
		"it has no elements":             func(m *Matmul) { m.K = 0 },
		"a cube has 8":                   func(m *Matmul) { m.PEs, m.M = 9, 9 },
		"of the TCM's":                   func(m *Matmul) { m.Variant, m.K = LoadRef, 1<<20 },
		"cannot be an epilogue":          func(m *Matmul) { m.Epilogue = []tl.Fn{tl.Sum} },
		"setting a tensor of 32 x 32":    nil,
		"a product of 32x32x32 (M, K, N": nil,
	} {
		m, in := good, Operands{}
		if change == nil {
			in.A = filled(5)
		} else {
			change(&m)
		}
		if _, err := m.Run(accel.New(topo.Default(), ccl.Default()), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// The ideal pipeline follows from the topology: 4096 bytes at 256 GB/s take 16 ns, and so do 8192 bytes
// at 512 GB/s.
func TestIdeal(t *testing.T) {
	m := topo.Default()
	large := Matmul{M: 512, K: 512, N: 512}
	for v, want := range map[Variant]float64{RefRef: 2048*32 + 2*16, LoadRef: 2050 * 16, LoadLoad: 2049 * 16} {
		large.Variant = v
		if got := Ideal(m, large); got.Total != want {
			t.Errorf("%s: %+v, want %v ns", v, got, want)
		}
	}
	// As published for load_ref: tile fill x tiles / (tiles + 2).
	for _, c := range []struct {
		m, k, n int
		want    float64
	}{{32, 32, 32, 0.5 * 1 / 3}, {32, 3072, 32, 48. / 50}, {8, 128, 128, 0.25 * 8 / 10}, {128, 8, 128, 0.125 * 16 / 18}} {
		if got := Ideal(m, Matmul{M: c.m, K: c.k, N: c.n, Variant: LoadRef}).Utilization(); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%dx%dx%d: utilization %v, want %v", c.m, c.k, c.n, got, c.want)
		}
	}
	m.Cube.HBM.BW = topo.GBps(128)
	large.Variant = LoadRef
	if got := Ideal(m, large); got.Total != 2048*32+2*16 {
		t.Errorf("with half of the bandwidth: %+v", got)
	}
}

// No simulated product is faster than the ideal pipeline.
func TestIdealIsABound(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, f topo.Fabric, m Matmul) {
		machine := topo.Default().Clone()
		machine.Fabric = f
		s := accel.New(machine, ccl.Default())
		s.TimingOnly = true
		p, err := m.Run(s, Operands{})
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		took := p.Result.Usage[0].Of(sim.Activity.Stage)
		if ideal := Ideal(machine, m); took.Active().Nanoseconds() < ideal.Total {
			t.Fatalf("%s %dx%dx%d %s %v took %v ns, the ideal pipeline %v", f, m.M, m.K, m.N, m.Variant, m.Epilogue,
				took.Active().Nanoseconds(), ideal.Total)
		}
	}
	for _, v := range Variants() {
		check(t, topo.Flits, Matmul{M: 33, K: 65, N: 31, Variant: Variant(v), Epilogue: []tl.Fn{tl.Add}})
	}
	side := rapid.IntRange(1, 200)
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.SampledFrom([]topo.Fabric{topo.Flits, topo.Whole}).Draw(t, "fabric"), Matmul{
			M: side.Draw(t, "M"), K: side.Draw(t, "K"), N: side.Draw(t, "N"),
			Variant:  Variant(rapid.SampledFrom(Variants()).Draw(t, "variant")),
			Epilogue: [][]tl.Fn{nil, {tl.Add}, {tl.Add, tl.Maximum}}[rapid.IntRange(0, 2).Draw(t, "epilogue")],
		})
	})
}
