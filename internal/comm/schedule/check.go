package schedule

import (
	"fmt"
	"slices"
)

// Check proves that a schedule is correct, in the sense of the package comment, or reports which step of
// which rank is wrong. Its cost grows with the number of steps, not with the count.
func Check(s Schedule) error {
	c := newChecker(s)
	return observed(s, c, c.result)
}

// observed executes a schedule with an observer and then checks the result of each rank.
func observed[T any](s Schedule, o observer[T], result func(rank int) error) error {
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
	ended    []int   // by rank: number of steps if it has ended, otherwise -1
	pieces   []piece // reused
}

// newChecker sets up memories whose inputs hold each rank's own contribution and whose outputs and scratch are
// unwritten.
func newChecker(s Schedule) *checker {
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
		if size := c.layout.of(rank).len[Input]; size > 0 {
			m, off := c.memory(rank, Range{Input, 0, size})
			m.store([]piece{{n: size, who: only(n, rank)}}, off)
		}
	}
	return c
}

func (c *checker) memory(rank int, r Range) (*memory, int) {
	i, off := c.layout.locate(rank, r)
	return c.memories[rank][i], off
}

// begin records what the step reads of the rank's own memory. Reading must be safe from the start of the
// step on, before anything that the step itself receives.
func (c *checker) begin(at *event) error {
	c.clocks[at.rank][at.rank] = at.index
	if at.Op.Sends() || at.Op == Copy || at.Op == Reduce || at.Op == Put {
		return c.touch(at, at.rank, at.Src, false)
	}
	return nil
}

// stamp returns the clock without the current step: a sendrecv that has sent may not have received yet.
func (c *checker) stamp(rank int, into clock) clock { return append(into[:0], c.clocks[rank]...) }

func (c *checker) wait(at *event, from int, carried clock) { c.clocks[at.rank].join(carried) }

func (c *checker) message(src, dst *event, carried clock) error {
	c.clocks[dst.rank].join(carried)
	pieces, err := c.load(src, src.rank)
	if err != nil {
		return err
	}
	return c.store(dst, dst.rank, pieces)
}

// local performs a step without a partner. A get reads, and a put writes, the memory of a peer.
func (c *checker) local(at *event) error {
	reader, writer := at.rank, at.rank
	switch at.Op {
	case GetReduce:
		return c.getReduce(at)
	case Get:
		reader = at.From.First
		if err := c.touch(at, reader, at.Src, false); err != nil {
			return err
		}
	case Put:
		writer = at.To.First
	}
	pieces, err := c.load(at, reader)
	if err != nil {
		return err
	}
	return c.store(at, writer, pieces)
}

// getReduce adds up in a temporary memory, as the step does in registers.
func (c *checker) getReduce(at *event) error {
	sum := newMemory(at.Src.Len, cell{})
	for i := range at.From.N {
		peer := at.From.At(i)
		if err := c.touch(at, peer, at.Src, false); err != nil {
			return err
		}
		pieces, err := c.load(at, peer)
		if err != nil {
			return err
		}
		if i == 0 {
			sum.store(pieces, 0)
		} else if err := sum.add(pieces, 0); err != nil {
			return fmt.Errorf("%v: from rank %d: %w", at, peer, err)
		}
	}
	pieces, err := sum.load(c.pieces[:0], 0, at.Src.Len)
	if err != nil {
		return fmt.Errorf("%v: %w", at, err)
	}
	return c.store(at, at.rank, pieces)
}

// load returns the contents of the step's source range in the memory of owner. They are valid until the
// next load.
func (c *checker) load(at *event, owner int) ([]piece, error) {
	m, off := c.memory(owner, at.Src)
	pieces, err := m.load(c.pieces[:0], off, at.Src.Len)
	c.pieces = pieces
	if err != nil {
		return nil, fmt.Errorf("%v: reads %v of rank %d: %w", at, at.Src, owner, err)
	}
	return pieces, nil
}

// store writes or adds the pieces to the step's destination range in the memory of owner.
func (c *checker) store(at *event, owner int, pieces []piece) error {
	if err := c.touch(at, owner, at.Dst, true); err != nil {
		return err
	}
	m, off := c.memory(owner, at.Dst)
	if !at.Op.Accumulates() {
		m.store(pieces, off)
		return nil
	}
	if err := m.add(pieces, off); err != nil {
		return fmt.Errorf("%v: %w", at, err)
	}
	return nil
}

// end returns the rank's memory to the caller, who may write to it at once. So it counts as a write.
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
	for _, want := range promise(c.schedule, rank) {
		m, off := c.memory(rank, Range{Output, want.off, want.n})
		pieces, err := m.load(c.pieces[:0], off, want.n)
		c.pieces = pieces
		if err != nil {
			return fmt.Errorf("%v: %w", Range{Output, want.off, want.n}, err)
		}
		who := allRanks(len(c.clocks))
		if want.of != sumOfAll {
			who = only(len(c.clocks), want.of)
		}
		for _, got := range pieces {
			where := Range{Output, want.off + got.off, got.n}
			switch {
			case got.first != want.first+got.off:
				return fmt.Errorf("%v holds input elements from %d on, should be from %d on", where, got.first, want.first+got.off)
			case got.who.lacking(who) >= 0:
				return fmt.Errorf("%v lacks the contribution of rank %d", where, got.who.lacking(who))
			case who.lacking(got.who) >= 0:
				return fmt.Errorf("%v has a contribution of rank %d, which does not belong there", where, who.lacking(got.who))
			}
		}
	}
	return nil
}

// promised describes the expected contents of n elements of a rank's output, from off on: the elements from
// first on of the input of rank of, or the sum over all ranks.
type promised struct{ off, n, first, of int }

// sumOfAll, as promised.of, means the sum over all ranks.
const sumOfAll = -1

// promise returns the expected contents of a rank's output.
func promise(s Schedule, rank int) (list []promised) {
	p := s.Params()
	length := p.Len(s.Collective(), Output, rank)
	if length == 0 {
		return nil
	}
	switch s.Collective() {
	case AllReduce, ReduceTo:
		return []promised{{n: length, of: sumOfAll}}
	case ReduceScatter:
		off, _ := p.Block(rank)
		return []promised{{n: length, first: off, of: sumOfAll}}
	case Broadcast:
		return []promised{{n: length, of: p.Root}}
	case Scatter:
		off, _ := p.Block(rank)
		return []promised{{n: length, first: off, of: p.Root}}
	case AllGather, Gather:
		for peer := range s.Ranks() {
			if off, size := p.Block(peer); size > 0 {
				list = append(list, promised{off: off, n: size, of: peer})
			}
		}
	case AllToAll:
		for peer := range s.Ranks() {
			if src, dst, size := p.Pair(peer, rank); size > 0 {
				list = append(list, promised{off: dst, n: size, first: src, of: peer})
			}
		}
	}
	return list
}

// Variants returns the parameters for which an algorithm is proved with a number of ranks and elements:
// without options, with each option that it takes (every shape, another root, in place, in pieces), and
// with all options together. It returns none if the algorithm does not support so many ranks.
func Variants(info Info, ranks, count int) []Params {
	if Fits(info.Collective, info.Name, ranks) != nil || info.Collective == Barrier && count > 0 {
		return nil // New rejects it
	}
	plain := Params{Ranks: ranks, Count: count}
	together := plain
	variants := []Params{plain}
	vary := func(option string, apply func(*Params)) {
		if slices.Contains(info.Takes, option) {
			alone := plain
			apply(&alone)
			apply(&together)
			variants = append(variants, alone)
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
