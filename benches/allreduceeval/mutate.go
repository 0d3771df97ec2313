package allreduceeval

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
)

// Planted faults: what --mutate takes. Each does to the all-reduce what a bug
// would, and must turn its cells red; a checker that stays green is broken.
const (
	noMutation     = "none"
	droppedBarrier = "dropped-barrier" // the last rank's input is read before it is there
	swappedRanks   = "swapped-ranks"   // the first two ranks' blocks change places
	skippedTail    = "skipped-tail"    // the last element is left out
	reducedTwice   = "reduced-twice"   // one element of rank 0 is added twice
	staleBuffer    = "stale-buffer"    // the result is the one of the call before
	wrongDType     = "wrong-dtype"     // the bits are added up as those of another type
)

var mutations = []string{noMutation, droppedBarrier, swappedRanks, skippedTail, reducedTwice, staleBuffer, wrongDType}

// barrierDelay is how late the input comes, so that no luck hides it.
const barrierDelay = 20 * time.Millisecond

// perform does a call, with the planted fault if there is one.
func (t *trial) perform(ctx context.Context, c dist.Call, input []byte) error {
	run := func(c dist.Call) error {
		op, err := t.g.Prepare(c)
		if err != nil {
			return err
		}
		return op.Run()
	}
	count, size := c.Out.Count(), t.d.Size()
	if count == 0 {
		return run(c)
	}
	last := t.g.Size() - 1
	switch t.mutation {
	case noMutation, "":
		return run(c)
	case droppedBarrier:
		// The rank says that its input is there before it is: the others go on.
		if t.g.Rank() != last {
			return run(c)
		}
		fill(c.In.Bytes(), guard)
		op, err := t.g.Prepare(c)
		if err != nil {
			return err
		}
		h := op.Start()
		if t.inPlace { // where the input comes late it must not fall on the result
			return h.Wait()
		}
		time.Sleep(barrierDelay)
		copy(c.In.Bytes(), input)
		return h.Wait()
	case swappedRanks:
		if err := run(c); err != nil {
			return err
		}
		_, a := dist.Block(count, t.g.Size(), 0)
		off, b := dist.Block(count, t.g.Size(), 1)
		out, n := c.Out.Bytes(), min(a, b)*size
		first := append([]byte(nil), out[:n]...)
		copy(out[:n], out[off*size:off*size+n])
		copy(out[off*size:], first)
		return nil
	case skippedTail:
		c.In, c.Out = c.In.Slice(0, count-1), c.Out.Slice(0, count-1)
		if e := c.Epilogue; e != nil {
			shorter := dist.Epilogue{Scale: e.Scale, Residual: e.Residual.Slice(0, count-1)}
			c.Epilogue = &shorter
		}
		return run(c)
	case reducedTwice:
		if t.g.Rank() != 0 {
			return run(c)
		}
		twice, at := make([]float64, 1), count/2*size
		element := c.In.Bytes()[at : at+size]
		t.d.Decode(twice, element)
		twice[0] *= 2
		t.d.Encode(element, twice)
		err := run(c)
		if !t.inPlace {
			copy(element, input[at:at+size])
		}
		return err
	case staleBuffer:
		if err := run(c); err != nil {
			return err
		}
		out := c.Out.Bytes()
		fresh := append([]byte(nil), out...)
		copy(out, t.stale)
		t.stale = fresh
		return nil
	case wrongDType:
		other := map[dist.DType]dist.DType{dist.BF16: dist.F16, dist.F16: dist.BF16, dist.F32: dist.I32, dist.F64: dist.I64, dist.I32: dist.F32}[t.d]
		c.In, c.Out, c.Epilogue = reinterpreted(c.In, other), reinterpreted(c.Out, other), nil
		if !other.Float() {
			c.Codec = nil
		}
		return run(c)
	}
	return fmt.Errorf("no fault is called %q (there are %q)", t.mutation, mutations)
}

// reinterpreted is the same memory as elements of another type of that size.
func reinterpreted(b dist.Buffer, d dist.DType) dist.Buffer {
	return dist.NewBuffer(d, b.Count(), unsafe.Pointer(&b.Bytes()[0]), b.Place())
}
