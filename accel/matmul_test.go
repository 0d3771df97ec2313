package accel

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Products of any shape, variant, split and number of PEs are exact, take time,
// and leave as many records as they have tiles.
func TestMatmul(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Matmul{Variant: Variant(rapid.SampledFrom(Variants()).Draw(t, "variant")), Split: Split(rapid.SampledFrom(Splits()).Draw(t, "split")),
			Cubes: rapid.IntRange(1, 3).Draw(t, "cubes"), PEs: rapid.IntRange(1, 4).Draw(t, "pes"), Once: rapid.Bool().Draw(t, "once")}
		count := m.Cubes * m.PEs
		dim := func(name string, split Split) int {
			n := rapid.IntRange(1, 70).Draw(t, name)
			if split == m.Split || split == SplitM && m.Split == SplitK { // rows of the sum are divided too
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
		p, err := New(machine, ccl.Default()).Matmul(m, in)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range p.C {
			if v.Float32() != want[i] {
				t.Fatalf("element %d is %v, want %v", i, v.Float32(), want[i])
			}
		}
		for i, u := range p.Result.Usage {
			if p.Result.Breakdown.Total() != p.Result.Crit {
				t.Fatalf("the parts add up to %v of %v", p.Result.Breakdown.Total(), p.Result.Crit)
			}
			if u[sim.Fetch].Count != u[sim.Gemm].Count || u[sim.Store].Count != u[sim.DMAWrite].Count || u[sim.Math].Count != len(m.Epilogue)*u[sim.Store].Count {
				t.Fatalf("PE %d: %+v", i, u)
			}
			for a, use := range u { // an engine does one thing at a time
				if use.Busy > use.Active() {
					t.Fatalf("PE %d: %v busy for %v within %v", i, sim.Activity(a), use.Busy, use.Active())
				}
			}
		}
	})
}

// What cannot be is refused in words.
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
		if _, err := New(topo.Default(), ccl.Default()).Matmul(m, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// The ideal pipeline's numbers follow from the topology: 4096 bytes at 256 GB/s are
// 16 ns, and so are 8192 bytes at 512 GB/s.
func TestIdeal(t *testing.T) {
	m := topo.Default()
	large := Matmul{M: 512, K: 512, N: 512}
	for v, want := range map[Variant]PipelineModel{RefRef: {3, 32, 16}, LoadRef: {3, 16, 16}, LoadLoad: {2, 16, 16}} {
		large.Variant = v
		if got := Ideal(m, large); got != want {
			t.Errorf("%s: %+v, want %+v", v, got, want)
		}
	}
	m.Cube.HBM.BW = topo.GBps(128)
	large.Variant = LoadRef
	if got := Ideal(m, large); got.Stage != 32 {
		t.Errorf("with half of the bandwidth: %+v", got)
	}
	if got := (PipelineModel{3, 16, 16}).Utilization(8, 0.25); got != 0.25*8/10 {
		t.Errorf("utilization %v", got)
	}
}
