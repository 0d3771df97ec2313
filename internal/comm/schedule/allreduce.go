package schedule

// chunkInPlace lists the options of all-reduces that do not arrange the ranks in a shape.
var chunkInPlace = []string{takesChunk, takesInPlace}

// codecUntimed is the reason why evaluations time only one of the codecs.
const codecUntimed = "quickreduce with 8 bits is the most exact, and takes the same way"

// allReduces holds the all-reduce algorithms. Cost computes their traffic and hops.
var allReduces = []Algorithm{
	{Info: Info{Collective: AllReduce, Name: "naive",
		Help:  "everyone sends to rank 0, which adds up and sends the sum back",
		Takes: chunkInPlace, Order: RankOrder}, Steps: emitting(naive)},
	{Info: Info{Collective: AllReduce, Name: "one-stage", Aliases: []string{"one-shot", "1-stage"},
		Help:  "every rank reads all inputs and adds everything itself: fewest hops",
		Takes: chunkInPlace, Direct: true, Order: RankOrder, Wide: true}, Steps: emitting(oneStage),
		Scratch: oneStageScratch},
	{Info: Info{Collective: AllReduce, Name: "two-stage", Aliases: []string{"two-shot", "2-stage"},
		Help:  "every rank adds its part from all inputs, then reads the other parts: least traffic in few hops",
		Takes: chunkInPlace, Direct: true, Order: RankOrder, Wide: true}, Steps: emitting(twoStage)},
	{Info: Info{Collective: AllReduce, Name: "ring",
		Help:  "reduce-scatter then all-gather between neighbours: least traffic over links",
		Takes: chunkInPlace}, Steps: emitting(ring)},
	{Info: Info{Collective: AllReduce, Name: "recursive-doubling", Short: "rec-dbl",
		Help:  "whole vectors exchanged at distances 1, 2, 4...: fewest messages",
		Takes: chunkInPlace}, Steps: emitting(recursiveDoubling), Scratch: pieceScratch},
	{Info: Info{Collective: AllReduce, Name: "halving-doubling", Short: "halving",
		Help:  "reduce-scatter by halves, all-gather by doubling: few messages and least traffic",
		Takes: chunkInPlace}, Steps: emitting(halvingDoubling)},
	{Info: Info{Collective: AllReduce, Name: "tree",
		Help:  "reduce up a binary tree and broadcast down; pieces are pipelined",
		Takes: chunkInPlace}, Steps: emitting(tree)},
	{Info: Info{Collective: AllReduce, Name: "torus",
		Help:    "rings along rows, then along columns, then back along rows",
		Takes:   []string{takesWidth, takesChunk, takesInPlace},
		Untimed: "it differs from ring only where links form a torus"}, Shape: torusShape, Steps: emitting(torus)},
	{Info: Info{Collective: AllReduce, Name: "hierarchical",
		Help:  "two-stage within groups, halving-doubling between them",
		Takes: []string{takesGroup, takesChunk, takesInPlace}, Direct: true,
		Untimed: "it is made for ranks on several hosts"}, Shape: groupShape, Steps: emitting(hierarchical)},

	{Info: Info{Collective: AllReduce, Name: "quickreduce", Like: "two-stage", Codec: "int8",
		Help: "two-stage on 8-bit integers with a scale per 32 elements"}},
	{Info: Info{Collective: AllReduce, Name: "quickreduce-int6", Like: "two-stage", Codec: "int6",
		Help: "the same on 6-bit integers", Untimed: codecUntimed}},
	{Info: Info{Collective: AllReduce, Name: "quickreduce-int4", Like: "two-stage", Codec: "int4",
		Help: "the same on 4-bit integers", Untimed: codecUntimed}},
	{Info: Info{Collective: AllReduce, Name: "lamport",
		Help: "every rank stores to all others, data and flag in one: for small calls", Most: 1 << 20,
		Hardware: "stores of 16 bytes that peers see whole, as NVLink gives them to GPUs: data and flag in one",
		Traffic:  func(ranks int, bytes float64) float64 { return float64(ranks-1) * bytes }}},
	{Info: Info{Collective: AllReduce, Name: "multimem", Aliases: []string{"nvls"}, Help: "the switch adds",
		Hardware: "a switch that adds (NVLink SHARP: 2 or more GPUs with multicast memory)",
		Traffic:  func(ranks int, bytes float64) float64 { return (1 + 1/float64(ranks)) * bytes }}}, // as NCCL counts it
}

// naive gathers all vectors at rank 0, which adds them up in rank order and sends the sum to every rank. It is the
// reference in traffic and time that other algorithms must beat.
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

// oneStage lets every rank add up all inputs. In place, a rank overwrites its input while its peers still read it.
// Each rank therefore publishes a copy in scratch. The second barrier of a piece ensures that nobody reads
// the scratch any more when the next piece overwrites it.
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

// twoStage lets every rank reduce its own part from all inputs (reduce-scatter) and then read the other parts
// (all-gather), both by direct access.
func twoStage(e *emitter) { e.twoStageWithin(e.everyone(), func(int, int) {}) }

// twoStageWithin is two-stage within a team. It calls between after the first stage; hierarchical uses that to
// add the sums of the other groups to the rank's own part. No copy is needed in place: only member i
// reads part i of the inputs, and that part is overwritten only after member i has signalled that its sum is complete.
func (e *emitter) twoStageWithin(team Peers, between func(off, n int)) {
	e.barrier(team) // all inputs are ready
	for off, n := range e.pieces() {
		e.teamReduce(team, off, n)
		between(teamPart(team, off, n, e.index(team)))
		e.teamCollect(team, off, n)
	}
	e.barrier(team) // no peer reads this rank's memory any more
}

// ring is the bandwidth-optimal ring: a reduce-scatter, then an all-gather, each in Ranks-1 rounds (Patarasuk and Yuan
// 2009).
func ring(e *emitter) {
	all := e.everyone()
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		e.ringReduce(all, off, n)
		e.ringCollect(all, off, n)
	}
}

// recursiveDoubling exchanges whole vectors in log2(Ranks) rounds: the fewest rounds, but the most traffic.
func recursiveDoubling(e *emitter) {
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		e.double(e.everyone(), off, n)
	}
}

// pieceScratch returns the scratch length for one piece. A single rank needs none.
func pieceScratch(p Params, rank int) int {
	if p.Ranks == 1 {
		return 0
	}
	return pieceLen(p)
}

// halvingDoubling is Rabenseifner's algorithm: recursive halving, then recursive doubling. It needs 2
// log2(Ranks) rounds with the traffic of a ring.
func halvingDoubling(e *emitter) {
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		e.halve(e.everyone(), off, n)
	}
}

// tree sends all pieces up before the first one comes down. A rank's steps are sequential: if it waited for the
// result of one piece, it could not pass the next piece up meanwhile.
func tree(e *emitter) {
	for off, n := range e.pieces() {
		e.reduceUp(off, n, out(off, n))
	}
	e.round++
	for off, n := range e.pieces() {
		e.broadcastDown(off, n, out(off, n))
	}
}

// torus arranges the ranks in a grid, rank y*Width+x at (x, y). It reduces and scatters along each row, all-reduces
// the rank's part along its column, and gathers along the row again. Only neighbours on the torus exchange messages.
func torus(e *emitter) {
	x, y := e.rank%e.Width, e.rank/e.Width
	row := Peers{First: y * e.Width, Stride: 1, N: e.Width}
	column := Peers{First: x, Stride: e.Width, N: e.Ranks / e.Width}
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		e.ringReduce(row, off, n)
		partOff, part := teamPart(row, off, n, x)
		e.ringReduce(column, partOff, part)
		e.ringCollect(column, partOff, part)
		e.ringCollect(row, off, n)
	}
}

// hierarchical is two-stage within groups of consecutive ranks, which launchers place on the same host. Between the
// stages, ranks with the same position in their groups all-reduce their parts by halving and doubling, so each part
// crosses the network between hosts once.
func hierarchical(e *emitter) {
	index := e.rank % e.GroupSize
	group := Peers{First: e.rank - index, Stride: 1, N: e.GroupSize}
	across := Peers{First: index, Stride: e.GroupSize, N: e.Ranks / e.GroupSize}
	e.twoStageWithin(group, func(off, n int) { e.halve(across, off, n) })
}
