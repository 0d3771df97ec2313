package ahbm

import (
	"errors"
	"fmt"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// engine is one rank of a world.
type engine struct {
	world   *world
	rank    int
	timeout time.Duration
}

var _ dist.Engine = (*engine)(nil)

func (e *engine) Rank() int { return e.rank }
func (e *engine) Size() int { return e.world.size }

// Capabilities returns the capabilities of the algorithms in the machine's configuration.
func (e *engine) Capabilities() dist.Capabilities {
	names := []string{e.world.machine.CCL.Algorithm} // the first is the default
	for _, name := range ccl.Names() {
		if _, there := e.world.machine.CCL.Algorithms[name]; there && name != names[0] {
			names = append(names, name)
		}
	}
	return capabilities(names)
}

// capabilities returns the capabilities with the given algorithms: only sums of f16.
func capabilities(algorithms []string) dist.Capabilities {
	return dist.Capabilities{
		Ops:        []dist.Collective{dist.AllReduce, dist.Barrier},
		DTypes:     []dist.DType{dist.F16},
		Reductions: []dist.Reduction{dist.Sum},
		Algorithms: map[dist.Collective][]string{dist.AllReduce: algorithms},
		// In the exchange between SIPs each rank starts with its own sum, so the order of additions differs.
		Features: []dist.Feature{dist.Pipelining, dist.RanksMayDiffer},
	}
}

// Alloc returns host memory of the rank. Each call copies it to the accelerator's memory.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	if d != dist.F16 {
		return dist.Buffer{}, fmt.Errorf("allocating %v: the accelerator has only %v", d, dist.F16)
	}
	cells := dist.Of(make([]dist.Float16, count))
	return dist.NewBuffer(d, count, unsafePointer(cells), onCube{}), nil
}

func (e *engine) Free(b dist.Buffer) error {
	if b.Memory() == nil {
		return errors.New("freeing a buffer that was not allocated here")
	}
	return nil
}

func (e *engine) Prepare(p dist.Plan) (run, release func() error, err error) {
	return func() error { return e.world.meet(e.rank, &p, e.timeout) }, nil, nil
}

func (e *engine) Refuse(reason error) (first bool) { return e.world.refuse(e.rank, reason) }

func (e *engine) Split(color, key int) (dist.Engine, error) {
	return nil, errors.New("the simulated accelerator has no groups of some of its SIPs")
}

func (e *engine) Clock() dist.Clock { return e.world.clock() }

func (e *engine) Close() error {
	e.world.leave(e.rank)
	return nil
}

var _ instrument.Limiter = (*engine)(nil)

// Limits returns lower bounds that follow from the topology: the time that the bytes leaving a SIP need on its links,
// and the fixed latency of the longest chain of messages. LRAB passes whole vectors on. For other algorithms only
// the minimum that every all-reduce must send is known. Nothing is known if some links or devices differ.
func (e *engine) Limits(p dist.Plan) ([]instrument.Limit, error) {
	if p.Op != dist.AllReduce || e.Size() < 2 || p.Count == 0 || topo.Uneven(e.world.machine.Topo) {
		return nil, nil
	}
	us := func(t event.Time) float64 { return t.Nanoseconds() / 1e3 }
	bytes, t := p.Count*p.DType.Size(), e.world.machine.Topo
	// All PEs of a SIP share its UCIe connections to the IO chiplet, the network there and one link.
	out := min(t.LinkBW, t.IONocBW, t.Cube.UCIeBW*topo.Bandwidth(t.Cubes.W*t.Cube.UCIeConns))
	if p.Algorithm != ccl.LRAB {
		return []instrument.Limit{{Name: "links", US: us(out.Time(2 * bytes * (e.Size() - 1) / e.Size()))}}, nil
	}
	grid, sent := t.SIPs.Grid, 0 // sent: how often the busiest SIP sends the vector
	for _, n := range []int{grid.W, grid.H} {
		if t.SIPs.Kind == topo.Mesh {
			sent += min(n-1, 2) // once towards each end of the line
		} else {
			sent += n - 1 // once round
		}
	}
	var fixed event.Time // latency of the farthest PE
	wiring := topo.NewWiring(t)
	for _, part := range shares(t, p.Count) {
		at := func(sip int) topo.End {
			return topo.End{Kind: topo.AtPE, PEID: topo.PEID{SIP: sip, Cube: part.cube, PE: part.pe}}
		}
		path, err := wiring.Path(at(0), at(1))
		if err != nil {
			return nil, err
		}
		fixed = max(fixed, path.Fixed())
	}
	hops := ccl.Shape{Cubes: topo.Grid{W: 1, H: 1}, SIPs: t.SIPs}.Hops()
	return []instrument.Limit{{Name: "links", US: us(out.Time(sent * bytes))},
		{Name: "hops", US: us(event.Time(hops) * fixed)}}, nil
}
