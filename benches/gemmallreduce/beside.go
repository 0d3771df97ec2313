package gemmallreduce

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
	"github.com/kernbench/kernbench/internal/base/stats"
)

// ways are a product and its all-reduce, and each alone, in microseconds of this rank.
type ways struct {
	run, multiply, reduce func() (us float64, err error)
}

// beside is what is timed beside the point, in turn before a call of it. The point is
// judged by its distance from one after the other, so that comes every other time.
type beside struct {
	others []other
	order  []int // of a cycle
	turn   int
}

type other struct {
	run   func() (us float64, err error)
	times []int64 // nanoseconds
}

// The others, by place.
const (
	gemmAlone = iota
	allReduceAlone
	sequential
	gemmParts
	allReduceParts
)

// besides are the halves alone and one after the other, of C as a whole; and the halves in
// the point's partitions, unless it is the whole itself. The order keeps the reduction alone
// from adding up what it has added up before: the product alone or a call of the point always
// comes in between.
func besides(whole, parts *ways) beside {
	b := beside{others: []other{gemmAlone: {run: whole.multiply}, allReduceAlone: {run: whole.reduce}},
		order: []int{gemmAlone, allReduceAlone}}
	if parts != nil {
		b.others = append(b.others, other{run: whole.run}, other{run: parts.multiply}, other{run: parts.reduce})
		b.order = []int{sequential, gemmAlone, sequential, allReduceAlone, sequential, gemmParts, sequential, allReduceParts}
	}
	return b
}

// next times one of the others, all ranks together.
func (b *beside) next(ctx context.Context, s *bench.State) error {
	o := &b.others[b.order[b.turn%len(b.order)]]
	b.turn++
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	us, err := o.run()
	if err != nil {
		return err
	}
	o.times = append(o.times, int64(math.Round(us*1e3)))
	return nil
}

// finish reports what the point, which has been timed, found.
func (b *beside) finish(ctx context.Context, s *bench.State, plan fused.Plan) error {
	for b.turn < len(b.order) { // each needs a time, however few calls there were
		if err := b.next(ctx, s); err != nil {
			return err
		}
	}
	o, err := b.outcome(ctx, s, plan)
	if err != nil {
		return err
	}
	o.report(s)
	return nil
}

// outcome gathers the times of all ranks.
func (b *beside) outcome(ctx context.Context, s *bench.State, plan fused.Plan) (outcome, error) {
	us, in, known := make([]float64, allReduceParts+1), span{}, false
	for i, o := range b.others {
		all, err := s.Group().Exchange(ctx, o.times)
		if err != nil {
			return outcome{}, err
		}
		most, err := slowest(all)
		if err != nil {
			return outcome{}, err
		}
		us[i] = stats.Median(most) / 1e3
		if i == sequential {
			in.low, in.high, known = stats.MedianInterval(most)
		}
	}
	o := outcome{plan: plan, gemm: us[gemmAlone], allReduce: us[allReduceAlone], sequential: us[sequential],
		gemmParts: us[gemmParts], allReduceParts: us[allReduceParts], time: s.Metric("time_us"),
		sequentialIn: span{in.low / 1e3, in.high / 1e3}}
	o.timeIn.low, o.timeIn.high, o.known = s.Interval("time_us")
	if o.sequential == 0 { // the point itself
		o.sequential, o.sequentialIn, known = o.time, o.timeIn, o.known
	}
	o.known = o.known && known
	return o, nil
}

// slowest are, of the times taken, the slowest rank's, in order, in nanoseconds.
func slowest(all [][]int64) ([]int64, error) {
	var most []int64
	for rank, times := range all {
		if len(times) == 0 || len(times) != len(all[0]) {
			return nil, fmt.Errorf("rank %d has %d times, rank 0 %d: want as many, and some", rank, len(times), len(all[0]))
		}
		if rank == 0 {
			most = slices.Clone(times)
		}
		for i, t := range times {
			most[i] = max(most[i], t)
		}
	}
	slices.Sort(most)
	return most, nil
}
