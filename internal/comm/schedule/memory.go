package schedule

import (
	"fmt"
	"math/bits"
	"slices"
)

// What the checker knows of a memory: what it holds, and who touched it last.

// ranks is a set of ranks as bits. It is never changed once made, so cells share it.
type ranks []uint64

func noRanks(n int) ranks { return make(ranks, (n+63)/64) }

func only(n, rank int) ranks {
	r := noRanks(n)
	r[rank/64] = 1 << (rank % 64)
	return r
}

func allRanks(n int) ranks {
	r := noRanks(n)
	for rank := range n {
		r[rank/64] |= 1 << (rank % 64)
	}
	return r
}

// common gives a rank that is in both sets, or -1.
func (r ranks) common(other ranks) int {
	for i := range r {
		if both := r[i] & other[i]; both != 0 {
			return i*64 + bits.TrailingZeros64(both)
		}
	}
	return -1
}

// lacking gives a rank of other that is not in r, or -1.
func (r ranks) lacking(other ranks) int {
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

// content is what the elements of an interval hold: at position i, the sum over
// who of element i+shift of their inputs. Without who it has not been written.
type content struct {
	who   ranks
	shift int
}

// cell is an interval of a memory that has been treated alike so far: what it
// holds and who touched it last.
type cell struct {
	content
	history
}

// memory is a buffer as consecutive cells: cell i is [starts[i], starts[i+1]),
// and starts ends with the length. It is cut where steps begin and end and
// never anywhere else, so its size goes with the algorithm and not the count.
type memory struct {
	starts []int
	cells  []cell
}

func newMemory(n int, c cell) *memory {
	if n == 0 {
		return &memory{starts: []int{0}}
	}
	return &memory{starts: []int{0, n}, cells: []cell{c}}
}

// cut makes position at a boundary and gives the cell that begins there.
func (m *memory) cut(at int) int {
	i, found := slices.BinarySearch(m.starts, at)
	if !found {
		m.starts = slices.Insert(m.starts, i, at)
		m.cells = slices.Insert(m.cells, i, m.cells[i-1])
	}
	return i
}

// span gives the cells that make up [off, off+n), as indices.
func (m *memory) span(off, n int) (from, to int) {
	from = m.cut(off)
	return from, m.cut(off + n)
}

// piece is a part of what a step moves: n elements, off after the beginning of
// its range, that hold elements first... of who's inputs.
type piece struct {
	off, n, first int
	who           ranks
}

// load appends what [off, off+n) holds.
func (m *memory) load(into []piece, off, n int) ([]piece, error) {
	from, to := m.span(off, n)
	for i := from; i < to; i++ {
		start := m.starts[i]
		if m.cells[i].who == nil {
			return into, fmt.Errorf("elements %d to %d of it have not been written", start-off, m.starts[i+1]-off-1)
		}
		into = append(into, piece{start - off, m.starts[i+1] - start, start + m.cells[i].shift, m.cells[i].who})
	}
	return into, nil
}

// store overwrites what lies from off on with the pieces.
func (m *memory) store(pieces []piece, off int) {
	for _, p := range pieces {
		from, to := m.span(off+p.off, p.n)
		for i := from; i < to; i++ {
			m.cells[i].content = content{p.who, p.first - off - p.off}
		}
	}
}

// add adds the pieces to what lies from off on. A sum that takes in a rank
// twice or mixes elements can never become right again, so it is refused here,
// where the fault is.
func (m *memory) add(pieces []piece, off int) error {
	for _, p := range pieces {
		from, to := m.span(off+p.off, p.n)
		for i := from; i < to; i++ {
			c := &m.cells[i].content
			first, last := m.starts[i]-off, m.starts[i+1]-off-1
			if c.who == nil {
				return fmt.Errorf("adds to elements %d to %d of it, which have not been written", first, last)
			}
			if comes := p.first - off - p.off; comes != c.shift {
				return fmt.Errorf("adds input element %d to input element %d", m.starts[i]+comes, m.starts[i]+c.shift)
			}
			if twice := c.who.common(p.who); twice >= 0 {
				return fmt.Errorf("adds rank %d's contribution to elements %d to %d again", twice, first, last)
			}
			c.who = c.who.union(p.who)
		}
	}
	return nil
}

// clock is a vector clock: how many steps of each rank are known to be
// complete; unheard when not even its beginning is known.
type clock []int

const unheard = -1

func (c clock) join(other clock) {
	for i, v := range other {
		c[i] = max(c[i], v)
	}
}

// access is when a rank touched an element: 0 is before its first step, i+1 is
// during its step i. It is past for those whose clock has that many of the
// rank's steps.
type access struct{ rank, epoch int }

func (a access) before(rank int, c clock) bool { return a.rank == rank || c[a.rank] >= a.epoch }

// history is what must be ordered with the next access: the last write, and
// the reads since, of which the owner's own are by far the most frequent.
type history struct {
	write access
	own   int      // the owner's last read, 0 for none: reading before the first step is harmless
	peers []access // of the others, each one's last; never changed, since cells share it
}

// conflict is an access that another one is not ordered with.
type conflict struct {
	access
	verb string
}

// conflict looks for one with an access of a rank that has the given clock.
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

// note adds an access to the history.
func (h *history) note(owner int, a access, writes bool) {
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

// touch records that a step reads or writes a range of owner's, unless that is
// not ordered with another access.
func (c *checker) touch(at event, owner int, r Range, writes bool) error {
	memory, off := c.layout.locate(owner, r)
	if other, found := c.touchMemory(at.rank, at.index, owner, memory, off, r.Len, writes); found {
		verb := "reads"
		if writes {
			verb = "writes"
		}
		return fmt.Errorf("%v: %s %v of rank %d, not ordered after %s", at, verb, r, owner, c.describe(other))
	}
	return nil
}

// touchMemory is touch by place; it gives the conflict there is, if any.
func (c *checker) touchMemory(rank, index, owner, memory, off, n int, writes bool) (conflict, bool) {
	m := c.memories[owner][memory]
	from, to := m.span(off, n)
	for i := from; i < to; i++ {
		h := &m.cells[i].history
		if other, found := h.conflict(owner, rank, c.clocks[rank], writes); found {
			return other, true
		}
		h.note(owner, access{rank, index + 1}, writes)
	}
	return conflict{}, false
}

// describe words a conflict for the rank that has overlooked it.
func (c *checker) describe(with conflict) string {
	switch with.epoch {
	case 0:
		return fmt.Sprintf("rank %d's beginning", with.rank)
	case c.ended[with.rank] + 1:
		return fmt.Sprintf("rank %d's end, from which on the memory is its caller's", with.rank)
	}
	return fmt.Sprintf("rank %d's %s at its step %d", with.rank, with.verb, with.epoch-1)
}
