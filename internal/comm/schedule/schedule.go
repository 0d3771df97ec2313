// Package schedule describes collectives as data. An algorithm is a pure function of the number of ranks,
// the topology and the element count. It returns, for each rank, the stream of steps that the rank
// performs. Package dist/cpu executes these streams, and so does the simulated accelerator for its flat
// algorithms. Cost counts their traffic and Check proves them correct. The package moves no data itself. It does
// not depend on element types, clocks or processes.
//
// An algorithm consists of its steps and its registration with its properties (Register). Other packages
// look up algorithms and their properties here and keep no lists of their own.
//
// # Buffers
//
// Every rank has three buffers: Input (never written), Output and Scratch. Schedule.Len returns their
// lengths in elements. With Params.InPlace, Input and Output share one memory: the shorter of the two is
// the rank's own block of the longer, as in NCCL and with MPI_IN_PLACE.
//
// Count is the number of elements of the whole vector. If a rank holds one block of it (all-gather,
// gather, scatter, reduce-scatter), block r is Split(Count, Ranks, r). Counts that are not divisible by
// the number of ranks need no padding. In an all-to-all every Input is a whole vector; rank r collects
// block r of each, in rank order.
//
// # Steps
//
// A rank performs its steps one after the other. A step is complete when its ranges may be used again.
//
//	send, recv, recv-reduce       one message; reduce means "add to the destination"
//	sendrecv, sendrecv-reduce     one message each way, both posted at once
//	copy, reduce                  local
//	get, put                      copy from or to one peer's memory
//	get-reduce                    the sum of one range over a set of peers, in
//	                              the set's order, overwrites a local range
//	signal, wait                  raise a flag at each of a set of peers; wait for
//	                              the next flag of each (oneself is skipped)
//
// The k-th message (or flag) from a to b matches b's k-th receive (or wait) from a. Both ends have the same Tag,
// which is the round of the algorithm. Messages and flags work over any transport. Get, get-reduce and put
// need memory that peers access directly; Info.Direct marks algorithms that use them.
//
// # Proofs
//
// Check runs the steps of all ranks on symbolic contents: a range of a buffer holds the sum of some ranks'
// contributions, kept per interval and not per element. It verifies that
//
//   - sends complete without any buffering (rendezvous), so that no transport can deadlock, however little
//     it buffers;
//   - no sum contains a contribution twice or adds different elements, no unwritten data is read, and at
//     the end all elements of each output are what the collective promises;
//   - every access to a peer's memory is ordered with each conflicting access by messages and flags. A
//     message only orders its send before its receive, so that no transport can race, however much it
//     buffers. The caller's use of the buffers before and after the collective counts as an access.
//
// Every step names its peers; there is no "any rank" receive. If there are no races, every order of execution
// therefore gives the same contents, and Check runs only one order.
//
// Floating-point addition rounds, but every all-reduce here gives all ranks the same bits. Each element is
// summed on one rank only. The exception is recursive doubling, in which all ranks evaluate the same tree of
// additions. Only the two operands of an addition may be swapped, which does not change the result.
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

// Schedule is a collective as steps. It is immutable and safe for concurrent use; Steps may be called
// repeatedly.
type Schedule interface {
	Name() string       // the algorithm
	Collective() string // what it computes
	Ranks() int
	Count() int
	Params() Params                // with the defaults filled in
	Len(buf Buffer, rank int) int  // number of elements of a rank's buffer
	Steps(rank int) iter.Seq[Step] // in constant memory
}

// Params selects an instance of an algorithm. Zero values of all fields but Ranks and Count mean "default"
// or "none".
type Params struct {
	Ranks int
	Count int // elements of the whole vector

	Root       int  // of broadcast, reduce, gather, scatter
	Width      int  // of the torus; default: the most nearly square
	GroupSize  int  // of the hierarchical algorithm; default: the most nearly square
	ChunkElems int  // elements per pipelined piece; default: one piece
	InPlace    bool // Input and Output share one memory

	// Blocks holds the blocks of the ranks; nil means the even blocks of Split. In an all-to-all the block from
	// rank a to rank b is block a*Ranks+b, and Count is the number of elements of all blocks.
	Blocks *Blocks
}

// Blocks divides a vector into consecutive parts of any lengths.
type Blocks struct{ off, n []int }

func (b *Blocks) String() string {
	if b == nil {
		return "even"
	}
	return fmt.Sprint(b.n)
}

// NewBlocks returns blocks with the given numbers of elements.
func NewBlocks(counts []int) *Blocks {
	b := &Blocks{n: counts}
	total := 0
	for _, n := range counts {
		b.off = append(b.off, total)
		total += n
	}
	return b
}

// Block returns the part of the vector that belongs to a rank.
func (p Params) Block(rank int) (off, n int) {
	if p.Blocks != nil {
		return p.Blocks.off[rank], p.Blocks.n[rank]
	}
	return Split(p.Count, p.Ranks, rank)
}

// Pair returns the block that goes from one rank to another in an all-to-all: its position in the sender's
// input, its position in the receiver's output, and its length.
func (p Params) Pair(from, to int) (src, dst, n int) {
	if p.Blocks == nil {
		src, n = Split(p.Count, p.Ranks, to)
		return src, from * n, n
	}
	src = p.Blocks.off[from*p.Ranks+to] - p.Blocks.off[from*p.Ranks]
	for peer := range from { // the receiver stores the blocks in rank order of their senders
		dst += p.Blocks.n[peer*p.Ranks+to]
	}
	return src, dst, p.Blocks.n[from*p.Ranks+to]
}

// allToAllLens returns the lengths of a rank's input and output in an all-to-all: the ends of their last blocks.
func (p Params) allToAllLens(rank int) (in, out int) {
	last := p.Ranks - 1
	at, _, n := p.Pair(rank, last)
	_, to, m := p.Pair(last, rank)
	return at + n, to + m
}

// Split divides count elements into parts whose lengths differ by at most one, the longer ones first, and
// returns the offset and length of part i. It needs no table, so every rank can compute the part of any other.
func Split(count, parts, i int) (off, n int) {
	base := count / parts
	extra := count - base*parts
	off = i*base + min(i, extra)
	if i < extra {
		base++
	}
	return off, base
}

// New returns the schedule of a collective by the named algorithm.
func New(collective, algorithm string, p Params) (Schedule, error) {
	a, err := lookup(collective, algorithm)
	if err != nil {
		return nil, err
	}
	if a.Steps == nil {
		return nil, fmt.Errorf("%s %s has no schedule", collective, algorithm)
	}
	if err := a.resolveParams(collective, &p); err != nil {
		return nil, fmt.Errorf("%s %s: %w", collective, algorithm, err)
	}
	return &built{algorithm: a, params: p}, nil
}

// built is a registered algorithm applied to parameters.
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
	// A collective without elements has no steps. Only a barrier synchronizes without data.
	if b.params.Count == 0 && b.Collective() != Barrier {
		return func(func(Step) bool) {}
	}
	return b.algorithm.Steps(b.params, rank)
}

// Len returns the length of a rank's Input or Output. It depends on the collective, not on the algorithm.
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
		in, out = p.allToAllLens(rank)
	case Barrier:
		in, out = 0, 0
	}
	if buf == Input {
		return in
	}
	return out
}

// Shift returns the position of the first element of Input or Output in the memory that the two share in place.
// It is not 0 for the shorter buffer, which is the rank's own block of the longer one.
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
