package schedule

// The all-reduce algorithms. Each is the order in which building blocks
// follow one another; facts about traffic and hops come from Cost.

func naive(e *emitter) {
	for off, n := range e.pieces() {
		if e.rank != 0 {
			e.send(0, in(off, n))
			e.round++
			e.recv(Recv, 0, out(off, n))
			e.round++
			continue
		}
		e.copy(in(off, n), out(off, n))
		for peer := 1; peer < e.Ranks; peer++ {
			e.recv(RecvReduce, peer, out(off, n))
		}
		e.round++
		for peer := 1; peer < e.Ranks; peer++ {
			e.send(peer, out(off, n))
		}
		e.round++
	}
}

// oneStage cannot read inputs that the peers are overwriting, so in place
// the ranks publish a copy, and a barrier per piece guards its reuse.
func oneStage(e *emitter) {
	all := e.everyone()
	if e.InPlace {
		if e.Ranks == 1 {
			return
		}
		for off, n := range e.pieces() {
			e.copy(in(off, n), scratch(0, n))
			e.barrier(all)
			e.getReduce(all, scratch(0, n), out(off, n))
			e.barrier(all)
		}
		return
	}
	e.barrier(all)
	for off, n := range e.pieces() {
		e.getReduce(all, in(off, n), out(off, n))
	}
	e.barrier(all)
}

func oneStageScratch(p Params, rank int) int {
	if !p.InPlace || p.Ranks == 1 {
		return 0
	}
	return pieceLen(p)
}

func twoStage(e *emitter) { e.grouped(e.everyone(), func(int, int) {}) }

// grouped is two-stage within a team, with something between the stages that
// completes the sum of the rank's own part. In place it is safe as it is: part i of
// every input is read by member i alone before anyone overwrites it.
func (e *emitter) grouped(team Peers, between func(off, n int)) {
	e.barrier(team) // all inputs are there
	for off, n := range e.pieces() {
		e.teamReduce(team, off, n)
		between(teamPart(team, off, n, e.index(team)))
		e.teamCollect(team, off, n)
	}
	e.barrier(team) // nobody reads this rank's memory any more
}

func ring(e *emitter) {
	all := e.everyone()
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		e.ringReduce(all, off, n)
		e.ringCollect(all, off, n)
	}
}

func recursiveDoubling(e *emitter) {
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		e.double(e.everyone(), off, n)
	}
}

// pieceScratch is room for one piece on ranks that have company.
func pieceScratch(p Params, rank int) int {
	if p.Ranks == 1 {
		return 0
	}
	return pieceLen(p)
}

func halvingDoubling(e *emitter) {
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		e.halve(e.everyone(), off, n)
	}
}

// tree sends all pieces up before the first comes down: a rank that waited for
// the result of a piece would not pass on the next one meanwhile.
func tree(e *emitter) {
	for off, n := range e.pieces() {
		e.up(off, n, out(off, n))
	}
	e.round++
	for off, n := range e.pieces() {
		e.down(off, n, out(off, n))
	}
}

// torus gives rank y*Width+x the place (x, y).
func torus(e *emitter) {
	x, y := e.rank%e.Width, e.rank/e.Width
	row := Peers{First: y * e.Width, Stride: 1, N: e.Width}
	column := Peers{First: x, Stride: e.Width, N: e.Height}
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		e.ringReduce(row, off, n)
		partOff, part := teamPart(row, off, n, x)
		e.ringReduce(column, partOff, part)
		e.ringCollect(column, partOff, part)
		e.ringCollect(row, off, n)
	}
}

// hierarchical groups neighbouring ranks, as launchers place them on a host.
func hierarchical(e *emitter) {
	place := e.rank % e.GroupSize
	group := Peers{First: e.rank - place, Stride: 1, N: e.GroupSize}
	across := Peers{First: place, Stride: e.GroupSize, N: e.Ranks / e.GroupSize}
	e.grouped(group, func(off, n int) { e.halve(across, off, n) })
}
