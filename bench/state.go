package bench

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// State gives a body its point and its rank, and collects its results. It must be used by one
// goroutine only.
type State struct {
	set     decl.Setting
	verify  []func() error
	refresh func() error
	out     decl.Outcome
	flops   float64 // per call, 0 if not declared
	bytes   float64 // per call, 0 if not declared
	// collective and volume are the arguments of [State.Volume]; collective is "" if it was not called.
	collective string
	volume     int64 // bytes
}

// Value returns the value of an axis or option. It panics if the name was not declared, and the
// row fails. Int, Float, Str, Bool, Dims and DType do the same.
func (s *State) Value(name string) Value {
	if v, ok := s.set.Point.Get(name); ok {
		return v
	}
	names := lists.Map(s.set.Point, func(c point.Coord) string { return c.Name })
	panic(fmt.Sprintf("the bench reads %q, which is neither one of its axes nor one of its options %q", name, names))
}

// Point returns the values of all axes and options.
func (s *State) Point() Point { return slices.Clone(s.set.Point) }

// Int returns the value of an axis or option of whole numbers or byte sizes.
func (s *State) Int(name string) int { return int(s.Value(name).Int()) }

// Float returns the value of a numeric axis or option.
func (s *State) Float(name string) float64 { return s.Value(name).Float() }

// Str returns the value of any axis or option as text.
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

// Size returns the number of ranks. On a backend with virtual ranks (dist.Description), only rank 0
// executes the body.
func (s *State) Size() int { return max(s.set.Ranks, s.set.Group.Size()) }

// LocalRank returns the number of this rank among the ranks of its host.
func (s *State) LocalRank() int { return s.set.LocalRank }

// Backend returns the name of the backend, such as "cpu".
func (s *State) Backend() string { return s.set.Backend }

// Session returns a random text that is the same on all ranks of a launch and different in
// every launch. Ranks use it in names of shared resources, to find each other.
func (s *State) Session() string { return s.set.Session }

// Seed returns the run's seed, the same on every rank.
func (s *State) Seed() uint64 { return s.set.Seed }

// Barrier waits for all ranks, through a connection of the harness that is independent of the backend under test.
func (s *State) Barrier(ctx context.Context) error { return s.set.Group.Barrier(ctx) }

// Exchange returns the data of every rank, in rank order (an all-gather over the same connection). It
// serves as dist.Config's Exchange, by which ranks on several hosts join a process group.
func (s *State) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	return s.set.Group.Exchange(ctx, mine)
}

// Gather returns the value of every rank, in rank order. All ranks must call it at the same point of the body. Fields
// that are sent must be exported.
func Gather[T any](ctx context.Context, s *State, mine T) ([]T, error) {
	var sent bytes.Buffer
	if err := gob.NewEncoder(&sent).Encode(&mine); err != nil { // unlike JSON it has NaN
		return nil, fmt.Errorf("sending to the other ranks: %w", err)
	}
	all, err := s.Exchange(ctx, sent.Bytes())
	if err != nil {
		return nil, err
	}
	return lists.TryMap(all, func(received []byte) (value T, err error) {
		return value, gob.NewDecoder(bytes.NewReader(received)).Decode(&value)
	})
}

// Phase names the current activity of this rank. A failed row shows the last phase.
func (s *State) Phase(name string) { s.set.Phase(name) }

// UseClock replaces the clock of [State.Time]. A deterministic clock makes the row simulated,
// and a single sample is enough. The simulated accelerator's clock also records a profile of the
// last call: web pages show its link loads and critical path.
func (s *State) UseClock(c Clock) {
	s.set.Clock = c
	if p, ok := c.(profiler); ok {
		p.StartProfile()
	}
	if c.Deterministic() {
		s.out.Kind = journal.Simulated
	}
}

// profiler is a [Clock] that can profile calls.
type profiler interface {
	// StartProfile enables profiling. It comes before the timed calls.
	StartProfile()
	// Profile returns the profile of the last call, encoded by package profile, or nil if there is none.
	Profile() ([]byte, error)
}

// Sampling returns the configuration of [State.Time]. A body may change it before the call, for
// example if the cadence is an axis. All ranks must make the same change.
func (s *State) Sampling() *Config { return &s.set.Measure }

// SampleAtMost limits the time that [State.Time] spends on sampling. At least one sample is
// taken.
func (s *State) SampleAtMost(seconds float64) {
	stop := &s.set.Measure.Stop
	stop.MaxTime = time.Duration(seconds * float64(time.Second))
	stop.MinTime = min(stop.MinTime, stop.MaxTime)
}

// Kind declares that the row's numbers are not measured but [Simulated] or [Modelled].
func (s *State) Kind(k RowKind) { s.out.Kind = k }

// Bytes declares how many bytes one call moves. The row gets the metric gbps.
func (s *State) Bytes(n int64) { s.bytes = float64(n) }

// Flops declares how many floating-point operations one call executes. The row gets the metric
// tflops.
func (s *State) Flops(n float64) { s.flops = n }

// Volume declares that a call is the collective op on a number of bytes, counted as nccl-tests
// does. The row gets the metrics algbw and busbw.
func (s *State) Volume(op string, bytes int64) { s.collective, s.volume = op, bytes }

// Report records a metric that the bench does not declare. Better is "lower", "higher" or "". A
// value that is not finite is replaced by a warning.
func (s *State) Report(name string, value float64, unit, better string) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		s.leaveOut(name, value)
		return
	}
	s.out.Metrics[name] = value
	if !slices.ContainsFunc(s.out.Infos, func(m journal.MetricInfo) bool { return m.Name == name }) {
		s.out.Infos = append(s.out.Infos, journal.MetricInfo{Name: name, Unit: unit, Better: better})
	}
}

// Record records a metric that the bench declares by [Metric], or one that the harness knows. It
// panics for any other name, and the row fails.
func (s *State) Record(name string, value float64) {
	m := s.declared(name)
	s.Report(name, value, m.Unit, m.Better)
}

// RecordSamples records a declared metric from several samples that the body took itself. The
// metric's value is the best sample, and the row keeps their spread.
func (s *State) RecordSamples(name string, samples []float64) {
	m := stats.SummarizeSeries(samples)
	best := m.Min
	if s.declared(name).Better == "higher" {
		best = m.Max
	}
	s.Record(name, best)
	s.out.Stats[name] = journal.NewStat(m)
	s.out.Samples = max(s.out.Samples, len(samples))
}

// declared returns the declaration of a metric. It panics if the bench does not declare the metric. A test
// that sets no Metrics may record any name.
func (s *State) declared(name string) journal.MetricInfo {
	m, known := lists.First(slices.Concat(s.set.Metrics, decl.SpeedMetrics),
		func(m journal.MetricInfo) bool { return m.Name == name })
	if !known && s.set.Metrics != nil {
		panic(fmt.Sprintf("the bench records the metric %q, which it does not declare", name))
	}
	return m
}

// Metric returns the value of a metric recorded so far, or 0. After [State.Time] these include
// time_us and the rates derived from it.
func (s *State) Metric(name string) float64 { return s.out.Metrics[name] }

// Samples returns how many samples the last call of [State.Time] took.
func (s *State) Samples() int { return s.out.Samples }

// Interval returns the 95 % confidence interval of a metric recorded so far. It is unknown for
// derived metrics and for metrics with too few samples.
func (s *State) Interval(name string) (low, high float64, known bool) {
	st, has := s.out.Stats[name]
	if !has || st.CILow == nil || st.CIHigh == nil {
		return 0, 0, false
	}
	return *st.CILow, *st.CIHigh, true
}

// Limit records a lower bound on the time of a call, in microseconds, under the name of the
// limiting resource. If limits are recorded before [State.Time], the row gets the metric
// pct_of_limit: the largest limit divided by the time.
func (s *State) Limit(name string, us float64) {
	if math.IsNaN(us) || math.IsInf(us, 0) {
		s.leaveOut("limit "+name, us)
		return
	}
	s.out.Limits[name] = us
}

// leaveOut records that a number is not recorded because it is infinite or NaN.
func (s *State) leaveOut(name string, v float64) {
	s.note(journal.NewCondition(journal.CodeNotFinite, nil, fmt.Sprintf("%s is %v", name, v)))
}

// Detail records a fact about the row as text, such as the algorithm that was chosen.
func (s *State) Detail(name, text string) { s.out.Details[name] = text }

// Warn attaches a warning to the row. Its text is shown, and nothing is decided by it.
func (s *State) Warn(format string, args ...any) { s.note(journal.Remarkf(format, args...)) }

// Condition attaches a fact about the measurement to the row: a code of docs/journal-schema.md, its values and, for
// some codes, a name. Programs decide by it, and views show it as a sentence.
func (s *State) Condition(code string, values map[string]float64, name ...string) {
	s.note(journal.NewCondition(journal.Code(code), values, strings.Join(name, " ")))
}

func (s *State) note(c journal.Condition) { s.out.Conditions = append(s.out.Conditions, c) }

// Verify adds a check of the result. [State.Time] runs it after one call before timing, and
// again after the last timed call. If a check fails on one rank, the row fails. A [Wrong] error
// counts the wrong elements.
func (s *State) Verify(check func() error) { s.verify = append(s.verify, check) }

// Refresh sets a function that writes new inputs, different each time, and overwrites the
// outputs with garbage. Each verification then makes four calls, each on fresh inputs, so that
// stale output cannot pass for a result. [State.Time] also verifies between the samples.
func (s *State) Refresh(f func() error) { s.refresh = f }
