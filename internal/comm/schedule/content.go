package schedule

import (
	"fmt"
	"math/bits"
	"slices"
)

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
// holds and who touched it last (see race.go).
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
