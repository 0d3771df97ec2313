package schedule

import (
	"fmt"
	"slices"
)

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
	peers []access // the last read of each other rank; immutable, because intervals share it
}

// conflict is an access that is not ordered with the current one.
type conflict struct {
	access
	verb string
}

// conflict returns an access of the history that is not ordered with an access of rank, whose clock is c, or nil.
func (h *history) conflict(owner, rank int, c clock, writes bool) *conflict {
	if !h.write.before(rank, c) {
		return &conflict{h.write, "write"}
	}
	if !writes {
		return nil
	}
	for _, a := range append(slices.Clip(h.peers), access{owner, h.own}) {
		if !a.before(rank, c) {
			return &conflict{a, "read"}
		}
	}
	return nil
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
func (v *verifier) touch(ev *event, owner int, r Range, writes bool) error {
	if v.clocks == nil {
		return nil
	}
	m, off := v.locate(owner, r)
	if other := v.touchMemory(ev.rank, ev.index, owner, m, off, r.Len, writes); other != nil {
		verb := "reads"
		if writes {
			verb = "writes"
		}
		return fmt.Errorf("%v: %s %v of rank %d, not ordered after %w", ev, verb, r, owner, other)
	}
	return nil
}

// touchMemory is touch for a part of a memory instead of a buffer. Its error names the access that is not ordered.
func (v *verifier) touchMemory(rank, index, owner int, m *cells, off, n int, writes bool) error {
	if n == 0 {
		return nil
	}
	return v.all.each(m, off, off+n, func(i int32, _ *interval) error {
		h := &v.all.histories[i]
		if other := h.conflict(owner, rank, v.clocks[rank], writes); other != nil {
			return v.describe(other)
		}
		h.record(owner, access{rank, index + 1}, writes)
		return nil
	})
}

// describe returns a conflicting access as an error.
func (v *verifier) describe(with *conflict) error {
	switch with.epoch {
	case 0:
		return fmt.Errorf("rank %d's beginning", with.rank)
	case v.ended[with.rank] + 1:
		return fmt.Errorf("rank %d's end, after which the memory belongs to its caller", with.rank)
	}
	return fmt.Errorf("rank %d's %s at its step %d", with.rank, with.verb, with.epoch-1)
}

// end records a write to all of the rank's memory, because the caller may overwrite it as soon as the collective
// returns.
func (v *verifier) end(rank, steps int) error {
	if v.clocks == nil {
		return nil
	}
	v.ended[rank] = steps
	v.clocks[rank][rank] = steps
	for i := range v.memories[rank] {
		m := &v.memories[rank][i]
		if other := v.touchMemory(rank, steps, rank, m, 0, m.size, true); other != nil {
			return fmt.Errorf("rank %d ends after %d steps: its %v is not ordered after %w", rank, steps, Buffer(i), other)
		}
	}
	return nil
}
