package allreduceeval

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// The faults that --mutate plants. Each simulates a bug of the all-reduce and must make
// its cells fail; otherwise the checker is broken. These faults are planted around the
// call. Faults with the prefix kernelPrefix are planted in the backend's own kernels.
const (
	droppedBarrier = "dropped-barrier" // the last rank's input is read before it is written
	swappedRanks   = "swapped-ranks"   // the blocks of the first two ranks are swapped
	skippedTail    = "skipped-tail"    // the last element is left out
	reducedTwice   = "reduced-twice"   // one element of rank 0 is added twice
	staleBuffer    = "stale-buffer"    // the result of the previous call is returned
	wrongDType     = "wrong-dtype"     // the bits are added up as another type
	everySecond    = "every-second"    // every second run of an operation leaves out a block
)

// kernelPrefix marks faults that package instrument plants in a backend's kernels.
const kernelPrefix = "kernel-"

var faultNames = append([]string{matrix.NoFault, droppedBarrier, swappedRanks, skippedTail, reducedTwice, staleBuffer,
	wrongDType, everySecond}, kernelFaults()...)

func kernelFaults() []string {
	return lists.Map(instrument.Faults(), func(f string) string { return kernelPrefix + f })
}

// plantInKernel plants the fault in the backend's kernels, if it is a kernel fault. If
// the backend or the algorithm cannot have this fault, which preparing an empty operation
// reveals, the row is not executed.
func (t *trial) plantInKernel() error {
	fault, inKernel := strings.CutPrefix(t.fault, kernelPrefix)
	if !inKernel {
		return nil
	}
	err := instrument.Plant(t.g, fault)
	if err == nil {
		_, err = t.prepare(0, privateMemory, 0)
	}
	if errors.Is(err, instrument.ErrNoSuchFault) {
		return bench.NotExecuted(false, "%v", err)
	}
	return err
}

// faults are the functions that replace the run of an operation. input is the rank's
// original input.
var faults = map[string]func(t *trial, o *operation, input []byte) error{
	droppedBarrier: dropBarrier,
	swappedRanks:   swapRanks,
	skippedTail:    skipTail,
	reducedTwice:   reduceTwice,
	staleBuffer:    returnStale,
	wrongDType:     misreadDType,
	everySecond:    skipBlock,
}

// run runs an operation with the planted fault, if any. An empty vector runs without it,
// because nothing can go wrong there.
func (t *trial) run(o *operation, input []byte) error {
	o.runs++
	if t.fault == "" || t.fault == matrix.NoFault || strings.HasPrefix(t.fault, kernelPrefix) || o.Out.Count() == 0 {
		return o.Run()
	}
	wrong, known := faults[t.fault]
	if !known {
		return suggest.Unknown("fault", t.fault, faultNames)
	}
	return wrong(t, o, input)
}

// runOther makes another call than the prepared one.
func (t *trial) runOther(c dist.Call) error {
	op, err := t.g.Prepare(c)
	if err != nil {
		return err
	}
	return op.Run()
}

// edit changes the elements of a buffer.
func edit(b dist.Buffer, change func(data []byte)) error {
	m, err := b.Mirror()
	if err != nil {
		return err
	}
	change(m.Bytes())
	return b.Update(m)
}

// barrierDelay is the delay of the late input. It is long enough that the other ranks
// always read too early.
const barrierDelay = 20 * time.Millisecond

// dropBarrier starts the operation on the last rank before its input is written.
func dropBarrier(t *trial, o *operation, input []byte) error {
	if t.g.Rank() != t.g.Size()-1 {
		return o.Run()
	}
	if err := errors.Join(edit(o.In, fillGuard), o.Start()); err != nil {
		return err
	}
	var err error
	if !t.inPlace { // in place, the late input would overwrite the result
		time.Sleep(barrierDelay)
		err = edit(o.In, func(in []byte) { copy(in, input) })
	}
	return errors.Join(err, o.Wait())
}

func swapRanks(t *trial, o *operation, _ []byte) error {
	if err := o.Run(); err != nil {
		return err
	}
	count, size := o.Out.Count(), t.d.Size()
	_, a := dist.Block(count, t.g.Size(), 0)
	off, b := dist.Block(count, t.g.Size(), 1)
	return edit(o.Out, func(out []byte) {
		n := min(a, b) * size
		first := bytes.Clone(out[:n])
		copy(out[:n], out[off*size:off*size+n])
		copy(out[off*size:], first)
	})
}

func skipTail(t *trial, o *operation, _ []byte) error {
	c, n := o.Call, o.Out.Count()-1
	c.In, c.Out = c.In.Slice(0, n), o.Out.Slice(0, n)
	if e := c.Epilogue; e != nil {
		// Without the norm, which needs whole rows.
		c.Epilogue = &dist.Epilogue{Scale: e.Scale, Residual: e.Residual.Slice(0, n)}
	}
	return t.runOther(c)
}

func reduceTwice(t *trial, o *operation, input []byte) error {
	if t.g.Rank() != 0 {
		return o.Run()
	}
	at := o.Out.Count() / 2
	element := o.In.Slice(at, 1)
	err := edit(element, func(data []byte) {
		twice := make([]float64, 1)
		t.d.Decode(twice, data)
		twice[0] *= 2
		t.d.Encode(data, twice)
	})
	err = errors.Join(err, o.Run())
	if !t.inPlace {
		err = errors.Join(err, edit(element, func(data []byte) { copy(data, input[at*t.d.Size():]) }))
	}
	return err
}

func returnStale(t *trial, o *operation, _ []byte) error {
	if err := o.Run(); err != nil {
		return err
	}
	return edit(o.Out, func(out []byte) {
		fresh := bytes.Clone(out)
		copy(out, t.stale)
		t.stale = fresh
	})
}

func misreadDType(t *trial, o *operation, _ []byte) error {
	other := map[dist.DType]dist.DType{dist.BF16: dist.F16, dist.F16: dist.BF16, dist.F32: dist.I32, dist.F64: dist.I64,
		dist.I32: dist.F32}[t.d]
	c := o.Call
	c.In, c.Out, c.Epilogue = view(c.In, other, c.In.Count()), view(c.Out, other, c.Out.Count()), nil
	if !other.Float() {
		c.Codec = nil
	}
	return t.runOther(c)
}

// skipBlock restores the first half of the output after every second run.
func skipBlock(_ *trial, o *operation, _ []byte) error {
	if o.runs%2 == 1 {
		return o.Run()
	}
	_, n := dist.Block(o.Out.Count(), 2, 0)
	block := o.Out.Slice(0, n)
	var before []byte
	err := edit(block, func(data []byte) { before = bytes.Clone(data) })
	return errors.Join(err, o.Run(), edit(block, func(data []byte) { copy(data, before) }))
}
