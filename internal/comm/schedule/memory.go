package schedule

import "fmt"

// This file holds the model of the ranks' memories while a schedule is proved.

// piece is a part of the data that a step moves: n elements, which begin off elements into the step's range. They are
// the elements first, first+1... of the inputs, added over the ranks that sum stands for.
type piece struct {
	off, n, first int
	sum           sum
}

// sum stands for the ranks whose elements were added; contributions know which. 0: the elements have not been written.
type sum uint64

// cells is a memory as a circular list of intervals with uniform contents. finger is the interval that was used last.
// Schedules traverse their memory forwards, backwards or in a circle, so the next interval is close to it.
type cells struct {
	finger int32
	size   int
}

// interval is a part of a rank's memory. Intervals are cut only where the ranges of steps begin and end, so their
// number depends on the algorithm and not on the count.
type interval struct {
	start, end int
	shift      int // element i is element i+shift of the inputs
	sum        sum
	prev, next int32
}

// intervals holds the intervals of all memories in order of creation. Ranks that alternate create their intervals next
// to each other and return to them in the same order, which is good for the CPU caches.
type intervals struct {
	pages     []*[pageSize]interval
	n         int32
	traced    bool      // keep histories
	histories []history // by interval
}

// pageSize is the number of intervals that are allocated at a time.
const pageSize = 1 << 10

func (v *intervals) at(i int32) *interval { return &v.pages[i/pageSize][i%pageSize] }

func (v *intervals) make(c interval, h history) int32 {
	if v.n%pageSize == 0 {
		v.pages = append(v.pages, new([pageSize]interval))
	}
	if v.traced {
		v.histories = append(v.histories, h)
	}
	v.n++
	*v.at(v.n - 1) = c
	return v.n - 1
}

// memory returns a new memory of n unwritten elements, whose history begins with h.
func (v *intervals) memory(n int, h history) cells {
	if n == 0 {
		return cells{}
	}
	return cells{v.make(interval{end: n, prev: v.n, next: v.n}, h), n}
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
	var h history
	if v.traced {
		h = v.histories[i]
	}
	j := v.make(interval{pos, c.end, c.shift, c.sum, i, c.next}, h)
	v.at(c.next).prev = j
	c.end, c.next = pos, j
	return j
}

// load appends the contents of [off, off+n) to into. It merges neighbouring intervals with consecutive elements of the
// same sum. Otherwise every message of an all-gather would cut the receiver's memory wherever the sender's is cut, and
// the number of intervals would double in each round.
func (v *intervals) load(m *cells, into []piece, off, n int) ([]piece, error) {
	if c := v.at(v.find(m, off)); c.sum != 0 && off+n <= c.end {
		return append(into, piece{0, n, off + c.shift, c.sum}), nil
	}
	first := len(into)
	for at := off; at < off+n; {
		c := v.at(v.find(m, at))
		end := min(c.end, off+n)
		if c.sum == 0 {
			return into, fmt.Errorf("elements %d to %d of it have not been written", at-off, end-off-1)
		}
		if last := len(into) - 1; last >= first && into[last].sum == c.sum &&
			into[last].first+into[last].n == at+c.shift {
			into[last].n += end - at
		} else {
			into = append(into, piece{at - off, end - at, at + c.shift, c.sum})
		}
		at = end
	}
	return into, nil
}

// each calls f for every interval of [from, to). It first cuts the intervals to these bounds. Most schedules move whole
// intervals, which need neither a search nor a cut.
func (v *intervals) each(m *cells, from, to int, f func(i int32, c *interval) error) error {
	if c := v.at(m.finger); c.start == from && c.end == to {
		return f(m.finger, c)
	}
	for i := v.cut(m, from); from < to; i = v.at(i).next {
		if v.at(i).end > to {
			v.cut(m, to)
		}
		c := v.at(i)
		if err := f(i, c); err != nil {
			return err
		}
		from = c.end
	}
	return nil
}

// store overwrites the elements from off on with the pieces.
func (v *intervals) store(m *cells, off int, moved []piece) {
	for _, p := range moved {
		at := off + p.off
		_ = v.each(m, at, at+p.n, func(_ int32, c *interval) error { // never fails
			c.sum, c.shift = p.sum, p.first-at
			return nil
		})
	}
}

// add adds the pieces to the elements from off on. It fails if a sum would mix different elements or, as far as plus
// can tell, contain a rank twice: no later step could correct that.
func (v *intervals) add(m *cells, off int, moved []piece, plus func(a, b sum) (sum, error)) error {
	for _, p := range moved {
		at := off + p.off
		err := v.each(m, at, at+p.n, func(_ int32, c *interval) (err error) {
			first, last := c.start-off, c.end-off-1
			if c.sum == 0 {
				return fmt.Errorf("adds to elements %d to %d of it, which have not been written", first, last)
			}
			if shift := p.first - at; shift != c.shift {
				return fmt.Errorf("adds input element %d to input element %d", c.start+shift, c.start+c.shift)
			}
			if c.sum, err = plus(c.sum, p.sum); err != nil {
				return fmt.Errorf("%w to elements %d to %d again", err, first, last)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
