package overlap

import (
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpufused"
)

// The events of a run.
const (
	begun = iota
	ended
	multiplied // the first partition's
)

// Run computes C on all ranks and gives the microseconds that this rank's GPU took.
func (o *Op) Run() (us float64, err error) {
	if o.one != nil {
		return o.runOne("a product and its all-reduce in one kernel", 0)
	}
	return o.timed("a product and its all-reduce", o.sums(), func() error {
		for i := range o.part {
			if err := o.product(i); err != nil {
				return err
			}
			if err := o.sum(i); err != nil {
				return err
			}
		}
		return o.meet()
	})
}

// Multiply makes this rank's product alone, in the plan's partitions.
func (o *Op) Multiply() (us float64, err error) {
	if o.one != nil {
		return o.runOne("a product", gpufused.NoSum)
	}
	return o.timed("a product", o.rank.multiply, func() error {
		for i := range o.part {
			if err := o.part[i].product.Start(o.rank.multiply); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reduce makes the all-reduces alone, of what C holds.
func (o *Op) Reduce() (us float64, err error) {
	if o.one != nil {
		return o.runOne("an all-reduce", gpufused.NoProduct)
	}
	return o.timed("an all-reduce", o.sums(), func() error {
		if err := o.sums().Wait(o.rank.events[begun]); err != nil {
			return err
		}
		for i := range o.part {
			if err := o.sum(i); err != nil {
				return err
			}
		}
		return o.meet()
	})
}

// timed has the GPU time what start starts, which ends in a stream.
func (o *Op) timed(what string, last *cuda.Stream, start func() error) (us float64, err error) {
	r := o.rank
	err = r.device.Do(func() error {
		if err := r.events[begun].Record(r.multiply); err != nil {
			return err
		}
		if err := start(); err != nil {
			return err
		}
		if err := r.events[ended].Record(last); err != nil {
			return err
		}
		if err := r.site.Await(what, last); err != nil {
			return err
		}
		us, err = r.events[ended].Since(r.events[begun])
		return err
	})
	return us, err
}

// sums is the stream that adds up: the one that multiplies, unless both go on at once.
func (o *Op) sums() *cuda.Stream {
	if o.both() {
		return o.rank.add
	}
	return o.rank.multiply
}

// product multiplies a partition, for which the sums are to wait.
func (o *Op) product(i int) error {
	r := o.rank
	if err := o.part[i].product.Start(r.multiply); err != nil || !o.both() {
		return err
	}
	e := r.events[multiplied+i]
	if err := e.Record(r.multiply); err != nil || o.unordered {
		return err
	}
	return r.add.Wait(e)
}

// sum adds up a partition once all ranks are at the gate: then all have multiplied it.
func (o *Op) sum(i int) error {
	if err := o.meet(); err != nil {
		return err
	}
	return o.part[i].sum.Start(o.sums())
}

// meet starts the gate. After the last one all sums have come: every rank was done when it
// came there.
func (o *Op) meet() error {
	o.rank.epoch++
	o.gate.params.Epoch = o.rank.epoch
	return o.gate.Start(o.sums())
}
