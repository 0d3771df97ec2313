package accel

import (
	gocmp "cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
)

// reduce runs an all-reduce of n elements per cube and checks that every cube of every SIP holds the
// exact sum.
func reduce(t testing.TB, tp *topo.Topology, algorithm string, n int, change func(*ccl.Settings)) *sim.Result {
	t.Helper()
	c := must.Get(ccl.Default().With(algorithm, func(s *ccl.Settings) {
		s.SlotBytes = max(2*n, 2)
		if change != nil {
			change(s)
		}
	}))(t)
	s := New(tp, c)
	s.TimingOnly = testing.Short() && n > 2048 // the race detector is slow
	return must.Get(reduceOn(s, n))(t)
}

// value returns -1, 0 or 1, so that sums of up to 2048 values are exact in f16.
func value(sip, cube, i int) float32 { return float32((sip*5+cube*3+i*7)%3 - 1) }

func reduceOn(s *System, n int) (*sim.Result, error) {
	cubes := s.Topo.Cubes.Count()
	sum := make([]float32, n)
	var tensors []*Tensor
	for sip := range s.Topo.SIPs.Count {
		x, err := s.Zeros(sip, cubes, n, PerCube)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, x)
		if s.TimingOnly {
			continue
		}
		values := make([]dtype.Float16, cubes*n)
		for cube := range cubes {
			for i := range n {
				v := value(sip, cube, i)
				sum[i] += v
				values[cube*n+i] = dtype.Float16From(v)
			}
		}
		if err := x.Set(values); err != nil {
			return nil, err
		}
	}
	r, err := s.AllReduce(tensors)
	if err != nil || s.TimingOnly {
		return r, err
	}
	for _, x := range tensors {
		for _, shard := range x.Shards {
			for i, got := range shard.Cells() {
				if got.Float32() != sum[i] {
					return nil, fmt.Errorf("%v: element %d is %v, the sum is %v", shard.At, i, got.Float32(), sum[i])
				}
			}
		}
	}
	return r, nil
}

// machine returns the built-in topology with other SIPs and another fabric.
func machine(t testing.TB, kind topo.Kind, w, h int, f topo.Fabric) *topo.Topology {
	t.Helper()
	m := must.Get(topo.Default().WithSIPs(kind, w, h))(t)
	m.Fabric = f
	return m
}

// The published table of buffer kinds, in ns: centre root, torus of 6 SIPs, whole messages.
func TestPublishedTable(t *testing.T) {
	for _, c := range []struct {
		bytes    int
		tcm, hbm float64
	}{{256, 1678.04, 1858.04}, {2048, 1957.04, 2389.04}, {16384, 4225.04, 6673.04}, {65536, 12001.04, 21361.04}} {
		m := machine(t, topo.Torus, 3, 2, topo.Whole)
		for space, want := range map[topo.Space]float64{topo.TCMSpace: c.tcm, topo.HBMSpace: c.hbm} {
			got := reduce(t, m, ccl.LRAB, c.bytes/2, func(s *ccl.Settings) { s.Buffer = space }).Crit.Nanoseconds()
			if math.Abs(got-want) > 0.006 {
				t.Errorf("%d bytes, slots in %s: %.2f ns, published %.2f", c.bytes, space, got, want)
			}
		}
	}
	large := reduce(t, machine(t, topo.Torus, 2, 3, topo.Whole), ccl.LRAB, 49152, nil).Crit.Nanoseconds()
	if math.Abs(large-17_200) > 0.03*17_200 {
		t.Errorf("96 KB: %.1f ns, published 17.2 µs", large)
	}
}

// With the centre root 96 KB take less than 20.5 µs with both fabrics, with the corner root more.
func TestCentreRootGuard(t *testing.T) {
	const guard = 20_500
	fabrics := []topo.Fabric{topo.Whole, topo.Flits}
	if testing.Short() {
		fabrics = fabrics[:1]
	}
	for _, f := range fabrics {
		m := machine(t, topo.Torus, 2, 3, f)
		centre := reduce(t, m, ccl.LRAB, 49152, nil).Crit.Nanoseconds()
		corner := reduce(t, m, ccl.LRAB, 49152, func(s *ccl.Settings) { s.Root = ccl.Corner }).Crit.Nanoseconds()
		t.Logf("%s: centre %.0f ns, corner %.0f ns", f, centre, corner)
		if centre >= guard || corner < guard {
			t.Errorf("%s: centre %.0f ns, corner %.0f ns; want below and above %d", f, centre, corner, guard)
		}
	}
}

// At large sizes the buffer kinds rank by the speed of their memory, and the SIP topologies by their
// number of rounds: torus 3, ring 5, mesh 6.
func TestOrderings(t *testing.T) {
	large := 32768
	if testing.Short() {
		large = 4096
	}
	for _, f := range []topo.Fabric{topo.Whole, topo.Flits} {
		var kinds, shapes []float64
		for _, space := range []topo.Space{topo.TCMSpace, topo.HBMSpace, topo.SRAMSpace} {
			kinds = append(kinds, reduce(t, machine(t, topo.Torus, 3, 2, f), ccl.LRAB, large, func(s *ccl.Settings) {
				s.Buffer = space
			}).Crit.Nanoseconds())
		}
		for _, m := range []*topo.Topology{machine(t, topo.Torus, 2, 3, f), machine(t, topo.Ring, 6, 1, f),
			machine(t, topo.Mesh, 2, 3, f)} {
			shapes = append(shapes, reduce(t, m, ccl.LRAB, 8192, nil).Crit.Nanoseconds())
		}
		if !slices.IsSorted(kinds) || !slices.IsSorted(shapes) {
			t.Errorf("%s: tcm, hbm, sram take %v; torus, ring, mesh %v", f, kinds, shapes)
		}
	}
}

// Longer vectors never take less time, and never less than their bytes need on the UCIe links of the
// longest path.
func TestMonotoneInSize(t *testing.T) {
	for _, f := range []topo.Fabric{topo.Whole, topo.Flits} {
		last := event.Time(0)
		for _, n := range []int{1, 8, 100, 127, 128, 129, 512, 1000, 1024, 4096, 10000} {
			m := machine(t, topo.Torus, 2, 3, f)
			r := reduce(t, m, ccl.LRAB, n, nil)
			const hops = 11 // 8 between cubes and 3 between SIPs
			if bound := hops * m.Cube.UCIeBW.Time(2*n); r.Crit < last || r.Crit < bound {
				t.Errorf("%s, %d elements: %v ps; the size before took %v, the bound is %v", f, n, r.Crit, last, bound)
			}
			last = r.Crit
		}
	}
}

// inTime sorts effects by time, program and operation.
func inTime(order sim.Effects) []sim.Effect {
	return slices.SortedFunc(order.All(), func(a, b sim.Effect) int {
		return gocmp.Or(gocmp.Compare(a.At, b.At), gocmp.Compare(a.Program, b.Program), gocmp.Compare(a.Op, b.Op))
	})
}

// On the built-in machine, trains of flits give the same result as single flits, which tracing uses.
func TestDefaultMachine(t *testing.T) {
	slow := New(topo.Default(), ccl.Default())
	slow.Trace = true
	want := must.Get(reduceOn(slow, 2048))(t)
	want.Trace = nil
	got := must.Get(reduceOn(New(topo.Default(), ccl.Default()), 2048))(t)
	sameOrder := cmp.Comparer(func(a, b sim.Effects) bool { // effects of the same instant may come in any order
		return cmp.Equal(inTime(a), inTime(b))
	})
	if diff := cmp.Diff(want, got, sameOrder); diff != "" {
		t.Errorf("trains differ from single flits:\n%s", diff)
	}
	if len(got.Exec) != 32 {
		t.Errorf("%d programs ran, want one on each of 32 cubes", len(got.Exec))
	}
}

// random draws a machine of up to 64 SIPs and 6 x 6 cubes.
func random(t *rapid.T) *topo.Topology {
	kind := rapid.SampledFrom([]topo.Kind{topo.Ring, topo.Torus, topo.Mesh}).Draw(t, "kind")
	w, h := rapid.IntRange(1, 5).Draw(t, "w"), rapid.IntRange(1, 5).Draw(t, "h")
	if kind == topo.Ring {
		w, h = w*h, 1
	}
	m, err := topo.Default().WithSIPs(kind, w, h)
	if err != nil {
		t.Fatal(err)
	}
	side := 6 // a flat ring sends as many messages as the square of the cubes; TestLargestMachine has many of both
	switch {
	case m.SIPs.Count > 10:
		side = 2
	case m.SIPs.Count > 4:
		side = 3
	}
	if m, err = m.WithCubes(rapid.IntRange(1, side).Draw(t, "cubes w"),
		rapid.IntRange(1, side).Draw(t, "cubes h")); err != nil {
		t.Fatal(err)
	}
	m.Fabric = rapid.SampledFrom([]topo.Fabric{topo.Whole, topo.Flits}).Draw(t, "fabric")
	return m
}

// On random machines the sum is exact, no PE deadlocks or starts late, no link is busy for longer than
// the run, and the breakdown adds up to the time.
func TestRandomMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := random(t)
		n := rapid.SampledFrom([]int{1, 2, 17, 128, 300}).Draw(t, "n")
		c := must.Get(ccl.Default().With(rapid.SampledFrom(ccl.Names()).Draw(t, "algorithm"), func(s *ccl.Settings) {
			s.Slots = rapid.IntRange(1, 3).Draw(t, "slots")
			s.Buffer = topo.Space(rapid.SampledFrom(topo.Spaces()).Draw(t, "buffer"))
			s.Poll = rapid.Bool().Draw(t, "poll")
			s.Root = rapid.SampledFrom([]ccl.Root{ccl.Center, ccl.Corner}).Draw(t, "root")
		}))(t)
		r := must.Get(reduceOn(New(m, c), n))(t)
		check(t, r)
	})
}

// check verifies invariants of any result.
func check(t interface{ Errorf(string, ...any) }, r *sim.Result) {
	if r.Late != 0 {
		t.Errorf("%d PEs started late", r.Late)
	}
	if got := r.Breakdown.Total(); got != r.Crit {
		t.Errorf("the breakdown adds up to %v, the time is %v: %+v", got, r.Crit, r.Breakdown)
	}
	for link, busy := range r.Busy.All() {
		if busy > r.End {
			t.Errorf("link %d was busy for %v of %v", link, busy, r.End)
		}
	}
}

// The largest machine that the documentation promises: 64 SIPs of 36 cubes.
func TestLargestMachine(t *testing.T) {
	m := must.Get(machine(t, topo.Torus, 8, 8, topo.Flits).WithCubes(6, 6))(t)
	check(t, reduce(t, m, ccl.LRAB, 64, nil))
}

// With one cube per SIP only the exchange between SIPs is left.
func TestSingleCube(t *testing.T) {
	for _, algorithm := range ccl.Names() {
		c := must.Get(ccl.Default().With(algorithm, func(*ccl.Settings) {}))(t)
		s := New(machine(t, topo.Ring, 3, 1, topo.Flits), c)
		var tensors []*Tensor
		for sip := range 3 {
			x := must.Get(s.Zeros(sip, 1, 4, OnCube(5)))(t)
			must.Do(t, x.Set(halves(1, 2, 4, float32(sip))))
			tensors = append(tensors, x)
		}
		must.Get(s.AllReduce(tensors))(t)
		for _, x := range tensors {
			if diff := cmp.Diff(halves(3, 6, 12, 3), x.Data()); diff != "" {
				t.Errorf("%s, SIP %d: %s", algorithm, x.SIP, diff)
			}
		}
	}
}

func halves(values ...float32) []dtype.Float16 {
	out := make([]dtype.Float16, len(values))
	for i, v := range values {
		out[i] = dtype.Float16From(v)
	}
	return out
}

// Misuse gives an error with the reason instead of a deadlock.
func TestMisuse(t *testing.T) {
	s := New(topo.Default(), ccl.Default())
	if _, err := reduceOn(s, 4096); err == nil ||
		!strings.Contains(err.Error(), "a tile of 8192 bytes does not fit into a slot of 4096 bytes") {
		t.Errorf("a tile too large for its slot: %v", err)
	}
	x, _ := s.Zeros(0, 16, 8, PerCube)
	y, _ := s.Zeros(1, 16, 9, PerCube)
	z, _ := s.Zeros(1, 2, 8, OnCube(0))
	for want, tensors := range map[string][]*Tensor{
		"1 tensors for 2 SIPs":          {x},
		"differ in shape or policy":     {x, y},
		"want the tensors in SIP order": {y, x},
		"want one row for each cube":    {z, z},
	} {
		if want == "want one row for each cube" {
			w, _ := s.Zeros(0, 2, 8, OnCube(0))
			tensors[0] = w
		}
		if _, err := s.AllReduce(tensors); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	for want, p := range map[string]Policy{
		"15 rows cannot be divided equally among 16 cubes": PerCube,
		"cubes 16 to 16: there are 16":                     OnCube(16),
		"9 PEs: a cube has 8":                              {Cube: Replicate, PE: Replicate, PEs: 9},
		`placement "diagonal"`:                             {Cube: "diagonal", PE: Replicate},
	} {
		if _, err := s.Zeros(0, 15, 7, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	if _, err := s.Zeros(2, 1, 1, PerCube); err == nil {
		t.Error("a tensor on a SIP that is not there")
	}
	if _, err := s.Zeros(0, 1, 1<<33, OnCube(0)); err == nil || !strings.Contains(err.Error(), "is full") {
		t.Errorf("a tensor too large: %v", err)
	}
	if _, err := s.Launch(func(*tl.PE) {}, []topo.PEID{{SIP: 9}}); err == nil {
		t.Error("a launch on a PE that is not there")
	}
}

// Data returns what Set stored, for every combination of placements.
func TestTensorLayouts(t *testing.T) {
	s := New(topo.Default(), ccl.Default())
	values := make([]dtype.Float16, 32*16)
	for i := range values {
		values[i] = dtype.Float16From(float32(i))
	}
	for _, cube := range []Placement{Replicate, RowWise, ColumnWise} {
		for _, pe := range []Placement{Replicate, RowWise, ColumnWise} {
			p := Policy{Cube: cube, PE: pe, Cubes: 4, PEs: 2, First: 3}
			x := must.Get(s.Zeros(1, 32, 16, p))(t)
			must.Do(t, x.Set(values))
			if diff := cmp.Diff(values, x.Data()); diff != "" || len(x.Shards) != 8 {
				t.Errorf("%+v: %d shards %s", p, len(x.Shards), diff)
			}
			if x.Set(values[1:]) == nil {
				t.Error("too few values were taken")
			}
		}
	}
}

// An empty kernel takes no time on any PE of all SIPs.
func TestNoOpKernel(t *testing.T) {
	s := New(topo.Default(), ccl.Default())
	r := must.Get(s.Launch(func(*tl.PE) {}, OnAll(s, 0, 1)))(t)
	check(t, r)
	if r.Crit != 0 || len(r.Exec) != 256 || r.Start == 0 {
		t.Errorf("%d programs took %v from %v on", len(r.Exec), r.Crit, r.Start)
	}
}

// Load reads given files and falls back to the built-in ones.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "topology.yaml")
	text := strings.Replace(string(topo.DefaultFile()), "count: 2", "count: 3", 1)
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	m, c, err := Load(path, "")
	if err != nil || m.SIPs.Count != 3 || c.Algorithm != ccl.LRAB {
		t.Errorf("%v, %v, %v", m, c, err)
	}
	if _, _, err := Load("", path); err == nil {
		t.Error("a topology was read as a ccl file")
	}
	t.Chdir(dir)
	if TopologyFile() != "topology.yaml" || CCLFile() != "" {
		t.Errorf("the default files are %q and %q", TopologyFile(), CCLFile())
	}
}
