package schedule

import "iter"

// emitter emits the steps of one rank, so that algorithms can be written as straight-line code. After the
// consumer has stopped, it drops all further steps. It also drops steps without elements. Both ends of a
// message know its length, so both drop it.
type emitter struct {
	Params
	rank  int
	round int // the tag of the next message or flag; all ranks count the same rounds
	done  bool
	yield func(Step) bool
}

// emitting turns an algorithm that is written with an emitter into a Steps function.
func emitting(write func(*emitter)) func(Params, int) iter.Seq[Step] {
	return func(p Params, rank int) iter.Seq[Step] {
		return func(yield func(Step) bool) { write(&emitter{Params: p, rank: rank, yield: yield}) }
	}
}

func in(off, n int) Range      { return Range{Input, off, n} }
func out(off, n int) Range     { return Range{Output, off, n} }
func scratch(off, n int) Range { return Range{Scratch, off, n} }

func (e *emitter) emit(s Step) {
	if !e.done && !e.yield(s) {
		e.done = true
	}
}

func (e *emitter) everyone() Peers { return Peers{First: 0, Stride: 1, N: e.Ranks} }

// pieces yields the offsets and lengths of the pipelined pieces of the vector.
func (e *emitter) pieces() iter.Seq2[int, int] {
	return func(yield func(off, n int) bool) {
		size := pieceLen(e.Params)
		for off := 0; off < e.Count && !e.done; off += size {
			if !yield(off, min(size, e.Count-off)) {
				return
			}
		}
	}
}

// pieceLen returns the length of a pipelined piece; the last piece may be shorter.
func pieceLen(p Params) int {
	if p.ChunkElems == 0 {
		return p.Count
	}
	return min(p.ChunkElems, p.Count)
}

// copy emits a local copy. In place, a copy from Input to Output is omitted: corresponding ranges are then
// the same memory.
func (e *emitter) copy(src, dst Range) {
	if src.Len == 0 || e.InPlace && src.Buf == Input && dst.Buf == Output {
		return
	}
	e.emit(Step{Op: Copy, Src: src, Dst: dst})
}

func (e *emitter) reduce(src, dst Range) {
	if src.Len > 0 {
		e.emit(Step{Op: Reduce, Src: src, Dst: dst})
	}
}

func (e *emitter) send(to int, src Range) {
	if src.Len > 0 {
		e.emit(Step{Op: Send, Tag: e.round, To: One(to), Src: src})
	}
}

func (e *emitter) recv(op Op, from int, dst Range) {
	if dst.Len > 0 {
		e.emit(Step{Op: op, Tag: e.round, From: One(from), Dst: dst})
	}
}

// exchange sends and receives at the same time; op is Recv or RecvReduce.
func (e *emitter) exchange(to int, src Range, op Op, from int, dst Range) {
	switch {
	case src.Len == 0:
		e.recv(op, from, dst)
	case dst.Len == 0:
		e.send(to, src)
	default:
		both := SendRecv
		if op == RecvReduce {
			both = SendRecvReduce
		}
		e.emit(Step{Op: both, Tag: e.round, To: One(to), Src: src, From: One(from), Dst: dst})
	}
}

func (e *emitter) get(from int, src, dst Range) {
	if src.Len > 0 {
		e.emit(Step{Op: Get, From: One(from), Src: src, Dst: dst})
	}
}

func (e *emitter) put(src Range, to int, dst Range) {
	if src.Len > 0 {
		e.emit(Step{Op: Put, To: One(to), Src: src, Dst: dst})
	}
}

// getReduce sums over the peers, which include the rank itself. For a single rank it is a copy.
func (e *emitter) getReduce(peers Peers, src, dst Range) {
	switch {
	case peers.N == 1:
		e.copy(src, dst)
	case src.Len > 0:
		e.emit(Step{Op: GetReduce, From: peers, Src: src, Dst: dst})
	}
}

// signal raises a flag at each peer but the rank itself.
func (e *emitter) signal(to Peers) {
	if to.N > 1 || to.First != e.rank {
		e.emit(Step{Op: Signal, Tag: e.round, To: to})
	}
}

// wait waits for the next flag of each peer but the rank itself.
func (e *emitter) wait(from Peers) {
	if from.N > 1 || from.First != e.rank {
		e.emit(Step{Op: Wait, Tag: e.round, From: from})
	}
}

// barrier waits until all members of the team have reached it.
func (e *emitter) barrier(team Peers) {
	e.signal(team)
	e.wait(team)
	e.round++
}
