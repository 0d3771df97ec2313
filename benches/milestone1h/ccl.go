// Package milestone1h is the evaluation of the simulated accelerator's first
// half: the benches `milestone-1h-ccl` and `milestone-1h-gemm` make every number
// and figure of the all-reduce and of the matrix product with one command each.
// They declare the sweeps, run each point (the all-reduce through the public
// process group, dist with backend ahbm), and draw; the model itself is package
// accel.
package milestone1h

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/machine"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/profile"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// The two parts of the evaluation.
const (
	latencyPart = "latency"
	bufferPart  = "buffer-kind"
)

// bufferGrid is the torus of the buffer-kind part: that of the latency part, transposed.
var bufferGrid = topo.Grid{W: 3, H: 2}

// CCL declares milestone-1h-ccl.
func CCL() *bench.Bench {
	metrics := []bench.Clause{bench.Metric("crit_ns", "ns", "lower"), bench.Timeout(2 * time.Minute)}
	for _, part := range parts(sim.Breakdown{}) {
		metrics = append(metrics, bench.Metric(part.name, "ns", "lower"))
	}
	return bench.Suite("milestone-1h-ccl",
		bench.Help("all-reduce on the simulated accelerator: latency by size and SIP topology, and by the memory of the "+
			"receive slots"),
		bench.Doc(`Simulates the all-reduce of the AHBM accelerator over 6 SIPs of 16 cubes and
draws every figure of the evaluation.

latency sweeps the elements per cube over three SIP topologies (ring of 6, torus
and mesh of 2x3); buffer-kind sweeps where receive slots lie on a torus of 3x2.
crit_ns is the time of the slowest PE from the common start, and wire, overhead,
queueing, slot, compute and memory say where it went; they add up. Every cube of
every SIP is compared with the exact sum unless --verify-data=false.

The machine is topology.yaml and ccl.yaml: those given, else those of the current
folder, else the built-in ones. With a topology file its SIPs are used: of the kinds of
--sips each has as many as the file, and buffer-kind runs on them as they are. A size
before the kind, 4x4:torus or 8:ring, is used whatever the file says.

  kernbench run --bench milestone-1h-ccl --sips 4x4:torus,4x4:mesh --n_elem 1024
  kernbench run --bench milestone-1h-ccl --topology my.yaml
  kernbench run --bench milestone-1h-ccl --topology built-in,my.yaml,faster-links.yaml   # curves of each, in one figure
  kernbench run --bench milestone-1h-ccl --sips ring_1d --n_elem 1024 --only 'part=="latency"' --trace trace.json`),
		bench.Version(accel.Version()),
		bench.Backends(ahbm.Name),
		bench.Out("benches/1H_milestone_output/ccl"),
		topologyFiles(),
		bench.FileOption("ccl", accel.CCLFile(), "collectives file (default: ccl.yaml here, else built in)"),
		bench.Choice("fabric", "how messages move: as the topology says, in flits, or whole", asTopology, string(topo.Flits), string(topo.Whole)),
		bench.Option("verify-data", bench.KindBool, "true", "compute the data and compare every cube with the exact sum"),
		traceOption(),
		bench.Part(latencyPart, body(latencyCase), append(metrics,
			bench.Help("latency by size and SIP topology"),
			bench.Strings("algorithm", ccl.LRAB),
			bench.Strings(sipsAxis, topo.Kinds()...),
			bench.Refuse(mistake),
			bench.Ints("n_elem", "8,32,64,128,512,1024,2048,4096,8192,16384,32768,49152"))...),
		bench.Part(bufferPart, body(bufferCase), append(metrics,
			bench.Help("latency by size and where receive slots lie"),
			bench.Strings("buffer_kind", topo.Spaces()...),
			bench.Refuse(mistake),
			bench.Ints("n_elem", "128,1024,8192,32768"))...),
		bench.Figures(figures),
		bench.Sections(sections),
		bench.Exports(exports),
		bench.Artifacts(artifacts),
	)
}

const asTopology = "topology"

// Case is one point of the evaluation.
type Case struct {
	Topo   *topo.Topology
	CCL    *ccl.Config
	N      int // elements per cube
	Verify bool
	Load   bool
	Trace  bool
}

// body simulates one point, which the part builds the machine for.
func body(build func(*bench.State, setup) (Case, error)) bench.Body {
	return func(ctx context.Context, s *bench.State) error {
		m, err := files(s)
		if err != nil {
			return err
		}
		c, err := build(s, m)
		if err != nil {
			return err
		}
		c.Verify, c.Trace = s.Bool("verify-data"), s.Str("trace") != ""
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
		report(s, c, result)
		return writeTrace(s, result)
	}
}

func report(s *bench.State, c Case, r *sim.Result) {
	if c.Verify {
		s.Record("wrong", 0) // or Run had failed
	}
	s.Record("crit_ns", r.Crit.Nanoseconds())
	for _, part := range parts(r.Breakdown) {
		s.Record(part.name, part.time.Nanoseconds())
	}
	s.Detail(machine.Kind, string(c.Topo.SIPs.Kind))
	s.Detail(machine.Grid, c.Topo.SIPs.Grid.String())
	s.Detail(cubesDetail, c.Topo.Cubes.String())
	s.Detail(rootDetail, string(c.CCL.Algorithms[ccl.LRAB].Root))
	s.Report("n_sips", float64(c.Topo.SIPs.Count), "", "")
	s.Report("cubes", float64(c.Topo.Cubes.Count()), "", "")
	s.Report("link_hops", float64(r.Hops), "", "")
	if c.CCL.Algorithm == ccl.LRAB {
		s.Limit("bandwidth", bandwidthBound(c).Nanoseconds()/1e3)
	}
}

// named is one part of a breakdown.
type named struct {
	name, label string
	time        event.Time
}

// parts lists a breakdown, in the order in which it is drawn.
func parts(b sim.Breakdown) []named {
	return []named{
		{"wire_ns", "wires", b.Wire}, {"overhead_ns", "overheads", b.Overhead}, {"queueing_ns", "queueing", b.Queueing},
		{"slot_ns", "slot access", b.Slot}, {"compute_ns", "compute", b.Compute}, {"memory_ns", "load and store", b.Memory},
	}
}

// bandwidthBound is the least time that the bytes on the critical path of LRAB
// need on its links, whatever the latencies: a lower limit for every setting.
func bandwidthBound(c Case) event.Time {
	shape := ccl.Shape{Cubes: c.Topo.Cubes, SIPs: c.Topo.SIPs, Root: c.CCL.Settings().Root}
	return event.Time(shape.Hops()) * c.Topo.Cube.UCIeBW.Time(2*c.N)
}

func latencyCase(s *bench.State, m setup) (Case, error) {
	t, err := withSIPs(m.topo, m.builtIn, s.Str(sipsAxis))
	if err != nil {
		return Case{}, err
	}
	return newCase(t, m.ccl, s.Str("algorithm"), s.Int("n_elem"), func(*ccl.Settings) {})
}

// bufferCase is on the torus that was published, or on the SIPs of the file.
func bufferCase(s *bench.State, m setup) (Case, error) {
	t := m.topo
	if m.builtIn {
		var err error
		if t, err = t.WithSIPs(topo.Torus, bufferGrid.W, bufferGrid.H); err != nil {
			return Case{}, err
		}
	}
	return newCase(t, m.ccl, m.ccl.Algorithm, s.Int("n_elem"), func(set *ccl.Settings) {
		set.Buffer = topo.Space(s.Str("buffer_kind"))
	})
}

// newCase is a machine with slots that hold the tile.
func newCase(t *topo.Topology, cfg *ccl.Config, algorithm string, n int, change func(*ccl.Settings)) (Case, error) {
	c := Case{Topo: t, N: n}
	var err error
	c.CCL, err = cfg.With(algorithm, func(set *ccl.Settings) {
		set.SlotBytes = max(set.SlotBytes, 2*n)
		change(set)
	})
	return c, err
}

// Run makes the all-reduce through the public path, once, and checks every cube
// of every SIP against the exact sum.
func (c Case) Run(ctx context.Context) (*sim.Result, error) {
	var result *sim.Result
	var mu sync.Mutex
	m := ahbm.Machine{Topo: c.Topo, CCL: c.CCL, TimingOnly: !c.Verify, Load: c.Load, Trace: c.Trace,
		Observe: func(r *sim.Result) {
			result = r
		}}
	var wrong *bench.Wrong
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
		if found := c.check(g.Rank(), dist.Slice[dist.Float16](tiles), sums); found != nil {
			mu.Lock()
			defer mu.Unlock()
			if wrong != nil {
				found.Count += wrong.Count
			}
			wrong = found
		}
		return nil
	})
	if err == nil && result == nil {
		err = errors.New("the all-reduce launched nothing")
	}
	if err == nil && wrong != nil {
		err = wrong
	}
	return result, err
}
