package allreduceeval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/findings"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/kernel/quant"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/model"
)

// performance is the body of the performance part. A row is one timed call.
func performance(ctx context.Context, s *bench.State) error {
	ceilings, err := model.Ceilings(s.Str("link"))
	if err != nil {
		return err
	}
	s.Phase("probe")
	limits := collectives.AllReduceLimits(ctx, s)
	if err := s.Barrier(ctx); err != nil { // no rank measures while another still probes
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
	w, err := newTimedRow(ws, s, algorithm)
	if err != nil {
		return err
	}
	defer w.release()
	if c := ws.g.Clock(); c.Deterministic() {
		s.UseClock(c)
	}
	plan := w.op.Plan()
	executed := plan.Algorithm
	if w.codec != nil { // Like has the same traffic, apart from the encoding
		executed = matrix.Find(algorithm).Like
	}
	if executed != "" {
		s.Detail("algorithm", tuning.Choice{Algorithm: executed, Blocks: plan.Blocks}.String())
	}
	s.Detail("buffers", memoryNames[w.kind])
	size := int64(w.count * d.Size())
	s.Volume(string(dist.AllReduce), size)
	// The limits do not account for codecs.
	if w.codec == nil && (executed != "" || dist.Describe(s.Backend()).Network) {
		limits(ws.g, plan, executed)
	}
	if traffic, known := model.Traffic(executed, s.Size(), size); known {
		moved := float64(traffic) * w.encodedRatio()
		s.Record("traffic_bytes", moved)
		for _, c := range ceilings {
			s.Limit(c.Name, c.US(moved))
		}
	}
	s.Refresh(w.refresh)
	s.Verify(w.verify)
	err = s.Time(ctx, w.op.Run, bench.InPlace(w.inPlace))
	if err == nil {
		err = collectives.RecordTimings(ctx, s, w.g, w.op)
	}
	if err != nil {
		closeWorkspace(s) // the group cannot be used again
	}
	return err
}

// checkOptions returns an error if the options name an unknown model or link.
func checkOptions(_, options bench.Point) error {
	_, err := model.Ceilings(options.At("link").String())
	return errors.Join(findings.CheckModels(options.At(findings.ModelsOption).String()), err)
}

// timedRow is one rank's part of a timed row: its buffers and the prepared operation.
type timedRow struct {
	*workspace
	refreshes int // number of refresh calls
	current   runInput
	count     int
	codec     *quant.Codec
	format    *reference.Format // format that the codec must have, nil without a codec
	in, out   dist.Buffer
	inPlace   bool // in and out are the same buffer
	kind      int  // of memory, symmetric if the backend has it
	op        *dist.Op
}

// newTimedRow allocates the buffers and prepares the operation.
func newTimedRow(ws *workspace, s *bench.State, algorithm string) (*timedRow, error) {
	info, size := matrix.Find(algorithm), int64(s.Int("size"))
	if info.Most > 0 && size > info.Most {
		return nil, bench.Skip("%s is made for calls of up to %s; larger calls are split, and their times mean little",
			algorithm, unit.FormatBytes(info.Most))
	}
	w := &timedRow{workspace: ws, inPlace: s.Bool("inplace"), count: s.Int("size") / ws.d.Size(),
		codec: matrix.Codec(algorithm), format: reference.FormatOf(info.Codec),
		kind: slices.Max(ws.memoryKinds())}
	if why := memoryShortage(3, s.Int("size"), s.Size()); why != "" {
		return nil, bench.Skip("left out: %s", why)
	}
	var err error
	w.in, err = w.alloc(w.kind, w.d, w.count)
	if w.out = w.in; !w.inPlace && err == nil {
		w.out, err = w.alloc(w.kind, w.d, w.count)
	}
	if err != nil {
		return nil, err
	}
	call := newCall(algorithm)
	call.In, call.Out = w.in, w.out
	w.op, err = ws.g.Prepare(call)
	return w, err
}

// release frees the buffers. Errors are ignored: a failed group frees them when it closes.
func (w *timedRow) release() {
	_ = w.free(w.kind, w.in)
	if !w.inPlace {
		_ = w.free(w.kind, w.out)
	}
}

// encodedRatio returns the size of the encoded elements relative to the plain ones.
func (w *timedRow) encodedRatio() float64 {
	if w.codec == nil {
		return 1
	}
	return float64(w.codec.Size(w.d, w.count)) / float64(w.count*w.d.Size())
}

// refresh overwrites the output with the guard and writes the next inputs. The rows of a launch share one vector of
// inputs, because generating it takes longer than the calls.
func (w *timedRow) refresh() error {
	w.refreshes++
	w.current = w.exactInput(w.refreshes, w.count)
	in, err := w.refs.Input(w.current.in, w.current.window)
	if err != nil {
		return err
	}
	return setUp(w.out, w.in, in)
}

// verifyChunk is the number of elements that are checked at a time. Of a large vector,
// each rank checks every size-th chunk, so that all ranks together check all of it.
const verifyChunk = 1 << 16

// verify compares the output with the expectation.
func (w *timedRow) verify() error {
	for off := 0; off < w.count; off += verifyChunk {
		if w.count > 4*verifyChunk && off/verifyChunk%w.g.Size() != w.g.Rank() {
			continue
		}
		part := reference.Window{First: w.current.window.First + off, Count: min(verifyChunk, w.count-off)}
		e, err := reference.ExpectExact(w.current.in, part, w.format)
		if err != nil {
			return err
		}
		got, err := w.out.Slice(off, part.Count).Mirror() // copies from a device, if it is there
		if err != nil {
			return err
		}
		if _, err := e.Compare(got.Bytes(), reference.Window{First: off, Count: part.Count}); err != nil {
			return fmt.Errorf("elements from %d on: %w", off, err)
		}
	}
	return nil
}

// addWarnings attaches contradictions to physics to the rows that they concern, unless
// an imported row already has the same warning.
func addWarnings(rows dataset.Set) dataset.Set {
	out := rows.Clone()
	imports.Warn(model.Check(model.SamplesOf(out)))
	return out
}
