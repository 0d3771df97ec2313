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

// Indices of Rank.events.
const (
	beginEvent = iota
	endEvent
	firstPartEvent // recorded after the product of the first partition; the others follow
)

// Run computes C on all ranks and returns the time of this rank's GPU in µs.
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

// Multiply computes only this rank's product, in the plan's partitions.
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

// Reduce performs only the all-reduces, on the content of C.
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

// timed returns the GPU time of the work that start starts. The work must end on the stream last.
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

// sumStream returns the stream for sums. Without overlap it is the stream of the products.
func (o *Op) sumStream() *cuda.Stream {
	if o.overlaps() {
		return o.rank.sumStream
	}
	return o.rank.productStream
}

// startProduct starts the product of a partition, and makes the stream of the sums wait for it.
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

// startSum starts the sum of a partition, behind a gate: when all ranks have reached the gate, all have
// multiplied the partition.
func (o *Op) startSum(i int) error {
	if err := o.startGate(); err != nil {
		return err
	}
	return o.parts[i].sum.Start(o.sumStream())
}

// startGate starts the gate, which waits until all ranks have reached it. When the last gate of a run is
// passed, C is complete: every rank had stored its sums before it reached that gate.
func (o *Op) startGate() error {
	o.rank.epoch++
	o.gate.params.Epoch = o.rank.epoch
	return o.gate.Start(o.sumStream())
}

// checkedK is the K of Check. It is not a multiple of gpugemm.StepK, so that padding is tested too.
const checkedK = 70

// Check is a self-test. It computes a small C in partitions and in one kernel, twice each, and checks the
// result. It is collective. Every rank generates the operands of all ranks, and so knows the sum. The one
// kernel runs in two ways: with the rank's multiprocessors, where a block has at most one tile of each
// rank, and with two multiprocessors, where a block has many.
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
				return fmt.Errorf("product and all-reduce, one kernel %v, call %d: %w", p.OneKernel, again+1, err)
			}
		}
	}
	return nil
}

// checkOnce runs the plan with operands generated from seed and checks C.
func (o *Op) checkOnce(seed uint64) error {
	r := o.rank
	ranks, k := r.group.Size(), checkedK
	// With the operands of all ranks side by side, C is a single product.
	a, b := gemm.New(dtype.BF16, r.m, ranks*k), gemm.New(dtype.BF16, r.n, ranks*k).T()
	proof.Integers(a, seed)
	proof.Integers(b, seed+1)
	from := r.group.Rank() * k
	if err := errors.Join(r.Load(a.ColRange(from, from+k), b.RowRange(from, from+k)), r.Poison(),
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
