package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/kernel/proof"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// State is a body's view of its point: the values to use, the rank it runs on, and
// what it reports. It is used by one goroutine.
type State struct {
	set     Setting
	verify  []func() error
	refresh func() error
	out     Outcome
	volume  *volume
	flops   float64
	bytes   float64
}

type volume struct {
	op    string
	bytes int64
}

// skipError is how a body leaves a point out.
type skipError struct{ reason string }

func (e *skipError) Error() string { return "skipped: " + e.reason }

// Skip returns the error by which a body leaves out a point that does not apply; the
// row is skipped with this reason. All ranks must return it alike.
func Skip(format string, args ...any) error {
	return &skipError{fmt.Sprintf(format, args...)}
}

// missingError is how a body says that its point cannot be run here.
type missingError struct {
	reason   string
	required bool
}

func (e *missingError) Error() string { return "not executed: " + e.reason }

// NotExecuted returns the error of a point that should run but cannot here, because
// the backend or the machine lacks something; the reason says what it needs. A
// required point that did not execute fails the run, another is only counted. All
// ranks must return it alike.
func NotExecuted(required bool, format string, args ...any) error {
	return &missingError{fmt.Sprintf(format, args...), required}
}

// Wrong is the error of a verification that found wrong elements. The Count
// becomes the row's metric "wrong"; the Detail says of the first one where it is, and what
// it is and should be. Note counts one; Err is nil while there is none.
type Wrong = proof.Mistake

// Value returns the value of an axis or option. It panics, which fails the row,
// for a name that was not declared. So do Int, Float, Str, Bool, Dims and DType.
func (s *State) Value(name string) Value {
	if v, ok := s.set.Point.Get(name); ok {
		return v
	}
	names := lists.Map(s.set.Point, func(c point.Coord) string { return c.Name })
	panic(fmt.Sprintf("the bench reads %q, which is neither one of its axes nor one of its options %q", name, names))
}

// Point returns the values of all axes and options.
func (s *State) Point() Point { return slices.Clone(s.set.Point) }

// Int returns the value of a whole-number or byte-size axis or option.
func (s *State) Int(name string) int { return int(s.Value(name).Int()) }

// Float returns the value of a numeric axis or option.
func (s *State) Float(name string) float64 { return s.Value(name).Float() }

// Str returns the text of any axis or option.
func (s *State) Str(name string) string { return s.Value(name).String() }

// Bool returns the value of a boolean axis or option.
func (s *State) Bool(name string) bool { return s.Value(name).Bool() }

// Dims returns the numbers of a tuple axis or option.
func (s *State) Dims(name string) []int64 { return s.Value(name).Dims() }

// DType returns the value of an element-type axis or option.
func (s *State) DType(name string) DType {
	d, err := dtype.Parse(s.Value(name).String())
	if err != nil {
		panic(err)
	}
	return d
}

// Rank returns the number of this rank, from 0.
func (s *State) Rank() int { return s.set.Group.Rank() }

// Size returns the number of ranks. Where the backend is virtual (dist.Shape), rank 0 is
// the only one that executes the body.
func (s *State) Size() int { return max(s.set.Ranks, s.set.Group.Size()) }

// LocalRank returns the number of this rank among those of its host.
func (s *State) LocalRank() int { return s.set.LocalRank }

// Backend returns the name of what the point runs on, such as "cpu".
func (s *State) Backend() string { return s.set.Backend }

// Session returns a random text that is the same on all ranks of a launch, and
// different in every launch: for names by which ranks find each other.
func (s *State) Session() string { return s.set.Session }

// Seed returns the run's seed, the same on every rank.
func (s *State) Seed() uint64 { return s.set.Seed }

// Group returns the harness's own channel between the ranks, for untimed set-up.
func (s *State) Group() Group { return s.set.Group }

// Barrier waits for all ranks, over the harness's own channel: for untimed set-up,
// or to start together.
func (s *State) Barrier(ctx context.Context) error { return s.set.Group.Barrier(ctx) }

// Exchange gives every rank what all ranks gave, by rank, over the harness's own
// channel. With it ranks on several hosts join a group: it is dist.Config's Exchange.
func (s *State) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	return tcp.Through(s.set.Group)(ctx, mine)
}

// Gather gives every rank the numbers of all, over the harness's own channel: by number,
// then by rank. All ranks give as many.
func (s *State) Gather(ctx context.Context, mine ...float64) ([][]float64, error) {
	all, err := s.set.Group.Exchange(ctx, lists.Map(mine, func(v float64) int64 { return int64(math.Float64bits(v)) }))
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(mine))
	for _, theirs := range all {
		if len(theirs) != len(mine) {
			return nil, errors.New("ranks exchange different numbers of values")
		}
		for i, v := range theirs {
			out[i] = append(out[i], math.Float64frombits(uint64(v)))
		}
	}
	return out, nil
}

// Phase names what the rank does now. A failed row shows the last one.
func (s *State) Phase(name string) { s.set.Phase(name) }

// UseClock times with another clock. One that is deterministic makes the row
// simulated, and a single sample is enough. Those of the simulated accelerator also see
// what happens inside: pages show the load of links and the critical path of the last call.
func (s *State) UseClock(c Clock) {
	s.set.Clock = c
	if in, looks := c.(insider); looks {
		in.Look()
	}
	if c.Deterministic() {
		s.out.Kind = journal.Simulated
	}
}

// insider is a Clock that knows more than the time. Look is called before what is timed; Inside gives
// the record of the last call, a file of package profile, or nothing.
type insider interface {
	Look()
	Inside() ([]byte, error)
}

// Sampling returns how [State.Time] will sample. A body may change it before the
// call, alike on every rank: a cadence that is an axis, say.
func (s *State) Sampling() *Config { return &s.set.Measure }

// SampleAtMost bounds the time that [State.Time] spends on sampling. One sample is
// taken in any case.
func (s *State) SampleAtMost(seconds float64) {
	stop := &s.set.Measure.Stop
	stop.MaxTime = time.Duration(seconds * float64(time.Second))
	stop.MinTime = min(stop.MinTime, stop.MaxTime)
}

// Kind says where the row's numbers come from when they are not measured.
func (s *State) Kind(k RowKind) { s.out.Kind = k }

// Bytes declares how many bytes one call moves: the row gets the metric gbps.
func (s *State) Bytes(n int64) { s.bytes = float64(n) }

// Flops declares how many floating-point operations one call makes: the row gets
// the metric tflops.
func (s *State) Flops(n float64) { s.flops = n }

// Volume declares a collective and its size in bytes as nccl-tests counts it: the
// row gets the metrics algbw and busbw.
func (s *State) Volume(op string, bytes int64) { s.volume = &volume{op, bytes} }

// Report records a metric of the body's own. Better is "lower", "higher" or "". A
// value that is not finite is left out with a warning.
func (s *State) Report(name string, value float64, unit, better string) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		s.Warn("%s is %v and was left out", name, value)
		return
	}
	s.out.Metrics[name] = value
	if !slices.ContainsFunc(s.out.Infos, func(m MetricInfo) bool { return m.Name == name }) {
		s.out.Infos = append(s.out.Infos, MetricInfo{Name: name, Unit: unit, Better: better})
	}
}

// ReportSamples records a metric of which the body took several samples itself: its
// value is the best of them, and the row keeps their spread.
func (s *State) ReportSamples(name string, samples []float64, unit, better string) {
	m, _ := stats.Summarize(samples)
	best := m.Min
	if better == "higher" {
		best = m.Max
	}
	s.Report(name, best, unit, better)
	s.out.Stats[name] = journal.NewStat(m)
	s.out.Samples = max(s.out.Samples, len(samples))
}

// Record is [State.Report] of a metric that is declared, by [Metric] or as the harness's own. It panics, which
// fails the row, for another name.
func (s *State) Record(name string, value float64) {
	m := s.declared(name)
	s.Report(name, value, m.Unit, m.Better)
}

// RecordSamples is [State.ReportSamples] of a metric that is declared.
func (s *State) RecordSamples(name string, samples []float64) {
	m := s.declared(name)
	s.ReportSamples(name, samples, m.Unit, m.Better)
}

func (s *State) declared(name string) MetricInfo {
	m, known := lists.First(slices.Concat(s.set.Metrics, speedMetrics), func(m MetricInfo) bool { return m.Name == name })
	if !known && s.set.Metrics != nil {
		panic(fmt.Sprintf("the bench records %q, which is none of the metrics that it declares", name))
	}
	return m
}

// Metric returns the value of a metric recorded so far, 0 if there is none: after
// [State.Time], time_us and what follows from it.
func (s *State) Metric(name string) float64 { return s.out.Metrics[name] }

// Interval returns the 95 % interval of a metric recorded so far; it is not known of a
// metric that is computed, or of which there are too few samples.
func (s *State) Interval(name string) (low, high float64, known bool) {
	st, has := s.out.Stats[name]
	if !has || st.CILow == nil || st.CIHigh == nil {
		return 0, 0, false
	}
	return *st.CILow, *st.CIHigh, true
}

// Limit records the least time that a call could take, in microseconds, by what
// limits it. With limits recorded before [State.Time], the row gets the metric
// pct_of_limit: the largest of them over the time.
func (s *State) Limit(name string, us float64) {
	if math.IsNaN(us) || math.IsInf(us, 0) {
		s.Warn("limit %s is %v and was left out", name, us)
		return
	}
	s.out.Limits[name] = us
}

// Detail records a fact about the row in words, such as a choice that was made.
func (s *State) Detail(name, text string) { s.out.Details[name] = text }

// Warn attaches a warning to the row.
func (s *State) Warn(format string, args ...any) {
	s.out.Warnings = append(s.out.Warnings, fmt.Sprintf(format, args...))
}

// Verify adds a check that [State.Time] makes after one call before timing, and
// again after the last timed call. A check that fails on one rank fails the row. A
// [Wrong] error counts elements. With [State.Refresh] there are more calls and checks.
func (s *State) Verify(check func() error) { s.verify = append(s.verify, check) }

// Refresh has a function make new inputs, others at each time, and spoil the outputs.
// With it a verification is four calls, each on new inputs and checked, so that no
// output can stand for one that was not written; and [State.Time] verifies between the
// samples too.
func (s *State) Refresh(f func() error) { s.refresh = f }
