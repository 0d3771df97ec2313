package run

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestRemeasure: disturbed points are measured again, the least disturbed measurement counts, and the row
// records all of them.
func TestRemeasure(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.options.Remeasure, s.options.unwatched = 2, true
	_, rows := s.run("unsteady")
	for i, want := range []struct {
		status  journal.Status
		quality journal.Quality
		us      float64
		many    int
	}{
		{journal.OK, journal.QualitySettled, 103, 3},
		{journal.OK, journal.QualityDisturbed, 0, 3},
		{journal.Failed, "", 0, 1}, // the second measurement fails, and repetition does not hide that
		{journal.OK, journal.QualitySettled, 101, 0},
	} {
		r := rows[i]
		if r.Status != want.status || r.Quality != want.quality || len(r.Measurements) != want.many {
			t.Errorf("%s: %s, %q, %d measurements, want %s, %q, %d", at(r), r.Status, r.Quality, len(r.Measurements),
				want.status, want.quality, want.many)
		}
		if want.us > 0 && math.Abs(r.Metrics["time_us"]-want.us) > 0.5 {
			t.Errorf("%s took %v us, want %v", at(r), r.Metrics["time_us"], want.us)
		}
		if r.Status == journal.OK && (r.Sampling == nil || r.Sampling.MaxSamples != 40 || r.Sampling.Stopped == "") {
			t.Errorf("%s: sampling %+v", at(r), r.Sampling)
		}
	}
	if d := rows[1].Conditions.Strongest(); d.Code != journal.CodeNoise {
		t.Errorf("%s is disturbed by %+v", at(rows[1]), d)
	}
	// The stored samples belong to the measurement that counts.
	raw, err := journal.ReadRaw(s.dir, rows[0].Raw)
	var m measure.Matrix
	if err == nil {
		err = m.UnmarshalBinary(raw)
	}
	if err != nil || slices.Max(measure.PerIterationMax(m)) > 104 {
		t.Errorf("the samples of %s are others than its row's: %v", at(rows[0]), err)
	}
}

// TestRemeasureInterrupted: an interrupt during the second measurement keeps the first.
func TestRemeasureInterrupted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.options.Remeasure, s.options.unwatched = 3, true
	gate := filepath.Join(t.TempDir(), "gate")
	s.environ = append(s.environ, "TEST_GATE="+gate)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		s.eventually("a second measurement", func() bool { _, err := os.Stat(gate); return err == nil })
		cancel()
	}()
	res, rows := s.runContext(ctx, "unsteady")
	if !res.Interrupted || len(rows) != 1 || rows[0].Quality != journal.QualityDisturbed ||
		!(rows[0].Metrics["time_us"] > 0) {
		t.Errorf("%+v, rows %+v", res, rows)
	}
}

// TestStopsAreNamed: a worker that is stopped for a moment, or a child of it, disturbs the row by name.
func TestStopsAreNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.options.unwatched = true
	_, rows := s.run("pause")
	for i, want := range []string{"", "stopped: rank 1 was stopped by a signal for about ",
		"stopped: a child process (sh) of rank 1 was stopped by a signal for about "} {
		why := rows[i].Conditions.Strongest().Sentence()
		if rows[i].Status != journal.OK || !strings.HasPrefix(why, want) ||
			want == "" && rows[i].Conditions.Has(journal.CodeStopped) {
			t.Errorf("%s: %s, disturbed by %q, want %q", at(rows[i]), rows[i].Status, why, want)
		}
	}
}
