package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// pipedSlots is how many pieces are on their way: one that is being given out, one
	// that is being added up, and one that slower ranks still read.
	pipedSlots = 3
	// pipedPiece is the size of a piece: streams like long ones.
	pipedPiece = 256 << 10
)

// piped is the one-stage all-reduce of vectors far larger than the caches. Everyone
// gives out its input piece by piece, each before it adds up the piece before, and
// stores the sums past the caches, which are left to the pieces.
//
// Epoch c+1 of a call says that piece c has been given out, and the last one that the
// rank has read all pieces. Before give overwrites a slot, the piece before has been
// awaited, which everyone gave out after it had read what was in the slot.
type piped struct {
	m      *shm.Member
	label  *shm.Label
	reduce func(dst []byte, srcs [][]byte)
	in     []byte
	out    []byte
	pieces int
	slots  [pipedSlots][][]byte // by slot and rank
	srcs   [][]byte
	finish finish
}

func (e *engine) piped(p dist.Plan) func() error {
	kernel := vec.Lookup(p.DType, combine(p.Reduction))
	o := &piped{m: e.member, label: label(p, " in a pipe"), reduce: kernel.ReduceNT, in: p.In.Bytes(), out: p.Out.Bytes(),
		srcs: make([][]byte, e.Size()), finish: newFinish(p, e.Size())}
	if !o.finish.Nothing() {
		o.reduce = kernel.Reduce // the sums are read again at once
	}
	o.pieces = (len(o.in) + pipedPiece - 1) / pipedPiece
	for slot := range o.slots {
		for r := range e.Size() {
			o.slots[slot] = append(o.slots[slot], o.m.Stage(r)[slot*pipedPiece:][:pipedPiece])
		}
	}
	return o.run
}

func (o *piped) run() error {
	m := o.m
	if err := m.Begin(o.label, o.pieces+1); err != nil {
		return outward(err)
	}
	first := m.Next()
	o.give(0)
	for c := range o.pieces {
		if err := m.AwaitAll(first + uint32(c)); err != nil {
			return outward(err)
		}
		if c+1 < o.pieces {
			o.give(c + 1)
		}
		o.take(c)
	}
	m.Signal()
	return outward(m.AwaitAll(first + uint32(o.pieces)))
}

func (o *piped) bounds(c int) (from, to int) {
	return c * pipedPiece, min((c+1)*pipedPiece, len(o.in))
}

// give copies piece c into this rank's stage.
func (o *piped) give(c int) {
	from, to := o.bounds(c)
	vec.Copy(o.slots[c%pipedSlots][o.m.Rank()][:to-from], o.in[from:to])
	o.m.Signal()
}

// take makes the sum of piece c.
func (o *piped) take(c int) {
	from, to := o.bounds(c)
	for r, slot := range o.slots[c%pipedSlots] {
		o.srcs[r] = slot[:to-from]
	}
	o.srcs[o.m.Rank()] = o.in[from:to]
	o.reduce(o.out[from:to], o.srcs)
	o.finish.apply(o.out[from:to], from)
}
