package allreduceeval

import (
	"bytes"
	"errors"
	"strings"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// Fault injection: what --mutate takes. Each fault does to the all-reduce what a
// bug would, and must turn its cells red; a checker that stays green is broken. These are
// done around the call; with inKernel before them, those of package dist are done by the
// backend's own kernels.
const (
	droppedBarrier = "dropped-barrier" // the last rank's input is read before it is there
	swappedRanks   = "swapped-ranks"   // the first two ranks' blocks change places
	skippedTail    = "skipped-tail"    // the last element is left out
	reducedTwice   = "reduced-twice"   // one element of rank 0 is added twice
	staleBuffer    = "stale-buffer"    // the result is the one of the call before
	wrongDType     = "wrong-dtype"     // the bits are added up as those of another type
	everySecond    = "every-second"    // every second run of a preparation leaves out a block
)

// inKernel comes before a fault that the backend itself plants.
const inKernel = "kernel-"

var faultNames = append([]string{matrix.NoFault, droppedBarrier, swappedRanks, skippedTail, reducedTwice, staleBuffer,
	wrongDType, everySecond}, kernelFaults()...)

func kernelFaults() []string {
	return lists.Map(instrument.Faults(), func(f string) string { return inKernel + f })
}

// plant has the backend plant the fault, if it is one of these. What cannot go wrong in
// this way is not executed.
func (t *trial) plant() error {
	fault, ours := strings.CutPrefix(t.fault, inKernel)
	if !ours {
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

// faults are what is done in the place of a run. Its input is that before any fault.
var faults = map[string]func(t *trial, o *operation, input []byte) error{
	droppedBarrier: dropBarrier,
	swappedRanks:   swapRanks,
	skippedTail:    skipTail,
	reducedTwice:   reduceTwice,
	staleBuffer:    keepStale,
	wrongDType:     mistakeDType,
	everySecond:    skipEverySecond,
}

// run runs an operation, with the injected fault if there is one. Nothing can be done
// wrong with an empty vector.
func (t *trial) run(o *operation, input []byte) error {
	o.runs++
	if t.fault == "" || t.fault == matrix.NoFault || strings.HasPrefix(t.fault, inKernel) || o.Out.Count() == 0 {
		return o.Run()
	}
	wrong, known := faults[t.fault]
	if !known {
		return suggest.Unknown("fault", t.fault, faultNames)
	}
	return wrong(t, o, input)
}

// perform does another call than the one that was prepared.
func (t *trial) perform(c dist.Call) error {
	op, err := t.g.Prepare(c)
	if err != nil {
		return err
	}
	return op.Run()
}

// barrierDelay is how late the input comes, so that no luck hides it.
const barrierDelay = 20 * time.Millisecond

// dropBarrier has the last rank say that its input is there before it is.
func dropBarrier(t *trial, o *operation, input []byte) error {
	if t.g.Rank() != t.g.Size()-1 {
		return o.Run()
	}
	fill(o.In.Bytes())
	if err := o.Start(); err != nil {
		return err
	}
	if !t.inPlace { // where the input comes late it must not fall on the result
		time.Sleep(barrierDelay)
		copy(o.In.Bytes(), input)
	}
	return o.Wait()
}

func swapRanks(t *trial, o *operation, _ []byte) error {
	if err := o.Run(); err != nil {
		return err
	}
	count, size := o.Out.Count(), t.d.Size()
	_, a := dist.Block(count, t.g.Size(), 0)
	off, b := dist.Block(count, t.g.Size(), 1)
	out, n := o.Out.Bytes(), min(a, b)*size
	first := bytes.Clone(out[:n])
	copy(out[:n], out[off*size:off*size+n])
	copy(out[off*size:], first)
	return nil
}

func skipTail(t *trial, o *operation, _ []byte) error {
	c, n := o.Call, o.Out.Count()-1
	c.In, c.Out = c.In.Slice(0, n), o.Out.Slice(0, n)
	if e := c.Epilogue; e != nil {
		c.Epilogue = &dist.Epilogue{Scale: e.Scale, Residual: e.Residual.Slice(0, n)} // a norm takes whole rows
	}
	return t.perform(c)
}

func reduceTwice(t *trial, o *operation, input []byte) error {
	if t.g.Rank() != 0 {
		return o.Run()
	}
	size := t.d.Size()
	twice, at := make([]float64, 1), o.Out.Count()/2*size
	element := o.In.Bytes()[at : at+size]
	t.d.Decode(twice, element)
	twice[0] *= 2
	t.d.Encode(element, twice)
	err := o.Run()
	if !t.inPlace {
		copy(element, input[at:at+size])
	}
	return err
}

func keepStale(t *trial, o *operation, _ []byte) error {
	if err := o.Run(); err != nil {
		return err
	}
	out := o.Out.Bytes()
	fresh := bytes.Clone(out)
	copy(out, t.stale)
	t.stale = fresh
	return nil
}

func mistakeDType(t *trial, o *operation, _ []byte) error {
	other := map[dist.DType]dist.DType{dist.BF16: dist.F16, dist.F16: dist.BF16, dist.F32: dist.I32, dist.F64: dist.I64,
		dist.I32: dist.F32}[t.d]
	c := o.Call
	c.In, c.Out, c.Epilogue = reinterpreted(c.In, other), reinterpreted(c.Out, other), nil
	if !other.Float() {
		c.Codec = nil
	}
	return t.perform(c)
}

// skipEverySecond leaves the first block as it was before the run.
func skipEverySecond(_ *trial, o *operation, _ []byte) error {
	if o.runs%2 == 1 {
		return o.Run()
	}
	_, n := dist.Block(o.Out.Count(), 2, 0)
	block := o.Out.Slice(0, n).Bytes()
	was := bytes.Clone(block)
	err := o.Run()
	copy(block, was)
	return err
}

// reinterpreted is the same memory as elements of another type of that size.
func reinterpreted(b dist.Buffer, d dist.DType) dist.Buffer {
	return dist.NewBuffer(d, b.Count(), unsafe.Pointer(&b.Bytes()[0]), b.Memory())
}
