package topo

import (
	"fmt"
	"strconv"
)

// The floor plan of a SIP has the IO chiplet along the north edge and the cubes below it. Coordinates are
// micrometres from its north-west corner. Some sizes are not in the topology file and are chosen for a
// clear picture: the depth of the IO chiplet, and the distance of PEs, memory controllers, SRAM and M_CPU
// from their routers.

// ioDepth is the height of a cube divided by the depth of the IO chiplet.
const ioDepth = 3

// Box is a part of the floor plan.
type Box struct {
	Kind, Name string // Kind: io, cube, hbm, pe
	At         Pos    // north-west corner
	W, H       Length
}

// Plan returns the size of a SIP's floor plan.
func (t *Topology) Plan() (w, h Length) {
	pitch := t.cubePitch()
	return pitch.X*Length(t.Cubes.W) - t.Gap, t.cubeAt(0).Y + pitch.Y*Length(t.Cubes.H) - t.Gap
}

func (t *Topology) cubePitch() Pos { return Pos{t.Cube.W + t.Gap, t.Cube.H + t.Gap} }

// cubeAt returns the north-west corner of a cube.
func (t *Topology) cubeAt(cube int) Pos {
	pitch, depth := t.cubePitch(), t.Cube.H/ioDepth
	return Pos{pitch.X * Length(cube%t.Cubes.W), depth + t.Gap + pitch.Y*Length(cube/t.Cubes.W)}
}

// Boxes returns the parts of a SIP's floor plan in drawing order: later boxes cover earlier ones.
func (t *Topology) Boxes() []Box {
	w, _ := t.Plan()
	boxes := []Box{{"io", "IO chiplet", Pos{}, w, t.Cube.H / ioDepth}}
	for cube := range t.Cubes.Count() {
		at, noc := t.cubeAt(cube), &t.Cube.Noc
		boxes = append(boxes, Box{"cube", "cube" + strconv.Itoa(cube), at, t.Cube.W, t.Cube.H})
		if noc.HoleW > 0 && noc.HoleH > 0 {
			boxes = append(boxes, Box{"hbm", "HBM",
				Pos{at.X + noc.pitchX*Length(noc.HoleCol), at.Y + noc.pitchY*Length(noc.HoleRow)},
				noc.pitchX * Length(noc.HoleW), noc.pitchY * Length(noc.HoleH)})
		}
		side := min(noc.pitchX, noc.pitchY) / 4
		for pe := range t.PEs() {
			p := t.endAt(End{Kind: AtPE, PEID: PEID{PE: pe}})
			boxes = append(boxes, Box{"pe", "pe" + strconv.Itoa(pe), Pos{at.X + p.X - side/2, at.Y + p.Y - side/2}, side, side})
		}
	}
	return boxes
}

// endAt returns the position of an end in its cube. Ends are drawn next to their routers: PEs on the outer side, their
// memory controllers on the inner side.
func (t *Topology) endAt(e End) Pos {
	noc := &t.Cube.Noc
	dx, dy := noc.pitchX*2/5, noc.pitchY*2/5
	var r Pos
	switch e.Kind {
	case AtSRAM:
		r = noc.at(t.Cube.sram)
		return Pos{r.X - dx, r.Y}
	case AtMCPU:
		r = noc.at(t.Cube.mcpu)
		return Pos{r.X, r.Y + dy}
	}
	r = noc.at(t.Cube.peRouter[e.PE])
	if (r.X < t.Cube.W/2) == (e.Kind == AtPE) {
		dx = -dx
	}
	if (r.Y < t.Cube.H/2) == (e.Kind == AtPE) {
		dy = -dy
	}
	return Pos{r.X + dx, r.Y + dy}
}

// LinkName returns the name of a directed link: its container and its two ends.
func (w *Wiring) LinkName(link int) string {
	if host := link - w.sip*w.t.SIPs.Count; host >= 0 {
		return [...]string{hostToSwitch: "host -> switch", switchToHost: "switch -> host"}[host]
	}
	within, from, to := w.ends(link)
	return fmt.Sprintf("%s.%s -> %s", within, from.name, to.name)
}

// Place returns the SIP of a directed link and the positions of its ends on the floor plan. The host is drawn with
// SIP 0.
func (w *Wiring) Place(link int) (sip int, from, to Pos) {
	if host := link - w.sip*w.t.SIPs.Count; host >= 0 {
		width, _ := w.t.Plan()
		depth := w.t.Cube.H / ioDepth
		from, to = Pos{width / 2, -depth * 2 / 3}, Pos{width / 2, -depth / 3}
		if host == switchToHost {
			from, to = to, from
		}
		return 0, from, to
	}
	_, a, b := w.ends(link)
	return link / w.sip, a.at, b.at
}

// node is an end of a link: its name within a cube or an IO chiplet, and its position on the floor plan.
type node struct {
	name string
	at   Pos
}

// ends returns the ends of a directed link and the name of the cube or SIP that contains it.
func (w *Wiring) ends(link int) (within string, from, to node) {
	sip, rest := link/w.sip, link%w.sip
	if cube := rest / w.cube; cube < w.t.Cubes.Count() {
		from, to = w.endsInCube(cube, rest%w.cube)
		return fmt.Sprintf("sip%d.cube%d", sip, cube), from, to
	}
	from, to = w.endsOnIO(rest - w.cube*w.t.Cubes.Count())
	return fmt.Sprintf("sip%d", sip), from, to
}

func (r router) String() string { return fmt.Sprintf("r%dc%d", r.row, r.col) }

// endsInCube returns the ends of the n-th link of a cube.
func (w *Wiring) endsInCube(cube, n int) (from, to node) {
	noc, pes, corner := &w.t.Cube.Noc, w.t.PEs(), w.t.cubeAt(cube)
	in := func(p Pos) Pos { return Pos{corner.X + p.X, corner.Y + p.Y} }
	at := func(r router) node { return node{r.String(), in(noc.at(r))} }
	if n < noc.Rows*noc.Cols*4 {
		r := router{n / 4 / noc.Cols, n / 4 % noc.Cols}
		rows, cols := Side(n % 4).Step()
		return at(r), at(router{r.row + rows, r.col + cols})
	}
	n -= noc.Rows * noc.Cols * 4
	if slot := n / 2; slot < 2*pes+2 {
		e, name := End{Kind: AtPE, PEID: PEID{PE: slot % pes}}, fmt.Sprintf("pe%d", slot)
		switch {
		case slot == 2*pes:
			e, name = End{Kind: AtSRAM}, "sram"
		case slot == 2*pes+1:
			e, name = End{Kind: AtMCPU}, "m_cpu"
		case slot >= pes:
			e.Kind, name = AtHBM, fmt.Sprintf("hbm_ctrl.pe%d", slot-pes)
		}
		end, r := node{name, in(w.t.endAt(e))}, at(w.routerOf(e))
		if n%2 == 1 {
			return r, end
		}
		return end, r
	}
	n -= 2 * (2*pes + 2)
	part, side, k := n/w.perPort/4, Side(n/w.perPort%4), n%w.perPort
	r, port := at(noc.port(side, w.perPort, k)), node{fmt.Sprintf("ucie-%v.conn%d", side, k), w.portAt(cube, side, k)}
	switch part {
	case portOut:
		return r, port
	case portIn:
		return port, r
	}
	rows, cols := side.Step()
	beyond := node{"io chiplet", Pos{port.at.X + Length(cols)*w.t.Gap, port.at.Y + Length(rows)*w.t.Gap}}
	if next, ok := w.t.Cubes.neighbor(cube, side, false); ok {
		beyond.name = fmt.Sprintf("cube%d", next)
	}
	return port, beyond
}

// portAt returns the position at which a UCIe connection leaves a cube.
func (w *Wiring) portAt(cube int, side Side, k int) Pos {
	c, at := &w.t.Cube, w.t.cubeAt(cube)
	p := c.Noc.at(c.Noc.port(side, w.perPort, k))
	switch side {
	case North:
		p.Y = 0
	case South:
		p.Y = c.H
	case East:
		p.X = c.W
	case West:
		p.X = 0
	}
	return Pos{at.X + p.X, at.Y + p.Y}
}

// endsOnIO returns the ends of the n-th link of an IO chiplet.
func (w *Wiring) endsOnIO(n int) (from, to node) {
	width, _ := w.t.Plan()
	depth := w.t.Cube.H / ioDepth
	noc, pcie := node{"io_noc", Pos{width / 2, depth * 3 / 5}}, node{"pcie_ep", Pos{width / 2, depth / 4}}
	var ends [2]node
	if phys := w.t.Cubes.W * w.perPort; n < ioSingle*phys {
		cube, k := n%phys/w.perPort, n%w.perPort
		port := w.portAt(cube, North, k)
		phy := node{fmt.Sprintf("io_ucie-%d.conn%d", cube, k), Pos{port.X, depth}}
		below := node{fmt.Sprintf("cube%d", cube), port}
		ends = [...][2]node{phyToNoc: {phy, noc}, nocToPhy: {noc, phy}, phyWire: {phy, below}}[n/phys]
	} else {
		cpu := node{"io_cpu", Pos{width/2 + w.t.Cube.W/4, depth * 3 / 5}}
		cable := node{"switch", Pos{width / 2, -depth / 3}}
		ends = [...][2]node{nocToPCIe: {noc, pcie}, pcieToNoc: {pcie, noc}, nocToCPU: {noc, cpu}, cpuToNoc: {cpu, noc},
			pcieToSwitch: {pcie, cable}, switchToPCIe: {cable, pcie}}[n-ioSingle*phys+ioSingle+1]
	}
	return ends[0], ends[1]
}
