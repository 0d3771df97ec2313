package collectives

import (
	"bytes"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/verify"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// work is one rank's part of a point: its buffers and the prepared call.
type work struct {
	sh        shape
	rank      int
	inputs    *inputs
	in, out   dist.Buffer
	run       func() error
	op        *dist.Op  // nil if there are two (sendrecv)
	plan      dist.Plan // of the call, or of the first of two
	refreshes int       // number of inputs generated so far
}

func newWork(g *dist.Group, sh shape, seed uint64) (*work, error) {
	w := &work{sh: sh, rank: g.Rank(), inputs: newInputs(seed, sh)}
	if err := w.allocate(g); err != nil {
		return nil, err
	}
	if err := w.prepare(g); err != nil {
		return nil, err
	}
	return w, nil
}

// allocate allocates the buffers. All ranks allocate the same sizes, whatever their part, because
// allocating symmetric memory is itself a collective.
func (w *work) allocate(g *dist.Group) error {
	var longest struct{ in, out int }
	for rank := range w.sh.ranks {
		in, out := w.sh.counts(rank)
		longest.in, longest.out = max(longest.in, in), max(longest.out, out)
	}
	get := g.Alloc
	if w.sh.buffers == private {
		get = func(d dist.DType, count int) (dist.Buffer, error) { return dist.Make(d, count), nil }
	}
	in, out := w.sh.counts(w.rank)
	if !w.sh.inPlace {
		a, err := get(w.sh.dtype, longest.in)
		if err != nil {
			return err
		}
		b, err := get(w.sh.dtype, longest.out)
		if err != nil {
			return err
		}
		w.in, w.out = a.Slice(0, in), b.Slice(0, out)
		return nil
	}
	shared, err := get(w.sh.dtype, max(longest.in, longest.out))
	if err != nil {
		return err
	}
	p := w.sh.params()
	w.in = shared.Slice(p.Shift(w.sh.op, schedule.Input, w.rank), in)
	w.out = shared.Slice(p.Shift(w.sh.op, schedule.Output, w.rank), out)
	return nil
}

// prepare prepares the call.
func (w *work) prepare(g *dist.Group) error {
	if w.sh.op != sendRecv {
		op, err := g.Prepare(dist.Call{Op: dist.Collective(w.sh.op), In: w.in, Out: w.out, Reduction: w.sh.reduction,
			Root: root, Count: w.sh.count, Algorithm: w.sh.algorithm})
		if err != nil {
			return err
		}
		w.op, w.run, w.plan = op, op.Run, op.Plan()
		return nil
	}
	send, err := g.Prepare(dist.Call{Op: dist.Send, In: w.in, Peer: (w.rank + 1) % w.sh.ranks})
	if err != nil {
		return err
	}
	recv, err := g.Prepare(dist.Call{Op: dist.Recv, Out: w.out, Peer: (w.rank + w.sh.ranks - 1) % w.sh.ranks})
	if err != nil {
		return err
	}
	w.plan = send.Plan()
	// In the ring, even ranks send first and odd ranks receive first. So no cycle of ranks can
	// deadlock, however little a backend buffers.
	first, second := send, recv
	if w.rank%2 == 1 {
		first, second = recv, send
	}
	w.run = func() error {
		if err := first.Run(); err != nil {
			return err
		}
		return second.Run()
	}
	return nil
}

// refresh overwrites the output and generates inputs that no call has seen, so that the result of an
// earlier call is never mistaken for a later one.
func (w *work) refresh() error {
	w.refreshes++
	if err := poison(w.out); err != nil { // first, because in place the input is in the same memory
		return err
	}
	return w.inputs.fill(w.in, w.rank, w.sh.inputOffset(w.rank)+w.inputShift())
}

// inputShift returns how far the current inputs are shifted.
func (w *work) inputShift() int { return w.refreshes * callShift }

func (w *work) verify() error { return w.inputs.check(w.out, w.sh, w.rank, w.inputShift()) }

// poison fills an output with a byte pattern, so that an output that was not written is
// wrong. If the pattern is a valid element of the type, most expected elements still differ
// from it, so that a stale output is detected.
func poison(out dist.Buffer) error {
	return instrument.Overwrite(out, func(piece dist.Buffer, _ int) {
		data := piece.Bytes()
		if len(data) > 0 {
			data[0] = 0xa5
			for done := 1; done < len(data); done *= 2 { // doubling copies run at memory speed
				copy(data[done:], data[:done])
			}
		}
	})
}

// inputs generates the ranks' vectors and the expected results. Long vectors repeat the elements of a
// table that is generated once, so that they are filled and verified at memory speed.
type inputs struct {
	verify.Inputs
	dtype  dtype.DType
	tables map[int][]byte // by origin: a rank, or allRanks
}

func newInputs(seed uint64, sh shape) *inputs {
	return &inputs{verify.NewInputs(seed, sh.dtype, sh.reduction, sh.ranks), sh.dtype, map[int][]byte{}}
}

const (
	// batchSize is the number of elements generated at a time. A batch fits into the cache.
	batchSize = 1024
	// period is the number of positions after which the inputs repeat. It is prime, so that it divides
	// no block or chunk, and a block taken from a wrong position is detected.
	period = 1<<20 - 3
	// tableThreshold is the number of elements from which a table saves time. At most maxTables are kept:
	// for a rank's own input, and for the reduction or the root's input. The inputs of other ranks are
	// generated each time.
	tableThreshold, maxTables = period / 2, 2
	// callShift is the shift between the inputs of successive calls.
	callShift = 7919
)

// forBatches calls f for each batch of a buffer: elements [from, from+n) and their bytes.
func forBatches(b dist.Buffer, f func(from, n int, elements []byte)) {
	size, data := b.DType().Size(), b.Bytes()
	for from := 0; from < b.Count(); from += batchSize {
		n := min(batchSize, b.Count()-from)
		f(from, n, data[from*size:(from+n)*size])
	}
}

// encode writes the elements of an origin, a rank or allRanks, at consecutive positions.
func (in *inputs) encode(to []byte, origin, position int) {
	size := in.dtype.Size()
	for n := 0; len(to) > 0; to, position = to[n*size:], position+n {
		first := position % period
		n = min(period-first, len(to)/size)
		if origin == allRanks {
			in.EncodeReduced(to[:n*size], first)
		} else {
			in.Encode(to[:n*size], origin, first)
		}
	}
}

// elements returns n elements (at most batchSize) as encode writes them: a part of the origin's table
// if the vector is long, else generated in scratch.
func (in *inputs) elements(scratch []byte, origin, position, n, count int) []byte {
	size := in.dtype.Size()
	table := in.tables[origin]
	switch {
	case table != nil:
	case count < tableThreshold, len(in.tables) == maxTables:
		in.encode(scratch[:n*size], origin, position)
		return scratch[:n*size]
	default:
		table = make([]byte, (period+batchSize)*size)
		in.encode(table, origin, 0)
		in.tables[origin] = table
	}
	return table[position%period*size:][:n*size]
}

// fill writes a rank's input, on the host or on a device.
func (in *inputs) fill(to dist.Buffer, rank, first int) error {
	scratch := make([]byte, batchSize*in.dtype.Size())
	return instrument.Overwrite(to, func(b dist.Buffer, begin int) {
		forBatches(b, func(from, n int, elements []byte) {
			copy(elements, in.elements(scratch, rank, first+begin+from, n, to.Count()))
		})
	})
}

// check compares a rank's output with the expected one; shifted is the current shift of the inputs.
// The error is a *bench.Wrong that counts the wrong elements.
func (in *inputs) check(out dist.Buffer, sh shape, rank, shifted int) error {
	var wrong bench.Wrong
	size := in.dtype.Size()
	scratch, want := make([]byte, batchSize*size), make([]byte, 0, batchSize*size)
	compare := func(from, n int, elements []byte) {
		want = want[:0]
		for i := 0; i < n; { // a batch may have several origins
			origin, position, run := sh.contiguous(rank, from+i, n-i)
			want = append(want, in.elements(scratch, origin, position+shifted, run, out.Count())...)
			i += run
		}
		if bytes.Equal(want, elements) {
			return
		}
		for i := range n {
			if have, want := elements[i*size:][:size], want[i*size:][:size]; !bytes.Equal(have, want) {
				wrong.Note("rank %d, element %d is %v, want %v", rank, from+i, in.text(have), in.text(want))
			}
		}
	}
	err := instrument.Inspect(out, func(b dist.Buffer, begin int) error {
		forBatches(b, func(from, n int, elements []byte) { compare(begin+from, n, elements) })
		return nil
	})
	if err != nil {
		return err
	}
	return wrong.Err()
}

// text returns the value of an element for an error.
func (in *inputs) text(element []byte) any {
	if in.dtype == dtype.I64 {
		return dtype.View[int64](element)[0] // float64 rounds it
	}
	return in.dtype.Get(element, 0)
}
