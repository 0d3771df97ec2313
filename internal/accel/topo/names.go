package topo

import "fmt"

// LinkName says from where to where a directed link goes.
func (w *Wiring) LinkName(link int) string {
	sip, rest := link/w.sip, link%w.sip
	if cube := rest / w.cube; cube < w.t.Cubes.Count() {
		return fmt.Sprintf("sip%d.cube%d.%s", sip, cube, w.cubeLinkName(cube, rest%w.cube))
	}
	return fmt.Sprintf("sip%d.%s", sip, w.ioLinkName(rest-w.cube*w.t.Cubes.Count()))
}

func (r router) String() string { return fmt.Sprintf("r%dc%d", r.row, r.col) }

// cubeLinkName names a link of a cube by its number there.
func (w *Wiring) cubeLinkName(cube, n int) string {
	noc, pes := &w.t.Cube.Noc, w.t.PEs()
	if n < noc.Rows*noc.Cols*4 {
		from := router{n / 4 / noc.Cols, n / 4 % noc.Cols}
		rows, cols := Side(n % 4).Step()
		return fmt.Sprintf("%v -> %v", from, router{from.row + rows, from.col + cols})
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
			name = fmt.Sprintf("hbm_ctrl.pe%d", slot-pes)
		}
		if n%2 == 0 {
			return fmt.Sprintf("%s -> %v", name, w.routerOf(e))
		}
		return fmt.Sprintf("%v -> %s", w.routerOf(e), name)
	}
	n -= 2 * (2*pes + 2)
	part, side, k := n/w.perPort/4, Side(n/w.perPort%4), n%w.perPort
	port, at := fmt.Sprintf("ucie-%v.conn%d", side, k), noc.port(side, w.perPort, k)
	switch part {
	case portOut:
		return fmt.Sprintf("%v -> %s", at, port)
	case portIn:
		return fmt.Sprintf("%s -> %v", port, at)
	}
	if next, ok := w.t.Cubes.neighbor(cube, side, false); ok {
		return fmt.Sprintf("%s -> cube%d", port, next)
	}
	return port + " -> io chiplet"
}

// ioLinkName names a link of an IO chiplet by its number there.
func (w *Wiring) ioLinkName(n int) string {
	if phys := w.t.Cubes.W * w.perPort; n < ioSingle*phys {
		phy := fmt.Sprintf("io_ucie-%d.conn%d", n%phys/w.perPort, n%w.perPort)
		return [...]string{phyToNoc: phy + " -> io_noc", nocToPhy: "io_noc -> " + phy, phyWire: phy + " -> cube" + fmt.Sprint(n%phys/w.perPort)}[n/phys]
	}
	return [...]string{nocToPCIe: "io_noc -> pcie_ep", pcieToNoc: "pcie_ep -> io_noc", nocToCPU: "io_noc -> io_cpu", cpuToNoc: "io_cpu -> io_noc",
		pcieToSwitch: "pcie_ep -> switch", switchToPCIe: "switch -> pcie_ep"}[n-ioSingle*w.t.Cubes.W*w.perPort+ioSingle+1]
}
