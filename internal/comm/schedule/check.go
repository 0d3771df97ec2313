package schedule

import (
	"fmt"
	"slices"
)

// Check proves that a schedule is correct, in the sense of the package comment, or reports which step of
// which rank is wrong. Its cost grows with the number of steps, not with the count.
func Check(s Schedule) error {
	c := newChecker(s, false)
	return executeAndVerify(s, c, c.result)
}

// executeAndVerify executes a schedule with an observer and then checks the result of each rank.
func executeAndVerify[T any](s Schedule, o observer[T], result func(rank int) error) error {
	if err := execute(s, o); err != nil {
		return fmt.Errorf("%s %s: %w", s.Collective(), s.Name(), err)
	}
	for rank := range s.Ranks() {
		if err := result(rank); err != nil {
			return fmt.Errorf("%s %s: at the end of rank %d: %w", s.Collective(), s.Name(), rank, err)
		}
	}
	return nil
}

// checker is the observer that keeps symbolic contents and clocks.
type checker struct {
	schedule Schedule
	layout   layout
	memories [][3]*memory
	clocks   []clock
	ended    []int   // by rank: its number of steps once it has ended, until then -1
	pieces   []piece // buffer of load, reused
}

// newChecker sets up memories whose inputs hold each rank's own contribution and whose outputs and scratch are
// unwritten. trace also keeps the order of the additions.
func newChecker(s Schedule, trace bool) *checker {
	n := s.Ranks()
	c := &checker{schedule: s, layout: newLayout(s), memories: make([][3]*memory, n), clocks: make([]clock, n),
		ended: make([]int, n)}
	for rank := range n {
		c.ended[rank] = -1
		c.clocks[rank] = make(clock, n)
		for peer := range n {
			c.clocks[rank][peer] = unknown
		}
		c.clocks[rank][rank] = 0
		untouched := cell{history: history{write: access{rank, 0}}}
		for i := range c.memories[rank] {
			c.memories[rank][i] = newMemory(c.layout.extent(rank, i), untouched)
		}
		if size := c.layout.buffersOf(rank).len[Input]; size > 0 {
			m, off := c.memory(rank, Range{Input, 0, size})
			own := piece{n: size, contributors: singleRank(n, rank)}
			if trace {
				own.sum = &Sum{Rank: rank}
			}
			m.store([]piece{own}, off)
		}
	}
	return c
}

func (c *checker) memory(rank int, r Range) (*memory, int) {
	i, off := c.layout.locate(rank, r)
	return c.memories[rank][i], off
}

// begin records the step's reads of the rank's own memory. They must be ordered at the start of the step, because a
// step may read before it receives.
func (c *checker) begin(ev *event) error {
	c.clocks[ev.rank][ev.rank] = ev.index
	if ev.Op.Sends() || ev.Op == Copy || ev.Op == Reduce || ev.Op == Put {
		return c.touch(ev, ev.rank, ev.Src, false)
	}
	return nil
}

// stamp returns a copy of the rank's clock, which does not include the current step. When the send half of a sendrecv
// arrives, its receive half may still be writing.
func (c *checker) stamp(rank int, into clock) clock { return append(into[:0], c.clocks[rank]...) }

func (c *checker) wait(ev *event, from int, carried clock) { c.clocks[ev.rank].join(carried) }

func (c *checker) message(src, dst *event, carried clock) error {
	c.clocks[dst.rank].join(carried)
	pieces, err := c.load(src, src.rank)
	if err != nil {
		return err
	}
	return c.store(dst, dst.rank, pieces)
}

// local performs a step without a partner. A get reads, and a put writes, the memory of a peer.
func (c *checker) local(ev *event) error {
	reader, writer := ev.rank, ev.rank
	switch ev.Op {
	case GetReduce:
		return c.getReduce(ev)
	case Get:
		reader = ev.From.First
		if err := c.touch(ev, reader, ev.Src, false); err != nil {
			return err
		}
	case Put:
		writer = ev.To.First
	}
	pieces, err := c.load(ev, reader)
	if err != nil {
		return err
	}
	return c.store(ev, writer, pieces)
}

// getReduce computes the sum in a temporary memory and then stores it. The destination may be the source range.
func (c *checker) getReduce(ev *event) error {
	sum := newMemory(ev.Src.Len, cell{})
	sum.wide = true
	for i := range ev.From.N {
		peer := ev.From.At(i)
		if err := c.touch(ev, peer, ev.Src, false); err != nil {
			return err
		}
		pieces, err := c.load(ev, peer)
		if err != nil {
			return err
		}
		if i == 0 {
			for k, p := range pieces {
				pieces[k].sum = (&Sum{}).plus(p.sum, true)
			}
			sum.store(pieces, 0)
		} else if err := sum.add(pieces, 0); err != nil {
			return fmt.Errorf("%v: from rank %d: %w", ev, peer, err)
		}
	}
	pieces, err := sum.load(c.pieces[:0], 0, ev.Src.Len)
	if err != nil {
		return fmt.Errorf("%v: %w", ev, err)
	}
	return c.store(ev, ev.rank, pieces)
}

// load returns the contents of the step's source range in the memory of owner. They are valid until the
// next load.
func (c *checker) load(ev *event, owner int) ([]piece, error) {
	m, off := c.memory(owner, ev.Src)
	pieces, err := m.load(c.pieces[:0], off, ev.Src.Len)
	c.pieces = pieces
	if err != nil {
		return nil, fmt.Errorf("%v: reads %v of rank %d: %w", ev, ev.Src, owner, err)
	}
	return pieces, nil
}

// store writes or adds the pieces to the step's destination range in the memory of owner.
func (c *checker) store(ev *event, owner int, pieces []piece) error {
	if err := c.touch(ev, owner, ev.Dst, true); err != nil {
		return err
	}
	m, off := c.memory(owner, ev.Dst)
	if !ev.Op.Accumulates() {
		m.store(pieces, off)
		return nil
	}
	if err := m.add(pieces, off); err != nil {
		return fmt.Errorf("%v: %w", ev, err)
	}
	return nil
}

// end records a write to all of the rank's memory, because the caller may overwrite it as soon as the collective
// returns.
func (c *checker) end(rank, steps int) error {
	c.ended[rank] = steps
	c.clocks[rank][rank] = steps
	for i, m := range c.memories[rank] {
		if other, found := c.touchMemory(rank, steps, rank, i, 0, m.starts[len(m.starts)-1], true); found {
			return fmt.Errorf("rank %d ends after %d steps: its %v is not ordered after %s", rank, steps, Buffer(i),
				c.describe(other))
		}
	}
	return nil
}

// result checks a rank's output.
func (c *checker) result(rank int) error {
	if c.schedule.Collective() == Barrier {
		for peer, steps := range c.clocks[rank] {
			if steps == unknown {
				return fmt.Errorf("it leaves the barrier before rank %d has entered it", peer)
			}
		}
	}
	for _, want := range expectedOutput(c.schedule, rank) {
		m, off := c.memory(rank, Range{Output, want.off, want.n})
		pieces, err := m.load(c.pieces[:0], off, want.n)
		c.pieces = pieces
		if err != nil {
			return fmt.Errorf("%v: %w", Range{Output, want.off, want.n}, err)
		}
		contributors := allRanks(len(c.clocks))
		if want.source != sumOfAll {
			contributors = singleRank(len(c.clocks), want.source)
		}
		for _, got := range pieces {
			where := Range{Output, want.off + got.off, got.n}
			if first := want.first + got.off; got.first != first {
				return fmt.Errorf("%v holds input elements from %d on, should be from %d on", where, got.first, first)
			}
			if lacking := got.contributors.missing(contributors); lacking >= 0 {
				return fmt.Errorf("%v lacks the contribution of rank %d", where, lacking)
			}
			if excess := contributors.missing(got.contributors); excess >= 0 {
				return fmt.Errorf("%v has a contribution of rank %d, which does not belong there", where, excess)
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

// Variants returns the parameters with which tests exercise an algorithm: no options, each option that
// it takes alone (every shape, another root, in place, in pieces, uneven blocks), and all options together. It returns
// none if the algorithm does not support this number of ranks.
func Variants(info Info, ranks, count int) []Params {
	if Fits(info.Collective, info.Name, ranks) != nil || info.Collective == Barrier && count > 0 {
		return nil // New rejects it
	}
	plain := Params{Ranks: ranks, Count: count}
	together := plain
	variants := []Params{plain}
	vary := func(option string, apply func(*Params)) {
		if slices.Contains(info.Takes, option) {
			variant := plain
			apply(&variant)
			apply(&together)
			variants = append(variants, variant)
		}
	}
	for d := 1; d <= ranks; d++ {
		if ranks%d == 0 {
			vary(takesGroup, func(p *Params) { p.GroupSize = d })
			vary(takesWidth, func(p *Params) { p.Width = d })
		}
	}
	together.GroupSize, together.Width = 0, 0
	vary(takesRoot, func(p *Params) { p.Root = ranks * 2 / 3 })
	vary(takesInPlace, func(p *Params) { p.InPlace = true })
	vary(takesChunk, func(p *Params) { p.ChunkElems = count/2 + 1 })
	vary(takesBlocks, func(p *Params) { p.Blocks = uneven(info.Collective, ranks, count) })
	return append(variants, together)
}

// uneven divides a vector into uneven blocks. Every second block also gets the elements of the previous one,
// which becomes empty. If there are only two blocks, it gets half of them, so that both have data.
func uneven(collective string, ranks, count int) *Blocks {
	if collective == AllToAll {
		ranks *= ranks
	}
	counts := make([]int, ranks)
	for i := range counts {
		_, counts[i] = Split(count, ranks, i)
		if i%2 == 1 {
			moved := counts[i-1]
			if ranks == 2 {
				moved /= 2
			}
			counts[i-1], counts[i] = counts[i-1]-moved, counts[i]+moved
		}
	}
	return NewBlocks(counts)
}
