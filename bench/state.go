package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/base/stats"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Setting is what a State is made from: the point, this rank's place in the
// launch, and how to measure. The worker fills it in.
type Setting struct {
	Point     point.Point // axes and options, one name space
	Group     syncgroup.Group
	LocalRank int
	Backend   string
	Session   string // of the launch: random, the same on every rank
	Trial     int
	Seed      uint64
	Measure   measure.Config
	Clock     measure.Clock
	// Phase is told what the rank is doing, for heartbeats and failed rows.
	Phase func(phase string)
}

// State is the body's view of its point: the values to use, the rank it is,
// and what it has to report.
type State struct {
	set    Setting
	verify []func() error
	out    Outcome
	volume *volume
	flops  float64
	bytes  float64
}

type volume struct {
	op    string
	bytes int64
}

// Outcome is what one rank found at one point. Rank 0's numbers make the row;
// the other ranks contribute warnings and failures.
type Outcome struct {
	Status   journal.Status          `json:"status"`
	Reason   string                  `json:"reason,omitempty"`
	Phase    string                  `json:"phase,omitempty"`
	Optional bool                    `json:"optional,omitempty"` // of a row that was not executed
	Kind     journal.Kind            `json:"kind"`
	Clock    string                  `json:"clock,omitempty"`
	Cadence  string                  `json:"cadence,omitempty"`
	Cache    string                  `json:"cache,omitempty"`
	Samples  int                     `json:"samples"`
	Batch    int                     `json:"batch,omitempty"`
	Metrics  map[string]float64      `json:"metrics,omitempty"`
	Infos    []journal.MetricInfo    `json:"infos,omitempty"`
	Stats    map[string]journal.Stat `json:"stats,omitempty"`
	Limits   map[string]float64      `json:"limits,omitempty"`
	Skew     *float64                `json:"skew,omitempty"`
	Slowest  *int                    `json:"straggler,omitempty"`
	Details  map[string]string       `json:"details,omitempty"`
	Warnings []string                `json:"warnings,omitempty"`
	Raw      []byte                  `json:"raw,omitempty"` // measure.Matrix
}

// skipError is how a body leaves a point out.
type skipError struct{ reason string }

func (e *skipError) Error() string { return "skipped: " + e.reason }

// Skip is returned by a body whose point does not apply; the row is skipped
// with this reason. All ranks must come to the same answer.
func Skip(format string, args ...any) error {
	return &skipError{fmt.Sprintf(format, args...)}
}

// missingError is how a body says that its point cannot be run here.
type missingError struct {
	reason   string
	required bool
}

func (e *missingError) Error() string { return "not executed: " + e.reason }

// NotExecuted is returned by a body whose point should run but cannot here,
// because the backend or the machine lacks something; the reason says what it
// needs. A required point that did not execute fails the run, another is only
// counted. All ranks must come to the same answer.
func NotExecuted(required bool, format string, args ...any) error {
	return &missingError{fmt.Sprintf(format, args...), required}
}

// Wrong is the error of a verification that found wrong elements. The count
// becomes the row's metric "wrong".
type Wrong struct {
	Count  int64
	Detail string // the first one: where, have, want
}

func (e *Wrong) Error() string { return fmt.Sprintf("%d wrong elements, first: %s", e.Count, e.Detail) }

// NewState prepares a body's view of a point.
func NewState(set Setting) *State {
	if set.Clock == nil {
		set.Clock = measure.Monotonic()
	}
	if set.Phase == nil {
		set.Phase = func(string) {}
	}
	return &State{set: set, out: Outcome{Kind: journal.Measured, Metrics: map[string]float64{}}}
}

// Value returns an axis' or option's value. A name that was not declared is a
// mistake in the bench and panics, which fails the row with the stack.
func (s *State) Value(name string) point.Value {
	if v, ok := s.set.Point.Get(name); ok {
		return v
	}
	var names []string
	for _, c := range s.set.Point {
		names = append(names, c.Name)
	}
	panic(fmt.Sprintf("the bench reads %q, which is neither one of its axes nor one of its options %q", name, names))
}

// Int is the value of an integer or byte-size axis or option.
func (s *State) Int(name string) int { return int(s.Value(name).Int()) }

// Float is the value of a numeric axis or option.
func (s *State) Float(name string) float64 { return s.Value(name).Float() }

// Str is the text of any axis or option.
func (s *State) Str(name string) string { return s.Value(name).String() }

// Bool is the value of a truth axis or option.
func (s *State) Bool(name string) bool { return s.Value(name).Bool() }

// Dims are the numbers of a tuple axis or option.
func (s *State) Dims(name string) []int64 { return s.Value(name).Dims() }

// DType is the value of an element-type axis or option.
func (s *State) DType(name string) dtype.DType {
	d, err := dtype.Parse(s.Value(name).String())
	if err != nil {
		panic(err)
	}
	return d
}

// Rank is this process' number, Size the number of ranks, LocalRank the number
// among the ranks of this host.
func (s *State) Rank() int      { return s.set.Group.Rank() }
func (s *State) Size() int      { return s.set.Group.Size() }
func (s *State) LocalRank() int { return s.set.LocalRank }

// Backend names what the point runs on.
func (s *State) Backend() string { return s.set.Backend }

// Session names this launch: a random text, the same on every rank and on no
// rank of another launch, for what ranks must find each other by.
func (s *State) Session() string { return s.set.Session }

// Seed is the run's seed, the same on every rank.
func (s *State) Seed() uint64 { return s.set.Seed }

// Group is the harness's own channel between the ranks, for untimed set-up.
func (s *State) Group() syncgroup.Group { return s.set.Group }

// Barrier meets all ranks over the harness's own channel, for untimed set-up.
func (s *State) Barrier(ctx context.Context) error { return s.set.Group.Barrier(ctx) }

// Phase names what the rank does now; a failed row shows the last one.
func (s *State) Phase(name string) { s.set.Phase(name) }

// UseClock times with another clock: a simulated one gives simulated rows.
func (s *State) UseClock(c measure.Clock) {
	s.set.Clock = c
	if c.Deterministic() {
		s.out.Kind = journal.Simulated
	}
}

// Sampling is how State.Time will sample; a body may change it before the
// call, alike on every rank (a cadence that is an axis, say).
func (s *State) Sampling() *measure.Config { return &s.set.Measure }

// SampleAtMost bounds the time that State.Time spends on sampling. One sample is
// taken in any case.
func (s *State) SampleAtMost(seconds float64) {
	stop := &s.set.Measure.Stop
	stop.MaxTime = time.Duration(seconds * float64(time.Second))
	stop.MinTime = min(stop.MinTime, stop.MaxTime)
}

// Kind labels the row's numbers when they are not measured.
func (s *State) Kind(k journal.Kind) { s.out.Kind = k }

// Bytes declares how many bytes one call moves: the row gets `gbps`.
func (s *State) Bytes(n int64) { s.bytes = float64(n) }

// Flops declares how many floating-point operations one call makes: the row
// gets `tflops`.
func (s *State) Flops(n float64) { s.flops = n }

// Volume declares a collective and its size in bytes as nccl-tests counts it:
// the row gets `algbw` and `busbw`.
func (s *State) Volume(op string, bytes int64) { s.volume = &volume{op, bytes} }

// Report records a metric of the body's own. Better is "lower", "higher" or "".
func (s *State) Report(name string, value float64, unit, better string) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		s.Warn("%s is %v and was left out", name, value)
		return
	}
	s.out.Metrics[name] = value
	s.describe(name, unit, better)
}

// ReportSamples records a metric of which the body took several samples itself:
// its value is the best of them, and the row keeps their spread.
func (s *State) ReportSamples(name string, samples []float64, unit, better string) {
	m, _ := stats.Summarize(samples)
	best := m.Min
	if better == "higher" {
		best = m.Max
	}
	s.Report(name, best, unit, better)
	if s.out.Stats == nil {
		s.out.Stats = map[string]journal.Stat{}
	}
	s.out.Stats[name] = Stat(m)
	s.out.Samples = max(s.out.Samples, len(samples))
}

// Metric is the value of a metric recorded so far, 0 if there is none: after
// State.Time, time_us and what follows from it.
func (s *State) Metric(name string) float64 { return s.out.Metrics[name] }

// Limit records a named bound to compare the time with, in microseconds. With
// limits known before State.Time, the row gets `pct_of_limit`: the largest of
// them over the time.
func (s *State) Limit(name string, us float64) {
	if math.IsNaN(us) || math.IsInf(us, 0) {
		s.Warn("limit %s is %v and was left out", name, us)
		return
	}
	if s.out.Limits == nil {
		s.out.Limits = map[string]float64{}
	}
	s.out.Limits[name] = us
}

// Detail records something about the row in words, such as a choice that was
// made for it.
func (s *State) Detail(name, text string) {
	if s.out.Details == nil {
		s.out.Details = map[string]string{}
	}
	s.out.Details[name] = text
}

// Warn attaches a remark to the row.
func (s *State) Warn(format string, args ...any) {
	s.out.Warnings = append(s.out.Warnings, fmt.Sprintf(format, args...))
}

// Verify adds a check that State.Time makes after one call before timing and
// again after the last timed call. A Wrong error counts elements.
func (s *State) Verify(check func() error) { s.verify = append(s.verify, check) }

func (s *State) describe(name, unit, better string) {
	if !slices.ContainsFunc(s.out.Infos, func(m journal.MetricInfo) bool { return m.Name == name }) {
		s.out.Infos = append(s.out.Infos, journal.MetricInfo{Name: name, Unit: unit, Better: better})
	}
}

// Timing adjusts one State.Time.
type Timing func(*measure.Body)

// Preamble runs before each call, outside the timed part.
func Preamble(f func() error) Timing { return func(b *measure.Body) { b.Preamble = f } }

// Time measures call on all ranks together: verified once, warmed up, sampled
// until the noise has settled, verified again. It records `time_us` and what
// follows from it.
func (s *State) Time(ctx context.Context, call func() error, timings ...Timing) error {
	body := measure.Body{Call: call}
	for _, t := range timings {
		t(&body)
	}
	if err := s.check(ctx, body, "verify before timing"); err != nil {
		return err
	}
	cfg := s.set.Measure
	cfg.Progress = func(phase string, _ int) { s.set.Phase(phase) }
	first := "warmup"
	if s.set.Clock.Deterministic() { // which needs none
		first = "timed"
	}
	s.set.Phase(first)
	res, err := measure.Run(ctx, cfg, s.set.Clock, s.set.Group, body)
	if err != nil {
		return err
	}
	if err := s.check(ctx, measure.Body{}, "verify after timing"); err != nil {
		return err
	}
	s.record(res)
	return nil
}

// check makes one call, if there is one, and all verifications. Every rank
// arrives before any checks, since a check may look at data others still write.
func (s *State) check(ctx context.Context, one measure.Body, phase string) error {
	if len(s.verify) == 0 {
		return nil
	}
	s.set.Phase(phase)
	if one.Preamble != nil {
		if err := one.Preamble(); err != nil {
			return fmt.Errorf("preamble: %w", err)
		}
	}
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	if one.Call != nil {
		if err := one.Call(); err != nil {
			return err
		}
	}
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	var wrong int64
	var first error
	for _, v := range s.verify {
		err := v()
		var w *Wrong
		if errors.As(err, &w) {
			wrong += w.Count
		}
		if first == nil {
			first = err
		}
	}
	s.Report("wrong", float64(wrong), "", "lower")
	// A rank that found nothing must not go on to time what another found
	// wrong, so the ranks agree on the verdict.
	mine := []int64{wrong}
	if first != nil {
		mine[0] = max(wrong, 1)
	}
	all, err := s.set.Group.Exchange(ctx, mine)
	if first != nil { // whatever another rank has made of it meanwhile
		return first // the row says in which phase
	}
	if err != nil {
		return err
	}
	for rank, w := range all {
		if w[0] != 0 {
			return fmt.Errorf("rank %d: %w", rank, ErrElsewhere)
		}
	}
	return nil
}

// ErrElsewhere marks a failure that another rank explains better.
var ErrElsewhere = errors.New("the verification failed there")

// record turns samples into the row's metrics.
func (s *State) record(res *measure.Result) {
	o := &s.out
	o.Clock, o.Cadence, o.Cache = res.Clock, string(res.Cadence), string(res.Cache)
	o.Batch, o.Samples = res.Batch, res.Samples.Iterations()
	o.Warnings = append(o.Warnings, res.Warnings...)
	a := measure.Analyze(res.Samples)
	o.Warnings = append(o.Warnings, a.Warnings...)
	us := a.Summary.P50
	o.Metrics["time_us"] = us
	s.describe("time_us", "us", "lower")
	o.Stats = map[string]journal.Stat{"time_us": Stat(a.Summary)}
	if s.Size() > 1 {
		o.Skew, o.Slowest = &a.Skew, &a.Straggler
	}
	if us > 0 {
		if s.bytes > 0 {
			o.Metrics["gbps"] = s.bytes / us / 1e3
			s.describe("gbps", "GB/s", "higher")
		}
		if s.flops > 0 {
			o.Metrics["tflops"] = s.flops / us / 1e6
			s.describe("tflops", "TFLOP/s", "higher")
		}
		if v := s.volume; v != nil {
			o.Metrics["algbw"] = bandwidth.Alg(v.bytes, us)
			s.describe("algbw", "GB/s", "higher")
			if bus, ok := bandwidth.Bus(v.op, s.Size(), v.bytes, us); ok {
				o.Metrics["busbw"] = bus
				s.describe("busbw", "GB/s", "higher")
			}
		}
	}
	if most := largest(o.Limits); us > 0 && most > 0 {
		o.Metrics[LimitMetric] = 100 * most / us
		s.describe(LimitMetric, "%", "higher")
	}
	// Rank 0 records; the others have the same matrix and keep it to themselves.
	if s.Rank() == 0 && o.Samples > 1 {
		if raw, err := res.Samples.MarshalBinary(); err == nil {
			o.Raw = raw
		}
	}
}

// largest is the greatest value of the map, 0 when there is none.
func largest(m map[string]float64) (most float64) {
	for _, v := range m {
		most = max(most, v)
	}
	return most
}

// Stat is a summary in the journal's form: an interval that could not be had
// is left out.
func Stat(m stats.Summary) journal.Stat {
	st := journal.Stat{Min: m.Min, P50: m.P50, P90: m.P90, P99: m.P99, Max: m.Max, Mean: m.Mean}
	if !math.IsNaN(m.CILow) && !math.IsNaN(m.CIHigh) {
		st.CILow, st.CIHigh = &m.CILow, &m.CIHigh
	}
	return st
}

// Finish is called by the worker when the body has returned: it settles what
// this rank reports.
func (s *State) Finish(err error) Outcome {
	o := s.out
	var skip *skipError
	var missing *missingError
	switch {
	case errors.As(err, &skip):
		o.Status, o.Reason = journal.Skipped, skip.reason
	case errors.As(err, &missing):
		o.Status, o.Reason, o.Optional = journal.NotExecuted, missing.reason, !missing.required
	case err != nil:
		o.Status, o.Reason = journal.Failed, err.Error()
		var call *measure.CallError
		if errors.As(err, &call) && call.Stack != nil {
			o.Reason += "\n" + string(call.Stack)
		}
	case len(o.Metrics) == 0 || len(o.Metrics) == 1 && o.Samples == 0 && hasOnly(o.Metrics, "wrong"):
		o.Status = journal.Failed
		o.Reason = "the body returned without recording anything: call State.Time or State.Report, or return Skip"
	default:
		o.Status = journal.OK
	}
	if o.Status != journal.OK {
		o.Raw = nil
	}
	return o
}

func hasOnly(m map[string]float64, name string) bool {
	_, ok := m[name]
	return ok && len(m) == 1
}
