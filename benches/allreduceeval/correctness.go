package allreduceeval

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/kernel/quant"
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
	l, err := openLab(ctx, s, d)
	if err != nil {
		return err
	}
	t := &trial{lab: l, seed: s.Seed(), algorithm: s.Str("algorithm"), inPlace: s.Bool("inplace"), epilogue: s.Bool("epilogue"), mutation: s.Str("mutate")}
	if err := l.lacking(t.algorithm, d, t.epilogue); err != nil {
		return err
	}
	verdict, err := t.cells(ctx, s, sizes)
	verdict.report(s, t, time.Since(began))
	if err = verdict.err(err); err != nil {
		closeLab(s) // a row that failed is the last of its launch
	}
	return err
}

// trial is a row's way of calling.
type trial struct {
	*lab
	seed      uint64
	algorithm string
	inPlace   bool
	epilogue  bool
	mutation  string

	checked int     // elements so far
	worst   float64 // error over its bound
	moved   int64   // bytes of encodings
	plain   int64   // bytes that they stand for

	stale []byte // what a planted fault keeps of the call before
}

// verdict is what became of a row's cells, the same on every rank but for the
// fault, which is this rank's own.
type verdict struct {
	outcomes []outcome
	fault    error // the first of this rank
	others   int   // a rank with a fault, -1 if there is none
	lacking  string
}

// cells runs all sizes, also after one that failed. The error is the end of the
// group: what remains was not executed.
func (t *trial) cells(ctx context.Context, s *bench.State, sizes []size) (verdict, error) {
	v := verdict{others: -1}
	for i, size := range sizes {
		if why := t.tooLarge(size); why != "" {
			v.outcomes = append(v.outcomes, outcome{size.String(), "not-executed"})
			v.lacking = why
			continue
		}
		s.Phase("size " + size.String())
		fault, err := t.cell(ctx, size)
		if err == nil {
			var wrong int64
			if fault != nil {
				wrong = 1
			}
			var all [][]int64
			if all, err = s.Group().Exchange(ctx, []int64{wrong}); err == nil {
				v.add(size, fault, all)
				continue
			}
		}
		v.outcomes = append(v.outcomes, outcome{size.String(), "failed"})
		for _, rest := range sizes[i+1:] {
			v.outcomes = append(v.outcomes, outcome{rest.String(), "not-executed"})
		}
		return v, fmt.Errorf("size %v: %w", size, err)
	}
	return v, nil
}

func (v *verdict) add(size size, fault error, all [][]int64) {
	v.addNamed("size "+size.String(), fault, all)
	v.outcomes[len(v.outcomes)-1].Size = size.String()
}

// addNamed notes what all ranks say of a cell.
func (v *verdict) addNamed(name string, fault error, all [][]int64) {
	status := "ok"
	for rank, w := range all {
		if w[0] != 0 {
			status = "failed"
			if v.others < 0 {
				v.others = rank
			}
		}
	}
	if fault != nil && v.fault == nil {
		v.fault = fmt.Errorf("%s: %w", name, fault)
	}
	v.outcomes = append(v.outcomes, outcome{name, status})
}

// err is the row's end: broken is why the group could not go on.
func (v *verdict) err(broken error) error {
	switch {
	case broken != nil:
		return broken
	case v.fault != nil:
		return v.fault
	case v.others >= 0:
		return fmt.Errorf("rank %d: %w", v.others, bench.ErrElsewhere)
	case v.lacking != "":
		return bench.NotExecuted(true, "%s", v.lacking)
	}
	return nil
}

func (v *verdict) report(s *bench.State, t *trial, took time.Duration) {
	counts := map[string]int{}
	for _, o := range v.outcomes {
		counts[o.Status]++
	}
	s.Detail("cells", formatOutcomes(v.outcomes))
	s.Report("cells_passed", float64(counts["ok"]), "", "higher")
	s.Report("cells_failed", float64(counts["failed"]), "", "lower")
	s.Report("cells_missing", float64(counts["not-executed"]), "", "lower")
	s.Report("elements", float64(t.checked), "", "")
	s.Report("wall_ms", float64(took.Microseconds())/1e3, "ms", "")
	s.Report("error_of_bound", 100*t.worst, "%", "lower")
	if t.plain > 0 {
		s.Report("bytes_saved", 100*(1-float64(t.moved)/float64(t.plain)), "%", "higher")
	}
}

// tooLarge says why a size does not fit into this host's memory, "" if it does.
// A rank holds two vectors in each kind of memory, and some ten more for inputs
// and expectations.
func (t *trial) tooLarge(size size) string {
	const vectors = 14
	need := int64(size.bytes) * vectors * int64(t.g.Size())
	if have := hostMemory(); have > 0 && need > have/10*8 {
		return fmt.Sprintf("size %v with %d ranks needs %d MB of memory, this host has %d", size, t.g.Size(), need>>20, have>>20)
	}
	return ""
}

// hostMemory is a variable for tests.
var hostMemory = sync.OnceValue(func() int64 { return hostinfo.Local().Memory })

// cell makes the calls of one size. A fault is a wrong result; an error is the
// end of the group.
func (t *trial) cell(ctx context.Context, size size) (fault, err error) {
	count := size.count(t.d.Size())
	if err := t.reserve((count + 1) * t.d.Size()); err != nil {
		return nil, err
	}
	memories := t.memories()
	if size.bytes > adversarialUpTo { // large ones take turns
		memories = memories[size.extra%len(memories):][:1]
	}
	for _, memory := range memories {
		for _, c := range t.inputsOf(size, count) {
			c.memory = memory
			f, err := t.call(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", c, err)
			}
			if f != nil && fault == nil {
				fault = fmt.Errorf("%v: %w", c, f)
			}
		}
	}
	return fault, nil
}

// call is one all-reduce of a cell.
type call struct {
	in     inputs
	window window
	memory int
}

func (c call) String() string {
	return fmt.Sprintf("%s inputs in %s memory", c.in.kind, memoryNames[c.memory])
}

// inputsOf are the inputs that a size is tried with. A single element is tried
// with every family.
func (t *trial) inputsOf(size size, count int) []call {
	t.calls++
	exact := call{in: newInputs(exactInput, t.d, t.g.Size(), t.seed), window: window{int(t.calls%2) * otherStart, count}}
	if size.bytes > adversarialUpTo || count == 0 {
		return []call{exact}
	}
	hard := newInputs(adversarialInput, t.d, t.g.Size(), t.seed)
	list := []call{exact, {in: hard, window: window{0, count}}}
	if count == 1 {
		for f := 1; f < len(families); f++ {
			list = append(list, call{in: hard, window: window{f * familyBlock, 1}})
		}
	}
	return list
}

// otherStart is where every second call's exact inputs begin, so that no result
// can stand for the next. It is whole groups of the codecs and whole periods of
// the residual: expectations are parts of one vector, wherever a call begins.
const otherStart = 4096

// guard is no small number in any type.
const guard = 0xa5

// call makes the all-reduce and checks what it left, every element of it.
func (t *trial) call(ctx context.Context, c call) (fault, err error) {
	input, err := t.input(c.in, c.window)
	if err != nil {
		return nil, err
	}
	space, count := t.space[c.memory], c.window.count
	name, codec := planned(t.algorithm)
	call := dist.Call{Op: dist.AllReduce, Reduction: dist.Sum, Algorithm: name,
		In: t.buffer(space.in, t.d, count, c.memory), Out: t.buffer(space.out, t.d, count, c.memory)}
	if t.inPlace {
		call.In = call.Out
	}
	if t.epilogue {
		if call.Epilogue, err = t.lab.epilogue(count); err != nil {
			return nil, err
		}
	}
	algorithm := t.algorithm
	if algorithm == auto { // the table knows what that is for this call
		op, err := t.g.Prepare(call)
		if err != nil {
			return nil, err
		}
		algorithm = op.Plan().Algorithm
	}
	want, err := t.expected(c.in, c.window, algorithm, t.epilogue)
	if err != nil {
		return nil, err
	}
	meter := &meter{}
	if codec != nil {
		call.Codec = metered{*codec, meter}
	}
	first := 0
	if t.inPlace {
		first = len(input) // the input comes there
	}
	fill(space.out[first:len(input)+t.d.Size()], guard) // what is not written stays wrong
	copy(call.In.Bytes(), input)
	if err := t.perform(ctx, call, input); err != nil {
		return nil, err
	}
	t.checked += count
	t.worst = max(t.worst, want.worst)
	t.moved += meter.bytes.Load()
	if codec != nil {
		t.plain += meter.elements.Load() * int64(t.d.Size())
	}
	if fault := t.compare(call.Out.Bytes(), want, c.window); fault != nil {
		return fault, nil
	}
	if !t.inPlace && !bytes.Equal(call.In.Bytes(), input) {
		return fmt.Errorf("the input was changed"), nil
	}
	for i, b := range space.out[len(input) : len(input)+t.d.Size()] {
		if b != guard {
			return fmt.Errorf("byte %d behind the output was changed", i), nil
		}
	}
	return nil, nil
}

// compare holds an output against its expectation.
func (t *trial) compare(got []byte, want *expectation, w window) error {
	if want.bits != nil && bytes.Equal(got[:len(want.bits)], want.bits) && bytes.Equal(got[len(want.bits):], want.tail) {
		return nil
	}
	if len(want.tail) > 0 {
		joined := *want
		joined.bits, joined.tail = slices.Concat(want.bits, want.tail), nil
		want = &joined
	}
	var wrong bench.Wrong
	have, should := make([]float64, oracleChunk), make([]float64, oracleChunk)
	for off := 0; off < w.count; off += oracleChunk {
		n := min(oracleChunk, w.count-off)
		from, to := off*t.d.Size(), (off+n)*t.d.Size()
		t.d.Decode(have[:n], got[from:to])
		if want.bits != nil {
			t.d.Decode(should[:n], want.bits[from:to])
		} else {
			copy(should[:n], want.exact[off:off+n])
		}
		for i, h := range have[:n] {
			bound := 0.0
			if want.bits == nil {
				bound = want.bound[off+i]
				if share, ok := within(h, should[i], bound); ok {
					t.worst = max(t.worst, share)
					continue
				}
			} else if same(h, should[i]) {
				continue
			}
			if wrong.Count++; wrong.Count == 1 {
				family := ""
				if want.kind != exactInput {
					family = " (" + familyAt(w.first+off+i) + ")"
				}
				wrong.Detail = fmt.Sprintf("element %d%s is %v, want %v", off+i, family, h, should[i])
				if bound > 0 {
					wrong.Detail += fmt.Sprintf(" within %.3g", bound)
				}
			}
		}
	}
	if wrong.Count > 0 {
		return &wrong
	}
	return nil
}

func fill(b []byte, with byte) {
	const block = 4096 // stays in the first cache
	for i := range min(block, len(b)) {
		b[i] = with
	}
	for n := block; n < len(b); n += block {
		copy(b[n:], b[:block])
	}
}

var _ dist.Codec = metered{quant.Int8, nil}
