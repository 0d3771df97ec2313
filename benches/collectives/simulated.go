package collectives

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// simulatedLimits gives the function that records a call's limits on the
// simulated accelerator: they follow from its topology, not from this host.
func simulatedLimits(s *bench.State) func(sh shape, plan dist.Plan) {
	if s.Rank() != 0 {
		return func(shape, dist.Plan) {}
	}
	m, err := ahbm.Default(s.Size())
	if err != nil {
		s.Warn("limits: %v", err)
		return func(shape, dist.Plan) {}
	}
	return func(sh shape, plan dist.Plan) {
		l, err := simulatedLimit(m.Topo, sh, plan.Algorithm)
		if err != nil {
			s.Warn("limits: %v", err)
			return
		}
		if l.bandwidth > 0 {
			s.Limit("links", l.bandwidth)
		}
		if l.hops > 0 {
			s.Limit("hops", l.hops)
		}
	}
}

// simulatedLimit is what the bytes need on the links between SIPs, and what the
// messages on the longest way need however short they are. Of other algorithms
// than LRAB, which passes whole vectors on, only the least is known that every
// all-reduce must send.
func simulatedLimit(t *topo.Topology, sh shape, algorithm string) (limits, error) {
	if sh.op != allReduce || sh.ranks < 2 || sh.count == 0 {
		return limits{}, nil
	}
	us := func(t event.Time) float64 { return t.Nanoseconds() / 1e3 }
	bytes := sh.count * sh.dtype.Size()
	if algorithm != ccl.LRAB {
		return limits{bandwidth: us(t.Cube.UCIeBW.Time(2 * bytes * (sh.ranks - 1) / sh.ranks))}, nil
	}
	lrab := ccl.Shape{Cubes: topo.Grid{W: 1, H: 1}, SIPs: t.SIPs}
	hops := event.Time(lrab.Hops())
	at := func(sip int) topo.End { return topo.End{Kind: topo.AtPE, PEID: topo.PEID{SIP: sip}} }
	path, err := topo.NewWiring(t).Path(at(0), at(1))
	if err != nil {
		return limits{}, err
	}
	return limits{bandwidth: us(hops * t.Cube.UCIeBW.Time(bytes)), hops: us(hops * path.Fixed())}, nil
}
