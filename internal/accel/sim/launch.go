package sim

import "github.com/kernbench/kernbench/internal/accel/topo"

// A launch goes from the IO_CPU of each SIP to the M_CPU of each cube and from
// there to the PEs. The IO_CPU knows how long that takes and names a time at
// which all start: the latest arrival anywhere. So the launch is not part of the
// kernels' times, and no PE starts late.

// ioCPU is where a SIP's launch starts.
func ioCPU(sip int) topo.End { return topo.End{Kind: topo.AtIOCPU, PEID: topo.PEID{SIP: sip}} }

func (g *engine) launch() error {
	g.now = g.Topo.IOCPUCost
	sent := map[int]bool{}
	for _, p := range g.pes {
		if p.prog.Host {
			continue
		}
		id := p.prog.ID
		toCube, err := g.path(ioCPU(id.SIP), mCPU(id))
		if err != nil {
			return err
		}
		toPE, err := g.path(mCPU(id), atPE(id))
		if err != nil {
			return err
		}
		g.target = max(g.target, g.now+toCube.Fixed()+toPE.Fixed()+g.Topo.PE.CPUCost)
		if cube := id.SIP*g.Topo.Cubes.Count() + id.Cube; !sent[cube] {
			sent[cube] = true
			if err := g.post(ioCPU(id.SIP), mCPU(id), purpose{forCube, int32(cube)}); err != nil {
				return err
			}
		}
	}
	g.target = max(g.target, g.now)
	for _, p := range g.pes {
		if p.prog.Host { // nobody launches it
			g.at(g.target, evIssue, p.number, 0)
		}
	}
	return nil
}

func mCPU(id topo.PEID) topo.End {
	id.PE = 0
	return topo.End{Kind: topo.AtMCPU, PEID: id}
}

func atPE(id topo.PEID) topo.End { return topo.End{Kind: topo.AtPE, PEID: id} }

// launchCube is the M_CPU passing the launch on to the PEs that take part.
func (g *engine) launchCube(cube int) error {
	id := topo.PEID{SIP: cube / g.Topo.Cubes.Count(), Cube: cube % g.Topo.Cubes.Count()}
	for pe := range g.Topo.PEs() {
		id.PE = pe
		if i, runs := g.byIndex[g.Topo.Index(id)]; runs {
			if err := g.post(mCPU(id), atPE(id), purpose{forProgram, int32(i)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// launched is the launch at a PE, which waits for the common start.
func (g *engine) launched(p *pe) {
	ready := g.now + g.Topo.PE.CPUCost
	if ready > g.target {
		g.late++
	}
	g.at(max(ready, g.target), evIssue, p.number, 0)
}
