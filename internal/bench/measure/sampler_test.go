package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/clock"
)

// A program that times itself returns blocks of samples. The error of its clock is subtracted as from
// other samples.
func TestSamplesTakenElsewhere(t *testing.T) {
	for _, cadence := range []Cadence{Streaming, Isolated} {
		cfg := Default()
		cfg.Cadence, cfg.Stop.MaxSamples = cadence, 50
		ranks := each(2, cfg, 0)
		most := 0
		for i, r := range ranks {
			r.clock.reading = 7
			r.body.Sample = func(batch int, samples []int64) error {
				if i == 0 {
					most = max(most, len(samples))
				}
				for k := range samples {
					samples[k] = int64(batch)*int64(i+1)*1e6 + 7
					r.clock.now += samples[k]
				}
				return nil
			}
		}
		results, errs := runAll(hang(t), ranks, nil)
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", cadence, err)
		}
		for i := range results[0].Samples.Iterations() {
			if a, b := results[0].Samples.At(i, 0), results[0].Samples.At(i, 1); a != 1e6 || b != 2e6 {
				t.Fatalf("%s: sample %d is %d on rank 0 and %d on rank 1", cadence, i, a, b)
			}
		}
		if (most == 1) != (cadence == Isolated) {
			t.Errorf("%s: blocks of up to %d samples", cadence, most)
		}
	}
}

// With isolated cadence, the ranks meet between the program's preamble and its call.
func TestPreambleElsewhere(t *testing.T) {
	cfg := Default()
	cfg.Cadence, cfg.Stop.MaxSamples = Isolated, 20
	ranks := each(1, cfg, 0)
	var c *counting
	met := int32(-1)
	ranks[0].body.Preamble = func() error { met = c.barriers.Load(); return nil }
	ranks[0].body.Sample = func(_ int, samples []int64) error {
		if c.barriers.Load() != met+1 {
			t.Errorf("%d barriers after a preamble", c.barriers.Load()-met)
		}
		met, samples[0] = -1, 1e6
		return nil
	}
	_, errs := runAll(hang(t), ranks, func(g syncgroup.Group) syncgroup.Group {
		c = &counting{Group: g}
		return c
	})
	if errs[0] != nil {
		t.Error(errs[0])
	}
}

// A failure of such a program is a failure of the call. A cold cache is an error, unless the program
// flushes it.
func TestFailuresElsewhere(t *testing.T) {
	lost := errors.New("the process ended")
	ranks := each(1, Default(), 0)
	ranks[0].body.Sample = func(int, []int64) error { return lost }
	_, errs := runAll(hang(t), ranks, nil)
	var call *CallError
	if !errors.As(errs[0], &call) || !errors.Is(errs[0], lost) {
		t.Errorf("error %v", errs[0])
	}
	ranks[0].cfg.Cache = Cold
	if _, errs := runAll(hang(t), ranks, nil); errs[0] == nil ||
		!strings.Contains(errs[0].Error(), "does not flush them") {
		t.Errorf("cold: error %v", errs[0])
	}
	ranks[0].body.Cold = true
	ranks[0].body.Sample = func(batch int, samples []int64) error {
		if batch != 1 {
			return fmt.Errorf("%d calls after one flush", batch)
		}
		for i := range samples {
			samples[i] = 1000
		}
		return nil
	}
	if results, errs := runAll(hang(t), ranks, nil); errs[0] != nil || results[0].Cache != Cold ||
		results[0].ColdBytes != 0 {
		t.Errorf("flushed by the program: %v, %+v", errs[0], results[0])
	}
}

// Between runs after blocks 1, 2 and 4 but not after the last one, and the call after it is not
// sampled. Neither takes sampling time, and an error of either ends the run.
func TestPauses(t *testing.T) {
	broken := errors.New("link down")
	for _, failing := range []string{"", "between", "call"} {
		ranks := each(1, Default(), 1e9)
		r, call := ranks[0], ranks[0].body.Call
		calls, pauses := 0, []int(nil)
		r.body.Call = func() error {
			if calls++; calls == 24 && failing == "call" { // the first call after a pause
				return broken
			}
			return call()
		}
		r.body.Between = func() error {
			r.clock.now += 1e12
			if pauses = append(pauses, calls); failing == "between" {
				return broken
			}
			return nil
		}
		if failing != "" {
			if _, errs := runAll(hang(t), ranks, nil); !errors.Is(errs[0], broken) {
				t.Errorf("an error of %s gives %v", failing, errs[0])
			}
			continue
		}
		got := succeed(t, ranks)
		// Three calls of warm-up, five blocks of 20, and a call after each pause.
		if want := []int{23, 44, 85}; !slices.Equal(pauses, want) || calls != 106 {
			t.Errorf("paused after %v of %d calls, want after %v of 106", pauses, calls, want)
		}
		if got.Samples.Iterations() != 100 || got.Elapsed != 100*time.Millisecond {
			t.Errorf("%d samples in %v: pauses count", got.Samples.Iterations(), got.Elapsed)
		}
	}
}

// brokenBarrier is a group whose later barriers fail, although everything else works.
type brokenBarrier struct {
	syncgroup.Group
	left int
}

var errBarrier = errors.New("the barrier broke")

func (b *brokenBarrier) Barrier(ctx context.Context) error {
	if b.left--; b.left < 0 {
		return errBarrier
	}
	return b.Group.Barrier(ctx)
}

// TestFailedBarrierIsAnError checks that samples which the ranks did not start together are never taken.
func TestFailedBarrierIsAnError(t *testing.T) {
	for _, cadence := range []Cadence{Streaming, Isolated} {
		for _, elsewhere := range []bool{false, true} {
			for good := range 6 {
				cfg := Default()
				cfg.Cadence = cadence
				ranks := each(1, cfg, 1e9)
				if elsewhere {
					ranks[0].body.Sample = func(_ int, samples []int64) error {
						ranks[0].clock.now += int64(len(samples)) * 1e9
						for i := range samples {
							samples[i] = 1e9
						}
						return nil
					}
				}
				_, errs := runAll(hang(t), ranks, func(g syncgroup.Group) syncgroup.Group {
					return &brokenBarrier{g, good}
				})
				if !errors.Is(errs[0], errBarrier) {
					t.Errorf("%s, samples taken elsewhere %v, after %d barriers: %v", cadence, elsewhere, good, errs[0])
				}
			}
		}
	}
}

// A sample that the body takes itself is the time of one call: of a batch, without the overhead of the clock.
func TestSamplesOfTheBody(t *testing.T) {
	for _, isolated := range []bool{false, true} {
		s := &sampler{watch: stopwatch{calibration: clock.Calibration{Overhead: 7}}, group: syncgroup.Local(1)[0],
			batch: 5, isolated: isolated, body: Body{Sample: func(batch int, samples []int64) error {
				for i := range samples {
					samples[i] = int64(batch)*100 + 7
				}
				return nil
			}}}
		samples := []int64{0, 0, 0}
		if err := s.loop(hang(t), samples); err != nil || !slices.Equal(samples, []int64{100, 100, 100}) {
			t.Errorf("isolated %v: %v, %v", isolated, samples, err)
		}
	}
}
