package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// contributions know which ranks a sum stands for: exactly (sets), or only whether they are the right ones (marks).
type contributions interface {
	// of returns the sum of one rank's elements alone.
	of(rank int) sum
	// plus adds two sums. wide: a has no terms yet but those of this sum, which are rounded once, at the end.
	plus(a, b sum, wide bool) (sum, error)
	// widen begins a wide sum with its first term.
	widen(first sum) sum
	// check returns what is wrong with a sum that should be of rank source, or of all ranks if source is sumOfAll.
	check(s sum, source int) error
}

// marks give every rank a random 64-bit number. A sum of elements is the sum of the numbers, which takes no memory of
// its own. A wrong sum passes with a probability of about 2^-60.
type marks struct{ total sum }

func newMarks(ranks int) *marks {
	m := &marks{}
	for rank := range ranks {
		m.total += m.of(rank)
	}
	return m
}

// of returns the random number of a rank (splitmix64, Steele et al. 2014). It is never 0.
func (*marks) of(rank int) sum {
	z := (uint64(rank) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return sum(z ^ z>>31)
}

func (*marks) plus(a, b sum, _ bool) (sum, error) { return a + b, nil }

func (*marks) widen(first sum) sum { return first }

func (m *marks) check(s sum, source int) error {
	if source == sumOfAll && s == m.total || source != sumOfAll && s == m.of(source) {
		return nil
	}
	return errors.New("is not the sum of the contributions that belong there")
}

// sets are the exact sets of ranks of all sums. A sum is an index in list.
type sets struct {
	ranks int
	trace bool // keep the order of the additions
	list  []contribution
}

// contribution is the set of the ranks of a sum, and the order in which they were added, or nil if that is not traced.
type contribution struct {
	ranks ranks
	order *Sum
}

func newSets(n int, trace bool) *sets {
	s := &sets{ranks: n, trace: trace, list: make([]contribution, 1)} // index 0: nothing
	for rank := range n {
		c := contribution{ranks: singleRank(n, rank)}
		if trace {
			c.order = &Sum{Rank: rank}
		}
		s.list = append(s.list, c)
	}
	return s
}

func (s *sets) of(rank int) sum { return sum(rank + 1) }

func (s *sets) plus(a, b sum, wide bool) (sum, error) {
	one, other := s.list[a], s.list[b]
	if twice := one.ranks.common(other.ranks); twice >= 0 {
		return a, fmt.Errorf("adds rank %d's contribution", twice)
	}
	s.list = append(s.list, contribution{one.ranks.union(other.ranks), one.order.plus(other.order, wide)})
	return sum(len(s.list) - 1), nil
}

func (s *sets) widen(first sum) sum {
	if !s.trace {
		return first
	}
	c := s.list[first]
	s.list = append(s.list, contribution{c.ranks, &Sum{Terms: []*Sum{c.order}, Wide: true}})
	return sum(len(s.list) - 1)
}

func (s *sets) check(got sum, source int) error {
	want := allRanks(s.ranks)
	if source != sumOfAll {
		want = singleRank(s.ranks, source)
	}
	have := s.list[got].ranks
	if lacking := have.missing(want); lacking >= 0 {
		return fmt.Errorf("lacks the contribution of rank %d", lacking)
	}
	if excess := want.missing(have); excess >= 0 {
		return fmt.Errorf("has a contribution of rank %d, which does not belong there", excess)
	}
	return nil
}

// ranks is a set of ranks as a bitmap. It is immutable, so that sums can share it.
type ranks []uint64

func singleRank(n, rank int) ranks {
	r := make(ranks, (n+63)/64)
	r[rank/64] = 1 << (rank % 64)
	return r
}

func allRanks(n int) ranks {
	r := make(ranks, (n+63)/64)
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
	both := slices.Clone(r)
	for i := range both {
		both[i] |= other[i]
	}
	return both
}
