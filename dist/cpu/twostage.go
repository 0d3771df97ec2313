package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// block is the number of bytes that a kernel processes at once. A block of every input and of an output must stay in
	// the L1 cache until it has been written to all outputs.
	block = 8 << 10
	// cacheLine is the alignment of the parts, so that no two ranks write the same line.
	cacheLine = 64
	// streamFrom is the total size of all ranks' outputs, in bytes, from which they are written with non-temporal stores.
	// With ordinary stores, the outputs would evict all other data from the caches and would themselves be evicted
	// before they are read. Non-temporal stores need longer blocks (streamBlock).
	streamFrom  = 128 << 20
	streamBlock = 32 << 10
)

// direct is the two-stage all-reduce on symmetric memory. Each rank adds its part directly from all inputs and stores
// the sum directly into all outputs, so nothing is read twice. It also works in place: only rank i touches part i of
// any buffer.
type direct struct {
	allReduce
	segment   *shm.Segment
	inOff     uint64
	outOff    uint64
	from      int // bounds of this rank's part, in bytes
	to        int
	stream    bool
	block     int
	backwards bool  // this call processes the part from its end
	ins       []int // offset of the part in each rank's input and output
	outs      []int
	scratch   []byte
}

// part divides bytes into parts of whole cache lines.
func part(bytes, parts, i int) (from, to int) {
	lines := (bytes + cacheLine - 1) / cacheLine
	off, n := dist.Block(lines, parts, i)
	return min(off*cacheLine, bytes), min((off+n)*cacheLine, bytes)
}

func (e *engine) direct(p dist.Plan, in, out int) func() error {
	size := e.Size()
	o := &direct{allReduce: e.allReduce(p, " on symmetric memory"), segment: e.segment, inOff: uint64(in),
		outOff: uint64(out),
		block:  block, ins: make([]int, size), outs: make([]int, size)}
	o.from, o.to = part(len(o.out), size, e.Rank())
	if o.stream = size*len(o.out) >= e.streamFrom; o.stream {
		o.block = streamBlock
		o.scratch = make([]byte, streamBlock)
	}
	return o.run
}

func (o *direct) run() error {
	m := o.m
	if err := m.Begin(o.label, 2); err != nil {
		return err
	}
	me, epoch := m.Rank(), m.Next()
	*m.Word(me, epoch, 0), *m.Word(me, epoch, 1) = o.inOff, o.outOff
	m.Signal()
	if err := m.AwaitAll(epoch); err != nil {
		return err
	}
	for r := range o.srcs {
		o.ins[r] = int(*m.Word(r, epoch, 0))
		o.outs[r] = int(*m.Word(r, epoch, 1))
	}
	// Calls process the part alternately forwards and backwards, so that each call begins with data that the previous one
	// has left in the caches. If all calls went forwards, a part slightly larger than a cache would always have been
	// evicted.
	blocks := (o.to - o.from + o.block - 1) / o.block
	for i := range blocks {
		if o.backwards {
			i = blocks - 1 - i
		}
		off := o.from + i*o.block
		o.reduce(off, min(o.block, o.to-off))
	}
	o.backwards = !o.backwards
	m.Signal()
	if err := m.AwaitAll(epoch + 1); err != nil {
		return err
	}
	o.finish.applyOwn(o.out)
	return nil
}

// reduce computes n bytes of the sum and stores them in all outputs.
func (o *direct) reduce(off, n int) {
	for r, in := range o.ins {
		o.srcs[r] = o.segment.At(in+off, n)
	}
	sum := o.out[off : off+n]
	if o.stream {
		sum = o.scratch[:n]
	}
	o.kernel.Reduce(sum, o.srcs)
	o.finish.applyShared(sum)
	for r, out := range o.outs {
		switch {
		case o.stream:
			vec.CopyNT(o.segment.At(out+off, n), sum)
		case r != o.m.Rank():
			copy(o.segment.At(out+off, n), sum)
		}
	}
}

const (
	// stagedSlots is the number of pieces in flight. With three, a rank that is as fast as the others never waits: while
	// they add piece c, it writes piece c+1 and fetches the sums of piece c-1.
	stagedSlots = 3
	// stagedPiece is the default size of a piece of a long call; each rank holds six of them. A shorter call has two
	// pieces, so that one can be written while the stores of the other drain. stagedMinPart is the minimum that a
	// rank should add of one piece: below it the flags cost more.
	stagedPiece   = 256 << 10
	stagedMinPart = 2 << 10
)

// staged is the two-stage all-reduce on private memory. Of each piece, a rank copies the data that others need into its
// stage. It then adds its part of the piece from all stages and writes the sum to its own stage, from which the others
// fetch it.
//
// The epochs of a call of n pieces, in the order of the signals ("in": a piece has been written, "sum": a part has been
// added):
//
//	in 0, in 1, sum 0, in 2, sum 1, ... in n-1, sum n-2, sum n-1
//
// Before a rank writes in c+1 to a slot, it has waited for the sums of c-2. The ranks that computed these sums were the
// readers of the slot. Before it writes sum c to a slot, it has waited for in c, which the readers of that slot
// signalled after they had read it.
type staged struct {
	allReduce
	piece  int // bytes
	pieces int
	ins    [stagedSlots][][]byte // by slot and rank: the piece
	sums   [stagedSlots][][]byte // by slot and rank: its part of the sum
	stream bool                  // the output is far larger than the caches
}

func (e *engine) staged(p dist.Plan) func() error {
	o := &staged{allReduce: e.allReduce(p, " on private memory")}
	half := (len(o.in) + 2*cacheLine - 1) / (2 * cacheLine) * cacheLine
	o.piece = max(stagedMinPart*e.Size(), min(stagedPiece, half))
	if bytes := p.Chunk * p.DType.Size(); bytes > 0 {
		o.piece = bytes
	}
	o.stream = e.Size()*len(o.out) >= e.streamFrom
	o.layOut(e.Size())
	return o.run
}

// layOut divides the stage of every rank into slots.
func (o *staged) layOut(size int) {
	const slotBytes = shm.StageBytes / (2 * stagedSlots)
	o.piece = max(cacheLine, min(o.piece, slotBytes, len(o.in))&^(cacheLine-1))
	o.pieces = (len(o.in) + o.piece - 1) / o.piece
	for slot := range stagedSlots {
		for r := range size {
			stage := o.m.Stage(r)
			o.ins[slot] = append(o.ins[slot], stage[slot*slotBytes:][:o.piece])
			o.sums[slot] = append(o.sums[slot], stage[(stagedSlots+slot)*slotBytes:][:o.piece])
		}
	}
}

// inEpoch and sumEpoch return epochs, counted from the first epoch of the call, 1.
func (o *staged) inEpoch(c int) uint32 { return uint32(max(1, 2*c)) }

func (o *staged) sumEpoch(c int) uint32 {
	if c == o.pieces-1 {
		return uint32(2 * o.pieces)
	}
	return uint32(2*c + 3)
}

func (o *staged) run() error {
	m := o.m
	if err := m.Begin(o.label, 2*o.pieces); err != nil {
		return err
	}
	base := m.Next() - 1
	o.publish(0)
	for c := range o.pieces {
		if c >= 2 {
			if err := o.fetch(c-2, base); err != nil {
				return err
			}
		}
		if c+1 < o.pieces {
			o.publish(c + 1)
		}
		if err := m.AwaitAll(base + o.inEpoch(c)); err != nil {
			return err
		}
		o.reduce(c)
	}
	for c := max(0, o.pieces-2); c < o.pieces; c++ {
		if err := o.fetch(c, base); err != nil {
			return err
		}
	}
	o.finish.applyOwn(o.out)
	return nil
}

// bounds returns a piece, and the part of it that a rank adds, relative to its start.
func (o *staged) bounds(c, rank int) (off, from, to int) {
	off = c * o.piece
	from, to = part(min(o.piece, len(o.in)-off), len(o.srcs), rank)
	return off, from, to
}

// publish copies the data that others need of piece c into this rank's stage.
func (o *staged) publish(c int) {
	me := o.m.Rank()
	for r := range o.srcs {
		if off, from, to := o.bounds(c, r); r != me && from < to {
			vec.Copy(o.ins[c%stagedSlots][me][from:to], o.in[off+from:off+to])
		}
	}
	o.m.Signal()
}

// reduce computes this rank's part of the sum of piece c.
func (o *staged) reduce(c int) {
	me := o.m.Rank()
	off, from, to := o.bounds(c, me)
	for ; from < to; from += block {
		end := min(from+block, to)
		for r := range o.srcs {
			o.srcs[r] = o.ins[c%stagedSlots][r][from:end]
		}
		o.srcs[me] = o.in[off+from : off+end]
		sum := o.sums[c%stagedSlots][me][from:end]
		o.kernel.Reduce(sum, o.srcs)
		o.finish.applyShared(sum)
		o.store(o.out[off+from:off+end], sum)
	}
	o.m.Signal()
}

// store writes a part of the output.
func (o *staged) store(out, sum []byte) {
	if o.stream {
		vec.CopyNT(out, sum)
	} else {
		vec.Copy(out, sum)
	}
}

// fetch copies the others' parts of the sum of piece c to the output.
func (o *staged) fetch(c int, base uint32) error {
	for r := range o.srcs {
		if r == o.m.Rank() {
			continue
		}
		if err := o.m.Await(r, base+o.sumEpoch(c)); err != nil {
			return err
		}
		if off, from, to := o.bounds(c, r); from < to {
			o.store(o.out[off+from:off+to], o.sums[c%stagedSlots][r][from:to])
		}
	}
	return nil
}
