package allreduceeval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// correctness is the body of the matrix: a row is an algorithm, an element type
// and a way of calling, and its cells are the sizes.
func correctness(ctx context.Context, s *bench.State) error {
	began := time.Now()
	sizes, err := sizesOf(s.Str("sizes"))
	if err != nil {
		return err
	}
	d := s.DType("dtype")
	w, err := openWorkspace(ctx, s, d)
	if err != nil {
		return err
	}
	t := &trial{workspace: w, seed: s.Seed(), algorithm: s.Str("algorithm"),
		inPlace: s.Bool("inplace"), epilogue: s.Bool("epilogue"), fault: s.Str("mutate")}
	if err := w.unsupported(t.algorithm, d, t.epilogue); err != nil {
		return err
	}
	defer instrument.Plant(t.g, "")
	if err := t.plant(); err != nil {
		return err
	}
	verdict, err := t.cells(ctx, s, sizes)
	verdict.report(s, t, time.Since(began))
	if err = verdict.err(err); err != nil {
		closeWorkspace(s) // a row that failed is the last of its launch
	}
	return err
}

// sizesOf is a variable for tests.
var sizesOf = matrix.Sizes

// trial is a row's way of calling.
type trial struct {
	*workspace
	seed      uint64
	algorithm string
	inPlace   bool
	epilogue  bool
	fault     string // that is injected

	checked int     // elements so far
	worst   float64 // error over its bound
	moved   int64   // bytes of encodings
	plain   int64   // bytes that they stand for

	stale []byte // what an injected fault keeps of the call before
}

// cells runs all sizes, also after one that failed. The error is the end of the
// group: what remains was not executed.
func (t *trial) cells(ctx context.Context, s *bench.State, sizes []matrix.Size) (verdict, error) {
	v := verdict{others: -1}
	for i, size := range sizes {
		if why := t.tooLarge(size); why != "" {
			v.note(size.String(), journal.NotExecuted)
			v.lacking = why
			continue
		}
		if size.Streamed && !dist.Describe(s.Backend()).HostMemory {
			continue // there is no such way
		}
		s.Phase("size " + size.String())
		fault, err := t.sized(ctx, s, size)
		if err == nil {
			err = v.collect(ctx, s, size.String(), within("size "+size.String(), fault))
		}
		if err != nil {
			v.note(size.String(), journal.Failed)
			for _, rest := range sizes[i+1:] {
				v.note(rest.String(), journal.NotExecuted)
			}
			return v, within("size "+size.String(), err)
		}
	}
	return v, nil
}

// sized makes the calls of a size in the group that is for it.
func (t *trial) sized(ctx context.Context, s *bench.State, size matrix.Size) (fault, err error) {
	if !size.Streamed {
		return t.cell(size)
	}
	was := t.workspace
	if t.workspace, err = streamedWorkspace(ctx, s, was); err == nil {
		fault, err = t.cell(size)
	}
	t.workspace = was
	return fault, err
}

// tooLarge says why a size does not fit into this host's memory, "" if it does.
// A rank holds two vectors in each kind of memory, and some ten more for inputs
// and expectations.
func (t *trial) tooLarge(size matrix.Size) string {
	const vectors = 14
	need := int64(size.Bytes) * vectors * int64(t.g.Size())
	if have := hostMemory(); have > 0 && need > have/10*8 {
		return fmt.Sprintf("size %v with %d ranks needs %d MB of memory, this host has %d", size, t.g.Size(), need>>20,
			have>>20)
	}
	return ""
}

// hostMemory is a variable for tests.
var hostMemory = sync.OnceValue(func() int64 { return hostinfo.Local().Memory })

// cell makes the calls of one size. A fault is a wrong result; an error is the
// end of the group.
func (t *trial) cell(size matrix.Size) (fault, err error) {
	count := size.Count(t.d.Size())
	if err := t.reserve((count + 1) * t.d.Size()); err != nil {
		return nil, err
	}
	memories := t.memories()
	if size.Bytes > adversarialUpTo { // large ones take turns
		memories = memories[size.Extra%len(memories):][:1]
	}
	for _, memory := range memories {
		o, err := t.prepare(count, memory, 0)
		if err != nil {
			return nil, fmt.Errorf("%s memory: %w", memoryNames[memory], err)
		}
		for i, c := range t.inputsOf(size, count) {
			f, err := t.call(o, c)
			if err != nil {
				return nil, fmt.Errorf("run %d, %v in %s memory: %w", i+1, c, memoryNames[memory], err)
			}
			if f != nil && fault == nil {
				fault = fmt.Errorf("run %d, %v in %s memory: %w", i+1, c, memoryNames[memory], f)
			}
		}
		if fault == nil {
			if fault, err = t.normalised(size, count, memory); err != nil {
				return nil, err
			}
		}
		t.moved += o.meter.bytes.Load()
		t.plain += o.meter.elements.Load() * int64(t.d.Size())
	}
	return fault, nil
}

// normalised makes calls whose epilogue has a norm too, where there are rows for it.
func (t *trial) normalised(size matrix.Size, count, memory int) (fault, err error) {
	row := reference.NormRow(t.d, count)
	if !t.epilogue || row == 0 || size.Bytes > adversarialUpTo || size.Streamed {
		return nil, nil
	}
	o, err := t.prepare(count, memory, row)
	for i := 0; i < 2 && fault == nil && err == nil; i++ {
		fault, err = t.call(o, t.exact(i, count))
	}
	where := fmt.Sprintf("with a norm of rows of %d, in %s memory", row, memoryNames[memory])
	return within(where, fault), within(where, err)
}

// operation is the all-reduce of a cell in one kind of memory: prepared once, and run
// with one input after the other.
type operation struct {
	dist.Call // as the host sees its buffers
	*dist.Op
	t      *trial
	bytes  int // of the buffers and the guard
	memory int
	row    int // of a norm; 0: none
	runs   int
	meter  *meter
}

// prepare does it, with a norm of rows of so many elements if there are any.
func (t *trial) prepare(count, memory, row int) (*operation, error) {
	args, err := t.arguments(count, memory)
	if err != nil {
		return nil, err
	}
	if row > 0 {
		args.Epilogue.Norm = &dist.RMSNorm{Weight: t.buffer(t.refs.Weight(row), t.d, row, privateMemory),
			Epsilon: reference.NormEpsilon}
	}
	o := &operation{t: t, memory: memory, row: row, bytes: (count + 1) * t.d.Size(), meter: &meter{}}
	if _, codec := planned(t.algorithm); codec != nil {
		if args.Codec = *codec; t.g.Capabilities().Has(dist.AnyCodec) { // otherwise the backend's own, which nobody can watch
			args.Codec = metered{*codec, o.meter}
		}
	}
	o.Op, err = t.g.Prepare(args)
	if o.Call = args; memory == symmetricMemory && t.far[0] != nil {
		o.In, o.Out = t.buffer(t.space[memory].in, t.d, count, privateMemory),
			t.buffer(t.space[memory].out, t.d, count, privateMemory)
		if t.inPlace {
			o.In = o.Out
		}
	}
	return o, err
}

// Run makes the call, wherever its memory is.
func (o *operation) Run() error { return o.t.around(o.memory, o.bytes, o.Op.Run) }

// call is one run of a cell's operation.
type call struct {
	in     reference.Inputs
	window reference.Window
}

func (c call) String() string { return c.in.Kind() + " inputs" }

// inputsOf are the inputs of the runs of one preparation: at least four, and none
// like the one before. A single element is tried with every family.
func (t *trial) inputsOf(size matrix.Size, count int) []call {
	t.calls++
	if size.Bytes > adversarialUpTo || size.Streamed || count == 0 {
		return []call{t.exact(0, count), t.exact(1, count), t.exact(2, count), t.exact(3, count)}
	}
	families := reference.Families()
	hard := func(family int) call {
		return call{t.inputs(reference.Adversarial), reference.Window{First: families[family], Count: count}}
	}
	list := []call{t.exact(0, count), hard(0), t.exact(1, count), hard(1)}
	if count == 1 {
		for i := range families[2:] {
			list = append(list, hard(2+i))
		}
	}
	return list
}

// exact is the i-th run with exact inputs.
func (t *trial) exact(i, count int) call {
	first := (int(t.calls%reference.Beginnings) + i) % reference.Beginnings * reference.Alternate
	return call{t.inputs(reference.Exact), reference.Window{First: first, Count: count}}
}

func (t *trial) inputs(kind string) reference.Inputs {
	return reference.NewInputs(kind, t.d, t.g.Size(), t.seed)
}

// adversarialUpTo is the largest size of which the adversarial inputs are
// tried: what they must give depends on algorithm and count, and costs more than
// the all-reduce itself. Larger ones get the exact inputs.
const adversarialUpTo = 1 << 20

// guard is no small number in any type.
const guard = 0xa5

// call runs the all-reduce and checks what it left, every element of it.
func (t *trial) call(o *operation, c call) (fault, err error) {
	input, err := t.refs.Input(c.in, c.window)
	if err != nil {
		return nil, err
	}
	want, err := t.expectation(o, c)
	if err != nil {
		return nil, err
	}
	space := t.space[o.memory]
	first := 0
	if t.inPlace {
		first = len(input) // the input comes there
	}
	fill(space.out[first : len(input)+t.d.Size()]) // what is not written stays wrong
	copy(o.In.Bytes(), input)
	if err := t.run(o, input); err != nil {
		return nil, err
	}
	t.checked += c.window.Count
	share, fault := want.Compare(o.Out.Bytes(), c.window)
	t.worst = max(t.worst, share)
	if fault == nil {
		fault = t.untouched(o, input)
	}
	return fault, nil
}

// untouched says what a run has changed that it must not: its input, or what is behind
// its output.
func (t *trial) untouched(o *operation, input []byte) error {
	space := t.space[o.memory]
	switch behind := space.out[len(input) : len(input)+t.d.Size()]; {
	case !t.inPlace && !bytes.Equal(o.In.Bytes(), input):
		return errors.New("the input was changed")
	case slices.ContainsFunc(behind, func(b byte) bool { return b != guard }):
		return errors.New("memory behind the output was changed")
	}
	return nil
}

// arguments are those of the call but for the codec.
func (t *trial) arguments(count, memory int) (dist.Call, error) {
	call := dist.Call{Op: dist.AllReduce, Reduction: dist.Sum}
	call.In, call.Out = t.ends(count, memory)
	call.Algorithm, _ = planned(t.algorithm)
	if t.inPlace {
		call.In = call.Out
	}
	if !t.epilogue {
		return call, nil
	}
	bias, residual, err := t.refs.Epilogue(count)
	if err != nil {
		return call, err
	}
	call.Epilogue = &dist.Epilogue{Scale: reference.EpilogueScale, Residual: t.buffer(residual, t.d, count, privateMemory)}
	if count > 0 {
		call.Epilogue.Bias = t.buffer(bias, t.d, len(bias)/t.d.Size(), privateMemory)
	}
	return call, nil
}

// expectation is what a run must leave.
func (t *trial) expectation(o *operation, c call) (*reference.Expectation, error) {
	algorithm := t.algorithm
	if algorithm == matrix.Auto { // the table knows what that is for this call
		algorithm = o.Plan().Algorithm
	}
	schedule := t.schedule(algorithm)
	if t.epilogue && t.d.Size() == 2 && t.g.Capabilities().Has(dist.WideEpilogue) {
		schedule = "" // whose bits are those of a sum that was rounded before
	}
	e, err := t.refs.Expected(c.in, c.window,
		reference.Call{Schedule: schedule, Format: reference.FormatOf(matrix.Find(algorithm).Codec), Epilogue: t.epilogue})
	if err == nil && o.row > 0 {
		e = e.Normed(o.row)
	}
	return e, err
}

// fill fills memory with the guard.
func fill(b []byte) {
	const block = 4096 // stays in the first cache
	for i := range min(block, len(b)) {
		b[i] = guard
	}
	for n := block; n < len(b); n += block {
		copy(b[n:], b[:block])
	}
}

// meter counts what a codec really encodes, which is what the ranks move.
type meter struct{ bytes, elements atomic.Int64 }

// metered is a codec that is watched.
type metered struct {
	dist.Codec
	meter *meter
}

func (m metered) Encode(dst, src []byte, d dist.DType) {
	n := len(src) / d.Size()
	m.meter.bytes.Add(int64(m.Size(d, n)))
	m.meter.elements.Add(int64(n))
	m.Codec.Encode(dst, src, d)
}
