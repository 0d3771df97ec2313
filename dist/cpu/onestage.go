package cpu

import (
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// ownBytes is the part of a slot that is prefetched for writing, in bytes. It is as many cache lines as a core can
// request without delaying its other work.
const ownBytes = 4 << 10

// oneStage is the all-reduce in which every rank writes its input next to its flag and adds all inputs itself. A vector
// that does not fit in a slot is sent in pieces, one per epoch.
type oneStage struct {
	allReduce
	few    func(out []byte, srcs [][]byte) // replaces the kernel for inputs that fit next to a flag
	piece  int                             // bytes per piece
	epochs int
	own    int         // bytes of the slot to prefetch for the next call
	slots  [2][][]byte // by parity of the epoch and rank
}

func (e *engine) oneStage(p dist.Plan) func() error {
	if e.Size()*len(p.Out.Bytes()) >= e.streamFrom && p.Chunk == 0 {
		return e.piped(p)
	}
	return e.newOneStage(p, "").run
}

// PrepareHalves divides an all-reduce of one epoch. begin publishes this rank's input, which the others can read at any
// time. finish waits for their inputs and adds them.
func (e localEngine) PrepareHalves(p dist.Plan) (begin, finish func() error, arrived func() bool, err error) {
	if p.Op != dist.AllReduce || p.Steps || p.Codec != nil || p.Count == 0 || e.Size() == 1 ||
		p.Algorithm != "one-stage" || e.Size()*len(p.Out.Bytes()) >= e.streamFrom {
		return nil, nil, nil, nil
	}
	o := e.newOneStage(p, " begun")
	if o.epochs != 1 {
		return nil, nil, nil, nil
	}
	return o.begin, o.end, o.arrived, nil
}

func (e *engine) newOneStage(p dist.Plan, how string) *oneStage {
	o := &oneStage{allReduce: e.allReduce(p, how), piece: shm.InlineBytes}
	if bytes := p.Chunk * p.DType.Size(); bytes > 0 {
		o.piece = min(o.piece, bytes)
	}
	if vec.Combining(p.Reduction) == vec.Sum {
		o.few = fewSum(p.DType, len(o.in))
	}
	o.epochs = (len(o.in) + o.piece - 1) / o.piece
	// Do not prefetch the cache line of the flag, because the others poll it.
	if len(o.in) > shm.TinyBytes {
		o.own = min(len(o.in), ownBytes)
	}
	for parity := range o.slots {
		for r := range e.Size() {
			slot := o.m.Slot(r, uint32(parity))
			if len(o.in) <= shm.TinyBytes {
				slot = o.m.Tiny(r, uint32(parity))[:]
			}
			o.slots[parity] = append(o.slots[parity], slot)
		}
	}
	return o
}

func (o *oneStage) run() error {
	if err := o.m.Begin(o.label, o.epochs); err != nil {
		return err
	}
	for off := 0; off < len(o.in); off += o.piece {
		end := min(off+o.piece, len(o.in))
		o.publish(off, end)
		if err := o.combine(off, end); err != nil {
			return err
		}
	}
	return nil
}

// begin and end are the halves of run, for a call of one piece. No barrier is needed at the end, because the published
// input stays valid until all ranks have ended the call. This rank overwrites it two calls later. By then it has waited
// for the next call of all ranks, which they begin only after they have ended this one.
func (o *oneStage) begin() error {
	if err := o.m.Begin(o.label, o.epochs); err != nil {
		return err
	}
	o.publish(0, len(o.in))
	return nil
}

func (o *oneStage) end() error { return o.combine(0, len(o.in)) }

func (o *oneStage) arrived() bool { return o.m.Arrived(o.m.Next() - 1) }

// publish copies a piece of the input into this rank's slot, where the others read it.
func (o *oneStage) publish(off, end int) {
	copy(o.slots[o.m.Next()&1][o.m.Rank()], o.in[off:end])
	o.m.Signal()
}

// combine waits for the pieces of all others and adds them.
func (o *oneStage) combine(off, end int) error {
	m := o.m
	in, out := o.in[off:end], o.out[off:end]
	epoch, me := m.Next()-1, m.Rank()
	for r, slot := range o.slots[epoch&1] {
		o.srcs[r] = slot[:end-off]
	}
	o.srcs[me] = in
	if err := m.AwaitAll(epoch); err != nil {
		return err
	}
	// All ranks have read this rank's data of the previous epoch. Prefetch its cache lines now, so that they return to
	// this core while the sum is computed, before the next epoch writes them.
	if o.own > 0 {
		vec.Own(&o.slots[(epoch+1)&1][me][0], o.own)
	}
	if o.few != nil {
		o.few(out, o.srcs)
	} else {
		o.kernel.Reduce(out, o.srcs)
	}
	o.finish.Apply(out, off)
	return nil
}

// fewSum returns a function that adds a few elements, in the same order as the kernels. For so few elements, setting up
// a kernel would take longer than adding. It returns nil if there are more elements.
func fewSum(d dist.DType, bytes int) func(out []byte, srcs [][]byte) {
	if bytes > shm.TinyBytes {
		return nil
	}
	if four := vec.SumFour(d); four != nil && bytes == 4*d.Size() {
		return four
	}
	switch {
	case d == dist.F64:
		return sumFew[float64]
	case d == dist.F32:
		return sumFew[float32]
	case d == dist.I64:
		return sumFew[int64]
	case d == dist.I32:
		return sumFew[int32]
	case d == dist.F16 && bytes <= 4*2:
		return sumFewF16
	case d == dist.BF16 && bytes <= 8*2:
		return sumFewBF16
	}
	return nil
}

func sumFew[E float64 | float32 | int64 | int32](out []byte, srcs [][]byte) {
	var e E
	size := unsafe.Sizeof(e)
	for at := uintptr(0); at < uintptr(len(out)); at += size {
		sum := *element[E](srcs[0], at)
		for _, s := range srcs[1:] {
			sum += *element[E](s, at)
		}
		*element[E](out, at) = sum
	}
}

// The two 16-bit types have their own functions, because in generic code every widening would be a
// function call.

func sumFewF16(out []byte, srcs [][]byte) {
	for at := uintptr(0); at < uintptr(len(out)); at += 2 {
		sum := element[dtype.Float16](srcs[0], at).Float32()
		for _, s := range srcs[1:] {
			sum += element[dtype.Float16](s, at).Float32()
		}
		*element[dtype.Float16](out, at) = dtype.Float16From(sum)
	}
}

func sumFewBF16(out []byte, srcs [][]byte) {
	for at := uintptr(0); at < uintptr(len(out)); at += 2 {
		sum := element[dtype.BFloat16](srcs[0], at).Float32()
		for _, s := range srcs[1:] {
			sum += element[dtype.BFloat16](s, at).Float32()
		}
		*element[dtype.BFloat16](out, at) = dtype.BFloat16From(sum)
	}
}

func element[E any](b []byte, at uintptr) *E {
	return (*E)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at))
}

const (
	// pipedSlots is the number of pieces in flight: one that is being written, one that is being
	// added, and one that slower ranks still read.
	pipedSlots = 3
	// pipedPiece is the size of a piece in bytes. It is long because non-temporal stores are fast only in long runs.
	pipedPiece = 256 << 10
)

// piped is the one-stage all-reduce of vectors far larger than the caches. Every rank publishes its input piece by
// piece. It publishes each piece before it adds the previous piece of all ranks. It writes the sums with non-temporal
// stores, so that they do not evict the pieces from the caches.
//
// Epoch c+1 of a call announces that piece c has been published. The last epoch announces that the rank has read all
// pieces. Slots are reused safely: before a rank overwrites a slot, it has waited for the previous piece of all ranks,
// which they published after they had read the slot.
type piped struct {
	allReduce
	reduce func(dst []byte, srcs [][]byte)
	pieces int
	slots  [pipedSlots][][]byte // by slot and rank
}

func (e *engine) piped(p dist.Plan) func() error {
	o := &piped{allReduce: e.allReduce(p, " in a pipe")}
	o.reduce = o.kernel.ReduceNT
	if !o.finish.IsNop() {
		o.reduce = o.kernel.Reduce // store through the caches: the sums are read again soon
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
		return err
	}
	first := m.Next()
	o.publish(0)
	for c := range o.pieces {
		if err := m.AwaitAll(first + uint32(c)); err != nil {
			return err
		}
		if c+1 < o.pieces {
			o.publish(c + 1)
		}
		o.combine(c)
	}
	m.Signal()
	return m.AwaitAll(first + uint32(o.pieces))
}

func (o *piped) bounds(c int) (from, to int) {
	return c * pipedPiece, min((c+1)*pipedPiece, len(o.in))
}

// publish copies piece c into this rank's stage.
func (o *piped) publish(c int) {
	from, to := o.bounds(c)
	vec.Copy(o.slots[c%pipedSlots][o.m.Rank()][:to-from], o.in[from:to])
	o.m.Signal()
}

// combine computes the sum of piece c.
func (o *piped) combine(c int) {
	from, to := o.bounds(c)
	for r, slot := range o.slots[c%pipedSlots] {
		o.srcs[r] = slot[:to-from]
	}
	o.srcs[o.m.Rank()] = o.in[from:to]
	o.reduce(o.out[from:to], o.srcs)
	o.finish.Apply(o.out[from:to], from)
}
