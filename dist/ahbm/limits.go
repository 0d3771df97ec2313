package ahbm

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

var _ dist.Limiter = backend{}

// Limits follow from the topology of the default machine: what the bytes need on
// the links between SIPs, and what the messages on the longest way need however
// short they are. Of other algorithms than LRAB, which passes whole vectors on,
// only the least is known that every all-reduce must send.
func (backend) Limits(p dist.Plan, size int) ([]dist.Limit, error) {
	if p.Op != dist.AllReduce || size < 2 || p.Count == 0 {
		return nil, nil
	}
	m, err := Default(size)
	if err != nil {
		return nil, err
	}
	us := func(t event.Time) float64 { return t.Nanoseconds() / 1e3 }
	bytes, link := p.Count*p.DType.Size(), m.Topo.Cube.UCIeBW
	if p.Algorithm != ccl.LRAB {
		return []dist.Limit{{Name: "links", US: us(link.Time(2 * bytes * (size - 1) / size))}}, nil
	}
	lrab := ccl.Shape{Cubes: topo.Grid{W: 1, H: 1}, SIPs: m.Topo.SIPs}
	hops := event.Time(lrab.Hops())
	at := func(sip int) topo.End { return topo.End{Kind: topo.AtPE, PEID: topo.PEID{SIP: sip}} }
	path, err := topo.NewWiring(m.Topo).Path(at(0), at(1))
	if err != nil {
		return nil, err
	}
	return []dist.Limit{{Name: "links", US: us(hops * link.Time(bytes))}, {Name: "hops", US: us(hops * path.Fixed())}}, nil
}
