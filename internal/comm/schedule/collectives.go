package schedule

// Lists of options for Info.Takes.
var (
	blocks        = []string{takesBlocks}
	inPlaceBlocks = []string{takesInPlace, takesBlocks}
	rootedBlocks  = []string{takesRoot, takesInPlace, takesBlocks}
	rooted        = []string{takesRoot, takesInPlace}
	rootedChunk   = []string{takesRoot, takesChunk, takesInPlace}
)

// otherCollectives holds the algorithms of all collectives but all-reduce.
var otherCollectives = []Algorithm{
	{Info: Info{Collective: ReduceScatter, Name: "ring", Takes: inPlaceBlocks,
		Help: "partial sums travel once round the ring"}, Steps: emitting(ringReduceScatter),
		Scratch: ringReduceScatterScratch},
	{Info: Info{Collective: ReduceScatter, Name: "direct", Takes: inPlaceBlocks, Direct: true, Order: RankOrder,
		Wide: true,
		Help: "every rank adds its block from all inputs"}, Steps: emitting(directReduceScatter)},

	{Info: Info{Collective: AllGather, Name: "ring", Takes: inPlaceBlocks,
		Help: "blocks travel once round the ring"}, Steps: emitting(ringAllGather)},
	{Info: Info{Collective: AllGather, Name: "direct", Takes: inPlaceBlocks, Direct: true,
		Help: "every rank reads all blocks"}, Steps: emitting(directAllGather)},

	{Info: Info{Collective: Broadcast, Name: "tree", Takes: rootedChunk,
		Help: "down a binary tree; pieces are pipelined"}, Steps: emitting(treeBroadcast)},
	{Info: Info{Collective: Broadcast, Name: "direct", Takes: rooted, Direct: true,
		Help: "every rank reads the root's input"}, Steps: emitting(directBroadcast)},

	{Info: Info{Collective: ReduceTo, Name: "tree", Takes: rootedChunk,
		Help: "up a binary tree; pieces are pipelined"}, Steps: emitting(treeReduce), Scratch: treeReduceScratch},
	{Info: Info{Collective: ReduceTo, Name: "direct", Takes: rooted, Direct: true, Order: RankOrder, Wide: true,
		Help: "every rank adds its part from all inputs and puts it at the root"}, Steps: emitting(directReduce),
		Scratch: directReduceScratch},

	{Info: Info{Collective: Gather, Name: "linear", Takes: rootedBlocks,
		Help: "every rank sends its block to the root"}, Steps: emitting(linearGather)},
	{Info: Info{Collective: Gather, Name: "direct", Takes: rootedBlocks, Direct: true,
		Help: "every rank puts its block at the root"}, Steps: emitting(directGather)},

	{Info: Info{Collective: Scatter, Name: "linear", Takes: rootedBlocks,
		Help: "the root sends every rank its block"}, Steps: emitting(linearScatter)},
	{Info: Info{Collective: Scatter, Name: "direct", Takes: rootedBlocks, Direct: true,
		Help: "every rank reads its block from the root"}, Steps: emitting(directScatter)},

	{Info: Info{Collective: AllToAll, Name: "pairwise", Takes: blocks,
		Help: "in round k, send to the k-th rank after and receive from the k-th before"}, Steps: emitting(pairwise)},
	{Info: Info{Collective: AllToAll, Name: "direct", Takes: blocks, Direct: true,
		Help: "every rank reads its block of every input"}, Steps: emitting(directAllToAll)},

	{Info: Info{Collective: Barrier, Name: "dissemination",
		Help: "flags at distances 1, 2, 4...: few flags in log2 hops"}, Steps: emitting(dissemination)},
	{Info: Info{Collective: Barrier, Name: "direct",
		Help: "a flag to everyone, then wait for everyone's: one hop"}, Steps: emitting(directBarrier)},
}

// ringReduceScatter passes partial sums through two scratch slots: one is sent while the next one arrives.
// The rank's own block comes last and goes directly into the output.
func ringReduceScatter(e *emitter) {
	right, left := (e.rank+1)%e.Ranks, (e.rank+e.Ranks-1)%e.Ranks
	slotLen := ringReduceScatterScratch(e.Params, e.rank) / 2
	block := func(k int) Range { return in(e.Block((e.rank - k + 2*e.Ranks) % e.Ranks)) }

	sending := block(1)
	for k := 1; k < e.Ranks; k++ {
		own := block(k + 1)
		arriving := scratch(k%2*slotLen, own.Len)
		if k == e.Ranks-1 {
			arriving = out(0, own.Len)
		}
		e.copy(own, arriving)
		e.exchange(right, sending, RecvReduce, left, arriving)
		e.round++
		sending = arriving
	}
	if e.Ranks == 1 {
		e.copy(in(0, e.Count), out(0, e.Count))
	}
}

// ringReduceScatterScratch returns the scratch length. Up to two ranks need none, because every block goes
// from input to output in one hop.
func ringReduceScatterScratch(p Params, rank int) int {
	if p.Ranks < 3 {
		return 0
	}
	largest := 0
	for r := range p.Ranks {
		_, n := p.Block(r)
		largest = max(largest, n)
	}
	return 2 * largest
}

// directReduceScatter lets every rank sum its own block over all inputs. After the second barrier no peer reads
// this rank's input any more, so the caller may overwrite it.
func directReduceScatter(e *emitter) {
	off, n := e.Block(e.rank)
	e.barrier(e.everyone())
	e.getReduce(e.everyone(), in(off, n), out(0, n))
	e.barrier(e.everyone())
}

// ringAllGather passes each block once round the ring.
func ringAllGather(e *emitter) {
	off, n := e.Block(e.rank)
	e.copy(in(0, n), out(off, n))
	e.collectRound(e.everyone(), func(i int) (int, int) { return e.Block((i + e.Ranks) % e.Ranks) })
}

// directAllGather lets every rank read the other blocks, starting with its next neighbour's, so that not all ranks
// read from the same one at once.
func directAllGather(e *emitter) {
	off, n := e.Block(e.rank)
	e.copy(in(0, n), out(off, n))
	e.barrier(e.everyone())
	for k := 1; k < e.Ranks; k++ {
		peer := (e.rank + k) % e.Ranks
		off, n := e.Block(peer)
		e.get(peer, in(0, n), out(off, n))
	}
	e.barrier(e.everyone())
}

// treeBroadcast sends the vector down a binary tree, piece by piece.
func treeBroadcast(e *emitter) {
	if e.rank == e.Root {
		e.copy(in(0, e.Count), out(0, e.Count))
	}
	for off, n := range e.pieces() {
		e.broadcastDown(off, n, in(off, n))
	}
}

// fromRoot synchronizes steps in which the other ranks access the root's memory: the root signals when they
// may begin, and they signal when they are done.
func (e *emitter) fromRoot(root, others func()) {
	all := e.everyone()
	if e.rank == e.Root {
		e.signal(all)
		root()
		e.round++
		e.wait(all)
		return
	}
	e.wait(One(e.Root))
	others()
	e.round++
	e.signal(One(e.Root))
}

// directBroadcast lets every rank read the root's input.
func directBroadcast(e *emitter) {
	transfer := func(copy func(src, dst Range)) func() {
		return func() { copy(in(0, e.Count), out(0, e.Count)) }
	}
	e.fromRoot(transfer(e.copy), transfer(func(src, dst Range) { e.get(e.Root, src, dst) }))
}

// treeReduce sums up a binary tree, piece by piece. The root accumulates in its output, the inner ranks in scratch,
// because only the root has an output.
func treeReduce(e *emitter) {
	for off, n := range e.pieces() {
		acc := scratch(0, n)
		if e.rank == e.Root {
			acc = out(off, n)
		}
		e.reduceUp(off, n, acc)
	}
}

// treeReduceScratch returns the scratch length: one piece for inner ranks, nothing for the root and for leaves.
func treeReduceScratch(p Params, rank int) int {
	e := emitter{Params: p, rank: rank}
	if rank == p.Root || e.treeLeaf() {
		return 0
	}
	return pieceLen(p)
}

// directReduce lets every rank reduce one part and put it into the root's output, so that all ranks
// share the additions.
func directReduce(e *emitter) {
	off, n := e.Block(e.rank)
	e.barrier(e.everyone())
	if e.rank == e.Root {
		e.getReduce(e.everyone(), in(off, n), out(off, n))
	} else {
		e.getReduce(e.everyone(), in(off, n), scratch(0, n))
		e.put(scratch(0, n), e.Root, out(off, n))
	}
	e.barrier(e.everyone())
}

// directReduceScratch returns the scratch length: the rank's part. Ranks other than the root sum their part there
// before they put it into the root's output.
func directReduceScratch(p Params, rank int) int {
	if rank == p.Root {
		return 0
	}
	_, n := p.Block(rank)
	return n
}

// linearGather lets the root receive the blocks in rank order, one after the other.
func linearGather(e *emitter) {
	if e.rank != e.Root {
		_, n := e.Block(e.rank)
		e.send(e.Root, in(0, n))
		return
	}
	for peer := range e.Ranks {
		off, n := e.Block(peer)
		if peer == e.Root {
			e.copy(in(0, n), out(off, n))
		} else {
			e.recv(Recv, peer, out(off, n))
		}
	}
}

// directGather lets the other ranks put their blocks. They write concurrently, while the root would read one
// block after the other.
func directGather(e *emitter) {
	off, n := e.Block(e.rank)
	e.fromRoot(
		func() { e.copy(in(0, n), out(off, n)) },
		func() { e.put(in(0, n), e.Root, out(off, n)) })
}

// linearScatter lets the root send the blocks in rank order, one after the other.
func linearScatter(e *emitter) {
	if e.rank != e.Root {
		_, n := e.Block(e.rank)
		e.recv(Recv, e.Root, out(0, n))
		return
	}
	for peer := range e.Ranks {
		off, n := e.Block(peer)
		if peer == e.Root {
			e.copy(in(off, n), out(0, n))
		} else {
			e.send(peer, in(off, n))
		}
	}
}

// directScatter lets every rank read its block from the root's input.
func directScatter(e *emitter) {
	off, n := e.Block(e.rank)
	e.fromRoot(
		func() { e.copy(in(off, n), out(0, n)) },
		func() { e.get(e.Root, in(off, n), out(0, n)) })
}

// pairwise exchanges one block per round. In every round each rank sends to one rank and receives from one, so no
// receiver is overloaded.
func pairwise(e *emitter) {
	e.copyOwnBlock()
	for k := 1; k < e.Ranks; k++ {
		to, from := (e.rank+k)%e.Ranks, (e.rank-k+e.Ranks)%e.Ranks
		src, _, sent := e.Pair(e.rank, to)
		_, dst, received := e.Pair(from, e.rank)
		e.exchange(to, in(src, sent), Recv, from, out(dst, received))
		e.round++
	}
}

// directAllToAll lets every rank read its block of every input, starting with its next neighbour's.
func directAllToAll(e *emitter) {
	e.copyOwnBlock()
	e.barrier(e.everyone())
	for k := 1; k < e.Ranks; k++ {
		peer := (e.rank + k) % e.Ranks
		src, dst, n := e.Pair(peer, e.rank)
		e.get(peer, in(src, n), out(dst, n))
	}
	e.barrier(e.everyone())
}

// copyOwnBlock copies the block that a rank sends to itself.
func (e *emitter) copyOwnBlock() {
	src, dst, n := e.Pair(e.rank, e.rank)
	e.copy(in(src, n), out(dst, n))
}

// dissemination is the barrier of Hensgen, Finkel and Manber (1988). After round k a rank knows, directly or
// indirectly, that the 2^k ranks before it have entered.
func dissemination(e *emitter) {
	for distance := 1; distance < e.Ranks; distance *= 2 {
		e.signal(One((e.rank + distance) % e.Ranks))
		e.wait(One((e.rank - distance + e.Ranks) % e.Ranks))
		e.round++
	}
}

func directBarrier(e *emitter) { e.barrier(e.everyone()) }
