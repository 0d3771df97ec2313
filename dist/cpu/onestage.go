package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/transport"
	"github.com/kernbench/kernbench/internal/vec"
)

// oneStage is an all-reduce in which everyone puts its input beside its flag
// and adds up everything itself. A longer vector goes in pieces, one an epoch.
type oneStage struct {
	m      *transport.Member
	label  *transport.Label
	kernel vec.Kernel
	in     []byte
	out    []byte
	piece  int // bytes
	epochs int
	slots  [2][][]byte // by parity of the epoch and rank
	srcs   [][]byte
	finish finish
}

func (e *engine) oneStage(p dist.Plan) func() error {
	o := &oneStage{m: e.member, label: label(p, ""), kernel: vec.Lookup(p.DType, combine(p.Reduction)),
		in: p.In.Bytes(), out: p.Out.Bytes(), srcs: make([][]byte, e.Size()), finish: newFinish(p, e.Size())}
	o.piece = transport.InlineBytes
	if bytes := p.Chunk * p.DType.Size(); bytes > 0 {
		o.piece = min(o.piece, bytes)
	}
	o.epochs = (len(o.in) + o.piece - 1) / o.piece
	for parity := range o.slots {
		for r := range e.Size() {
			slot := o.m.Slot(r, uint32(parity))
			if len(o.in) <= transport.TinyBytes {
				slot = o.m.Tiny(r, uint32(parity))[:]
			}
			o.slots[parity] = append(o.slots[parity], slot)
		}
	}
	return o.run
}

func (o *oneStage) run() error {
	m := o.m
	if err := m.Begin(o.label, o.epochs); err != nil {
		return outward(err)
	}
	me := m.Rank()
	for off := 0; off < len(o.in); off += o.piece {
		end := min(off+o.piece, len(o.in))
		in, out := o.in[off:end], o.out[off:end]
		epoch := m.Next()
		slots := o.slots[epoch&1]
		copy(slots[me], in)
		m.Signal()
		for r := range o.srcs {
			o.srcs[r] = slots[r][:end-off]
		}
		o.srcs[me] = in
		if err := m.AwaitAll(epoch); err != nil {
			return outward(err)
		}
		o.kernel.Reduce(out, o.srcs)
		o.finish.apply(out, off)
	}
	return nil
}
