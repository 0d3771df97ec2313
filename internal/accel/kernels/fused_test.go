package kernels

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
)

// whole returns -1, 0 or 1, by a hash of its arguments.
func whole(at ...int) int {
	h := uint64(0x9E3779B97F4A7C15)
	for _, v := range at {
		h = (h ^ uint64(v)) * 0xBF58476D1CE4E5B9
		h ^= h >> 31
	}
	return int(h%3) - 1
}

// filled returns n small whole numbers that depend on the other arguments.
func filled(n int, at ...int) []dtype.Float16 {
	out := make([]dtype.Float16, n)
	for i := range out {
		out[i] = dtype.Float16From(float32(whole(append(at, i)...)))
	}
	return out
}

// naive is the reference product. Its sums of small whole numbers are exact.
func naive(a, b []dtype.Float16, m, k, n int) []float32 {
	c := make([]float32, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				c[i*n+j] += a[i*k+l].Float32() * b[l*n+j].Float32()
			}
		}
	}
	return c
}

func fusedMachine(t rapid.TB, sips int, slot int) (*topo.Topology, *ccl.Config) {
	m, err := topo.Default().WithSIPs(topo.Ring, sips, 1)
	if err == nil {
		m, err = m.WithCubes(2, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := must.Get(ccl.Default().With(ccl.LRAB, func(s *ccl.Settings) { s.SlotBytes = slot }))(t)
	return m, c
}

// For random partitions, every SIP ends with the exact sum of the overlapped run.
func TestFusedIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sips := rapid.IntRange(1, 4).Draw(t, "sips")
		m, c := fusedMachine(t, sips, rapid.SampledFrom([]int{64, 4096}).Draw(t, "slot"))
		f := Fused{K: rapid.IntRange(1, 70).Draw(t, "K")}
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			f.Parts = append(f.Parts, Partition{rapid.IntRange(0, 70).Draw(t, "rows"), rapid.IntRange(1, 70).Draw(t, "cols")})
		}
		f.A = func(sip, part int) []dtype.Float16 { return filled(f.Parts[part].Rows*f.K, 1, sip, part) }
		f.B = func(sip, part int) []dtype.Float16 { return filled(f.K*f.Parts[part].Cols, 2, sip, part) }
		times, got := must.Get2(GemmAllReduce(m, c, f))(t)
		for part, p := range f.Parts {
			want := make([]float32, p.Rows*p.Cols)
			for sip := range sips {
				for i, v := range naive(f.A(sip, part), f.B(sip, part), p.Rows, f.K, p.Cols) {
					want[i] += v
				}
			}
			for sip := range sips {
				for i, v := range got[sip][part] {
					if v.Float32() != want[i] {
						t.Fatalf("SIP %d, partition %d, element %d: %v, want %v", sip, part, i, v.Float32(), want[i])
					}
				}
			}
		}
		if times.Sequential < max(times.Gemm, times.AllReduce) || times.Overlapped < max(times.Gemm, times.AllReduce) {
			t.Fatalf("%+v: faster than one of the two alone", times)
		}
	})
}

// Overlap saves time with several partitions, and none with one.
func TestFusedOverlap(t *testing.T) {
	m, c := fusedMachine(t, 2, 64<<10)
	m.Fabric = topo.Whole
	parts := func(n int) []Partition {
		out := make([]Partition, n)
		for i := range out {
			out[i] = Partition{512 / n, 512}
		}
		return out
	}
	for n, least := range map[int]float64{1: 0, 4: 0.4} {
		times, _ := must.Get2(GemmAllReduce(m, c, Fused{K: 512, Parts: parts(n)}))(t)
		recovered := float64(times.Sequential-times.Overlapped) / float64(min(times.Gemm, times.AllReduce))
		if recovered < least || recovered > 1 || n == 1 && recovered != 0 {
			t.Errorf("%d partitions: %+v, %.2f recovered", n, times, recovered)
		}
	}
	if _, _, err := GemmAllReduce(m, c, Fused{Parts: parts(1)}); err == nil {
		t.Error("a product of no depth")
	}
	if times, _, err := GemmAllReduce(m, c, Fused{K: 1, Parts: []Partition{{0, 5}}}); err != nil ||
		times != (FusedTimes{}) {
		t.Errorf("nothing: %+v (%v)", times, err)
	}
}

// The block grid follows the shape of the partition.
func TestFusedGrid(t *testing.T) {
	tile := program.TileOf(topo.Default())
	for _, c := range []struct {
		Partition
		pes, rows, cols int
	}{
		{Partition{512, 512}, 16, 4, 4}, {Partition{32, 512}, 16, 1, 16}, {Partition{512, 32}, 16, 16, 1},
		{Partition{1, 1}, 128, 1, 128},
	} {
		rows, cols := grid(c.Partition, c.pes, tile)
		if fmt.Sprint(rows, cols) != fmt.Sprint(c.rows, c.cols) {
			t.Errorf("%+v on %d PEs: %d x %d blocks, want %d x %d", c.Partition, c.pes, rows, cols, c.rows, c.cols)
		}
	}
}
