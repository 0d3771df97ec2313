package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// This file holds the checker's model of memory: the layout of buffers, their contents, and the last accesses.

// ranks is a set of ranks as a bitmap. It is immutable, so that cells can share it.
type ranks []uint64

func emptyRanks(n int) ranks { return make(ranks, (n+63)/64) }

func singleRank(n, rank int) ranks {
	r := emptyRanks(n)
	r[rank/64] = 1 << (rank % 64)
	return r
}

func allRanks(n int) ranks {
	r := emptyRanks(n)
	for rank := range n {
		r[rank/64] |= 1 << (rank % 64)
	}
	return r
}

// common returns a rank that is in both sets, or -1.
func (r ranks) common(other ranks) int {
	for i := range r {
		if both := r[i] & other[i]; both != 0 {
			return i*64 + bits.TrailingZeros64(both)
		}
	}
	return -1
}

// missing returns a rank of other that is not in r, or -1.
func (r ranks) missing(other ranks) int {
	for i := range r {
		if more := other[i] &^ r[i]; more != 0 {
			return i*64 + bits.TrailingZeros64(more)
		}
	}
	return -1
}

func (r ranks) union(other ranks) ranks {
	sum := slices.Clone(r)
	for i := range sum {
		sum[i] |= other[i]
	}
	return sum
}

// content describes the elements of an interval: position i holds element i+shift, summed over the inputs of the
// contributors. If contributors is nil, the interval has not been written.
type content struct {
	contributors ranks
	shift        int
	sum          *Sum // nil if sums are not traced
}

// cell is an interval of a memory whose elements have the same content and history.
type cell struct {
	content
	history
}

// memory is a buffer as consecutive cells: cell i is [starts[i], starts[i+1]), and the last start is the length of
// the buffer. Cells are cut only where the ranges of steps begin and end, so their number depends on the algorithm
// and not on the count.
type memory struct {
	starts []int
	cells  []cell
	wide   bool // elements that are added to it are rounded once, at the end
}

func newMemory(n int, c cell) *memory {
	if n == 0 {
		return &memory{starts: []int{0}}
	}
	return &memory{starts: []int{0, n}, cells: []cell{c}}
}

// cut makes position at a boundary and returns the cell that begins there.
func (m *memory) cut(pos int) int {
	i, found := slices.BinarySearch(m.starts, pos)
	if !found {
		m.starts = slices.Insert(m.starts, i, pos)
		m.cells = slices.Insert(m.cells, i, m.cells[i-1])
	}
	return i
}

// span returns the indices of the cells that make up [off, off+n).
func (m *memory) span(off, n int) (from, to int) {
	from = m.cut(off)
	return from, m.cut(off + n)
}

// piece is a part of the data that a step moves: n elements, which begin off elements into the step's range. They are
// the elements first, first+1... of the inputs, summed over the contributors.
type piece struct {
	off, n, first int
	contributors  ranks
	sum           *Sum
}

// load appends the contents of [off, off+n) to into.
func (m *memory) load(into []piece, off, n int) ([]piece, error) {
	from, to := m.span(off, n)
	for i := from; i < to; i++ {
		start := m.starts[i]
		if m.cells[i].contributors == nil {
			return into, fmt.Errorf("elements %d to %d of it have not been written", start-off, m.starts[i+1]-off-1)
		}
		c := m.cells[i].content
		into = append(into, piece{start - off, m.starts[i+1] - start, start + c.shift, c.contributors, c.sum})
	}
	return into, nil
}

// store overwrites the elements from off on with the pieces.
func (m *memory) store(pieces []piece, off int) {
	for _, p := range pieces {
		from, to := m.span(off+p.off, p.n)
		for i := from; i < to; i++ {
			m.cells[i].content = content{p.contributors, p.first - off - p.off, p.sum}
		}
	}
}

// add adds the pieces to the elements from off on. It fails if a sum would contain a rank twice or mix different
// elements: no later step could correct that.
func (m *memory) add(pieces []piece, off int) error {
	for _, p := range pieces {
		from, to := m.span(off+p.off, p.n)
		for i := from; i < to; i++ {
			c := &m.cells[i].content
			first, last := m.starts[i]-off, m.starts[i+1]-off-1
			if c.contributors == nil {
				return fmt.Errorf("adds to elements %d to %d of it, which have not been written", first, last)
			}
			if shift := p.first - off - p.off; shift != c.shift {
				return fmt.Errorf("adds input element %d to input element %d", m.starts[i]+shift, m.starts[i]+c.shift)
			}
			if duplicate := c.contributors.common(p.contributors); duplicate >= 0 {
				return fmt.Errorf("adds rank %d's contribution to elements %d to %d again", duplicate, first, last)
			}
			c.contributors, c.sum = c.contributors.union(p.contributors), c.sum.plus(p.sum, m.wide)
		}
	}
	return nil
}

// clock is a vector clock. c[r] is the number of steps of rank r that are known to be complete, or unknown if r is not
// even known to have started.
type clock []int

const unknown = -1

func (c clock) join(other clock) {
	for i, v := range other {
		c[i] = max(c[i], v)
	}
}

// access is a read or write of an element by a rank. Epoch 0 is the time before the rank's first step, epoch i+1 is
// its step i. The access happened before the current step of any rank whose clock has at least epoch steps of this
// rank.
type access struct{ rank, epoch int }

// before reports whether the access happened before the current step of rank, whose clock is c. Accesses by the same
// rank are always ordered.
func (a access) before(rank int, c clock) bool { return a.rank == rank || c[a.rank] >= a.epoch }

// history holds the accesses that the next access must be ordered with: the last write, and the reads since then.
// The owner's reads are stored apart, because most reads are the owner's and need no list.
type history struct {
	write access
	own   int      // epoch of the owner's last read; 0 means none (a read before the first step conflicts with nothing)
	peers []access // the last read of each other rank; immutable, because cells share it
}

// conflict is an access that is not ordered with the current one.
type conflict struct {
	access
	verb string
}

// conflict returns an access of the history that is not ordered with an access of rank, whose clock is c.
func (h *history) conflict(owner, rank int, c clock, writes bool) (conflict, bool) {
	if !h.write.before(rank, c) {
		return conflict{h.write, "write"}, true
	}
	if !writes {
		return conflict{}, false
	}
	for _, a := range h.peers {
		if !a.before(rank, c) {
			return conflict{a, "read"}, true
		}
	}
	own := access{owner, h.own}
	return conflict{own, "read"}, !own.before(rank, c)
}

// record adds an access to the history.
func (h *history) record(owner int, a access, writes bool) {
	switch {
	case writes:
		*h = history{write: a}
	case a.rank == owner:
		h.own = a.epoch
	default:
		others := slices.DeleteFunc(slices.Clone(h.peers), func(b access) bool { return b.rank == a.rank })
		h.peers = append(others, a)
	}
}

// touch records that a step reads or writes a range of owner's memory. It fails if the step races with an earlier
// access.
func (c *checker) touch(ev *event, owner int, r Range, writes bool) error {
	memory, off := c.layout.locate(owner, r)
	if other, found := c.touchMemory(ev.rank, ev.index, owner, memory, off, r.Len, writes); found {
		verb := "reads"
		if writes {
			verb = "writes"
		}
		return fmt.Errorf("%v: %s %v of rank %d, not ordered after %s", ev, verb, r, owner, c.describe(other))
	}
	return nil
}

// touchMemory is touch for a range of a memory instead of a buffer. It returns a conflicting access, if any.
func (c *checker) touchMemory(rank, index, owner, memory, off, n int, writes bool) (conflict, bool) {
	m := c.memories[owner][memory]
	from, to := m.span(off, n)
	for i := from; i < to; i++ {
		h := &m.cells[i].history
		if other, found := h.conflict(owner, rank, c.clocks[rank], writes); found {
			return other, true
		}
		h.record(owner, access{rank, index + 1}, writes)
	}
	return conflict{}, false
}

// describe returns the text of a conflicting access for an error.
func (c *checker) describe(with conflict) string {
	switch with.epoch {
	case 0:
		return fmt.Sprintf("rank %d's beginning", with.rank)
	case c.ended[with.rank] + 1:
		return fmt.Sprintf("rank %d's end, after which the memory belongs to its caller", with.rank)
	}
	return fmt.Sprintf("rank %d's %s at its step %d", with.rank, with.verb, with.epoch-1)
}

// layout holds the lengths of every rank's buffers and their positions in memory. Each buffer has a memory of its own,
// with the same index. In place, however, Input and Output share memory 0.
type layout struct {
	ranks   int
	inPlace bool
	buffers []buffers // by rank; only one if all ranks have the same
}

// buffers holds, by Buffer, the lengths of a rank's buffers and the positions at which they begin in memory.
type buffers struct{ len, shift [3]int }

func newLayout(s Schedule) layout {
	p := s.Params()
	l := layout{ranks: s.Ranks(), inPlace: p.InPlace, buffers: make([]buffers, 1)}
	for rank := range l.ranks {
		var b buffers
		for _, buf := range []Buffer{Input, Output} {
			// The collective determines these lengths. Check must not trust the schedule under test for them.
			b.len[buf] = p.Len(s.Collective(), buf, rank)
			if p.InPlace {
				b.shift[buf] = p.Shift(s.Collective(), buf, rank)
			}
		}
		b.len[Scratch] = s.Len(Scratch, rank)
		switch {
		case rank == 0:
			l.buffers[0] = b
		case len(l.buffers) > 1:
			l.buffers[rank] = b
		case b != l.buffers[0]:
			l.buffers = slices.Repeat(l.buffers, l.ranks)
			l.buffers[rank] = b
		}
	}
	return l
}

// buffersOf returns the buffers of a rank.
func (l *layout) buffersOf(rank int) *buffers {
	if len(l.buffers) == 1 {
		return &l.buffers[0]
	}
	return &l.buffers[rank]
}

// locate returns the memory and offset of a rank's range.
func (l *layout) locate(rank int, r Range) (memory, off int) {
	memory = int(r.Buf)
	if l.inPlace && r.Buf == Output {
		memory = int(Input)
	}
	return memory, r.Off + l.buffersOf(rank).shift[r.Buf]
}

// extent returns the length of one of a rank's memories.
func (l *layout) extent(rank, memory int) int {
	b := l.buffersOf(rank)
	n := b.len[memory] + b.shift[memory]
	if l.inPlace {
		switch Buffer(memory) {
		case Input:
			n = max(n, b.len[Output]) // a shifted output is a part of the input
		case Output:
			return 0
		}
	}
	return n
}

// validate checks a step by itself: its peers exist, and its ranges are inside buffers, have equal lengths
// and do not overlap.
func (l *layout) validate(ev *event) error {
	op := ev.Op
	if op > Wait {
		return errors.New("unknown operation")
	}
	sends, receives := op.Sends(), op.Receives()
	if sends || op == Put || op == Signal {
		if err := l.validatePeers(ev, &ev.To); err != nil {
			return err
		}
	}
	if receives || op == Get || op == GetReduce || op == Wait {
		if err := l.validatePeers(ev, &ev.From); err != nil {
			return err
		}
	}
	if op == Signal || op == Wait {
		return nil
	}
	if sends || !receives {
		owners := One(ev.rank)
		if op == Get || op == GetReduce {
			owners = ev.From
		}
		if err := l.validateRange(&owners, &ev.Src); err != nil {
			return err
		}
	}
	if op != Send {
		owner := One(ev.rank)
		if op == Put {
			owner = ev.To
		}
		if err := l.validateRange(&owner, &ev.Dst); err != nil {
			return err
		}
		if ev.Dst.Buf == Input {
			return errors.New("writes to the input, which belongs to the caller")
		}
	}
	if !sends && !receives && ev.Src.Len != ev.Dst.Len {
		return fmt.Errorf("the source has %d elements, the destination %d", ev.Src.Len, ev.Dst.Len)
	}
	return l.validateOverlap(ev)
}

func (l *layout) validatePeers(ev *event, peers *Peers) error {
	if peers.N == 1 && peers.Stride == 1 && uint(peers.First) < uint(l.ranks) && peers.First != ev.rank {
		return nil // the usual case
	}
	many := ev.Op == GetReduce || ev.Op == Signal || ev.Op == Wait
	switch {
	case peers.N < 1 || peers.Stride < 1:
		return errors.New("names no peer")
	case peers.First < 0 || peers.At(peers.N-1) >= l.ranks:
		return fmt.Errorf("no such peer: %v, ranks are 0 to %d", *peers, l.ranks-1)
	case !many && peers.N != 1:
		return fmt.Errorf("takes one peer, not %d", peers.N)
	case peers.N == 1 && peers.First == ev.rank:
		return errors.New("the peer is the rank itself")
	}
	return nil
}

func (l *layout) validateRange(owners *Peers, r *Range) error {
	if r.Buf > Scratch {
		return fmt.Errorf("%v: no such buffer", *r)
	}
	if r.Len < 1 {
		return fmt.Errorf("%v is empty", *r)
	}
	if len(l.buffers) == 1 && r.Off >= 0 && r.Off+r.Len <= l.buffers[0].len[r.Buf] {
		return nil // the usual case: all ranks have the same buffers
	}
	for i := range owners.N {
		if size := l.buffersOf(owners.At(i)).len[r.Buf]; r.Off < 0 || r.Off+r.Len > size {
			return fmt.Errorf("%v is outside the %s of rank %d, which has %d elements", *r, r.Buf, owners.At(i), size)
		}
	}
	return nil
}

// validateOverlap rejects a step whose destination overlaps its source. Only a get-reduce may overwrite
// exactly the range that it reads, element by element.
func (l *layout) validateOverlap(ev *event) error {
	sameRank := ev.Op == SendRecv || ev.Op == SendRecvReduce || ev.Op == Copy || ev.Op == Reduce
	if ev.Op == GetReduce {
		for i := range ev.From.N {
			sameRank = sameRank || ev.From.At(i) == ev.rank
		}
	}
	if !sameRank || ev.Src.Buf != ev.Dst.Buf && !l.inPlace {
		return nil
	}
	srcMemory, src := l.locate(ev.rank, ev.Src)
	dstMemory, dst := l.locate(ev.rank, ev.Dst)
	if srcMemory != dstMemory || src+ev.Src.Len <= dst || dst+ev.Dst.Len <= src || ev.Op == GetReduce && src == dst {
		return nil
	}
	return fmt.Errorf("%v and %v overlap", ev.Src, ev.Dst)
}
