// Package schedule describes collectives as data: an algorithm is a pure
// function of the number of ranks, the topology and the element count that
// gives, for each rank, the stream of steps that rank performs. Package dist/cpu
// executes these streams, and the simulated accelerator does so for its flat
// algorithms; Cost counts their traffic and Check proves them right. The package
// moves no data itself and knows neither element types nor clocks nor processes.
//
// An algorithm is a file with its steps and a registration of what it promises
// (Register). What there is, and what it promises, is asked of the registry.
//
// # Buffers
//
// Every rank has three buffers: Input (never written), Output and Scratch,
// whose lengths Schedule.Len gives in elements. With Params.InPlace, Input and
// Output are one memory: the shorter of the two is the rank's own block of the
// longer, as in NCCL and MPI_IN_PLACE.
//
// Count is the number of elements of the whole vector. Where a rank holds one
// block of it (all-gather, gather, scatter, reduce-scatter), block r is
// Split(Count, Ranks, r), so counts that do not divide need no padding. In an
// all-to-all every Input is a whole vector; rank r collects block r of each,
// in rank order.
//
// # Steps
//
// A rank performs its steps one after the other. A step is complete when its
// own ranges may be used again.
//
//	send, recv, recv-reduce       one message; reduce means "add to what is there"
//	sendrecv, sendrecv-reduce     one message each way, both posted at once
//	copy, reduce                  local
//	get, put                      copy from or to one peer's memory
//	get-reduce                    the sum of one range over a set of peers, in
//	                              the set's order, overwrites a local range
//	signal, wait                  raise a flag at each of a set of peers; wait for
//	                              the next flag of each (oneself is skipped)
//
// The k-th message (or flag) from a to b is for b's k-th receive (or wait)
// from a; Tag, the round of the algorithm, is the same at both ends. Messages and
// flags go over any transport. Get, get-reduce and put need memory that peers
// reach directly, which Info.Direct tells.
//
// # What is proved
//
// Check runs the steps of all ranks on symbolic contents: a range of a buffer
// holds the sum of some ranks' contributions, kept per interval and not per
// element. It demands that
//
//   - sends complete without any buffering (rendezvous), so that no transport
//     can deadlock however little it buffers;
//   - no sum takes in a contribution twice or adds different elements, nothing
//     unwritten is read, and at the end each output is what the collective
//     promises, for all its elements;
//   - every access to a peer's memory is ordered, by messages and flags, with
//     each conflicting access. Messages order only send before receive here,
//     so that no transport can race however much it buffers. The caller's use of the
//     buffers before and after the collective counts as an access.
//
// Peers are named in the steps, never "any rank", so without races every order of
// execution gives the same contents: the one order that Check runs stands for all.
//
// Every all-reduce here also gives all ranks the same bits where addition
// rounds: each element is either summed in one place or, in recursive
// doubling, by the same tree up to the order of two operands.
package schedule

import (
	"fmt"
	"iter"
)

// The collectives.
const (
	AllReduce     = "allreduce"
	ReduceScatter = "reduce_scatter"
	AllGather     = "allgather"
	Broadcast     = "broadcast"
	ReduceTo      = "reduce"
	Gather        = "gather"
	Scatter       = "scatter"
	AllToAll      = "alltoall"
	Barrier       = "barrier"
)

// Schedule is a collective as steps. It is immutable; Steps may be called for
// several ranks at once and again.
type Schedule interface {
	Name() string       // the algorithm
	Collective() string // what it computes
	Ranks() int
	Count() int
	Params() Params                // with the defaults filled in
	Len(buf Buffer, rank int) int  // elements rank provides of a buffer
	Steps(rank int) iter.Seq[Step] // in constant memory
}

// Params says which instance of an algorithm is wanted. Zero values of all but
// Ranks and Count mean "the default" or "none".
type Params struct {
	Ranks int
	Count int // elements of the whole vector

	Root       int  // of broadcast, reduce, gather, scatter
	Width      int  // of the torus; default: the most nearly square
	Height     int  // of the torus
	GroupSize  int  // of the hierarchical algorithm; default: the most nearly square
	ChunkElems int  // elements per pipelined piece; default: one piece
	InPlace    bool // Input and Output are one memory

	// Blocks are the blocks of ranks that are not Split's; nil: they are. In an
	// all-to-all the block from rank a to rank b is block a*Ranks+b, and Count the
	// number of elements of them all.
	Blocks *Blocks
}

// Blocks are parts of a vector, one after the other, of any lengths.
type Blocks struct{ off, n []int }

func (b *Blocks) String() string {
	if b == nil {
		return "even"
	}
	return fmt.Sprint(b.n)
}

// NewBlocks makes blocks of so many elements each.
func NewBlocks(counts []int) *Blocks {
	b := &Blocks{n: counts}
	total := 0
	for _, n := range counts {
		b.off = append(b.off, total)
		total += n
	}
	return b
}

// Block is the part of the vector that belongs to a rank.
func (p Params) Block(rank int) (off, n int) {
	if p.Blocks != nil {
		return p.Blocks.off[rank], p.Blocks.n[rank]
	}
	return Split(p.Count, p.Ranks, rank)
}

// Pair is what goes from one rank to another in an all-to-all: where in the one's input,
// where in the other's output, and how much.
func (p Params) Pair(from, to int) (src, dst, n int) {
	if p.Blocks == nil {
		src, n = Split(p.Count, p.Ranks, to)
		return src, from * n, n
	}
	src = p.Blocks.off[from*p.Ranks+to] - p.Blocks.off[from*p.Ranks]
	for earlier := range from {
		dst += p.Blocks.n[earlier*p.Ranks+to]
	}
	return src, dst, p.Blocks.n[from*p.Ranks+to]
}

// total is the length of a rank's input and output in an all-to-all.
func (p Params) total(rank int) (in, out int) {
	last := p.Ranks - 1
	at, _, n := p.Pair(rank, last)
	_, to, m := p.Pair(last, rank)
	return at + n, to + m
}

// Split cuts count elements into parts that differ by at most one, the longer
// ones first, and gives part i.
func Split(count, parts, i int) (off, n int) {
	base := count / parts
	extra := count - base*parts
	off = i*base + min(i, extra)
	if i < extra {
		base++
	}
	return off, base
}

// New builds the schedule of a collective by the named algorithm.
func New(collective, algorithm string, p Params) (Schedule, error) {
	a, err := lookup(collective, algorithm)
	if err != nil {
		return nil, err
	}
	if a.Steps == nil {
		return nil, fmt.Errorf("%s %s has no schedule", collective, algorithm)
	}
	if err := a.settle(collective, &p); err != nil {
		return nil, fmt.Errorf("%s %s: %w", collective, algorithm, err)
	}
	return &built{algorithm: a, params: p}, nil
}

// built is the one implementation: the registry's entry applied to parameters.
type built struct {
	algorithm Algorithm
	params    Params
}

func (b *built) Name() string       { return b.algorithm.Name }
func (b *built) Collective() string { return b.algorithm.Collective }
func (b *built) Ranks() int         { return b.params.Ranks }
func (b *built) Count() int         { return b.params.Count }
func (b *built) Params() Params     { return b.params }

func (b *built) Len(buf Buffer, rank int) int {
	if buf != Scratch {
		return b.params.Len(b.Collective(), buf, rank)
	}
	if b.algorithm.Scratch == nil {
		return 0
	}
	return b.algorithm.Scratch(b.params, rank)
}

func (b *built) Steps(rank int) iter.Seq[Step] {
	if rank < 0 || rank >= b.params.Ranks {
		panic(fmt.Sprintf("schedule: rank %d of %d", rank, b.params.Ranks))
	}
	// Without elements there is nothing to do, not even to wait for: only a
	// barrier is about time instead of data.
	if b.params.Count == 0 && b.Collective() != Barrier {
		return func(func(Step) bool) {}
	}
	return b.algorithm.Steps(b.params, rank)
}

// Len is how many elements a collective demands of a rank's Input or Output, whatever
// the algorithm.
func (p Params) Len(collective string, buf Buffer, rank int) int {
	block := 0
	if collective != AllToAll {
		_, block = p.Block(rank)
	}
	atRoot := func(n int) int {
		if rank == p.Root {
			return n
		}
		return 0
	}
	in, out := p.Count, p.Count
	switch collective {
	case ReduceScatter:
		out = block
	case AllGather:
		in = block
	case Broadcast:
		in = atRoot(p.Count)
	case ReduceTo:
		out = atRoot(p.Count)
	case Gather:
		in, out = block, atRoot(p.Count)
	case Scatter:
		in, out = atRoot(p.Count), block
	case AllToAll:
		in, out = p.total(rank)
	case Barrier:
		in, out = 0, 0
	}
	if buf == Input {
		return in
	}
	return out
}

// Shift says where Input and Output begin in the one memory that they share in place.
func (p Params) Shift(collective string, buf Buffer, rank int) int {
	if collective == AllToAll {
		return 0
	}
	off, _ := p.Block(rank)
	switch collective {
	case AllGather, Gather:
		if buf == Input && p.Len(collective, Output, rank) > 0 {
			return off
		}
	case ReduceScatter, Scatter:
		if buf == Output && p.Len(collective, Input, rank) > 0 {
			return off
		}
	}
	return 0
}
