package schedule

import (
	"fmt"
	"slices"
)

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
