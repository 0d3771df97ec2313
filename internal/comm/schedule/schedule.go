package schedule

import (
	"fmt"
	"iter"

	"github.com/kernbench/kernbench/internal/base/suggest"
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
}

// Split cuts count elements into parts that differ by at most one, the longer
// ones first, and gives part i.
func Split(count, parts, i int) (off, n int) {
	base, extra := count/parts, count%parts
	off = i*base + min(i, extra)
	if i < extra {
		base++
	}
	return off, base
}

// New builds the schedule of a collective by the named algorithm.
func New(collective, algorithm string, p Params) (Schedule, error) {
	algorithms, ok := registry[collective]
	if !ok {
		return nil, suggest.Unknown("collective", collective, Collectives())
	}
	var names []string
	for _, a := range algorithms {
		if a.Steps == nil {
			continue
		}
		if a.Name != algorithm {
			names = append(names, a.Name)
			continue
		}
		if err := a.settle(collective, &p); err != nil {
			return nil, fmt.Errorf("%s %s: %w", collective, algorithm, err)
		}
		return &built{algorithm: a, params: p}, nil
	}
	return nil, suggest.Unknown(collective+" algorithm", algorithm, names)
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
		return dataLen(b.Collective(), b.params, buf, rank)
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

// dataLen is what the collective demands of Input and Output, whatever the
// algorithm.
func dataLen(collective string, p Params, buf Buffer, rank int) int {
	_, block := Split(p.Count, p.Ranks, rank)
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
		out = p.Ranks * block
	case Barrier:
		in, out = 0, 0
	}
	if buf == Input {
		return in
	}
	return out
}

// inPlaceShift says where Input and Output begin in the one memory that they
// share in place.
func inPlaceShift(collective string, p Params, buf Buffer, rank int) int {
	off, _ := Split(p.Count, p.Ranks, rank)
	switch collective {
	case AllGather, Gather:
		if buf == Input && dataLen(collective, p, Output, rank) > 0 {
			return off
		}
	case ReduceScatter, Scatter:
		if buf == Output && dataLen(collective, p, Input, rank) > 0 {
			return off
		}
	}
	return 0
}
