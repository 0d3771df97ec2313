package schedule

import (
	"fmt"
	"slices"
)

// Check proves that a schedule is correct, in the sense of the package comment, or reports which step of
// which rank is wrong. Its cost grows with the number of steps, not with the count.
func Check(s Schedule) error {
	return newChecker(s, newSets(s.Ranks(), false)).run()
}

// Prove is a Check for very many ranks, for which sets of ranks would take too much memory. For each interval it keeps
// marks instead of a set. Like Check, Prove runs all steps with sends that complete only when the receiver is ready. It
// therefore finds every deadlock, every unexpected message, every use of unwritten data and every addition of different
// elements.
//
// Prove does not find races. Only schedules that access the memory of peers can have them, and Prove hands these
// schedules to Check.
func Prove(s Schedule) error {
	if info, _ := Lookup(s.Collective(), s.Name()); info.Direct {
		return Check(s)
	}
	return newVerifier(s, newMarks(s.Ranks()), false).run()
}

// verifier is the observer that keeps the contents of all memories. Messages and flags carry what their sender knows.
type verifier struct {
	schedule Schedule
	layout   layout
	parts    contributions
	memories [][3]cells
	all      intervals
	moved    []piece // buffer of load, reused

	entered []spans // barrier only: by rank, the ranks that it knows to have entered
	clocks  []clock // by rank; nil: races are not looked for
	ended   []int   // by rank: its number of steps once it has ended, until then -1
}

// known is what a rank knows about the others, which every message and flag carries.
type known struct {
	clock   clock
	entered spans
}

// newVerifier sets up memories whose inputs hold each rank's own contribution and whose outputs and scratch are
// unwritten.
func newVerifier(s Schedule, parts contributions, traced bool) *verifier {
	v := &verifier{schedule: s, layout: newLayout(s), parts: parts, memories: make([][3]cells, s.Ranks()),
		all: intervals{traced: traced}}
	if s.Collective() == Barrier {
		v.entered = make([]spans, s.Ranks())
	}
	for rank := range v.memories {
		for i := range v.memories[rank] {
			v.memories[rank][i] = v.all.memory(v.layout.extent(rank, i), history{write: access{rank, 0}})
		}
		if v.entered != nil {
			v.entered[rank] = spans{{rank, rank + 1}}
		}
		if size := v.layout.buffersOf(rank).len[Input]; size > 0 {
			m, off := v.locate(rank, Range{Input, 0, size})
			v.all.store(m, off, []piece{{n: size, sum: parts.of(rank)}})
		}
	}
	return v
}

// newChecker returns a verifier that also looks for races.
func newChecker(s Schedule, parts *sets) *verifier {
	n := s.Ranks()
	v := newVerifier(s, parts, true)
	v.clocks, v.ended = make([]clock, n), slices.Repeat([]int{-1}, n)
	for rank := range n {
		v.clocks[rank] = slices.Repeat(clock{unknown}, n)
		v.clocks[rank][rank] = 0
	}
	return v
}

// run executes the schedule and then checks the output of each rank.
func (v *verifier) run() error {
	s := v.schedule
	if err := execute(s, v); err != nil {
		return fmt.Errorf("%s %s: %w", s.Collective(), s.Name(), err)
	}
	for rank := range s.Ranks() {
		if err := v.result(rank); err != nil {
			return fmt.Errorf("%s %s: at the end of rank %d: %w", s.Collective(), s.Name(), rank, err)
		}
	}
	return nil
}

func (v *verifier) locate(rank int, r Range) (*cells, int) {
	i, off := v.layout.locate(rank, r)
	return &v.memories[rank][i], off
}

// begin records the step's reads of the rank's own memory. They must be ordered at the start of the step, because a
// step may read before it receives.
func (v *verifier) begin(ev *event) error {
	if v.clocks == nil {
		return nil
	}
	v.clocks[ev.rank][ev.rank] = ev.index
	if ev.Op.Sends() || ev.Op == Copy || ev.Op == Reduce || ev.Op == Put {
		return v.touch(ev, ev.rank, ev.Src, false)
	}
	return nil
}

// stamp returns a copy of the rank's knowledge. Its clock does not include the current step: when the send half of a
// sendrecv arrives, its receive half may still be writing.
func (v *verifier) stamp(rank int, into known) known {
	if v.clocks != nil {
		into.clock = append(into.clock[:0], v.clocks[rank]...)
	}
	if v.entered != nil {
		into.entered = append(into.entered[:0], v.entered[rank]...)
	}
	return into
}

// learn adds what a message or flag carries to the knowledge of its receiver.
func (v *verifier) learn(rank int, carried known) {
	if v.clocks != nil {
		v.clocks[rank].join(carried.clock)
	}
	if v.entered != nil {
		v.entered[rank] = v.entered[rank].union(carried.entered)
	}
}

func (v *verifier) wait(ev *event, _ int, carried known) { v.learn(ev.rank, carried) }

func (v *verifier) message(src, dst *event, carried known) error {
	v.learn(dst.rank, carried)
	return v.move(src, src.rank, dst, dst.rank)
}

// local performs a step without a partner. A get reads, and a put writes, the memory of a peer.
func (v *verifier) local(ev *event) error {
	switch ev.Op {
	case GetReduce:
		return v.getReduce(ev)
	case Get:
		if err := v.touch(ev, ev.From.First, ev.Src, false); err != nil {
			return err
		}
		return v.move(ev, ev.From.First, ev, ev.rank)
	case Put:
		return v.move(ev, ev.rank, ev, ev.To.First)
	}
	return v.move(ev, ev.rank, ev, ev.rank)
}

// getReduce computes the sum in a temporary memory and then stores it. The destination may be the source range.
func (v *verifier) getReduce(ev *event) error {
	temporary := v.all.memory(ev.Src.Len, history{})
	for i := range ev.From.N {
		peer := ev.From.At(i)
		if err := v.touch(ev, peer, ev.Src, false); err != nil {
			return err
		}
		if err := v.load(ev, peer); err != nil {
			return err
		}
		if i == 0 {
			for k := range v.moved {
				v.moved[k].sum = v.parts.widen(v.moved[k].sum)
			}
			v.all.store(&temporary, 0, v.moved)
		} else if err := v.all.add(&temporary, 0, v.moved, v.wide); err != nil {
			return fmt.Errorf("%v: from rank %d: %w", ev, peer, err)
		}
	}
	var err error
	if v.moved, err = v.all.load(&temporary, v.moved[:0], 0, ev.Src.Len); err != nil {
		return fmt.Errorf("%v: %w", ev, err)
	}
	return v.store(ev, ev.rank)
}

func (v *verifier) wide(a, b sum) (sum, error)   { return v.parts.plus(a, b, true) }
func (v *verifier) narrow(a, b sum) (sum, error) { return v.parts.plus(a, b, false) }

// move transfers the data that step src reads in the memory of one rank to the destination of step dst in the memory of
// another.
func (v *verifier) move(src *event, reader int, dst *event, writer int) error {
	if err := v.load(src, reader); err != nil {
		return err
	}
	return v.store(dst, writer)
}

// load sets moved to the contents of the step's source range in the memory of owner.
func (v *verifier) load(ev *event, owner int) (err error) {
	m, off := v.locate(owner, ev.Src)
	if v.moved, err = v.all.load(m, v.moved[:0], off, ev.Src.Len); err != nil {
		return fmt.Errorf("%v: reads %v of rank %d: %w", ev, ev.Src, owner, err)
	}
	return nil
}

// store writes or adds moved to the step's destination range in the memory of owner.
func (v *verifier) store(ev *event, owner int) error {
	if err := v.touch(ev, owner, ev.Dst, true); err != nil {
		return err
	}
	m, off := v.locate(owner, ev.Dst)
	if !ev.Op.Accumulates() {
		v.all.store(m, off, v.moved)
		return nil
	}
	if err := v.all.add(m, off, v.moved, v.narrow); err != nil {
		return fmt.Errorf("%v: %w", ev, err)
	}
	return nil
}

// result checks a rank's output.
func (v *verifier) result(rank int) error {
	if v.entered != nil {
		if absent := v.entered[rank].missing(len(v.entered)); absent >= 0 {
			return fmt.Errorf("it leaves the barrier before rank %d has entered it", absent)
		}
	}
	for _, want := range expectedOutput(v.schedule, rank) {
		whole := Range{Output, want.off, want.n}
		m, off := v.locate(rank, whole)
		pieces, err := v.all.load(m, v.moved[:0], off, want.n)
		if v.moved = pieces; err != nil {
			return fmt.Errorf("%v: %w", whole, err)
		}
		for _, got := range pieces {
			where := Range{Output, want.off + got.off, got.n}
			if first := want.first + got.off; got.first != first {
				return fmt.Errorf("%v holds input elements from %d on, should be from %d on", where, got.first, first)
			}
			if err := v.parts.check(got.sum, want.source); err != nil {
				return fmt.Errorf("%v %w", where, err)
			}
		}
	}
	return nil
}

// expected describes n elements of a rank's output, starting at off. They must equal the elements starting at
// first of the input of rank source, or the sum of these elements over all ranks.
type expected struct{ off, n, first, source int }

// sumOfAll, as expected.source, means the sum over all ranks.
const sumOfAll = -1

// expectedOutput returns what the collective promises for a rank's output.
func expectedOutput(s Schedule, rank int) (list []expected) {
	p := s.Params()
	length := p.Len(s.Collective(), Output, rank)
	if length == 0 {
		return nil
	}
	switch s.Collective() {
	case AllReduce, ReduceTo:
		return []expected{{n: length, source: sumOfAll}}
	case ReduceScatter:
		off, _ := p.Block(rank)
		return []expected{{n: length, first: off, source: sumOfAll}}
	case Broadcast:
		return []expected{{n: length, source: p.Root}}
	case Scatter:
		off, _ := p.Block(rank)
		return []expected{{n: length, first: off, source: p.Root}}
	case AllGather, Gather:
		for peer := range s.Ranks() {
			if off, size := p.Block(peer); size > 0 {
				list = append(list, expected{off: off, n: size, source: peer})
			}
		}
	case AllToAll:
		for peer := range s.Ranks() {
			if src, dst, size := p.Pair(peer, rank); size > 0 {
				list = append(list, expected{off: dst, n: size, first: src, source: peer})
			}
		}
	}
	return list
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
