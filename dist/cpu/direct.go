package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// block is what one pass of a kernel takes: the piece of every input and of
	// an output stay in the first cache until it has gone to all outputs.
	block = 8 << 10
	// cacheLine is the grain of the parts, so that no two ranks write one line.
	cacheLine = 64
	// streamFrom is the size of all ranks' outputs together from which they are
	// stored past the caches: they would push everything else out and still not be
	// there when read. Streams like longer blocks.
	streamFrom  = 128 << 20
	streamBlock = 32 << 10
)

// direct is the two-stage all-reduce on symmetric memory. Each rank adds its
// part straight from all inputs and stores the sum straight into all outputs,
// so nothing is read twice. In place too: part i of every buffer is touched by
// rank i alone.
type direct struct {
	m       *shm.Member
	segment *shm.Segment
	label   *shm.Label
	kernel  vec.Kernel
	inOff   uint64
	outOff  uint64
	out     []byte // this rank's own
	from    int    // this rank's part
	to      int
	stream  bool
	block   int
	turned  bool // this call goes through the part from its end
	srcs    [][]byte
	ins     []int // where the part begins in each rank's input and output
	outs    []int
	scratch []byte
	finish  finish
}

// part cuts bytes into parts of whole cache lines.
func part(bytes, parts, i int) (from, to int) {
	lines := (bytes + cacheLine - 1) / cacheLine
	off, n := dist.Block(lines, parts, i)
	return min(off*cacheLine, bytes), min((off+n)*cacheLine, bytes)
}

func (e *engine) direct(p dist.Plan, in, out int) func() error {
	size := e.Size()
	o := &direct{m: e.member, segment: e.segment, label: label(p, " on symmetric memory"),
		kernel: vec.Lookup(p.DType, combine(p.Reduction)), inOff: uint64(in), outOff: uint64(out), out: p.Out.Bytes(),
		srcs: make([][]byte, size), ins: make([]int, size), outs: make([]int, size), finish: newFinish(p, size)}
	o.from, o.to = part(len(o.out), size, e.Rank())
	o.block = block
	if o.stream = size*len(o.out) >= e.streamFrom; o.stream {
		o.block = streamBlock
		o.scratch = make([]byte, streamBlock)
	}
	return o.run
}

func (o *direct) run() error {
	m := o.m
	if err := m.Begin(o.label, 2); err != nil {
		return outward(err)
	}
	me, epoch := m.Rank(), m.Next()
	*m.Word(me, epoch, 0), *m.Word(me, epoch, 1) = o.inOff, o.outOff
	m.Signal()
	if err := m.AwaitAll(epoch); err != nil {
		return outward(err)
	}
	for r := range o.srcs {
		o.ins[r] = int(*m.Word(r, epoch, 0))
		o.outs[r] = int(*m.Word(r, epoch, 1))
	}
	// Calls go through the part to and fro: each begins with what the last one left
	// in the caches. Always from the front, of a part that is a little too large for
	// a cache nothing would be found there.
	blocks := (o.to - o.from + o.block - 1) / o.block
	for i := range blocks {
		if o.turned {
			i = blocks - 1 - i
		}
		off := o.from + i*o.block
		o.reduce(off, min(o.block, o.to-off))
	}
	o.turned = !o.turned
	m.Signal()
	if err := m.AwaitAll(epoch + 1); err != nil {
		return outward(err)
	}
	o.finish.own(o.out, 0)
	return nil
}

// reduce makes n bytes of the sum and gives them to everyone.
func (o *direct) reduce(off, n int) {
	for r, in := range o.ins {
		o.srcs[r] = o.segment.At(in+off, n)
	}
	sum := o.out[off : off+n]
	if o.stream {
		sum = o.scratch[:n]
	}
	o.kernel.Reduce(sum, o.srcs)
	o.finish.shared(sum)
	for r, out := range o.outs {
		switch {
		case o.stream:
			vec.CopyNT(o.segment.At(out+off, n), sum)
		case r != o.m.Rank():
			copy(o.segment.At(out+off, n), sum)
		}
	}
}
