package allreduceeval

import (
	"bytes"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Fault injection: what --mutate takes. Each fault does to the all-reduce what a
// bug would, and must turn its cells red; a checker that stays green is broken.
const (
	droppedBarrier = "dropped-barrier" // the last rank's input is read before it is there
	swappedRanks   = "swapped-ranks"   // the first two ranks' blocks change places
	skippedTail    = "skipped-tail"    // the last element is left out
	reducedTwice   = "reduced-twice"   // one element of rank 0 is added twice
	staleBuffer    = "stale-buffer"    // the result is the one of the call before
	wrongDType     = "wrong-dtype"     // the bits are added up as those of another type
)

var faultNames = []string{matrix.NoFault, droppedBarrier, swappedRanks, skippedTail, reducedTwice, staleBuffer, wrongDType}

// faults are what is done in the place of the call. Its input is that of the
// call before any fault.
var faults = map[string]func(t *trial, c dist.Call, input []byte) error{
	droppedBarrier: dropBarrier,
	swappedRanks:   swapRanks,
	skippedTail:    skipTail,
	reducedTwice:   reduceTwice,
	staleBuffer:    keepStale,
	wrongDType:     mistakeDType,
}

// run does a call, with the injected fault if there is one. Nothing can be done
// wrong with an empty vector.
func (t *trial) run(c dist.Call, input []byte) error {
	if t.fault == "" || t.fault == matrix.NoFault || c.Out.Count() == 0 {
		return t.perform(c)
	}
	wrong, known := faults[t.fault]
	if !known {
		return suggest.Unknown("fault", t.fault, faultNames)
	}
	return wrong(t, c, input)
}

// perform does the call.
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
func dropBarrier(t *trial, c dist.Call, input []byte) error {
	if t.g.Rank() != t.g.Size()-1 {
		return t.perform(c)
	}
	fill(c.In.Bytes(), guard)
	op, err := t.g.Prepare(c)
	if err != nil {
		return err
	}
	h := op.Start()
	if !t.inPlace { // where the input comes late it must not fall on the result
		time.Sleep(barrierDelay)
		copy(c.In.Bytes(), input)
	}
	return h.Wait()
}

func swapRanks(t *trial, c dist.Call, _ []byte) error {
	if err := t.perform(c); err != nil {
		return err
	}
	count, size := c.Out.Count(), t.d.Size()
	_, a := dist.Block(count, t.g.Size(), 0)
	off, b := dist.Block(count, t.g.Size(), 1)
	out, n := c.Out.Bytes(), min(a, b)*size
	first := bytes.Clone(out[:n])
	copy(out[:n], out[off*size:off*size+n])
	copy(out[off*size:], first)
	return nil
}

func skipTail(t *trial, c dist.Call, _ []byte) error {
	n := c.Out.Count() - 1
	c.In, c.Out = c.In.Slice(0, n), c.Out.Slice(0, n)
	if e := c.Epilogue; e != nil {
		c.Epilogue = &dist.Epilogue{Scale: e.Scale, Residual: e.Residual.Slice(0, n)}
	}
	return t.perform(c)
}

func reduceTwice(t *trial, c dist.Call, input []byte) error {
	if t.g.Rank() != 0 {
		return t.perform(c)
	}
	size := t.d.Size()
	twice, at := make([]float64, 1), c.Out.Count()/2*size
	element := c.In.Bytes()[at : at+size]
	t.d.Decode(twice, element)
	twice[0] *= 2
	t.d.Encode(element, twice)
	err := t.perform(c)
	if !t.inPlace {
		copy(element, input[at:at+size])
	}
	return err
}

func keepStale(t *trial, c dist.Call, _ []byte) error {
	if err := t.perform(c); err != nil {
		return err
	}
	out := c.Out.Bytes()
	fresh := bytes.Clone(out)
	copy(out, t.stale)
	t.stale = fresh
	return nil
}

func mistakeDType(t *trial, c dist.Call, _ []byte) error {
	other := map[dist.DType]dist.DType{dist.BF16: dist.F16, dist.F16: dist.BF16, dist.F32: dist.I32, dist.F64: dist.I64, dist.I32: dist.F32}[t.d]
	c.In, c.Out, c.Epilogue = reinterpreted(c.In, other), reinterpreted(c.Out, other), nil
	if !other.Float() {
		c.Codec = nil
	}
	return t.perform(c)
}

// reinterpreted is the same memory as elements of another type of that size.
func reinterpreted(b dist.Buffer, d dist.DType) dist.Buffer {
	return dist.NewBuffer(d, b.Count(), unsafe.Pointer(&b.Bytes()[0]), b.Memory())
}
