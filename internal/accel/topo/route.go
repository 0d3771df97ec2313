package topo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// Hop is one directed link of a path and the node at its end.
type Hop struct {
	Link    int32 // number of the link: every link serialises what it carries
	BW      Bandwidth
	Wire    event.Time // propagation
	Cost    event.Time // of the node at the end, once per message
	Collect bool       // the node passes a message on only when it has all of it
}

// Path is the way of a message.
type Path []Hop

// Costs is what the nodes on the way cost together.
func (p Path) Costs() event.Time {
	var sum event.Time
	for _, h := range p {
		sum += h.Cost
	}
	return sum
}

// Fixed is the part of the latency that does not depend on the size.
func (p Path) Fixed() event.Time {
	var sum event.Time
	for _, h := range p {
		sum += h.Wire + h.Cost
	}
	return sum
}

// Slowest is the bandwidth of the slowest link.
func (p Path) Slowest() Bandwidth {
	slowest := p[0].BW
	for _, h := range p {
		slowest = min(slowest, h.BW)
	}
	return slowest
}

// Narrowest is the slowest link, the first of equals.
func (p Path) Narrowest() int32 {
	return slices.MinFunc(p, func(a, b Hop) int { return cmp.Compare(a.BW, b.BW) }).Link
}

// EndKind is what a path starts or ends at.
type EndKind int

// The ends of paths.
const (
	AtPE EndKind = iota // its DMA engine
	AtHBM
	AtSRAM
	AtMCPU
	AtIOCPU
	AtPCIe // the PCIe endpoint, through which the host reads and writes its SIP
)

// End is one end of a path. PE is without meaning for SRAM, M_CPU and what is on the
// IO chiplet, Cube also for that.
type End struct {
	Kind EndKind
	PEID
}

// Wiring numbers the links of a topology and finds paths over them.
type Wiring struct {
	t       *Topology
	cube    int // links per cube
	sip     int // links per SIP, those of its cubes included
	ways    map[[2]router][]Side
	perPort int
}

// NewWiring lays the links of a topology.
func NewWiring(t *Topology) *Wiring {
	w := &Wiring{t: t, ways: map[[2]router][]Side{}, perPort: t.Cube.UCIeConns}
	w.cube = w.atUCIe(portIn, West, w.perPort-1) + 1
	w.sip = w.cube*t.Cubes.Count() + w.atIO(ioLast, 0, 0) + 1
	return w
}

// Links is the number of directed links.
func (w *Wiring) Links() int { return w.sip * w.t.SIPs.Count }

// Links of a cube, in this order: four per router, in and out of each PE's DMA and
// HBM, of SRAM and M_CPU, and three per UCIe connection: from the router to the port, from port to port over
// the gap, from the port to the router.
const (
	portOut = iota
	portWire
	portIn
)

func (w *Wiring) atRouter(r router, side Side) int { return w.t.Cube.Noc.index(r)*4 + int(side) }

func (w *Wiring) atEnd(e End, in bool) int {
	base := w.t.Cube.Noc.Rows * w.t.Cube.Noc.Cols * 4
	slot := 0
	switch pes := w.t.PEs(); e.Kind {
	case AtPE:
		slot = e.PE
	case AtHBM:
		slot = pes + e.PE
	case AtSRAM:
		slot = 2 * pes
	case AtMCPU:
		slot = 2*pes + 1
	}
	if in {
		return base + 2*slot + 1
	}
	return base + 2*slot
}

func (w *Wiring) atUCIe(part int, side Side, k int) int {
	base := w.t.Cube.Noc.Rows*w.t.Cube.Noc.Cols*4 + 4*w.t.PEs() + 4
	return base + (part*4+int(side))*w.perPort + k
}

// Links of an IO chiplet: three per connection of its PHYs, of which there is
// one for each cube of the northern row, and six to its other parts.
const (
	phyToNoc = iota
	nocToPhy
	phyWire
	ioSingle // from here on one of a kind
	nocToPCIe
	pcieToNoc
	nocToCPU
	cpuToNoc
	pcieToSwitch
	switchToPCIe
	ioLast = switchToPCIe
)

func (w *Wiring) atIO(part, col, k int) int {
	if part < ioSingle {
		return (part*w.t.Cubes.W+col)*w.perPort + k
	}
	return ioSingle*w.t.Cubes.W*w.perPort + part - ioSingle - 1
}

// trip is a path under construction: where it has come to.
type trip struct {
	*Wiring
	path      Path
	sip, cube int
	at        router
	conn      int // the UCIe connection it uses
}

// Path finds the way between two ends: XY over the routers of a cube, XY over
// the cubes, and between SIPs north to the IO chiplet, over the switch, and
// south again.
func (w *Wiring) Path(from, to End) (Path, error) {
	t := w.t
	for _, e := range []End{from, to} {
		if e.SIP < 0 || e.SIP >= t.SIPs.Count || e.Cube < 0 || e.Cube >= t.Cubes.Count() || e.PE < 0 || e.PE >= t.PEs() {
			return nil, fmt.Errorf("a path to %v: it is not in a system of %d SIPs x %d cubes x %d PEs",
				e.PEID, t.SIPs.Count, t.Cubes.Count(), t.PEs())
		}
	}
	if from == to {
		return nil, fmt.Errorf("a path from %v to itself", from.PEID)
	}
	if (from.Kind == AtPCIe || to.Kind == AtPCIe) && from.SIP != to.SIP {
		return nil, fmt.Errorf("a path from %v to %v: the host reaches a SIP through that SIP's own PCIe endpoint",
			from.PEID, to.PEID)
	}
	tr := &trip{Wiring: w, sip: from.SIP, cube: from.Cube, conn: from.PE % w.perPort}
	toColumn := to.Cube % t.Cubes.W
	switch {
	case to.Kind == AtPCIe:
		tr.leave(from)
		tr.north()
		tr.io(nocToPCIe, t.IONocBW, t.Gap, t.PCIeCost, true)
		return tr.path, nil
	case from.Kind == AtPCIe:
		tr.conn = to.PE % w.perPort // as on the way back
		tr.io(pcieToNoc, t.IONocBW, t.Gap, t.IONocCost, false)
		tr.down(toColumn)
	case from.Kind == AtIOCPU:
		tr.io(cpuToNoc, t.IONocBW, t.Gap, t.IONocCost, false)
		tr.down(toColumn)
	case from.SIP != to.SIP:
		tr.leave(from)
		tr.north()
		tr.io(nocToPCIe, t.IONocBW, t.Gap, t.PCIeCost, true)
		tr.cable(pcieToSwitch, t.SwitchCost, false)
		tr.sip = to.SIP
		tr.cable(switchToPCIe, t.PCIeCost, true)
		tr.io(pcieToNoc, t.IONocBW, t.Gap, t.IONocCost, false)
		tr.down(toColumn)
	default:
		tr.leave(from)
	}
	tr.toCube(to.Cube)
	tr.walk(w.routerOf(to))
	tr.arrive(to)
	return tr.path, nil
}

// routerOf is the router that an end is attached to.
func (w *Wiring) routerOf(e End) router {
	switch e.Kind {
	case AtSRAM:
		return w.t.Cube.sram
	case AtMCPU:
		return w.t.Cube.mcpu
	}
	return w.t.Cube.peRouter[e.PE]
}

// attachment is the link between an end and its router.
func (w *Wiring) attachment(e End) (bw Bandwidth, l Length, cost event.Time) {
	c := &w.t.Cube
	at := c.Noc.at(w.routerOf(e))
	switch e.Kind {
	case AtHBM: // it sits at the router
		return c.HBM.BW, 0, c.HBM.Cost
	case AtSRAM:
		return c.SRAMBW, distance(c.SRAMPos, at), c.SRAMCost
	case AtMCPU:
		return c.Noc.BW, distance(c.MCPUPos, at), c.MCPUCost
	}
	return c.Noc.BW, distance(c.PEPos[e.PE], at), 0
}

func (tr *trip) add(link int, bw Bandwidth, l Length, cost event.Time) {
	tr.path = append(tr.path, Hop{Link: int32(link), BW: bw, Wire: tr.t.Wire(l), Cost: cost})
}

func (tr *trip) cubeLink(local int) int { return tr.sip*tr.Wiring.sip + tr.cube*tr.Wiring.cube + local }

func (tr *trip) leave(e End) {
	bw, l, _ := tr.attachment(e)
	tr.at = tr.routerOf(e)
	tr.add(tr.cubeLink(tr.atEnd(e, false)), bw, l, tr.t.Cube.Noc.RouterCost)
}

func (tr *trip) arrive(e End) {
	bw, l, cost := tr.attachment(e)
	tr.add(tr.cubeLink(tr.atEnd(e, true)), bw, l, cost)
}

// walk goes over the routers of the cube.
func (tr *trip) walk(to router) {
	noc := &tr.t.Cube.Noc
	key := [2]router{tr.at, to}
	way, known := tr.ways[key]
	if !known {
		way = noc.way(tr.at, to)
		tr.ways[key] = way
	}
	for _, side := range way {
		rows, cols := side.Step()
		l := noc.pitchX
		if rows != 0 {
			l = noc.pitchY
		}
		tr.add(tr.cubeLink(tr.atRouter(tr.at, side)), noc.BW, l, noc.RouterCost)
		tr.at = router{tr.at.row + rows, tr.at.col + cols}
	}
}

// out leaves the cube on a side: over the routers to the port and into the wire,
// which ends at a port that costs so much.
func (tr *trip) out(side Side, farCost event.Time) {
	c := &tr.t.Cube
	tr.walk(c.Noc.port(side, c.UCIeConns, tr.conn))
	tr.add(tr.cubeLink(tr.atUCIe(portOut, side, tr.conn)), c.UCIeBW, c.Noc.pitchX/2, c.UCIeCost)
	tr.add(tr.cubeLink(tr.atUCIe(portWire, side, tr.conn)), c.UCIeBW, tr.t.Gap, farCost)
}

// in enters a cube from its port on a side.
func (tr *trip) in(cube int, side Side) {
	c := &tr.t.Cube
	tr.cube = cube
	tr.add(tr.cubeLink(tr.atUCIe(portIn, side, tr.conn)), c.UCIeBW, c.Noc.pitchX/2, c.Noc.RouterCost)
	tr.at = c.Noc.port(side, c.UCIeConns, tr.conn)
}

// toCube goes from cube to cube, along the row first.
func (tr *trip) toCube(to int) {
	cubes := tr.t.Cubes
	for tr.cube != to {
		side := North
		switch {
		case tr.cube%cubes.W < to%cubes.W:
			side = East
		case tr.cube%cubes.W > to%cubes.W:
			side = West
		case tr.cube < to:
			side = South
		}
		next, _ := cubes.neighbor(tr.cube, side, false)
		tr.out(side, tr.t.Cube.UCIeCost)
		tr.in(next, side.Opposite())
	}
}

// north goes up the column and onto the IO chiplet's network.
func (tr *trip) north() {
	col := tr.cube % tr.t.Cubes.W
	tr.toCube(col)
	tr.out(North, tr.t.IOUCIeCost)
	tr.add(tr.ioLink(phyToNoc, col), tr.t.Cube.UCIeBW, tr.ioLength(col), tr.t.IONocCost)
}

// down goes from the IO chiplet's network into the northernmost cube of a column.
func (tr *trip) down(col int) {
	t := tr.t
	tr.add(tr.ioLink(nocToPhy, col), t.Cube.UCIeBW, tr.ioLength(col), t.IOUCIeCost)
	tr.add(tr.ioLink(phyWire, col), t.Cube.UCIeBW, t.Gap, t.Cube.UCIeCost)
	tr.in(col, North)
}

// ioLength is the distance on the IO chiplet from a PHY to its network, which
// is in the middle.
func (tr *trip) ioLength(col int) Length {
	return abs(Length(2*col+1-tr.t.Cubes.W)) * tr.t.Cube.W / 2
}

func (tr *trip) ioLink(part, col int) int {
	return tr.sip*tr.Wiring.sip + tr.Wiring.cube*tr.t.Cubes.Count() + tr.atIO(part, col, tr.conn)
}

func (tr *trip) io(part int, bw Bandwidth, l Length, cost event.Time, collect bool) {
	tr.add(tr.ioLink(part, 0), bw, l, cost)
	tr.path[len(tr.path)-1].Collect = collect
}

// cable is the link between a PCIe endpoint and the switch.
func (tr *trip) cable(part int, cost event.Time, collect bool) {
	tr.path = append(tr.path, Hop{Link: int32(tr.ioLink(part, 0)), BW: tr.t.LinkBW, Wire: tr.t.LinkLatency, Cost: cost,
		Collect: collect})
}
