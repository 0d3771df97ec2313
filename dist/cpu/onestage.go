package cpu

import (
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/transport"
	"github.com/kernbench/kernbench/internal/vec"
)

// ownBytes is how much of a slot is fetched ahead for writing: as much as a core
// can have on its way without holding up what it does.
const ownBytes = 4 << 10

// oneStage is an all-reduce in which everyone puts its input beside its flag
// and adds up everything itself. A longer vector goes in pieces, one an epoch.
type oneStage struct {
	m      *transport.Member
	label  *transport.Label
	kernel vec.Kernel
	few    func(out []byte, srcs [][]byte) // instead of the kernel, for what fits beside a flag
	in     []byte
	out    []byte
	piece  int // bytes
	epochs int
	own    int         // bytes of the slot to fetch for the next call
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
	if len(o.in) <= transport.TinyBytes && combine(p.Reduction) == vec.Sum {
		o.few = fewSums[p.DType]
	}
	o.epochs = (len(o.in) + o.piece - 1) / o.piece
	// A flag's own line is left alone: the others look at it all the time.
	if len(o.in) > transport.TinyBytes {
		o.own = min(len(o.in), ownBytes)
	}
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
		// All have read what this rank wrote in the epoch before: its lines can
		// come back while the sum is made, before the next epoch needs them.
		if o.own > 0 {
			vec.Own(&o.slots[(epoch+1)&1][me][0], o.own)
		}
		if o.few != nil {
			o.few(out, o.srcs)
		} else {
			o.kernel.Reduce(out, o.srcs)
		}
		o.finish.apply(out, off)
	}
	return nil
}

// fewSums add a handful of elements, for which setting up a kernel takes longer
// than adding. The order of additions is the kernels'.
var fewSums = map[dist.DType]func(out []byte, srcs [][]byte){
	dist.F64: sumFew[float64], dist.F32: sumFew[float32], dist.I64: sumFew[int64], dist.I32: sumFew[int32],
}

func sumFew[E float64 | float32 | int64 | int32](out []byte, srcs [][]byte) {
	var e E
	size := unsafe.Sizeof(e)
	for at := uintptr(0); at < uintptr(len(out)); at += size {
		sum := *(*E)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(srcs[0])), at))
		for _, s := range srcs[1:] {
			sum += *(*E)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), at))
		}
		*(*E)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(out)), at)) = sum
	}
}
