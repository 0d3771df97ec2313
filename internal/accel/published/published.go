// Package published has every time that was published for the real accelerator's simulator, and simulates it. The
// published times of transfers, all-reduces and products were made with whole messages; two checks of writes with
// flits. One set of parameters, the built-in topology, serves all of them.
package published

import (
	"fmt"
	"math"
	"reflect"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/dma"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Fabric is a way in which messages move.
type Fabric struct {
	Name     string
	model    topo.Fabric
	queueing topo.Queueing
}

// Fabrics holds the fabrics that are compared. The first is the one of most published values, the second the default
// of the topology file.
var Fabrics = []Fabric{{"whole", topo.Whole, topo.Queueing{}}, {"flits", topo.Flits, topo.Queueing{}},
	{"round-robin", topo.Flits, topo.Queueing{Rule: topo.RoundRobin}}, {"age", topo.Flits, topo.Queueing{Rule: topo.Age}},
	{"buffers-8", topo.Flits, topo.Queueing{Rule: topo.FIFO, Buffer: 8}}}

// Value is a published time and how to simulate it.
type Value struct {
	Name, Text string
	Time       float64 // ns
	within     float64 // accepted difference in per cent, on the built-in machine with whole messages
	simulate   func(t *topo.Topology) (float64, error)
}

// Exact is the difference in per cent up to which a value is met: published times are rounded.
const Exact = 0.1

// Values returns all published times. docs/accelerator-model.md discusses the times that the model misses.
func Values() []Value {
	const kib16 = 16 << 10
	next := topo.PEID{Cube: 1}
	all := []Value{
		{"read-own", "a PE reads 16 KiB of its own memory", 77, Exact, transfers(kib16, false, access{})},
		{"read-other-sip", "a PE reads 16 KiB of another SIP", 409, Exact,
			transfers(kib16, false, access{by: topo.PEID{SIP: 1}})},
		{"read-1", "1 PE reads 16 KiB of another's memory", 82, 6.1, transfers(kib16, false, neighbours(1)...)},
		{"read-2", "2 PEs read 16 KiB of another's memory", 158, 6, transfers(kib16, false, neighbours(2)...)},
		{"read-3", "3 PEs read 16 KiB of another's memory", 230, 4, transfers(kib16, false, neighbours(3)...)},
		{"write-64Ki", "a PE writes 64 KiB in the next cube (published for flits)", 545, 2.5,
			transfers(64<<10, true, access{at: next})},
		{"write-1Mi", "a PE writes 1 MiB in the next cube (published for flits)", 8230, 2.5,
			transfers(1<<20, true, access{at: next})},
	}
	for _, r := range []struct {
		bytes int
		slots topo.Space
		ns    float64
	}{{256, topo.TCMSpace, 1678.04}, {256, topo.HBMSpace, 1858.04}, {2048, topo.TCMSpace, 1957.04},
		{2048, topo.HBMSpace, 2389.04}, {16384, topo.TCMSpace, 4225.04}, {16384, topo.HBMSpace, 6673.04},
		{65536, topo.TCMSpace, 12001.04}, {65536, topo.HBMSpace, 21361.04}, {98304, topo.TCMSpace, 17200}} {
		all = append(all, Value{fmt.Sprintf("allreduce-%d-%s", r.bytes, r.slots),
			fmt.Sprintf("all-reduce of %d bytes over 3x2 SIPs, receive slots in %s", r.bytes, r.slots), r.ns, Exact,
			allReduce(r.bytes, r.slots)})
	}
	const what = "product of 32x3072x32, load_ref: "
	return append(all,
		Value{"product-pe", what + "the PE's window", 1765, 22, product(func(sim.Activity) bool { return true })},
		Value{"product-composite", what + "the composite", 992, 22, product(sim.Activity.Stage)})
}

// Simulate returns the time of a value on a machine, in ns. On the machine that the value was published for, it is an
// error if the model misses it by more than it used to.
func (v *Value) Simulate(t *topo.Topology, f Fabric) (ns float64, err error) {
	m := topo.WithQueueing(t, f.queueing)
	m.Fabric = f.model
	if ns, err = v.simulate(m); err != nil {
		return 0, err
	}
	if d := v.Difference(ns); f == Fabrics[0] && isPublished(t) && math.Abs(d) > v.within {
		err = fmt.Errorf("%.2f ns, published %g: %+.1f %%, but the model is known to be within %g %%", ns, v.Time, d,
			v.within)
	}
	return ns, err
}

// Difference returns how much a simulated time differs from the published one, in per cent.
func (v *Value) Difference(ns float64) float64 { return 100 * (ns - v.Time) / v.Time }

// isPublished reports whether t is the built-in machine, except for the fabric.
func isPublished(t *topo.Topology) bool {
	built := topo.Default()
	built.Fabric = t.Fabric
	return reflect.DeepEqual(built, t)
}

// access is a transfer between a PE and a memory.
type access struct{ by, at topo.PEID }

// neighbours returns reads of the first PE's memory by other PEs of its cube.
func neighbours(n int) (all []access) {
	for i := range n {
		all = append(all, access{by: topo.PEID{PE: i + 1}})
	}
	return all
}

// transfers simulates transfers that start together, and returns the time of the slowest.
func transfers(bytes int, write bool, all ...access) func(*topo.Topology) (float64, error) {
	return func(t *topo.Topology) (float64, error) {
		var list []dma.Transfer
		for i, x := range all {
			at := topo.Location{PEID: x.at, Space: topo.HBMSpace, Offset: int64(i * bytes)}
			list = append(list, dma.Transfer{By: x.by, At: at, Bytes: bytes, Write: write})
		}
		r, err := dma.New(t).Simulate(list)
		if err != nil {
			return 0, err
		}
		return r.Crit.Nanoseconds(), nil
	}
}

// allReduce simulates the hierarchical all-reduce on a torus of 6 SIPs.
func allReduce(bytes int, slots topo.Space) func(*topo.Topology) (float64, error) {
	return func(t *topo.Topology) (float64, error) {
		t, err := t.WithSIPs(topo.Torus, 3, 2)
		if err != nil {
			return 0, err
		}
		c, err := ccl.Default().With(ccl.LRAB, func(s *ccl.Settings) { s.SlotBytes, s.Buffer = bytes, slots })
		if err != nil {
			return 0, err
		}
		s := accel.New(t, c)
		s.TimingOnly = true
		var tensors []*accel.Tensor
		for sip := range t.SIPs.Count {
			x, err := s.Zeros(sip, t.Cubes.Count(), bytes/program.ElemSize, accel.PerCube)
			if err != nil {
				return 0, err
			}
			tensors = append(tensors, x)
		}
		r, err := s.AllReduce(tensors)
		if err != nil {
			return 0, err
		}
		return r.Crit.Nanoseconds(), nil
	}
}

// product simulates the published matrix product, and returns the time from the first to the last of some activities.
func product(of func(sim.Activity) bool) func(*topo.Topology) (float64, error) {
	return func(t *topo.Topology) (float64, error) {
		s := accel.New(t, ccl.Default())
		s.TimingOnly = true
		p, err := kernels.Matmul{M: 32, K: 3072, N: 32, Variant: kernels.LoadRef}.Run(s, kernels.Operands{})
		if err != nil {
			return 0, err
		}
		window := p.Result.Usage[0].Of(of)
		return window.Active().Nanoseconds(), nil
	}
}
