package gemmallreduce

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// operation runs a product and its all-reduce, or one of the two alone. The functions return the microseconds on this
// rank.
type operation struct {
	run, multiply, reduce func() (us float64, err error)
}

// baselines are the operations to which a point is compared. One of them is timed before each call of
// the point, so that drift affects all of them equally. The point is compared with the sequential
// operation in particular, so every second turn is that one.
type baselines struct {
	list  []baseline
	order []int // indices into list, repeated
	turn  int
}

type baseline struct {
	run   func() (us float64, err error)
	times []int64 // nanoseconds
}

// Indices into baselines.list. The first three have C in one partition, the others in the partitions of the point.
const (
	gemmAlone = iota
	allReduceAlone
	sequential
	gemmParts
	allReduceParts
)

// newBaselines returns the baselines of a point. parts is nil if the point has one partition; the point is then itself
// the sequential operation. In the order of the baselines, a reduction alone never runs twice on the same data: the
// product alone or a call of the point comes in between and computes C again.
func newBaselines(whole, parts *operation) baselines {
	b := baselines{list: []baseline{gemmAlone: {run: whole.multiply}, allReduceAlone: {run: whole.reduce}},
		order: []int{gemmAlone, allReduceAlone}}
	if parts != nil {
		b.list = append(b.list, baseline{run: whole.run}, baseline{run: parts.multiply}, baseline{run: parts.reduce})
		b.order = []int{sequential, gemmAlone, sequential, allReduceAlone, sequential, gemmParts, sequential, allReduceParts}
	}
	return b
}

// timeNext times the next baseline on all ranks together.
func (b *baselines) timeNext(ctx context.Context, s *bench.State) error {
	next := &b.list[b.order[b.turn%len(b.order)]]
	b.turn++
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	us, err := next.run()
	next.times = append(next.times, int64(math.Round(us*1e3)))
	return err
}

// finish reports the outcome of a point that has been timed.
func (b *baselines) finish(ctx context.Context, s *bench.State, plan fused.Plan) error {
	for b.turn < len(b.order) { // after few calls, some baselines have no time yet
		if err := b.timeNext(ctx, s); err != nil {
			return err
		}
	}
	o, err := b.outcome(ctx, s, plan)
	if err == nil {
		o.report(s)
	}
	return err
}

// outcome gathers the times of all ranks.
func (b *baselines) outcome(ctx context.Context, s *bench.State, plan fused.Plan) (outcome, error) {
	us := make([]float64, allReduceParts+1)
	o := outcome{plan: plan, time: s.Metric("time_us")}
	o.timeRange.Low, o.timeRange.High, o.rangesKnown = s.Interval("time_us")
	for i, baseline := range b.list {
		all, err := bench.Gather(ctx, s, baseline.times)
		if err != nil {
			return o, err
		}
		times, err := slowest(all)
		if err != nil {
			return o, err
		}
		us[i] = stats.Median(times) / 1e3
		if i == sequential {
			low, high, known := interval(times)
			o.sequentialRange, o.rangesKnown = judge.Range{Low: low / 1e3, High: high / 1e3}, o.rangesKnown && known
		}
	}
	o.gemm, o.allReduce, o.sequential = us[gemmAlone], us[allReduceAlone], us[sequential]
	o.gemmParts, o.allReduceParts = us[gemmParts], us[allReduceParts]
	if o.sequential == 0 { // the point itself is sequential
		o.sequential, o.sequentialRange = o.time, o.timeRange
	}
	return o, nil
}

// interval returns the 95 % interval of the median of times in the order of their calls. Like the interval of a point,
// it allows for dependence.
func interval(times []int64) (low, high float64, known bool) {
	return stats.DependentInterval(slices.Sorted(slices.Values(times)), stats.Span(times))
}

// slowest returns the time of the slowest rank in each call, in nanoseconds.
func slowest(all [][]int64) ([]int64, error) {
	var maxima []int64
	for rank, times := range all {
		if len(times) == 0 || len(times) != len(all[0]) {
			return nil, fmt.Errorf("rank %d has %d times and rank 0 has %d: want the same number, and at least one", rank,
				len(times), len(all[0]))
		}
		if rank == 0 {
			maxima = slices.Clone(times)
		}
		for i, t := range times {
			maxima[i] = max(maxima[i], t)
		}
	}
	return maxima, nil
}

// outcome holds the times of a point and its baselines in microseconds, each of the slowest rank.
type outcome struct {
	plan                        fused.Plan
	gemm, allReduce, sequential float64 // in one partition
	gemmParts, allReduceParts   float64 // in the partitions of the plan; 0 if it has one
	time                        float64

	// The 95 % intervals of time and sequential. Exact times have intervals without width.
	timeRange, sequentialRange judge.Range
	rangesKnown                bool
}

func (o outcome) bound() float64   { return max(o.gemm, o.allReduce) }
func (o outcome) shorter() float64 { return min(o.gemm, o.allReduce) }

// minShare is the smallest share of the longer operation that the shorter one must take. With less, overlap can save
// about as much as times vary anyway.
const minShare = 0.10

// conclusive reports whether the two times are similar enough for overlap to show.
func (o outcome) conclusive() bool { return o.shorter() >= minShare*o.bound() }

// imbalance explains why overlap cannot show.
func (o outcome) imbalance() string {
	short, long := "all-reduce", "product"
	if o.gemm < o.allReduce {
		short, long = long, short
	}
	return fmt.Sprintf("the %s takes %.1f %% of the %s", short, 100*o.shorter()/o.bound(), long)
}

// recovered returns the share of the shorter operation that was saved, in percent, and its interval.
func (o outcome) recovered() (percent float64, in judge.Range) {
	share := func(sequential, time float64) float64 { return 100 * (sequential - time) / o.shorter() }
	return share(o.sequential, o.time), judge.Range{Low: share(o.sequentialRange.Low, o.timeRange.High),
		High: share(o.sequentialRange.High, o.timeRange.Low)}
}

// warning returns a warning about the recovered share if overlap cannot show, or if the share is impossible or
// significantly negative. It returns "" otherwise.
func (o outcome) warning() string {
	if o.shorter() <= 0 || o.plan.Partitions < 2 || !o.plan.Overlap {
		return ""
	}
	if !o.conclusive() {
		return o.imbalance() + ": overlap cannot show here"
	}
	percent, in := o.recovered()
	text := fmt.Sprintf("recovered %.0f %% (95 %% interval %.0f to %.0f)", percent, in.Low, in.High)
	switch {
	case !o.rangesKnown:
		return ""
	case in.Low > 100 && o.gemmParts > 0 && o.gemmParts+o.allReduceParts < o.sequential:
		return fmt.Sprintf("%s is more than overlap can save: even without overlap, the two take less time in %d partitions "+
			"than in one", text, o.plan.Partitions)
	case in.Low > 100:
		return text + " is more than overlap can save: the times are inconsistent"
	case o.sequentialRange.Below(o.timeRange):
		return text + ": overlap is slower, because " + reasons(o)
	}
	return ""
}

// report records the metrics of the point.
func (o outcome) report(s *bench.State) {
	s.Record("gemm_us", o.gemm)
	s.Record("allreduce_us", o.allReduce)
	s.Record("sequential_us", o.sequential)
	s.Record("bound_us", o.bound())
	s.Record("parts", float64(o.plan.Partitions))
	if o.gemmParts > 0 {
		s.Report("gemm_parts_us", o.gemmParts, "us", "lower")
		s.Report("allreduce_parts_us", o.allReduceParts, "us", "lower")
	}
	s.Limit("longer_alone", o.bound())
	if o.time > 0 {
		s.Report("pct_of_limit", 100*o.bound()/o.time, "%", "higher")
	}
	if o.shorter() > 0 && o.conclusive() {
		percent, in := o.recovered()
		s.Record("recovered_pct", percent)
		if o.rangesKnown && o.plan.Partitions > 1 {
			s.Report("recovered_low_pct", in.Low, "%", "")
			s.Report("recovered_high_pct", in.High, "%", "")
		}
	}
	if text := o.warning(); text != "" {
		s.Warn("%s", text)
	}
}
