package reference

import (
	"fmt"
	"iter"
	"slices"

	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// A sum is how the elements of a part of the output come about: which rank's
// input, or which sums in which order. It is read off the algorithm's own steps,
// so the reference knows the order of additions of every algorithm that there is.
type sum struct {
	rank  int    // of a term that is an input
	terms []*sum // otherwise, from first to last
	wide  bool   // the terms are added up in a wider type and rounded once
}

// segment is elements of a memory with one sum: n from off on, which are those
// of the vector from first on.
type segment struct {
	off, n, first int
	sum           *sum
}

// orderOf runs the schedule of an all-reduce on symbols and gives what rank 0
// has at the end, from the first element to the last. The schedules are proved to
// be free of races, so the order in which ranks get their turns is immaterial.
func orderOf(algorithm string, ranks, count int) ([]segment, error) {
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
	for moved := true; moved; {
		moved = false
		for r := range ranks {
			for {
				if step[r] == nil {
					st, ok := next[r]()
					if !ok {
						break
					}
					step[r] = &st
				}
				if !m.perform(r, step[r]) {
					break
				}
				step[r], moved = nil, true
			}
		}
	}
	out := m.memory[0][schedule.Output].load(0, count)
	at := 0
	for _, x := range out {
		if x.off != at || x.first != at {
			return nil, fmt.Errorf("the order of %s with %d ranks and %d elements: element %d was not found", algorithm, ranks,
				count, at)
		}
		at += x.n
	}
	if at != count || slices.ContainsFunc(step, func(s *schedule.Step) bool { return s != nil }) {
		return nil, fmt.Errorf("the order of %s with %d ranks and %d elements: its steps do not come to an end", algorithm,
			ranks, count)
	}
	return out, nil
}

// interpreter is all ranks' memories and what is on its way between them.
type interpreter struct {
	memory [][3]memory
	sent   map[[2]int][][]segment // by sender and receiver
	flags  map[[2]int]int
}

func (m *interpreter) load(rank int, r schedule.Range) []segment {
	return m.memory[rank][r.Buf].load(r.Off, r.Len)
}

func (m *interpreter) store(rank int, r schedule.Range, what []segment) {
	m.memory[rank][r.Buf].store(r.Off, r.Len, what)
}

// add combines what is there with what comes, rounded as a hop does.
func (m *interpreter) add(rank int, r schedule.Range, what []segment) {
	m.store(rank, r, join(m.load(rank, r), what, func(a, b *sum) *sum { return &sum{terms: []*sum{a, b}} }))
}

// perform does a step if it can be done yet. A step that sends and receives
// becomes one that only receives.
func (m *interpreter) perform(rank int, s *schedule.Step) bool {
	if s.Op.Sends() {
		way := [2]int{rank, s.To.First}
		m.sent[way] = append(m.sent[way], m.load(rank, s.Src))
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
		way := [2]int{s.From.First, rank}
		if len(m.sent[way]) == 0 {
			return false
		}
		what := m.sent[way][0]
		m.sent[way] = m.sent[way][1:]
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
		return m.wait(rank, s.From)
	}
	return true
}

// sumOf adds up what peers have, one after the other, and rounds once.
func (m *interpreter) sumOf(peers schedule.Peers, src schedule.Range) (all []segment) {
	for i := range peers.N {
		what := m.load(peers.At(i), src)
		if i == 0 {
			all = join(what, what, func(a, _ *sum) *sum { return &sum{terms: []*sum{a}, wide: true} })
			continue
		}
		all = join(all, what, func(a, b *sum) *sum { return &sum{terms: append(slices.Clip(a.terms), b), wide: true} })
	}
	return all
}

// wait takes a flag of each peer if all are there.
func (m *interpreter) wait(rank int, peers schedule.Peers) bool {
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

// memory is segments in rising order of off. What was never written is not in it.
type memory []segment

// load gives what lies in [off, off+n), counted from off.
func (m memory) load(off, n int) (out []segment) {
	for _, x := range m {
		if part, ok := x.within(off, n); ok {
			part.off -= off
			out = append(out, part)
		}
	}
	return out
}

// store puts segments, counted from off, in the place of what lies in
// [off, off+n).
func (m *memory) store(off, n int, what []segment) {
	var kept memory
	for _, x := range *m {
		if left, ok := x.within(0, off); ok {
			kept = append(kept, left)
		}
		if right, ok := x.within(off+n, x.off+x.n); ok {
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

// within is the part of a segment in [off, off+n).
func (x segment) within(off, n int) (segment, bool) {
	from, to := max(x.off, off), min(x.off+x.n, off+n)
	if from >= to {
		return segment{}, false
	}
	return segment{from, to - from, x.first + from - x.off, x.sum}, true
}

// join combines two lists of segments over the same range, cut where either is.
func join(a, b []segment, combine func(a, b *sum) *sum) (out []segment) {
	for _, x := range a {
		for _, y := range b {
			if part, ok := x.within(y.off, y.n); ok {
				part.sum = combine(x.sum, y.sum)
				out = append(out, part)
			}
		}
	}
	return out
}
