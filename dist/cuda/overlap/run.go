package overlap

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gpufused"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// The events of a run.
const (
	beginEvent = iota
	endEvent
	firstPartEvent // the first partition's
)

// Run computes C on all ranks and gives the microseconds that this rank's GPU took.
func (o *Op) Run() (us float64, err error) {
	if o.oneKernel != nil {
		return o.runOneKernel("a product and its all-reduce in one kernel", 0)
	}
	return o.timed("a product and its all-reduce", o.sumStream(), func() error {
		for i := range o.parts {
			if err := o.startProduct(i); err != nil {
				return err
			}
			if err := o.startSum(i); err != nil {
				return err
			}
		}
		return o.startGate()
	})
}

// Multiply makes this rank's product alone, in the plan's partitions.
func (o *Op) Multiply() (us float64, err error) {
	if o.oneKernel != nil {
		return o.runOneKernel("a product", gpufused.NoSum)
	}
	return o.timed("a product", o.rank.productStream, func() error {
		for i := range o.parts {
			if err := o.parts[i].product.Start(o.rank.productStream); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reduce makes the all-reduces alone, of what C holds.
func (o *Op) Reduce() (us float64, err error) {
	if o.oneKernel != nil {
		return o.runOneKernel("an all-reduce", gpufused.NoProduct)
	}
	return o.timed("an all-reduce", o.sumStream(), func() error {
		if err := o.sumStream().Wait(o.rank.events[beginEvent]); err != nil {
			return err
		}
		for i := range o.parts {
			if err := o.startSum(i); err != nil {
				return err
			}
		}
		return o.startGate()
	})
}

// timed has the GPU time what start starts, which ends in a stream.
func (o *Op) timed(what string, last *cuda.Stream, start func() error) (us float64, err error) {
	r := o.rank
	err = r.device.Do(func() error {
		if err := r.events[beginEvent].Record(r.productStream); err != nil {
			return err
		}
		if err := start(); err != nil {
			return err
		}
		if err := r.events[endEvent].Record(last); err != nil {
			return err
		}
		if err := r.engine.Await(what, last); err != nil {
			return err
		}
		us, err = r.events[endEvent].Since(r.events[beginEvent])
		return err
	})
	return us, err
}

// sumStream is the stream that adds up: the one that multiplies, unless both go on at once.
func (o *Op) sumStream() *cuda.Stream {
	if o.overlaps() {
		return o.rank.sumStream
	}
	return o.rank.productStream
}

// startProduct multiplies a partition, for which the sums are to wait.
func (o *Op) startProduct(i int) error {
	r := o.rank
	if err := o.parts[i].product.Start(r.productStream); err != nil || !o.overlaps() {
		return err
	}
	e := r.events[firstPartEvent+i]
	if err := e.Record(r.productStream); err != nil || o.unordered {
		return err
	}
	return r.sumStream.Wait(e)
}

// startSum adds up a partition once all ranks are at the gate: then all have multiplied it.
func (o *Op) startSum(i int) error {
	if err := o.startGate(); err != nil {
		return err
	}
	return o.parts[i].sum.Start(o.sumStream())
}

// startGate starts the gate. After the last one all sums have come: every rank was done when it
// came there.
func (o *Op) startGate() error {
	o.rank.epoch++
	o.gate.params.Epoch = o.rank.epoch
	return o.gate.Start(o.sumStream())
}

// checkedK is no multiple of what products want.
const checkedK = 70

// Check multiplies and adds up a small C in partitions and in one kernel, twice each, and
// looks at every element: for self-tests. All ranks call it. Every rank makes the operands
// of all, so that it knows the sum. The one kernel runs as usual, where a block may have a tile of
// each rank at most, and on two multiprocessors, which have all tiles.
func Check(g *dist.Group) error {
	const m, n, parts = 600, 520, 3
	r, err := Open(g, Config{Provider: "builtin", DType: dtype.BF16})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Alloc(m, n, checkedK, parts); err != nil {
		return err
	}
	for call, p := range []Plan{{Ranges: []Range{{0, 70}, {70, 140}, {140, m}}, Overlap: true}, {OneKernel: true},
		{OneKernel: true}} {
		if call == 2 {
			r.multiprocessors = min(r.multiprocessors, 2)
		}
		o, err := r.Prepare(p)
		if err != nil {
			return err
		}
		for again := range 2 {
			if err := o.checkOnce(uint64(1000*call + 100*again + 1)); err != nil {
				return fmt.Errorf("a product and its all-reduce, one kernel %v, call %d: %w", p.OneKernel, again+1, err)
			}
		}
	}
	return nil
}

// checkOnce runs with operands of a seed and checks rows of C.
func (o *Op) checkOnce(seed uint64) error {
	r := o.rank
	ranks, k := r.group.Size(), checkedK
	// The ranks' operands beside each other: C is their one product.
	a, b := gemm.New(dtype.BF16, r.m, ranks*k), gemm.New(dtype.BF16, r.n, ranks*k).T()
	proof.Integers(a, seed)
	proof.Integers(b, seed+1)
	from := r.group.Rank() * k
	if err := errors.Join(r.Load(a.ColRange(from, from+k), b.RowRange(from, from+k)), r.Spoil(),
		r.group.Barrier()); err != nil {
		return err
	}
	if _, err := o.Run(); err != nil {
		return err
	}
	parts, err := o.Parts()
	for i := 0; err == nil && i < len(parts); i++ {
		err = proof.Exact(parts[i], a.RowRange(o.parts[i].from, o.parts[i].to), b, seed)
	}
	return errors.Join(err, r.group.Barrier())
}
