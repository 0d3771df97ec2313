package schedule

import (
	"errors"
	"fmt"
	"slices"
)

// Prove is a Check for very many ranks, for which sets of ranks would take too much memory. Each rank has a random
// 64-bit number, its mark. For each interval, Prove keeps the sum of the contributors' marks instead of their set. A
// wrong output passes with a probability of about 2^-60. Like Check, Prove runs all steps with sends that complete only
// when the receiver is ready. It therefore finds every deadlock, every unexpected message, every use of unwritten data
// and every addition of different elements. For a barrier it keeps sets, as ranges of ranks.
//
// Prove does not find races. Only schedules that access the memory of peers can have them, and Prove hands these
// schedules to Check.
func Prove(s Schedule) error {
	if info, _ := Lookup(s.Collective(), s.Name()); info.Direct {
		return Check(s)
	}
	p := newProver(s)
	return executeAndVerify(s, p, func(rank int) error { return p.result(s, rank) })
}

// newProver sets up memories whose inputs hold each rank's mark.
func newProver(s Schedule) *prover {
	p := &prover{layout: newLayout(s), memories: make([][3]cells, s.Ranks())}
	if s.Collective() == Barrier {
		p.entered = make([]spans, s.Ranks())
	}
	for rank := range p.memories {
		for i := range p.memories[rank] {
			p.memories[rank][i] = p.all.memory(p.layout.extent(rank, i))
		}
		if p.entered != nil {
			p.entered[rank] = spans{{rank, rank + 1}}
		}
		if size := p.layout.buffersOf(rank).len[Input]; size > 0 {
			m, off := p.memory(rank, Range{Input, 0, size})
			p.all.store(m, off, []markedPiece{{n: size, sum: mark(rank)}})
		}
		p.total += mark(rank)
	}
	return p
}

// mark returns the random number of a rank (splitmix64, Steele et al. 2014). It is never 0.
func mark(rank int) uint64 {
	z := (uint64(rank) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// prover is the observer that keeps sums of marks. In a barrier, messages and flags carry the ranks that the sender
// knows to have entered.
type prover struct {
	layout   layout
	memories [][3]cells
	all      intervals
	total    uint64        // sum of all ranks' marks
	moved    []markedPiece // buffer for the data that a step moves, reused
	entered  []spans       // barrier only: by rank, the ranks that it knows to have entered
}

func (p *prover) memory(rank int, r Range) (*cells, int) {
	i, off := p.layout.locate(rank, r)
	return &p.memories[rank][i], off
}

func (p *prover) begin(*event) error    { return nil }
func (p *prover) end(int, int) error    { return nil }
func (p *prover) local(ev *event) error { return p.move(ev, ev) }

func (p *prover) stamp(rank int, into spans) spans {
	if p.entered == nil {
		return nil
	}
	return append(into[:0], p.entered[rank]...)
}

func (p *prover) wait(ev *event, _ int, carried spans) { p.learn(ev.rank, carried) }

func (p *prover) message(src, dst *event, carried spans) error {
	p.learn(dst.rank, carried)
	return p.move(src, dst)
}

// learn adds the ranks that a message or flag carries to the ranks that its receiver knows to have entered the barrier.
func (p *prover) learn(rank int, carried spans) {
	if p.entered != nil {
		p.entered[rank] = p.entered[rank].union(carried)
	}
}

// move transfers the data that step src reads to the destination of step dst.
func (p *prover) move(src, dst *event) error {
	from, off := p.memory(src.rank, src.Src)
	var ok bool
	if p.moved, ok = p.all.load(from, p.moved[:0], off, src.Src.Len); !ok {
		return fmt.Errorf("%v: reads %v, part of which has not been written", src, src.Src)
	}
	to, off := p.memory(dst.rank, dst.Dst)
	if !dst.Op.Accumulates() {
		p.all.store(to, off, p.moved)
		return nil
	}
	if err := p.all.add(to, off, p.moved); err != nil {
		return fmt.Errorf("%v: %w", dst, err)
	}
	return nil
}

// result checks a rank's output.
func (p *prover) result(s Schedule, rank int) error {
	if p.entered != nil {
		if absent := p.entered[rank].missing(s.Ranks()); absent >= 0 {
			return fmt.Errorf("it leaves the barrier before rank %d has entered it", absent)
		}
	}
	for _, want := range expectedOutput(s, rank) {
		sum := p.total
		if want.source != sumOfAll {
			sum = mark(want.source)
		}
		m, off := p.memory(rank, Range{Output, want.off, want.n})
		have, ok := p.all.load(m, p.moved[:0], off, want.n)
		p.moved = have
		for at := 0; ok && len(have) > 0; at, have = at+have[0].n, have[1:] {
			if ok = have[0].sum == sum && have[0].first == want.first+at; !ok {
				return fmt.Errorf("output elements %d to %d are not the sum of the contributions that belong there",
					want.off+at, want.off+at+have[0].n-1)
			}
		}
		if !ok {
			return fmt.Errorf("a part of output elements %d to %d has not been written", want.off, want.off+want.n-1)
		}
	}
	return nil
}

// markedPiece is like piece, with the sum of the contributors' marks instead of their set.
type markedPiece struct {
	off, n, first int
	sum           uint64
}

// cells is a memory as a circular list of intervals with uniform contents. finger is the interval that was used last.
// Schedules traverse their memory forwards, backwards or in a circle, so the next interval is close to it.
type cells struct {
	finger int32
	size   int
}

// interval is a part of a rank's memory.
type interval struct {
	start, end int
	shift      int    // element i is element i+shift of the inputs
	sum        uint64 // sum of marks; 0 if not written
	prev, next int32
}

// intervals holds the intervals of all memories in order of creation. Ranks that alternate create their intervals next
// to each other and return to them in the same order, which is good for the CPU caches.
type intervals struct {
	pages []*[pageSize]interval
	n     int32
}

// pageSize is the number of intervals that are allocated at a time.
const pageSize = 1 << 10

func (v *intervals) at(i int32) *interval { return &v.pages[i/pageSize][i%pageSize] }

func (v *intervals) make(c interval) int32 {
	if v.n%pageSize == 0 {
		v.pages = append(v.pages, new([pageSize]interval))
	}
	v.n++
	*v.at(v.n - 1) = c
	return v.n - 1
}

// memory returns a new memory of n unwritten elements.
func (v *intervals) memory(n int) cells {
	if n == 0 {
		return cells{}
	}
	return cells{v.make(interval{end: n, prev: v.n, next: v.n}), n}
}

// find returns the interval that contains an element.
func (v *intervals) find(m *cells, pos int) int32 {
	if c := v.at(m.finger); pos >= c.start && pos < c.end {
		return m.finger
	}
	return v.search(m, pos)
}

// search moves the finger to the interval that contains an element.
func (v *intervals) search(m *cells, pos int) int32 {
	i := m.finger
	c := v.at(i)
	back := pos < c.start && c.start-pos <= m.size/2 || pos >= c.end && pos-c.end > m.size/2
	for pos < c.start || pos >= c.end {
		if i = c.next; back {
			i = c.prev
		}
		c = v.at(i)
	}
	m.finger = i
	return i
}

// cut makes an interval begin at an element and returns it.
func (v *intervals) cut(m *cells, pos int) int32 {
	i := v.find(m, pos)
	c := v.at(i)
	if c.start == pos {
		return i
	}
	j := v.make(interval{pos, c.end, c.shift, c.sum, i, c.next})
	v.at(c.next).prev = j
	c.end, c.next = pos, j
	return j
}

// load appends the contents of [off, off+n) to into. It returns false if a part has not been written. It merges
// neighbouring intervals with consecutive elements of the same sum. Otherwise every message of an all-gather would cut
// the receiver's memory wherever the sender's is cut, and the number of intervals would double in each round.
func (v *intervals) load(m *cells, into []markedPiece, off, n int) ([]markedPiece, bool) {
	if c := v.at(v.find(m, off)); c.sum != 0 && off+n <= c.end {
		return append(into, markedPiece{0, n, off + c.shift, c.sum}), true
	}
	first := len(into)
	for at := off; at < off+n; {
		c := v.at(v.find(m, at))
		if c.sum == 0 {
			return into, false
		}
		end := min(c.end, off+n)
		if last := len(into) - 1; last >= first && into[last].sum == c.sum &&
			into[last].first+into[last].n == at+c.shift {
			into[last].n += end - at
		} else {
			into = append(into, markedPiece{at - off, end - at, at + c.shift, c.sum})
		}
		at = end
	}
	return into, true
}

// forEach calls f for every interval that the moved data covers when it is stored at off. It first cuts the intervals
// to the boundaries of the data. f also gets the shift and the sum of marks of the new data (see interval). Most
// schedules move whole intervals, which need neither a search nor a cut.
func (v *intervals) forEach(m *cells, off int, moved []markedPiece,
	f func(c *interval, shift int, sum uint64) error) error {
	for _, h := range moved {
		at, end, shift := off+h.off, off+h.off+h.n, h.first-off-h.off
		if c := v.at(m.finger); c.start == at && c.end == end {
			if err := f(c, shift, h.sum); err != nil {
				return err
			}
			continue
		}
		for i := v.cut(m, at); at < end; i = v.at(i).next {
			if v.at(i).end > end {
				v.cut(m, end)
			}
			c := v.at(i)
			if err := f(c, shift, h.sum); err != nil {
				return err
			}
			at = c.end
		}
	}
	return nil
}

func (v *intervals) store(m *cells, off int, moved []markedPiece) {
	v.forEach(m, off, moved, func(c *interval, shift int, sum uint64) error { // never fails
		c.sum, c.shift = sum, shift
		return nil
	})
}

func (v *intervals) add(m *cells, off int, moved []markedPiece) error {
	return v.forEach(m, off, moved, func(c *interval, shift int, sum uint64) error {
		switch {
		case c.sum == 0:
			return errors.New("adds to elements that have not been written")
		case c.shift != shift:
			return fmt.Errorf("adds input element %d to input element %d", c.start+shift, c.start+c.shift)
		}
		c.sum += sum
		return nil
	})
}

// spans is a set of ranks as sorted, disjoint ranges [from, to). In every barrier here, the ranks that a rank knows to
// have entered form only a few ranges.
type spans [][2]int

// union returns the ranks that are in either set.
func (s spans) union(other spans) spans {
	all := append(slices.Clone(s), other...)
	slices.SortFunc(all, func(a, b [2]int) int { return a[0] - b[0] })
	out := all[:1]
	for _, next := range all[1:] {
		if last := &out[len(out)-1]; next[0] > last[1] {
			out = append(out, next)
		} else {
			last[1] = max(last[1], next[1])
		}
	}
	return out
}

// missing returns the first of n ranks that is not in the set, or -1.
func (s spans) missing(n int) int {
	switch {
	case len(s) == 0 || s[0][0] > 0:
		return 0
	case s[0][1] < n:
		return s[0][1]
	}
	return -1
}
