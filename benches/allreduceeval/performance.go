package allreduceeval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/findings"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/kernel/quant"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// performance is the body of the timed rows.
func performance(ctx context.Context, s *bench.State) error {
	ceilings, err := model.Ceilings(s.Str("link"))
	if err != nil {
		return err
	}
	s.Phase("probe")
	limits := collectives.AllReduceLimits(ctx, s)
	if err := s.Barrier(ctx); err != nil { // nobody measures while another probes
		return err
	}
	s.Phase("set-up")
	d, algorithm := s.DType("dtype"), s.Str("algorithm")
	ws, err := openWorkspace(ctx, s, d)
	if err != nil {
		return err
	}
	if err := ws.unsupported(algorithm, d, false); err != nil {
		return err
	}
	w, err := newTimed(ws, s)
	if err != nil {
		return err
	}
	defer w.free()
	if c := ws.g.Clock(); c.Deterministic() {
		s.UseClock(c)
	}
	plan := w.op.Plan()
	executed := plan.Algorithm
	if w.codec != nil {
		executed = matrix.Find(algorithm).Like
	}
	if executed != "" {
		s.Detail("algorithm", tuning.Choice{Algorithm: executed, Blocks: plan.Blocks}.String())
	}
	kind := privateMemory
	if w.shared {
		kind = symmetricMemory
	}
	s.Detail("buffers", memoryNames[kind])
	size := int64(w.count * d.Size())
	s.Volume(string(dist.AllReduce), size)
	if w.codec == nil && (executed != "" || dist.Describe(s.Backend()).Network) {
		limits(ws.g, plan, executed)
	}
	if traffic, known := model.Traffic(executed, s.Size(), size); known {
		moved := float64(traffic) * w.ratio()
		s.Record("traffic_bytes", moved)
		for _, c := range ceilings {
			s.Limit(c.Name, c.US(moved))
		}
	}
	s.Refresh(w.refresh)
	s.Verify(w.verify)
	return w.time(ctx, s)
}

// time times the call in every way. A group in which that failed is of no use any more.
func (w *timed) time(ctx context.Context, s *bench.State) error {
	err := s.Time(ctx, w.op.Run, bench.InPlace(w.inPlace))
	if err == nil {
		err = collectives.RecordTimings(ctx, s, w.g, w.op)
	}
	if err != nil {
		closeWorkspace(s)
	}
	return err
}

// mistake is what is wrong with the options: a model or a link that nobody knows.
func mistake(_, options bench.Point) error {
	_, err := model.Ceilings(options.At("link").String())
	return errors.Join(findings.CheckModels(options.At(findings.ModelsOption).String()), err)
}

// timed is one rank's part of a timed row: its buffers and the prepared call.
type timed struct {
	*workspace
	seed    uint64
	vectors int // inputs made so far
	count   int
	codec   *quant.Codec
	format  *reference.Format // that the codec must have
	in, out dist.Buffer
	inPlace bool // they are one
	shared  bool
	op      *dist.Op
}

func newTimed(ws *workspace, s *bench.State) (*timed, error) {
	if most := matrix.Find(s.Str("algorithm")).Most; most > 0 && int64(s.Int("size")) > most {
		return nil, bench.Skip("%s is made for calls of up to %s, beyond which it goes in pieces: its times would say nothing", s.Str("algorithm"), unit.FormatBytes(most))
	}
	w := &timed{workspace: ws, seed: s.Seed(), inPlace: s.Bool("inplace"), count: s.Int("size") / ws.d.Size(),
		codec: matrix.Codec(s.Str("algorithm")), format: reference.FormatOf(matrix.Find(s.Str("algorithm")).Codec),
		shared: ws.g.Capabilities().Has(dist.SymmetricMemory)}
	// Three vectors for each rank; what the caches and other programs need besides.
	need := 3 * int64(s.Int("size")) * int64(s.Size())
	if have := hostMemory(); have > 0 && need > have/10*7 {
		return nil, bench.Skip("left out: %d ranks with %s need %s of memory, this host has %s",
			s.Size(), unit.FormatBytes(int64(s.Int("size"))), unit.FormatBytesApprox(float64(need)),
			unit.FormatBytesApprox(float64(have)))
	}
	var err error
	if w.in, err = w.alloc(); err != nil {
		return nil, err
	}
	w.out = w.in
	if !w.inPlace {
		if w.out, err = w.alloc(); err != nil {
			return nil, err
		}
	}
	name, codec := planned(s.Str("algorithm"))
	call := dist.Call{Op: dist.AllReduce, Reduction: dist.Sum, In: w.in, Out: w.out, Algorithm: name}
	if codec != nil {
		call.Codec = *codec
	}
	w.op, err = ws.g.Prepare(call)
	return w, err
}

func (w *timed) alloc() (dist.Buffer, error) {
	if w.shared {
		return w.g.Alloc(w.d, w.count)
	}
	return w.buffer(reference.Aligned(w.count*w.d.Size()), w.d, w.count, privateMemory), nil
}

// free gives the memory back. A group that has failed keeps it until its end.
func (w *timed) free() {
	if w.shared {
		_ = w.g.Free(w.in)
		if !w.inPlace {
			_ = w.g.Free(w.out)
		}
	}
}

// ratio is the encoded bytes over the plain ones.
func (w *timed) ratio() float64 {
	if w.codec == nil {
		return 1
	}
	return float64(w.codec.Size(w.d, w.count)) / float64(w.count*w.d.Size())
}

func (w *timed) inputs() reference.Inputs {
	return reference.NewInputs(reference.Exact, w.d, w.g.Size(), w.seed)
}

// window is the elements of the inputs' endless vector that a call adds up: others
// at each refresh.
func (w *timed) window() reference.Window {
	return reference.Window{First: w.vectors % reference.Beginnings * reference.Alternate, Count: w.count}
}

// refresh spoils the output and makes the inputs of the next calls, which in place come
// there. The rows of a launch
// share the vector they are cut from: to make it takes longer than to use it.
func (w *timed) refresh() error {
	w.vectors++
	in, err := w.refs.Input(w.inputs(), w.window())
	if err != nil {
		return err
	}
	if err := instrument.Overwrite(w.out, func(piece dist.Buffer, _ int) { fill(piece.Bytes()) }); err != nil {
		return err
	}
	return instrument.Overwrite(w.in, func(piece dist.Buffer, first int) { copy(piece.Bytes(), in[first*w.d.Size():]) })
}

// verifyChunk is what a rank checks at a time. Every rank checks its share of a
// large vector, and all together check all of it.
const verifyChunk = 1 << 16

// verify holds the output against the expectation, on all cores of the rank.
func (w *timed) verify() error {
	ranks := w.g.Size()
	faults := make([]error, w.count/verifyChunk+1) // of which the first is told
	var checks errgroup.Group
	checks.SetLimit(runtime.GOMAXPROCS(0))
	for i := 0; i*verifyChunk < w.count; i++ {
		if w.count > 4*verifyChunk && i%ranks != w.g.Rank() {
			continue
		}
		off := i * verifyChunk
		n := min(verifyChunk, w.count-off)
		out, err := w.out.Slice(off, n).Mirror() // of a large vector in a device, only this rank's share
		if err != nil {
			faults[i] = err
			break
		}
		checks.Go(func() error { faults[i] = w.verifyPart(out, off); return nil })
	}
	_ = checks.Wait() // there are no errors but those
	return cmp.Or(faults...)
}

// verifyPart holds some elements against the expectation, those from off on.
func (w *timed) verifyPart(got dist.Buffer, off int) error {
	e, err := reference.ExpectExact(w.inputs(), reference.Window{First: w.window().First + off, Count: got.Count()},
		w.format)
	if err != nil {
		return err
	}
	if _, err := e.Compare(got.Bytes(), reference.Window{First: off, Count: got.Count()}); err != nil {
		return fmt.Errorf("in the elements from %d on: %w", off, err)
	}
	return nil
}

// warned attaches what contradicts physics to the rows it is about. Imported rows
// may have it already.
func warned(rows []journal.Row) []journal.Row {
	out := slices.Clone(rows)
	for i := range out {
		out[i].Warnings = slices.Clip(out[i].Warnings) // shared with the journal's
	}
	imports.Warn(out, model.Check(model.SamplesOf(out)))
	return out
}
