package topo

// neighbor is the cell next to id on a grid, wrapping where wrap says so; a cell
// is not its own neighbour.
func (g Grid) neighbor(id int, side Side, wrap bool) (int, bool) {
	rows, cols := side.Step()
	row, col := id/g.W+rows, id%g.W+cols
	if wrap {
		row, col = (row+g.H)%g.H, (col+g.W)%g.W
	}
	next := row*g.W + col
	ok := row >= 0 && row < g.H && col >= 0 && col < g.W && next != id
	return next, ok
}

// Peer is the PE of the same cube on a side of the PE grid.
func (t *Topology) Peer(p PEID, side Side) (PEID, bool) {
	pe, ok := t.Cube.PEGrid.neighbor(p.PE, side, false)
	return PEID{p.SIP, p.Cube, pe}, ok
}

// NextCube is the PE of the same number in the cube on a side.
func (t *Topology) NextCube(p PEID, side Side) (PEID, bool) {
	cube, ok := t.Cubes.neighbor(p.Cube, side, false)
	return PEID{p.SIP, cube, p.PE}, ok
}

// NextSIP is the PE of the same number and cube in the SIP on a side. A ring
// has only an east and a west.
func (t *Topology) NextSIP(p PEID, side Side) (PEID, bool) {
	sip, ok := t.SIPs.Grid.neighbor(p.SIP, side, t.SIPs.Kind != Mesh)
	return PEID{sip, p.Cube, p.PE}, ok
}
