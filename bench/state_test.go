package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// steps is a clock that only advances explicitly.
type steps struct{ now int64 }

func (c *steps) Now() int64          { return c.now }
func (c *steps) Deterministic() bool { return true }
func (c *steps) Name() string        { return "steps" }

// on runs a body on n ranks and returns the outcome of each.
func on(n int, body Body) []decl.Outcome {
	out := make([]decl.Outcome, n)
	var wg sync.WaitGroup
	for rank, g := range syncgroup.Local(n) {
		wg.Go(func() {
			s := newState(decl.Setting{Group: g, Measure: measure.Default(), Clock: &steps{}, Point: example()})
			out[rank] = s.finish(body(context.Background(), s))
		})
	}
	wg.Wait()
	return out
}

func example() point.Point {
	shape, _ := point.Parse(point.Tuple, "qkv=2x3")
	dtype, _ := point.Parse(point.DType, "bf16")
	return point.Point{{Name: "n", Value: point.IntValue(7)}, {Name: "size", Value: point.BytesValue(4096)},
		{Name: "x", Value: point.FloatValue(0.5)},
		{Name: "op", Value: point.StringValue("sum")}, {Name: "flag", Value: point.BoolValue(true)},
		{Name: "shape", Value: shape}, {Name: "dtype", Value: dtype}}
}

// takes returns a call that takes a given time on the steps clock.
func takes(s *State, us int64) func() error {
	clock := s.set.Clock.(*steps)
	return func() error { clock.now += us * 1e6; return nil }
}

func TestAccessors(t *testing.T) {
	s := newState(decl.Setting{Group: syncgroup.Local(3)[1], LocalRank: 1, Backend: "cpu", Seed: 9, Point: example()})
	got := fmt.Sprintln(s.Int("n"), s.Int("size"), s.Float("x"), s.Str("op"), s.Bool("flag"), s.Dims("shape"),
		s.DType("dtype"),
		s.Rank(), s.Size(), s.LocalRank(), s.Backend(), s.Seed())
	if want := fmt.Sprintln(7, 4096, 0.5, "sum", true, []int64{2, 3}, "bf16", 1, 3, 1, "cpu", 9); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, `reads "sise"`) || !strings.Contains(r, `"size"`) {
			t.Errorf("panic %q, want the unknown name and the existing names", r)
		}
	}()
	s.Int("sise")
}

// The status depends on the error of the body and on the recorded metrics.
func TestFinish(t *testing.T) {
	for _, c := range []struct {
		name   string
		body   Body
		status journal.Status
		reason string
	}{
		{"timed", func(ctx context.Context, s *State) error { return s.Time(ctx, takes(s, 5)) }, journal.OK, ""},
		{"reported", func(_ context.Context, s *State) error { s.Report("m", 1, "", ""); return nil }, journal.OK, ""},
		{"nothing", nothing, journal.Failed, "without recording anything"},
		{"only a NaN", func(_ context.Context, s *State) error { s.Report("m", math.NaN(), "", ""); return nil },
			journal.Failed, "without recording"},
		{"a swallowed error", func(ctx context.Context, s *State) error {
			s.Verify(func() error { return &Wrong{Count: 1} })
			_ = s.Time(ctx, takes(s, 5))
			return nil
		}, journal.Failed, "without recording"},
		{"skip", func(context.Context, *State) error { return Skip("too %s", "small") }, journal.Skipped, "too small"},
		{"wrapped skip", func(context.Context, *State) error {
			return fmt.Errorf("set-up: %w", Skip("too small"))
		}, journal.Skipped, "too small"},
		{"not executed", func(context.Context, *State) error {
			return NotExecuted(true, "needs %d GPUs", 4)
		}, journal.NotExecuted, "needs 4 GPUs"},
		{"error", func(context.Context, *State) error { return errors.New("boom") }, journal.Failed, "boom"},
		{"error after the timing", func(ctx context.Context, s *State) error {
			return errors.Join(s.Time(ctx, takes(s, 5)), errors.New("boom"))
		}, journal.Failed, "boom"},
		{"error in a call", func(ctx context.Context, s *State) error {
			return s.Time(ctx, func() error { return errors.New("boom") })
		}, journal.Failed, "boom"},
	} {
		o := on(1, c.body)[0]
		if o.Status != c.status || !strings.Contains(o.Reason, c.reason) || o.Status != journal.OK && o.Raw != nil {
			t.Errorf("%s: %s: %q", c.name, o.Status, o.Reason)
		}
	}
}

// NotExecuted marks a point as optional unless it is required.
func TestRequired(t *testing.T) {
	for _, required := range []bool{true, false} {
		o := on(1, func(context.Context, *State) error { return fmt.Errorf("here: %w", NotExecuted(required, "no GPU")) })[0]
		if o.Status != journal.NotExecuted || o.Optional == required {
			t.Errorf("required %v: %s, optional %v", required, o.Status, o.Optional)
		}
	}
}

// Samples recorded before Time keep their spread.
func TestSamplesBeforeTime(t *testing.T) {
	o := on(1, func(ctx context.Context, s *State) error {
		s.RecordSamples("own", []float64{1, 2, 3})
		return s.Time(ctx, takes(s, 100))
	})[0]
	if o.Stats["own"].Max != 3 || o.Stats["time_us"].Max != 100 || o.Metrics["own"] != 1 {
		t.Errorf("stats %v, metrics %v", o.Stats, o.Metrics)
	}
}

// Rates and bandwidths are derived from the time.
func TestRecord(t *testing.T) {
	o := on(2, func(ctx context.Context, s *State) error {
		s.Bytes(1e6)
		s.Flops(2e6)
		s.Volume("all_reduce", 1e6)
		s.Report("own", 3, "apples", "higher")
		s.Report("inf", math.Inf(1), "", "")
		s.Limit("link", 50)
		s.Limit("none", math.NaN())
		s.Warn("mind %s", "this")
		return s.Time(ctx, takes(s, int64(100*(1+s.Rank())))) // rank 1 takes 200
	})
	for rank, got := range o {
		if got.Status != journal.OK {
			t.Fatalf("rank %d: %s: %s", rank, got.Status, got.Reason)
		}
		for name, want := range map[string]float64{"time_us": 200, "gbps": 5, "tflops": 0.01, "algbw": 5, "busbw": 5,
			"own": 3} {
			if math.Abs(got.Metrics[name]-want) > 1e-9 {
				t.Errorf("rank %d: %s is %v, want %v", rank, name, got.Metrics[name], want)
			}
		}
		if _, has := got.Metrics["inf"]; has || len(got.Limits) != 1 || got.Limits["link"] != 50 || len(got.Conditions) < 3 {
			t.Errorf("rank %d: metrics %v, limits %v, warnings %q", rank, got.Metrics, got.Limits, got.Conditions.Sentences())
		}
		if got.Slowest == nil || *got.Slowest != 1 || *got.Skew != 0.5 || got.Samples != 1 || got.Clock != "steps" {
			t.Errorf("rank %d: %+v", rank, got)
		}
		if !slices.Contains(got.Infos, journal.MetricInfo{Name: "own", Unit: "apples", Better: "higher"}) {
			t.Errorf("rank %d: infos %v", rank, got.Infos)
		}
	}
}

// A row that is more than a quarter faster than its limit gets a warning.
func TestFasterThanItsLimit(t *testing.T) {
	for _, c := range []struct {
		limit  float64
		warned bool
	}{{100, false}, {124, false}, {126, true}, {400, true}} {
		o := on(1, func(ctx context.Context, s *State) error {
			s.Limit("memory", c.limit)
			return s.Time(ctx, takes(s, 100))
		})[0]
		if o.Status != journal.OK || o.Conditions.Has(journal.CodeFast) != c.warned {
			t.Errorf("100 us with a limit of %v us: %s, warnings %q", c.limit, o.Status, o.Conditions.Sentences())
		}
	}
}

// There is one call and a check before the timing and a check after it, with the preamble before
// every call.
func TestVerifyOrder(t *testing.T) {
	var story []string
	var phases []string
	s := newState(decl.Setting{Group: syncgroup.Solo(), Measure: measure.Default(), Clock: &steps{},
		Phase: func(p string) {
			phases = append(phases, p)
		}})
	s.Verify(func() error { story = append(story, "check"); return nil })
	call := takes(s, 1)
	err := s.Time(context.Background(), func() error { story = append(story, "call"); return call() },
		Preamble(func() error { story = append(story, "preamble"); return nil }))
	if o := s.finish(err); o.Status != journal.OK || o.Metrics["wrong"] != 0 {
		t.Fatalf("%+v", o)
	}
	if want := []string{"preamble", "call", "check", "preamble", "call", "check"}; !slices.Equal(story, want) {
		t.Errorf("%q, want %q", story, want)
	}
	phases = slices.Compact(phases)
	if want := []string{"verify before timing", "timed", "verify after timing"}; !slices.Equal(phases, want) {
		t.Errorf("phases %q, want %q", phases, want)
	}
}

// With Refresh, a verification of four calls happens before the timing, between the blocks of
// samples and after it. The output of the timed calls is checked too, unless they work in place.
func TestRefresh(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		var story strings.Builder
		var phases []string
		cfg := measure.Default()
		cfg.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
		cfg.Stop = measure.Stop{MinSamples: 5000, MaxSamples: 5000, MaxTime: time.Minute}
		s := newState(decl.Setting{Group: syncgroup.Solo(), Measure: cfg,
			Phase: func(p string) { phases = append(phases, p) }})
		s.Refresh(func() error { story.WriteString("new "); return nil })
		s.Verify(func() error { story.WriteString("check "); return nil })
		must.Do(t, s.Time(context.Background(), func() error { story.WriteString("."); return nil }, InPlace(inPlace)))
		// How often the samples are interrupted depends on how long they take: at least once.
		proof := `(new \.check ){4}new `
		timed := `timed check `
		if inPlace {
			timed = `timed `
		}
		got := regexp.MustCompile(`\.\.+`).ReplaceAllString(story.String(), "timed ")
		if want := `^` + proof + `(` + timed + proof + `){2,}$`; !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("in place %v: %s\nwant %s", inPlace, got, want)
		}
		if !slices.Contains(phases, "verify between samples") {
			t.Errorf("phases %q", slices.Compact(phases))
		}
	}
}

// A call that leaves its output unchanged every second time is found before the timing. If it starts
// to do so during the timing, it is found between the samples.
func TestEverySecondCallWrong(t *testing.T) {
	for _, from := range []int{0, 10, 5500} {
		calls, value, out := 0, 0, 0
		phase := ""
		cfg := measure.Default()
		cfg.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
		cfg.Stop = measure.Stop{MinSamples: 5000, MaxSamples: 5000, MaxTime: time.Minute}
		s := newState(decl.Setting{Group: syncgroup.Solo(), Measure: cfg, Phase: func(p string) { phase = p }})
		s.Refresh(func() error { value++; out = -1; return nil })
		s.Verify(func() error {
			if out != value {
				return &Wrong{Count: 1}
			}
			return nil
		})
		err := s.Time(context.Background(), func() error {
			if calls++; calls <= from || calls%2 == 1 {
				out = value
			}
			return nil
		})
		if o := s.finish(err); o.Status != journal.Failed || o.Metrics["wrong"] != 1 {
			t.Errorf("from call %d on: %s in phase %q", from, o.Status, phase)
		}
		if from == 0 && phase != "verify before timing" {
			t.Errorf("found in phase %q", phase)
		}
	}
}

// If one rank finds a wrong element, all ranks stop: that rank reports the element, and the others
// name the rank. Nothing is timed if the first verification fails.
func TestWrongOnOneRank(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		calls := make([]int, 3)
		errs := make([]error, 3)
		o := on(3, func(ctx context.Context, s *State) error {
			calm := takes(s, 1)
			s.Verify(func() error {
				if s.Rank() == 1 && (when == "before" || calls[1] > 1) {
					return &Wrong{Count: 2, Detail: "element 0"}
				}
				return nil
			})
			s.Verify(func() error {
				if s.Rank() == 1 && (when == "before" || calls[1] > 1) {
					return &Wrong{Count: 3, Detail: "element 9"}
				}
				return nil
			})
			errs[s.Rank()] = s.Time(ctx, func() error { calls[s.Rank()]++; return calm() })
			return errs[s.Rank()]
		})
		for rank, got := range o {
			if got.Status != journal.Failed || calls[rank] != map[string]int{"before": 1, "after": 2}[when] {
				t.Errorf("%s: rank %d: %s after %d calls: %s", when, rank, got.Status, calls[rank], got.Reason)
			}
			if follows := errors.Is(errs[rank], decl.ErrElsewhere); follows != (rank != 1) {
				t.Errorf("%s: rank %d: %v", when, rank, errs[rank])
			}
			if _, timed := got.Metrics["time_us"]; timed {
				t.Errorf("%s: rank %d has a time for wrong results", when, rank)
			}
		}
		if o[1].Metrics["wrong"] != 5 || o[1].Reason != "2 wrong elements, first: element 0" ||
			!strings.Contains(o[0].Reason, "rank 1") {
			t.Errorf("%s: %v %q; rank 0 says %q", when, o[1].Metrics, o[1].Reason, o[0].Reason)
		}
	}
}

// A check that fails with another error than Wrong also fails all ranks.
func TestCheckWithoutCount(t *testing.T) {
	o := on(2, func(ctx context.Context, s *State) error {
		s.Verify(func() error {
			if s.Rank() == 0 {
				return errors.New("cannot tell")
			}
			return nil
		})
		return s.Time(ctx, takes(s, 1))
	})
	if o[0].Status != journal.Failed || o[0].Reason != "cannot tell" || o[1].Status != journal.Failed {
		t.Errorf("%+v", o)
	}
}

// Record uses the declared unit of a metric and rejects other names. Without declarations, as in a
// test of a body, it accepts any name.
func TestDeclared(t *testing.T) {
	declared := []journal.MetricInfo{{Name: "cells", Unit: "cells", Better: "higher"}, {Name: "wrong"}}
	s := newState(decl.Setting{Metrics: declared})
	s.Record("cells", 3)
	s.RecordSamples("time_us", []float64{2, 1})
	o := s.finish(nil)
	if o.Metrics["cells"] != 3 || o.Metrics["time_us"] != 1 || len(o.Infos) != 2 || o.Infos[0] != declared[0] ||
		o.Infos[1].Unit != decl.SpeedMetrics[0].Unit {
		t.Errorf("%v, %v", o.Metrics, o.Infos)
	}
	refused := func(set decl.Setting) (panicked bool) {
		defer func() { panicked = recover() != nil }()
		newState(set).Record("cell", 3)
		return false
	}
	if !refused(decl.Setting{Metrics: declared}) || refused(decl.Setting{}) {
		t.Error("a name that is not declared passes, or one where nothing is does not")
	}
}

// All ranks get all values in order, also numbers that JSON lacks, or an error if a rank sends something else.
func TestGather(t *testing.T) {
	for _, other := range []bool{false, true} {
		on(3, func(ctx context.Context, s *State) error {
			if other && s.Rank() == 0 {
				_, err := Gather(ctx, s, "another call")
				return err
			}
			all, err := Gather(ctx, s, []float64{float64(s.Rank()), math.Inf(-1)})
			if !other && fmt.Sprint(all, err) != "[[0 -Inf] [1 -Inf] [2 -Inf]] <nil>" || other && err == nil {
				t.Errorf("rank %d gets %v, %v", s.Rank(), all, err)
			}
			return nil
		})
	}
}

// A deterministic clock makes simulated rows.
func TestSimulated(t *testing.T) {
	s := newState(decl.Setting{Group: syncgroup.Solo(), Measure: measure.Default()})
	clock := &steps{}
	s.UseClock(clock)
	err := s.Time(context.Background(), func() error { clock.now += 3e6; return nil })
	o := s.finish(err)
	if o.Kind != journal.Simulated || o.Metrics["time_us"] != 3 || o.Stats["time_us"].CILow != nil {
		t.Errorf("%+v", o)
	}
	s.Kind(journal.Modelled)
	if o := s.finish(nil); o.Kind != journal.Modelled {
		t.Errorf("kind %s", o.Kind)
	}
}

// A file that changes during a run fails its rows, which would otherwise belong to other content.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("as planned")))
	for _, c := range []struct {
		value  Value
		inputs map[string]string
		text   string
		fault  string
	}{
		{point.StringValue(""), nil, "", ""},
		{point.StringValue(BuiltIn), nil, "", ""},
		{point.StringValue(path), map[string]string{"f": sum}, "as planned", ""},
		{point.StringValue(path), map[string]string{"f": sum}, "as edited", "has changed since the run was planned"},
		{point.FileValue(path, sum), nil, "as planned", ""},
		{point.FileValue(path, sum), nil, "as edited", "has changed since the run was planned"},
		{point.StringValue(path + "x"), nil, "", "no such file"},
	} {
		must.Do(t, os.WriteFile(path, []byte(c.text), 0o600))
		s := newState(decl.Setting{Point: point.Point{{Name: "f", Value: c.value}}, Inputs: c.inputs})
		_, data, err := s.File("f")
		if c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) ||
			c.fault == "" && (err != nil || string(data) != c.text) {
			t.Errorf("%v with %q: %q, %v", c.value, c.text, data, err)
		}
	}
}

// The value of a metric with several samples is the best of them.
func TestRecordSamples(t *testing.T) {
	s := newState(decl.Setting{Metrics: []journal.MetricInfo{{Name: "low", Better: "lower"},
		{Name: "high", Better: "higher"}}})
	s.RecordSamples("low", []float64{3, 1, 2})
	s.RecordSamples("high", []float64{3, 1, 2})
	o := s.finish(nil)
	if o.Metrics["low"] != 1 || o.Metrics["high"] != 3 || o.Samples != 3 || o.Stats["low"].Max != 3 ||
		o.Stats["low"].P50 != 2 {
		t.Errorf("%+v", o)
	}
}
