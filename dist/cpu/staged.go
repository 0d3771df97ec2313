package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// stagedSlots is how many pieces are on their way. With three, a rank that
	// goes at the others' pace waits for nobody: it gives out piece c+1 while they
	// add up piece c, and fetches the sums of c-1 meanwhile.
	stagedSlots = 3
	// stagedMost is the size of a piece of a long call by default, of which each rank
	// holds six; a shorter call has two pieces, so that there is one to give out while
	// the stores of the other drain. stagedLeast is what a rank should at least have
	// to add up of one: below that the flags cost more.
	stagedMost  = 256 << 10
	stagedLeast = 2 << 10
)

// staged is the two-stage all-reduce on private memory. What others need of a
// piece is copied into this rank's stage; every rank adds its part of the piece
// from the stages and puts the sum into its own stage, where the others fetch it.
//
// The epochs of a call of n pieces, in the order of the signals, with "in" for a piece
// that has been given out and "sum" for a part added up:
//
//	in 0, in 1, sum 0, in 2, sum 1, ... in n-1, sum n-2, sum n-1
//
// Before in c+1 overwrites a slot, the sums of c-2 have been awaited, whose
// makers were the slot's readers. Before sum c does, in c has been awaited,
// which the readers of the slot signalled after reading it.
type staged struct {
	m      *shm.Member
	label  *shm.Label
	kernel vec.Kernel
	in     []byte
	out    []byte
	piece  int // bytes
	pieces int
	ins    [stagedSlots][][]byte // by slot and rank: the piece
	sums   [stagedSlots][][]byte // by slot and rank: its part of the sum
	srcs   [][]byte
	stream bool // the output is far larger than the caches
	finish finish
}

func (e *engine) staged(p dist.Plan) func() error {
	o := &staged{m: e.member, label: label(p, " on private memory"), kernel: vec.Lookup(p.DType, combine(p.Reduction)),
		in: p.In.Bytes(), out: p.Out.Bytes(), srcs: make([][]byte, e.Size()), finish: newFinish(p, e.Size())}
	half := (len(o.in) + 2*cacheLine - 1) / (2 * cacheLine) * cacheLine
	o.piece = max(stagedLeast*e.Size(), min(stagedMost, half))
	if bytes := p.Chunk * p.DType.Size(); bytes > 0 {
		o.piece = bytes
	}
	o.stream = e.Size()*len(o.out) >= e.streamFrom
	o.lay(e.Size())
	return o.run
}

// lay divides the stages into slots.
func (o *staged) lay(size int) {
	const most = shm.StageBytes / (2 * stagedSlots)
	o.piece = max(cacheLine, min(o.piece, most, len(o.in))&^(cacheLine-1))
	o.pieces = (len(o.in) + o.piece - 1) / o.piece
	for slot := range stagedSlots {
		for r := range size {
			stage := o.m.Stage(r)
			o.ins[slot] = append(o.ins[slot], stage[slot*most:][:o.piece])
			o.sums[slot] = append(o.sums[slot], stage[(stagedSlots+slot)*most:][:o.piece])
		}
	}
}

// inEpoch and sumEpoch count from the call's first epoch, 1.
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
		return outward(err)
	}
	base := m.Next() - 1
	o.give(0)
	for c := range o.pieces {
		if c >= 2 {
			if err := o.fetch(c-2, base); err != nil {
				return outward(err)
			}
		}
		if c+1 < o.pieces {
			o.give(c + 1)
		}
		if err := m.AwaitAll(base + o.inEpoch(c)); err != nil {
			return outward(err)
		}
		o.reduce(c)
	}
	for c := max(0, o.pieces-2); c < o.pieces; c++ {
		if err := o.fetch(c, base); err != nil {
			return outward(err)
		}
	}
	o.finish.own(o.out, 0)
	return nil
}

// bounds is a piece, and the part of it that a rank adds up, counted from its begin.
func (o *staged) bounds(c, rank int) (off, from, to int) {
	off = c * o.piece
	from, to = part(min(o.piece, len(o.in)-off), len(o.srcs), rank)
	return off, from, to
}

// give copies what others need of piece c into this rank's stage.
func (o *staged) give(c int) {
	me := o.m.Rank()
	for r := range o.srcs {
		if off, from, to := o.bounds(c, r); r != me && from < to {
			vec.Copy(o.ins[c%stagedSlots][me][from:to], o.in[off+from:off+to])
		}
	}
	o.m.Signal()
}

// reduce makes this rank's part of the sum of piece c.
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
		o.finish.shared(sum)
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
