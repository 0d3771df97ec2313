// Package milestone1h evaluates the simulated accelerator: the benches `milestone-1h-ccl` (all-reduce) and
// `milestone-1h-gemm` (matrix products) produce every number and figure of the first milestone with one
// command each. They declare the sweeps, run each point (the all-reduce through the public process group,
// dist with backend ahbm) and draw the figures. The model itself is package accel.
package milestone1h

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/profile"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
)

// The parts of the all-reduce evaluation.
const (
	latencyPart = "latency"
	bufferPart  = "buffer-kind"
)

// bufferGrid is the torus of the buffer-kind part, the transpose of the one in the latency part.
var bufferGrid = topo.Grid{W: 3, H: 2}

// fastVar is a variable that the scripts of the milestone evaluations set.
const fastVar = "MILESTONE_FAST"

// CCL declares milestone-1h-ccl.
func CCL() *bench.Bench {
	metrics := []bench.Clause{
		bench.Metric("crit_ns", "ns", "lower", "time of the slowest PE from the common start"),
		bench.Timeout(2 * time.Minute),
		bench.Reports("n_sips", "", "packages of the machine"),
		bench.Reports("cubes", "", "cubes of a package"),
		bench.Reports("link_hops", "", "link transfers of all messages")}
	shown := []string{"time_us"}
	for _, part := range parts(sim.Breakdown{}) {
		metrics = append(metrics, bench.Metric(part.name, "ns", "lower", part.label+" on the critical path"))
		shown = append(shown, part.name)
	}
	metrics = slices.Clip(append(metrics, bench.Headline(shown...))) // parts append to it
	return bench.Suite("milestone-1h-ccl", slices.Concat(append(machine.AcceleratorOptions(), decl.RenderVar(fastVar),
		bench.Help("all-reduce on the simulated accelerator: latency by size and SIP topology, and by the memory of the "+
			"receive slots"),
		bench.Doc(`Simulates the all-reduce of the AHBM accelerator over 6 SIPs of 16 cubes and
draws every figure of the evaluation.

latency sweeps the elements per cube over three SIP topologies (ring of 6, torus
and mesh of 2x3); buffer-kind sweeps where receive slots lie on a torus of 3x2.
crit_ns is the time of the slowest PE from the common start; wire, overhead,
queueing, slot, compute and memory split it by cause and add up to it. Every cube of
every SIP is compared with the exact sum unless --verify-data=false.

topology.yaml and ccl.yaml describe the machine: the given files, else those of the
current folder, else the built-in ones. With a topology file, each kind of --sips has as
many SIPs as the file, and buffer-kind uses the SIPs of the file as they are. A size
before the kind, 4x4:torus or 8:ring, overrides the file.

  kernbench run --bench milestone-1h-ccl --sips 4x4:torus,4x4:mesh --n_elem 1024
  kernbench run --bench milestone-1h-ccl --topology my.yaml
  kernbench run --bench milestone-1h-ccl --topology built-in,my.yaml,faster-links.yaml   # curves of each, in one figure
  kernbench run --bench milestone-1h-ccl --fabric flits,whole --root center,corner       # and of each fabric and root
  kernbench run --bench milestone-1h-ccl --sips ring_1d --n_elem 1024 --only 'part=="latency"' --trace trace.json`),
		bench.Version(accel.Version()),
		bench.Backends(ahbm.Name),
		bench.Out("benches/1H_milestone_output/ccl"),
		bench.Option("verify-data", bench.KindBool, "true", "compute the data and compare every cube with the exact sum"),
		machine.RootOption(),
		traceOption,
		bench.Part(latencyPart, body, append(metrics,
			bench.Help("latency by size and SIP topology"),
			bench.Strings("algorithm", ccl.LRAB),
			bench.Strings(sipsAxis, topo.Kinds()...),
			bench.Refuse(validate),
			bench.Ints("n_elem", "8,32,64,128,512,1024,2048,4096,8192,16384,32768,49152"))...),
		bench.Part(bufferPart, body, append(metrics,
			bench.Help("latency by size and where receive slots lie"),
			bench.Strings("buffer_kind", topo.Spaces()...),
			bench.Refuse(validate),
			bench.Ints("n_elem", "128,1024,8192,32768"))...),
	), cclViews())...)
}

// Case is one point of the evaluation.
type Case struct {
	Topo   *topo.Topology
	CCL    *ccl.Config
	N      int // elements per cube
	Verify bool
	Load   bool
	Trace  bool
}

// body is the body of both parts.
func body(ctx context.Context, s *bench.State) error {
	m, err := machine.ReadAccelerator(s)
	if err != nil {
		return err
	}
	if err := machine.ReadRoot(s, &m); err != nil {
		return err
	}
	c, err := newCase(s, m)
	if err != nil {
		return err
	}
	var now event.Time // the sum of all runs
	var result *sim.Result
	s.UseClock(profile.Clock{Time: func() event.Time { return now }, Record: func() { c.Load = true },
		Latest: func() (*topo.Topology, *sim.Result) { return c.Topo, result }})
	err = s.Time(ctx, func() (err error) {
		if result, err = c.Run(ctx); err == nil {
			now += result.Crit
		}
		return err
	})
	if err != nil {
		return err
	}
	record(s, c, result)
	return writeTrace(s, result)
}

// record records the metrics of an all-reduce: the time of the slowest PE, its breakdown and the bandwidth bound.
func record(s *bench.State, c Case, r *sim.Result) {
	if c.Verify {
		s.Record("wrong", 0) // otherwise Run would have failed
	}
	s.Record("crit_ns", r.Crit.Nanoseconds())
	for _, part := range parts(r.Breakdown) {
		s.Record(part.name, part.time.Nanoseconds())
	}
	s.Detail(machine.Kind, string(c.Topo.SIPs.Kind))
	s.Detail(machine.Grid, c.Topo.SIPs.Grid.String())
	s.Detail(cubesDetail, c.Topo.Cubes.String())
	s.Report("n_sips", float64(c.Topo.SIPs.Count), "", "")
	s.Report("cubes", float64(c.Topo.Cubes.Count()), "", "")
	s.Report("link_hops", float64(r.Hops), "", "")
	if c.CCL.Algorithm == ccl.LRAB {
		s.Limit("bandwidth", bandwidthBound(c).Nanoseconds()/1e3)
	}
}

// breakdownPart is one part of a breakdown.
type breakdownPart struct {
	name, label string
	time        event.Time
}

func (p breakdownPart) metric() string { return p.name }

// parts returns the parts of a breakdown in drawing order.
func parts(b sim.Breakdown) []breakdownPart {
	return []breakdownPart{
		{"wire_ns", "wires", b.Wire}, {"overhead_ns", "overheads", b.Overhead}, {"queueing_ns", "queueing", b.Queueing},
		{"slot_ns", "slot access", b.Slot}, {"compute_ns", "compute", b.Compute}, {"memory_ns", "load and store", b.Memory},
	}
}

// bandwidthBound returns the time that the bytes need on the links of LRAB's critical path, without latencies.
// It is a lower bound for all settings.
func bandwidthBound(c Case) event.Time {
	shape := ccl.Shape{Cubes: c.Topo.Cubes, SIPs: c.Topo.SIPs, Root: c.CCL.Settings().Root}
	return event.Time(shape.Hops()) * c.Topo.Cube.UCIeBW.Time(2*c.N)
}

// newCase returns the case of a point, with receive slots that hold a whole tile. The part buffer-kind uses the
// published torus, or the SIPs of the file.
func newCase(s *bench.State, m machine.Accelerator) (c Case, err error) {
	c = Case{Topo: m.Topo, N: s.Int("n_elem"), Verify: s.Bool("verify-data"), Trace: s.Str("trace") != ""}
	algorithm := m.CCL.Algorithm
	kind, buffers := s.Point().Get("buffer_kind")
	switch {
	case !buffers:
		algorithm = s.Str("algorithm")
		c.Topo, err = withSIPs(m.Topo, m.BuiltIn(), s.Str(sipsAxis))
	case m.BuiltIn():
		c.Topo, err = m.Topo.WithSIPs(topo.Torus, bufferGrid.W, bufferGrid.H)
	}
	if err != nil {
		return c, err
	}
	c.CCL, err = m.CCL.With(algorithm, func(set *ccl.Settings) {
		if set.SlotBytes = max(set.SlotBytes, 2*c.N); buffers {
			set.Buffer = topo.Space(kind.String())
		}
	})
	return c, err
}

// Run performs the all-reduce once through the public process group, and compares every cube of every SIP with
// the exact sum.
func (c Case) Run(ctx context.Context) (*sim.Result, error) {
	var result *sim.Result
	var mu sync.Mutex
	m := ahbm.Machine{Topo: c.Topo, CCL: c.CCL, TimingOnly: !c.Verify, Load: c.Load, Trace: c.Trace,
		Observe: func(r *sim.Result) { result = r }}
	var wrong bench.Wrong
	var sums []int
	if c.Verify {
		sums = c.sums()
	}
	err := ahbm.Spawn(ctx, m, func(ctx context.Context, g *dist.Group) error {
		tiles := ahbm.PerCube(c.Topo, c.N)
		if c.Verify {
			c.fill(g.Rank(), dist.Slice[dist.Float16](tiles))
		}
		if err := g.AllReduce(tiles, tiles, dist.Sum); err != nil || !c.Verify {
			return err
		}
		found := c.check(g.Rank(), dist.Slice[dist.Float16](tiles), sums)
		mu.Lock()
		defer mu.Unlock()
		wrong.Count, wrong.Detail = wrong.Count+found.Count, cmp.Or(wrong.Detail, found.Detail)
		return nil
	})
	if err == nil && result == nil {
		err = errors.New("the all-reduce launched nothing")
	}
	return result, cmp.Or(err, wrong.Err())
}

// Inputs are non-negative whole numbers, so small that every partial sum over all cubes, in any order, is at
// most 2048 and therefore exact in f16. They are hashes of the position, so that a missing, duplicated or
// swapped tile is found. With more than 2048 cubes most inputs are 0: every element has a few cubes with
// other values, and each cube has some of those elements.

const exact = 2048 // f16 represents all whole numbers up to this one

// input returns element i of a cube's tile.
func (c Case) input(sip, cube, i int) int {
	cubes := c.Topo.Cubes.Count()
	all := c.Topo.SIPs.Count * cubes
	if all <= exact {
		return input(sip, cube, i, exact/all)
	}
	if every := (2*all + exact - 1) / exact; (sip*cubes+cube+i)%every != 0 {
		return 0
	}
	return 1 + input(sip, cube, i, 1)
}

// input returns a hash of its position between 0 and top.
func input(sip, cube, i, top int) int {
	h := uint64(i)*0x9E3779B97F4A7C15 + uint64(sip)*0xBF58476D1CE4E5B9 + uint64(cube)*0x94D049BB133111EB
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return int(h >> 33 % uint64(top+1))
}

// fill sets the tiles of all cubes of a SIP.
func (c Case) fill(sip int, tiles []dist.Float16) {
	for at := range tiles {
		tiles[at] = dtype.Float16From(float32(c.input(sip, at/c.N, at%c.N)))
	}
}

// sums returns the expected contents of every cube.
func (c Case) sums() []int {
	sums := make([]int, c.N)
	for sip := range c.Topo.SIPs.Count {
		for cube := range c.Topo.Cubes.Count() {
			for i := range sums {
				sums[i] += c.input(sip, cube, i)
			}
		}
	}
	return sums
}

// check compares the tiles of all cubes of a SIP with the exact sums.
func (c Case) check(sip int, tiles []dist.Float16, sums []int) (wrong bench.Wrong) {
	for at, got := range tiles {
		if want := float32(sums[at%c.N]); got.Float32() != want {
			wrong.Note("element %d of sip%d.cube%d is %v, the sum is %v", at%c.N, sip, at/c.N, got.Float32(), want)
		}
	}
	return wrong
}
