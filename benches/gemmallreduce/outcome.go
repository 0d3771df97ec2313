package gemmallreduce

import (
	"fmt"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
)

// outcome is what a point found, in microseconds.
type outcome struct {
	plan                        fused.Plan
	gemm, allReduce, sequential float64
	gemmParts, allReduceParts   float64 // in the plan's partitions; 0 where that is the same
	time                        float64

	// Where the point and one after the other lie with 95 % confidence; an exact time
	// lies at itself. known: both do.
	timeIn, sequentialIn span
	known                bool
}

// span is an interval.
type span struct{ low, high float64 }

func (o outcome) bound() float64   { return max(o.gemm, o.allReduce) }
func (o outcome) shorter() float64 { return min(o.gemm, o.allReduce) }

// leastShare of the longer one is what the shorter one must take for overlap to show:
// below it, all that could be saved is about what times differ by anyway.
const leastShare = 0.10

// shows tells whether the two are near enough to each other for overlap to show.
func (o outcome) shows() bool { return o.shorter() >= leastShare*o.bound() }

// unequal words why overlap cannot show.
func (o outcome) unequal() string {
	short, long := "all-reduce", "product"
	if o.gemm < o.allReduce {
		short, long = long, short
	}
	return fmt.Sprintf("the %s takes %.1f %% of the %s", short, 100*o.shorter()/o.bound(), long)
}

// recovered is the part of the shorter one that was saved, in per cent, and where that
// lies.
func (o outcome) recovered() (percent float64, in span) {
	part := func(sequential, time float64) float64 { return 100 * (sequential - time) / o.shorter() }
	return part(o.sequential, o.time),
		span{part(o.sequentialIn.low, o.timeIn.high), part(o.sequentialIn.high, o.timeIn.low)}
}

// doubt is what a reader must know of the share that an overlap recovered, "" if nothing:
// that it cannot show, or that it is outside of what overlap can do, beyond its interval.
func (o outcome) doubt() string {
	if o.shorter() <= 0 || o.plan.Partitions < 2 || !o.plan.Overlap {
		return ""
	}
	if !o.shows() {
		return o.unequal() + ": overlap cannot show here"
	}
	percent, in := o.recovered()
	says := fmt.Sprintf("recovered %.0f %% (95 %% from %.0f to %.0f)", percent, in.low, in.high)
	switch {
	case !o.known:
		return ""
	case in.low > 100 && o.gemmParts > 0 && o.gemmParts+o.allReduceParts < o.sequential:
		return fmt.Sprintf("%s is more than overlap can save: the two take less time in %d pieces than in one, even one "+
			"after the other", says, o.plan.Partitions)
	case in.low > 100:
		return says + " is more than overlap can save: these times do not belong together"
	case in.high < 0:
		return says + ": overlap loses, as " + why(o)
	}
	return ""
}

// report records what follows from the times.
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
	if o.shorter() > 0 && o.shows() {
		percent, in := o.recovered()
		s.Record("recovered_pct", percent)
		if o.known && o.plan.Partitions > 1 {
			s.Report("recovered_low_pct", in.low, "%", "")
			s.Report("recovered_high_pct", in.high, "%", "")
		}
	}
	if doubt := o.doubt(); doubt != "" {
		s.Warn("%s", doubt)
	}
}
