package reference

import (
	"fmt"
	"iter"
	"slices"

	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// sum is a node of the tree of additions that produces some elements of the output: either one rank's
// input or a sum of other nodes. The tree is read off the algorithm's own steps, so it is known for
// every registered algorithm.
type sum struct {
	rank  int    // whose input this is, if there are no terms
	terms []*sum // in the order of the additions
	wide  bool   // terms are added in a wider type and rounded once
}

// segment is a range of a memory whose elements share one sum: n elements at off, which belong to the
// elements of the vector from first on.
type segment struct {
	off, n, first int
	sum           *sum
}

// additionOrder executes an algorithm's schedule symbolically and returns the contents of rank 0's
// output, sorted by offset. The schedules are proved free of races, so the order in which the ranks
// take their turns does not matter.
func additionOrder(algorithm string, ranks, count int) ([]segment, error) {
	s, err := schedule.New(schedule.AllReduce, algorithm, schedule.Params{Ranks: ranks, Count: count})
	if err != nil {
		return nil, err
	}
	m := &interpreter{memory: make([][3]memory, ranks), sent: map[[2]int][][]segment{}, flags: map[[2]int]int{}}
	next, step := make([]func() (schedule.Step, bool), ranks), make([]*schedule.Step, ranks)
	for r := range ranks {
		m.memory[r][schedule.Input] = memory{{n: count, sum: &sum{rank: r}}}
		pull, stop := iter.Pull(s.Steps(r))
		defer stop()
		next[r] = pull
	}
	for progress := true; progress; {
		progress = false
		for r := range ranks {
			for {
				if step[r] == nil {
					st, ok := next[r]()
					if !ok {
						break
					}
					step[r] = &st
				}
				if !m.step(r, step[r]) {
					break
				}
				step[r], progress = nil, true
			}
		}
	}
	out := m.memory[0][schedule.Output].load(0, count)
	at := 0
	for _, x := range out {
		if x.off != at || x.first != at {
			return nil, fmt.Errorf("%s with %d ranks and %d elements: no step writes element %d of the output", algorithm,
				ranks, count, at)
		}
		at += x.n
	}
	if at != count || slices.ContainsFunc(step, func(s *schedule.Step) bool { return s != nil }) {
		return nil, fmt.Errorf("%s with %d ranks and %d elements: the steps deadlock or leave out elements", algorithm,
			ranks, count)
	}
	return out, nil
}

// interpreter holds the memories of all ranks and the messages and flags in flight.
type interpreter struct {
	memory [][3]memory
	sent   map[[2]int][][]segment // FIFO for each {sender, receiver}
	flags  map[[2]int]int
}

func (m *interpreter) load(rank int, r schedule.Range) []segment {
	return m.memory[rank][r.Buf].load(r.Off, r.Len)
}

func (m *interpreter) store(rank int, r schedule.Range, what []segment) {
	m.memory[rank][r.Buf].store(r.Off, r.Len, what)
}

// add adds segments to the range r, with a rounding to the element type.
func (m *interpreter) add(rank int, r schedule.Range, what []segment) {
	m.store(rank, r, combineSegments(m.load(rank, r), what, func(a, b *sum) *sum { return &sum{terms: []*sum{a, b}} }))
}

// step executes a step and reports whether it could; if not, it must be retried after other ranks have
// advanced. The send half of a combined step is executed at once, which turns s into a receive.
func (m *interpreter) step(rank int, s *schedule.Step) bool {
	if s.Op.Sends() {
		link := [2]int{rank, s.To.First}
		m.sent[link] = append(m.sent[link], m.load(rank, s.Src))
		switch s.Op {
		case schedule.SendRecv:
			s.Op = schedule.Recv
		case schedule.SendRecvReduce:
			s.Op = schedule.RecvReduce
		default:
			return true
		}
	}
	switch s.Op {
	case schedule.Recv, schedule.RecvReduce:
		link := [2]int{s.From.First, rank}
		if len(m.sent[link]) == 0 {
			return false
		}
		what := m.sent[link][0]
		m.sent[link] = m.sent[link][1:]
		if s.Op == schedule.Recv {
			m.store(rank, s.Dst, what)
		} else {
			m.add(rank, s.Dst, what)
		}
	case schedule.Copy:
		m.store(rank, s.Dst, m.load(rank, s.Src))
	case schedule.Reduce:
		m.add(rank, s.Dst, m.load(rank, s.Src))
	case schedule.Get:
		m.store(rank, s.Dst, m.load(s.From.First, s.Src))
	case schedule.Put:
		m.store(s.To.First, s.Dst, m.load(rank, s.Src))
	case schedule.GetReduce:
		m.store(rank, s.Dst, m.sumOf(s.From, s.Src))
	case schedule.Signal:
		for i := range s.To.N {
			m.flags[[2]int{rank, s.To.At(i)}]++
		}
	case schedule.Wait:
		return m.takeFlags(rank, s.From)
	}
	return true
}

// sumOf adds up the segments of all peers in their order, with one rounding at the end.
func (m *interpreter) sumOf(peers schedule.Peers, src schedule.Range) (all []segment) {
	for i := range peers.N {
		what := m.load(peers.At(i), src)
		if i == 0 {
			all = combineSegments(what, what, func(a, _ *sum) *sum { return &sum{terms: []*sum{a}, wide: true} })
			continue
		}
		all = combineSegments(all, what, func(a, b *sum) *sum {
			return &sum{terms: append(slices.Clip(a.terms), b), wide: true}
		})
	}
	return all
}

// takeFlags consumes one flag from each peer if all of them have arrived.
func (m *interpreter) takeFlags(rank int, peers schedule.Peers) bool {
	for i := range peers.N {
		if p := peers.At(i); p != rank && m.flags[[2]int{p, rank}] == 0 {
			return false
		}
	}
	for i := range peers.N {
		m.flags[[2]int{peers.At(i), rank}]--
	}
	return true
}

// memory is a list of segments, sorted by off. Elements that were never written are in no segment.
type memory []segment

// load returns the contents of [off, off+n), with offsets relative to off.
func (m memory) load(off, n int) (out []segment) {
	for _, x := range m {
		if part, ok := x.clip(off, n); ok {
			part.off -= off
			out = append(out, part)
		}
	}
	return out
}

// store replaces the contents of [off, off+n) by segments with offsets relative to off.
func (m *memory) store(off, n int, what []segment) {
	var kept memory
	for _, x := range *m {
		if left, ok := x.clip(0, off); ok {
			kept = append(kept, left)
		}
		if right, ok := x.clip(off+n, x.off+x.n); ok {
			kept = append(kept, right)
		}
	}
	for _, x := range what {
		x.off += off
		kept = append(kept, x)
	}
	slices.SortFunc(kept, func(a, b segment) int { return a.off - b.off })
	*m = kept
}

// clip returns the part of a segment that lies in [off, off+n).
func (x segment) clip(off, n int) (segment, bool) {
	from, to := max(x.off, off), min(x.off+x.n, off+n)
	if from >= to {
		return segment{}, false
	}
	return segment{from, to - from, x.first + from - x.off, x.sum}, true
}

// combineSegments combines two lists of segments that cover the same range, splitting them wherever
// either has a boundary.
func combineSegments(a, b []segment, combine func(a, b *sum) *sum) (out []segment) {
	for _, x := range a {
		for _, y := range b {
			if part, ok := x.clip(y.off, y.n); ok {
				part.sum = combine(x.sum, y.sum)
				out = append(out, part)
			}
		}
	}
	return out
}
