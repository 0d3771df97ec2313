package fused

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Rank executes plans as one rank of a group. Its threads do both the products and the reductions.
// Only one goroutine may use it at a time.
type Rank struct {
	group    *dist.Group
	engine   gemm.Overlapper
	channels []*dist.Group // one group per thread, all with the same ranks
}

// Open starts the threads and opens the channels. All ranks of the group must call it with the same
// number of threads.
func Open(g *dist.Group, threads int) (*Rank, error) {
	engine, err := gemm.Builtin().Open(threads)
	if err != nil {
		return nil, err
	}
	overlapper, ok := engine.(gemm.Overlapper)
	if !ok {
		engine.Close()
		return nil, fmt.Errorf("engine %v cannot run other work between its tasks", engine)
	}
	r := &Rank{group: g, engine: overlapper}
	for range threads {
		channel, err := g.Split(0, g.Rank())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening a channel: %w", err), r.Close())
		}
		r.channels = append(r.channels, channel)
	}
	return r, nil
}

// String describes the engine, for the record of a result.
func (r *Rank) String() string { return r.engine.String() }

// Close ends the threads and closes the channels, but not the group. Ranks that wait for this one in a
// channel get an error.
func (r *Rank) Close() error {
	r.engine.Close()
	return errors.Join(lists.Map(r.channels, func(l *dist.Group) error { return l.Close() })...)
}

// Alloc allocates an m x n result in symmetric memory, so that the reduction needs no copy. All ranks
// must call it. Any plan of that size can use it.
func (r *Rank) Alloc(operand dtype.DType, m, n int) (dist.Buffer, error) {
	return r.group.Alloc(gemm.Result(operand), m*n)
}

// Op is a prepared plan.
type Op struct {
	rank          *Rank
	plan          Plan
	parts         []Part
	views         []gemm.Matrix // partitions of C
	pieces        []gemm.Piece
	empty         []gemm.Piece // pieces without rows, for reductions alone
	reductions    [][]*dist.Op // by partition and channel
	maxChannels   int          // largest number of channels of a partition
	reduce        func(piece, job int) error
	reduceCurrent func(piece, job int) error // reduces partition current, without overlap
	current       int
}

// Prepare prepares a plan that computes C = sum over ranks of A x B, in memory from Alloc. It is a
// local call, but all ranks must prepare the same plans.
func (r *Rank) Prepare(p Plan, c dist.Buffer, a, b gemm.Matrix) (*Op, error) {
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("preparing a fused product: %w", err)
	}
	if a.Rows != p.M || a.Cols != p.K || b.Rows != p.K || b.Cols != p.N || c.Count() < p.M*p.N ||
		c.DType() != gemm.Result(a.Type) {
		return nil, fmt.Errorf("preparing a fused product: A is %d x %d, B %d x %d and C %v: want %d x %d, %d x %d and %d %v",
			a.Rows, a.Cols, b.Rows, b.Cols, c, p.M, p.K, p.K, p.N, p.M*p.N, gemm.Result(a.Type))
	}
	o := &Op{rank: r, plan: p, parts: p.Parts()}
	for _, part := range o.parts {
		memory := c.Slice(part.Offset, part.Count())
		piece := gemm.Piece{C: view(memory, part), A: a, B: b}
		if p.Split == SplitN {
			piece.B = b.ColRange(part.From, part.To)
		} else {
			piece.A = a.RowRange(part.From, part.To)
		}
		o.views, o.pieces = append(o.views, piece.C), append(o.pieces, piece)
		o.empty = append(o.empty, gemm.Piece{C: piece.C.RowRange(0, 0), A: piece.A.RowRange(0, 0), B: piece.B})
		moves, err := r.prepareReductions(memory)
		if err != nil {
			return nil, fmt.Errorf("preparing the reduction of partition %d to %d: %w", part.From, part.To, err)
		}
		o.reductions = append(o.reductions, moves)
		o.maxChannels = max(o.maxChannels, len(moves))
	}
	o.reduce = o.reduceChannel
	o.reduceCurrent = func(_, job int) error { return o.reduceChannel(o.current, job) }
	return o, nil
}

// view returns a partition as a matrix.
func view(memory dist.Buffer, part Part) gemm.Matrix {
	return gemm.Matrix{Type: memory.DType(), Rows: part.Rows, Cols: part.Cols, RowStep: part.Cols, ColStep: 1,
		Data: memory.Bytes()}
}

// prepareReductions prepares the reduction of a partition, with one operation per channel.
func (r *Rank) prepareReductions(memory dist.Buffer) ([]*dist.Op, error) {
	var out []*dist.Op
	for i, l := range channels(memory.Count(), memory.DType().Size(), len(r.channels)) {
		part := memory.Slice(l.From, l.To-l.From)
		op, err := r.channels[i].Prepare(dist.Call{Op: dist.AllReduce, In: part, Out: part, Reduction: dist.Sum})
		if err != nil {
			return nil, err
		}
		out = append(out, op)
	}
	return out, nil
}

// reduceChannel runs one channel of a partition's reduction. Short partitions have fewer channels.
func (o *Op) reduceChannel(part, channel int) error {
	if channel >= len(o.reductions[part]) {
		return nil
	}
	return o.reductions[part][channel].Run()
}

// Plan returns the plan of the operation.
func (o *Op) Plan() Plan { return o.plan }

// Part returns a partition of C as a matrix.
func (o *Op) Part(i int) gemm.Matrix { return o.views[i] }

// Run computes C on all ranks. It allocates nothing after the first call.
func (o *Op) Run() error {
	if o.plan.Overlap && len(o.pieces) > 1 {
		return o.rank.engine.Overlap(o.pieces, o.maxChannels, o.reduce)
	}
	for i := range o.pieces {
		if err := o.multiply(i); err != nil {
			return err
		}
		o.current = i
		if err := o.rank.engine.Overlap(o.empty[i:i+1], o.maxChannels, o.reduceCurrent); err != nil {
			return err
		}
	}
	return nil
}

// multiply computes one partition of this rank's product, without a reduction.
func (o *Op) multiply(i int) error {
	p := &o.pieces[i]
	return o.rank.engine.Multiply(p.C, p.A, p.B)
}

// Multiply computes this rank's product alone, in the plan's partitions.
func (o *Op) Multiply() error {
	if o.plan.Overlap && len(o.pieces) > 1 {
		return o.rank.engine.Overlap(o.pieces, 0, nil)
	}
	for i := range o.pieces {
		if err := o.multiply(i); err != nil {
			return err
		}
	}
	return nil
}

// Reduce runs the reductions alone, on the present contents of C.
func (o *Op) Reduce() error { return o.rank.engine.Overlap(o.empty, o.maxChannels, o.reduce) }

// Verify compares C after a run with the sum of all ranks' terms, like Plan.Verify.
func (o *Op) Verify(sum []int64, seed uint64) error { return o.plan.Verify(o.views, sum, seed) }
