package topo

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// Hop is one directed link of a path and the node at its end.
type Hop struct {
	Link    int32 // number of the link, which carries one flit or message at a time
	BW      Bandwidth
	Wire    event.Time // propagation
	Cost    event.Time // of the node at the end, once per message
	Collect bool       // the node stores and forwards: it waits for the whole message
}

// Path is the sequence of hops of a message.
type Path []Hop

// Costs returns the sum of the node costs.
func (p Path) Costs() event.Time {
	var sum event.Time
	for _, h := range p {
		sum += h.Cost
	}
	return sum
}

// Fixed returns the part of the latency that does not depend on the size of a message.
func (p Path) Fixed() event.Time {
	var sum event.Time
	for _, h := range p {
		sum += h.Wire + h.Cost
	}
	return sum
}

// Bottleneck returns the hop with the lowest bandwidth, the first of several.
func (p Path) Bottleneck() Hop {
	slowest := &p[0]
	for i := range p {
		if p[i].BW < slowest.BW {
			slowest = &p[i]
		}
	}
	return *slowest
}

// EndKind is the kind of component at which a path starts or ends.
type EndKind int

// The ends of paths.
const (
	AtPE EndKind = iota // the DMA engine of a PE
	AtHBM
	AtSRAM
	AtMCPU
	AtIOCPU
	AtHost // the host, which is connected to the switch like the SIPs
)

// End is one end of a path. PE is ignored for the SRAM and the M_CPU; Cube and PE are ignored for the IO_CPU and the
// host. For the host, SIP is the one that it accesses.
type End struct {
	Kind EndKind
	PEID
}

// Wiring numbers the links of a topology and finds paths over them.
type Wiring struct {
	t       *Topology
	cube    int                  // links per cube
	sip     int                  // links per SIP, including the links of its cubes
	routes  map[[2]router][]Side // cache of Noc.route
	perPort int                  // UCIe connections per side of a cube
}

// NewWiring numbers the links of a topology.
func NewWiring(t *Topology) *Wiring {
	w := &Wiring{t: t, routes: map[[2]router][]Side{}, perPort: t.Cube.UCIeConns}
	w.cube = w.atUCIe(portIn, West, w.perPort-1) + 1
	w.sip = w.cube*t.Cubes.Count() + w.atIO(ioLast, 0, 0) + 1
	return w
}

// Links returns the number of directed links.
func (w *Wiring) Links() int { return w.sip*w.t.SIPs.Count + hostLinks }

// LinksPerSIP returns the number of directed links of each SIP. The first link of SIP s has the number s*LinksPerSIP().
// The order of links is the same in all SIPs.
func (w *Wiring) LinksPerSIP() int { return w.sip }

// Crossing returns the index of the first hop of a path that leads over a link of another SIP than the first hop does.
// If there is none, it returns the length of the path.
func (w *Wiring) Crossing(p Path) int {
	for i := range p {
		if int(p[i].Link)/w.sip != int(p[0].Link)/w.sip {
			return i
		}
	}
	return len(p)
}

// The links between the host and the switch have the last numbers.
const (
	hostToSwitch = iota
	switchToHost
	hostLinks // their number
)

// The links of a cube are numbered in this order: four per router; one out of and one into the DMA of
// each PE, the HBM of each PE, the SRAM and the M_CPU; three per UCIe connection, namely from the router
// to the port, from port to port across the gap, and from the port to the router.
const (
	portOut = iota
	portWire
	portIn
)

// atRouter returns the number of a router's outgoing link on a side, within its cube.
func (w *Wiring) atRouter(r router, side Side) int { return w.t.Cube.Noc.index(r)*4 + int(side) }

// atEnd returns the number of the link from an end to its router, or (in) to the end from its router, within its cube.
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

// atUCIe returns the number of a link of UCIe connection k on a side, within its cube.
func (w *Wiring) atUCIe(part int, side Side, k int) int {
	base := w.t.Cube.Noc.Rows*w.t.Cube.Noc.Cols*4 + 4*w.t.PEs() + 4
	return base + (part*4+int(side))*w.perPort + k
}

// The links of an IO chiplet: three per connection of its PHYs (one PHY for each cube of the northern
// row), and six between its other parts.
const (
	phyToNoc = iota
	nocToPhy
	phyWire
	ioSingle // the following exist once
	nocToPCIe
	pcieToNoc
	nocToCPU
	cpuToNoc
	pcieToSwitch
	switchToPCIe
	ioLast = switchToPCIe
)

// atIO returns the number of a link of an IO chiplet. The column and connection apply to links of PHYs only.
func (w *Wiring) atIO(part, col, k int) int {
	if part < ioSingle {
		return (part*w.t.Cubes.W+col)*w.perPort + k
	}
	return ioSingle*w.t.Cubes.W*w.perPort + part - ioSingle - 1
}

// trip is a path under construction and the position that it has reached.
type trip struct {
	*Wiring
	path      Path
	sip, cube int
	at        router
	conn      int // the UCIe connection of the latest crossing
}

// path returns the route between two ends without overrides. Routing is XY over the cubes and over the routers of each
// cube. A message crosses to the next die over the UCIe connection that is nearest to its current router, which gives
// the shortest path. Between SIPs, the path leads north to the IO chiplet, over the switch, and south again.
func (w *Wiring) path(from, to End) (Path, error) {
	t := w.t
	for _, e := range []End{from, to} {
		if !t.has(e.PEID) {
			return nil, fmt.Errorf("a path to %v: it is not in a system of %d SIPs x %d cubes x %d PEs",
				e.PEID, t.SIPs.Count, t.Cubes.Count(), t.PEs())
		}
	}
	if from == to {
		return nil, fmt.Errorf("a path from %v to itself", from.PEID)
	}
	if (from.Kind == AtHost || to.Kind == AtHost) && from.SIP != to.SIP {
		return nil, fmt.Errorf("a path from %v to %v: want the SIP of the memory as the SIP of the host", from.PEID, to.PEID)
	}
	tr := &trip{Wiring: w, sip: from.SIP, cube: from.Cube}
	switch {
	case to.Kind == AtHost:
		tr.leave(from)
		tr.north()
		tr.io(nocToPCIe, t.IONocBW, t.Gap, t.PCIeCost, true)
		tr.cable(pcieToSwitch, t.SwitchCost, false)
		tr.host(switchToHost, 0)
		return tr.path, nil
	case from.Kind == AtHost:
		tr.host(hostToSwitch, t.SwitchCost)
		tr.cable(switchToPCIe, t.PCIeCost, true)
		tr.io(pcieToNoc, t.IONocBW, t.Gap, t.IONocCost, false)
		tr.down(to)
	case from.Kind == AtIOCPU:
		tr.io(cpuToNoc, t.IONocBW, t.Gap, t.IONocCost, false)
		tr.down(to)
	case from.SIP != to.SIP:
		tr.leave(from)
		tr.north()
		tr.io(nocToPCIe, t.IONocBW, t.Gap, t.PCIeCost, true)
		tr.cable(pcieToSwitch, t.SwitchCost, false)
		tr.sip = to.SIP
		tr.cable(switchToPCIe, t.PCIeCost, true)
		tr.io(pcieToNoc, t.IONocBW, t.Gap, t.IONocCost, false)
		tr.down(to)
	default:
		tr.leave(from)
	}
	tr.toCube(to.Cube)
	tr.walk(w.routerOf(to))
	tr.arrive(to)
	return tr.path, nil
}

// routerOf returns the router that an end is attached to.
func (w *Wiring) routerOf(e End) router {
	switch e.Kind {
	case AtSRAM:
		return w.t.Cube.sram
	case AtMCPU:
		return w.t.Cube.mcpu
	}
	return w.t.Cube.peRouter[e.PE]
}

// attachment returns bandwidth, length and cost of the link from a router to an end.
func (w *Wiring) attachment(e End) (bw Bandwidth, l Length, cost event.Time) {
	c := &w.t.Cube
	at := c.Noc.at(w.routerOf(e))
	switch e.Kind {
	case AtHBM: // the controller is next to the router
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

// walk adds the hops over the routers of the cube.
func (tr *trip) walk(to router) {
	noc := &tr.t.Cube.Noc
	key := [2]router{tr.at, to}
	way, known := tr.routes[key]
	if !known {
		way = noc.route(tr.at, to)
		tr.routes[key] = way
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

// crossOut leaves the cube on a side. It adds the hops over the routers to the port and across the gap to the opposite
// port, whose cost is farCost.
func (tr *trip) crossOut(side Side, farCost event.Time) {
	c := &tr.t.Cube
	tr.conn = c.Noc.nearestPort(side, c.UCIeConns, tr.at)
	tr.walk(c.Noc.port(side, c.UCIeConns, tr.conn))
	tr.add(tr.cubeLink(tr.atUCIe(portOut, side, tr.conn)), c.UCIeBW, c.Noc.pitchX/2, c.UCIeCost)
	tr.add(tr.cubeLink(tr.atUCIe(portWire, side, tr.conn)), c.UCIeBW, tr.t.Gap, farCost)
}

// crossIn adds the hop into a cube from its port on a side.
func (tr *trip) crossIn(cube int, side Side) {
	c := &tr.t.Cube
	tr.cube = cube
	tr.add(tr.cubeLink(tr.atUCIe(portIn, side, tr.conn)), c.UCIeBW, c.Noc.pitchX/2, c.Noc.RouterCost)
	tr.at = c.Noc.port(side, c.UCIeConns, tr.conn)
}

// toCube adds the hops from cube to cube, first along the row, then along the column.
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
		tr.crossOut(side, tr.t.Cube.UCIeCost)
		tr.crossIn(next, side.Opposite())
	}
}

// north adds the hops up the column of cubes to the network of the IO chiplet.
func (tr *trip) north() {
	col := tr.cube % tr.t.Cubes.W
	tr.toCube(col)
	tr.crossOut(North, tr.t.IOUCIeCost)
	tr.add(tr.ioLink(phyToNoc, col), tr.t.Cube.UCIeBW, tr.ioLength(col), tr.t.IONocCost)
}

// down adds the hops from the network of the IO chiplet into the northernmost cube of an end's column, over the
// connection nearest to the end.
func (tr *trip) down(to End) {
	t := tr.t
	col := to.Cube % t.Cubes.W
	tr.conn = t.Cube.Noc.nearestPort(North, t.Cube.UCIeConns, tr.routerOf(to))
	tr.add(tr.ioLink(nocToPhy, col), t.Cube.UCIeBW, tr.ioLength(col), t.IOUCIeCost)
	tr.add(tr.ioLink(phyWire, col), t.Cube.UCIeBW, t.Gap, t.Cube.UCIeCost)
	tr.crossIn(col, North)
}

// ioLength returns the distance from a PHY to the network of the IO chiplet, which is in its middle.
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

// cable adds the link between a PCIe endpoint and the switch.
func (tr *trip) cable(part int, cost event.Time, collect bool) {
	tr.path = append(tr.path, Hop{Link: int32(tr.ioLink(part, 0)), BW: tr.t.LinkBW, Wire: tr.t.LinkLatency, Cost: cost,
		Collect: collect})
}

// host adds the link between the host and the switch, which is like the one of a SIP.
func (tr *trip) host(part int, cost event.Time) {
	tr.path = append(tr.path, Hop{Link: int32(tr.Wiring.sip*tr.t.SIPs.Count + part), BW: tr.t.LinkBW,
		Wire: tr.t.LinkLatency, Cost: cost})
}
