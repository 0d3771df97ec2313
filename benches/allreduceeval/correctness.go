package allreduceeval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// correctness is the body of the correctness part. A row is an algorithm, an element
// type, and whether the call is in place and has an epilogue. Its cells are the sizes.
func correctness(ctx context.Context, s *bench.State) error {
	sizes, err := sizesOf(s.Str("sizes"))
	if err != nil {
		return err
	}
	d := s.DType("dtype")
	w, err := openWorkspace(ctx, s, d)
	if err != nil {
		return err
	}
	t := &trial{workspace: w, algorithm: s.Str("algorithm"),
		inPlace: s.Bool("inplace"), epilogue: s.Bool("epilogue"), fault: s.Str("mutate")}
	if err := w.unsupported(t.algorithm, d, t.epilogue); err != nil {
		return err
	}
	defer instrument.Plant(t.g, "")
	if err := t.plantInKernel(); err != nil {
		return err
	}
	if !dist.Describe(s.Backend()).HostMemory { // only backends in host memory stream
		sizes = lists.Filter(sizes, func(size matrix.Size) bool { return !size.Streamed })
	}
	return t.runCells(ctx, s, "size ", names(sizes), func(i int) (not journal.Status, fault, err error) {
		// A rank holds two vectors in each kind of memory, and about ten more for inputs and expectations.
		if why := memoryShortage(14, sizes[i].Bytes, t.g.Size()); why != "" {
			t.shortage = why
			return journal.NotExecuted, nil, nil
		}
		fault, err = t.runSize(ctx, s, sizes[i])
		return "", fault, err
	})
}

// checkPhase is the phase of rows that failed a check. While the checks run, the phase is the present cell, which may
// not be the one that failed.
const checkPhase = "check"

// sizesOf returns the sizes of a set. Tests replace it.
var sizesOf = matrix.Sizes

// trial is the run of one row: its arguments and the statistics of its cells.
type trial struct {
	*workspace
	algorithm string
	inPlace   bool
	epilogue  bool
	fault     string // planted fault

	checked      int     // number of checked elements
	worstError   float64 // largest error, as a fraction of its bound
	encodedBytes int     // size of vectors as the codec encodes them
	plainBytes   int     // size of the same vectors unencoded
	shortage     string  // why required cells could not run

	stale []byte // previous result, kept by the fault stale-buffer
}

// runCells runs the cells of a row, also after one that failed, and reports them. prefix and the name of a cell are its
// phase. run returns the status of a cell that does not run, or what is wrong with its result, or an error if the group
// broke; the remaining cells are then not executed.
func (t *trial) runCells(ctx context.Context, s *bench.State, prefix string, cells []string,
	run func(i int) (not journal.Status, fault, err error)) error {
	began := time.Now()
	v := verdict{failedRank: -1}
	var broken error
	for i, cell := range cells {
		if broken != nil {
			v.add(cell, journal.NotExecuted)
			continue
		}
		s.Phase(prefix + cell)
		not, fault, err := run(i)
		if not != "" {
			v.add(cell, not)
			continue
		}
		if err == nil {
			err = v.collect(ctx, s, cell, wrap(prefix+cell, fault))
		}
		if err != nil {
			broken = wrap(prefix+cell, err)
			v.add(cell, journal.Failed)
		}
	}
	v.shortage = t.shortage
	v.report(s, t, time.Since(began))
	err := v.err(broken)
	if err != nil {
		s.Phase(checkPhase)
		closeWorkspace(s) // the launch ends with its first failed row
	}
	return err
}

// runSize runs a cell in the group that its size needs.
func (t *trial) runSize(ctx context.Context, s *bench.State, size matrix.Size) (fault, err error) {
	if !size.Streamed {
		return t.runCell(size)
	}
	previous := t.workspace
	if t.workspace, err = previous.openStreamed(ctx, s); err == nil {
		fault, err = t.runCell(size)
	}
	t.workspace = previous
	return fault, err
}

// memoryShortage returns why that many vectors on each rank do not fit into this host's memory, or "". A reserve is
// left for caches and other programs.
func memoryShortage(vectors, bytes, ranks int) string {
	need := int64(vectors) * int64(bytes) * int64(ranks)
	if have := hostMemory(); have > 0 && need > have/10*7 {
		return fmt.Sprintf("%s on each of %d ranks needs %s of memory, this host has %s", unit.FormatBytes(int64(bytes)),
			ranks, unit.FormatBytesApprox(float64(need)), unit.FormatBytesApprox(float64(have)))
	}
	return ""
}

// hostMemory returns the bytes of memory of this host. Tests replace it.
var hostMemory = sync.OnceValue(func() int64 { return hostinfo.Local().Memory })

// adversarialUpTo is the largest size in bytes that is tested with adversarial inputs.
// Their expectations depend on algorithm and count, and cost more than the all-reduce
// itself. Larger sizes get exact inputs only.
const adversarialUpTo = 1 << 20

// runCell makes all calls of one size. fault describes a wrong result; err means that
// the group broke.
func (t *trial) runCell(size matrix.Size) (fault, err error) {
	count := size.Count(t.d.Size())
	if err := t.reserve((count + 1) * t.d.Size()); err != nil {
		return nil, err
	}
	memories := t.memoryKinds()
	if size.Bytes > adversarialUpTo { // large sizes alternate between the kinds of memory
		memories = memories[size.Extra%len(memories):][:1]
	}
	for _, memory := range memories {
		o, err := t.prepare(count, memory, 0)
		if err != nil {
			return nil, fmt.Errorf("%s memory: %w", memoryNames[memory], err)
		}
		for i, c := range t.inputSequence(size, count) {
			where := fmt.Sprintf("run %d, %v in %s memory", i+1, c, memoryNames[memory])
			f, err := t.runAndCheck(o, c)
			if err != nil {
				return nil, wrap(where, err)
			}
			if fault == nil {
				fault = wrap(where, f)
			}
		}
		if fault == nil {
			if fault, err = t.runNorm(size, count, memory); err != nil {
				return nil, err
			}
		}
		if codec := matrix.Codec(t.algorithm); codec != nil {
			t.encodedBytes += codec.Size(t.d, count)
			t.plainBytes += count * t.d.Size()
		}
	}
	return fault, nil
}

// runNorm makes calls whose epilogue includes a norm, if the count divides into rows.
func (t *trial) runNorm(size matrix.Size, count, memory int) (fault, err error) {
	row := reference.NormRow(t.d, count)
	if !t.epilogue || row == 0 || size.Bytes > adversarialUpTo || size.Streamed {
		return nil, nil
	}
	o, err := t.prepare(count, memory, row)
	for i := 0; i < 2 && fault == nil && err == nil; i++ {
		fault, err = t.runAndCheck(o, t.exactInput(i, count))
	}
	where := fmt.Sprintf("with a norm of rows of %d, in %s memory", row, memoryNames[memory])
	return wrap(where, fault), wrap(where, err)
}

// operation is the all-reduce of a cell in one kind of memory. It is prepared once and
// run with several inputs.
type operation struct {
	dist.Call
	*dist.Op
	guarded dist.Buffer // the output and an element behind it
	row     int         // row length of the norm, 0 without a norm
	runs    int
}

// prepare prepares an operation, with a norm if row > 0.
func (t *trial) prepare(count, memory, row int) (*operation, error) {
	call := newCall(t.algorithm)
	call.In, call.Out = t.buffers(count, memory)
	if t.inPlace {
		call.In = call.Out
	}
	o := &operation{guarded: view(t.memory[memory][1], t.d, count+1), row: row}
	if err := t.addEpilogue(&call, count, row); err != nil {
		return nil, err
	}
	var err error
	o.Op, err = t.g.Prepare(call)
	o.Call = call
	return o, err
}

// addEpilogue adds the epilogue to a call, if the row has one, and a norm if row > 0.
func (t *trial) addEpilogue(call *dist.Call, count, row int) error {
	if !t.epilogue {
		return nil
	}
	bias, residual, err := t.refs.Epilogue(count)
	if err != nil {
		return err
	}
	call.Epilogue = &dist.Epilogue{Scale: reference.EpilogueScale, Residual: t.argument(residual)}
	if count > 0 {
		call.Epilogue.Bias = t.argument(bias)
	}
	if row > 0 {
		call.Epilogue.Norm = &dist.RMSNorm{Weight: t.argument(t.refs.Weight(row)), Epsilon: reference.NormEpsilon}
	}
	return nil
}

// inputSequence returns the inputs of the runs of one prepared operation: at least four,
// each different from the one before. A single element is tested with every family of
// adversarial inputs.
func (t *trial) inputSequence(size matrix.Size, count int) []runInput {
	t.preparations++
	if size.Bytes > adversarialUpTo || size.Streamed || count == 0 {
		return []runInput{t.exactInput(0, count), t.exactInput(1, count), t.exactInput(2, count), t.exactInput(3, count)}
	}
	starts := reference.FamilyStarts()
	adversarial := func(family int) runInput {
		return runInput{t.inputs(reference.Adversarial), reference.Window{First: starts[family], Count: count}}
	}
	list := []runInput{t.exactInput(0, count), adversarial(0), t.exactInput(1, count), adversarial(1)}
	if count == 1 {
		for i := range starts[2:] {
			list = append(list, adversarial(2+i))
		}
	}
	return list
}

// runAndCheck runs an operation and checks every element of its output.
func (t *trial) runAndCheck(o *operation, c runInput) (fault, err error) {
	input, err := t.refs.Input(c.in, c.window)
	if err != nil {
		return nil, err
	}
	want, err := t.expectation(o, c)
	if err != nil {
		return nil, err
	}
	if err := setUp(o.guarded, o.In, input); err != nil { // elements that are not written stay wrong
		return nil, err
	}
	if err := t.run(o, input); err != nil {
		return nil, err
	}
	in, inErr := o.In.Mirror()
	out, outErr := o.guarded.Mirror()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	result, guard := out.Bytes()[:len(input)], out.Bytes()[len(input):]
	t.checked += c.window.Count
	worst, fault := want.Compare(result, c.window)
	t.worstError = max(t.worstError, worst)
	switch {
	case fault != nil:
	case !t.inPlace && !bytes.Equal(in.Bytes(), input):
		fault = errors.New("the input was changed")
	case slices.ContainsFunc(guard, func(b byte) bool { return b != guardByte }):
		fault = errors.New("memory behind the output was changed")
	}
	return fault, nil
}

// expectation returns the required result of a run.
func (t *trial) expectation(o *operation, c runInput) (*reference.Expectation, error) {
	algorithm := t.algorithm
	if algorithm == matrix.Auto {
		algorithm = o.Plan().Algorithm // the choice for this call
	}
	schedule := t.knownSchedule(algorithm)
	if t.epilogue && t.d.Size() == 2 && t.g.Capabilities().Has(dist.WideEpilogue) {
		schedule = "" // the reference rounds the sum before the epilogue, this backend does not
	}
	e, err := t.refs.Expected(c.in, c.window,
		reference.Call{Schedule: schedule, Format: reference.FormatOf(matrix.Find(algorithm).Codec), Epilogue: t.epilogue})
	if err == nil && o.row > 0 {
		e = e.WithNorm(o.row)
	}
	return e, err
}

// guardByte fills outputs before a run. Elements made of it are no small number in any
// type, so they cannot be mistaken for a result.
const guardByte = 0xa5

// fillGuard fills memory with guardByte.
func fillGuard(b []byte) {
	const block = 4096 // stays in the L1 cache
	for i := range min(block, len(b)) {
		b[i] = guardByte
	}
	for n := block; n < len(b); n += block {
		copy(b[n:], b[:block])
	}
}

// verdict collects the outcomes of a row's cells. It is the same on all ranks, except
// for fault.
type verdict struct {
	outcomes   []matrix.Outcome
	fault      error  // the first fault that this rank found
	failedRank int    // the first rank that found a fault, or -1
	shortage   string // why required cells could not run
}

// wrap prefixes an error with the place where it was found. It returns nil for nil.
func wrap(where string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// add records the outcome of a cell.
func (v *verdict) add(cell string, status journal.Status) {
	v.outcomes = append(v.outcomes, matrix.Outcome{Cell: cell, Status: string(status)})
}

// collect exchanges whether a rank found a fault, and records the outcome of the cell.
func (v *verdict) collect(ctx context.Context, s *bench.State, cell string, fault error) error {
	var wrong int64
	if fault != nil {
		wrong = 1
	}
	if v.fault == nil {
		v.fault = fault
	}
	all, err := bench.Gather(ctx, s, []int64{wrong})
	if err != nil {
		return err
	}
	status := journal.OK
	if rank := slices.IndexFunc(all, func(wrong []int64) bool { return wrong[0] != 0 }); rank >= 0 {
		status = journal.Failed
		if v.failedRank < 0 {
			v.failedRank = rank
		}
	}
	v.add(cell, status)
	return nil
}

// err returns the outcome of the row. broken is the error that broke the group, if any. A fault of this rank explains
// more: another rank may have ended the group because of it.
func (v *verdict) err(broken error) error {
	switch {
	case v.fault != nil:
		return v.fault
	case broken != nil:
		return broken
	case v.failedRank >= 0:
		return fmt.Errorf("rank %d: %w", v.failedRank, decl.ErrElsewhere)
	case v.shortage != "":
		return bench.NotExecuted(true, "%s", v.shortage)
	}
	return nil
}

func (v *verdict) report(s *bench.State, t *trial, took time.Duration) {
	counts := map[string]int{}
	for _, o := range v.outcomes {
		counts[o.Status]++
	}
	s.Detail("cells", matrix.FormatOutcomes(v.outcomes))
	s.Detail(journal.UntimedDetail, "yes")
	s.Record("cells_passed", float64(counts["ok"]))
	s.Record("cells_failed", float64(counts["failed"]))
	s.Report("cells_missing", float64(counts["not-executed"]), "", "lower")
	s.Report("elements", float64(t.checked), "", "")
	s.Report("wall_ms", float64(took.Microseconds())/1e3, "ms", "")
	s.Report("error_of_bound", 100*t.worstError, "%", "lower")
	if t.plainBytes > 0 {
		s.Report("bytes_saved", 100*(1-float64(t.encodedBytes)/float64(t.plainBytes)), "%", "higher")
	}
}
