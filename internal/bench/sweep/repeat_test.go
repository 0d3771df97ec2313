package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
)

// The reference's example of prepare, setup, cleanup, warmup and until is valid.
func TestDocumentedRepetition(t *testing.T) {
	c := mustParse(t, withMetrics("", "total_s: {wall: true}", "time_us: {regex: 't=(.*)'}")+documented(t, "prepare:")+
		"axes: {M: [1]}").Command
	if c.Warmup != 2 || fmt.Sprint(c.Prepare, c.Setup,
		c.Cleanup) != "[make -C src] [cp data-{M}.bin /dev/shm/input] [rm -f /dev/shm/input]" ||
		c.Until != (measure.Stop{RelNoise: 0.01, MinSamples: 10, MaxSamples: 40, MaxTime: 5 * time.Minute}) ||
		c.UntilMetric != "time_us" {
		t.Errorf("%+v", c)
	}
	c = mustParse(t, withMetrics("", "total_s: {wall: true}", "time_us: {regex: 't=(.*)'}")+"until: {noise: 0.02}").Command
	if c.Until != plan.RepeatUntil(0.02) || c.UntilMetric != "total_s" {
		t.Errorf("%+v", c)
	}
}

// launch returns the rows of a launch with one row.
func launch(samples ...float64) []decl.ParsedRow {
	return []decl.ParsedRow{{Samples: map[string][]float64{"t": samples}}}
}

// The median of each launch is one sample, however many the launch printed. Launches continue
// until the confidence interval of their median is narrow, or until a limit.
func TestLaunches(t *testing.T) {
	until := func(noise float64) *decl.Command {
		return &decl.Command{Until: plan.RepeatUntil(noise), UntilMetric: "t"}
	}
	count := func(c *decl.Command, spent time.Duration, next func(i int) []decl.ParsedRow) (*Launches,
		measure.StopReason) {
		l := NewLaunches(c)
		for i := 0; ; i++ {
			must.Do(t, l.Add(next(i)))
			if why := l.Stopped(spent * time.Duration(i+1)); why != "" {
				return l, why
			}
		}
	}
	quiet := func(i int) []decl.ParsedRow { return launch(99, 100+float64(i%2)/10, 500) }
	// Samples within a launch agree, but launches differ.
	loud := func(i int) []decl.ParsedRow {
		return launch(slices.Repeat([]float64{100 + float64(i*37%10)}, 1000)...)
	}
	wrong := func(i int) []decl.ParsedRow {
		rows := quiet(i)
		if i == 2 {
			rows[0].Wrong = "7 wrong"
		}
		return rows
	}
	brief := until(0.001)
	brief.Until.MaxTime = 9 * time.Second
	for what, c := range map[string]struct {
		command *decl.Command
		next    func(int) []decl.ParsedRow
		count   int
		why     measure.StopReason
	}{
		"once":           {&decl.Command{UntilMetric: "t"}, loud, 1, measure.MaxSamples},
		"quiet":          {until(0.01), quiet, 6, measure.Precise},
		"loud":           {until(0.001), loud, 50, measure.MaxSamples},
		"loud and brief": {brief, loud, 9, measure.MaxTime},
		"wrong":          {until(0.01), wrong, 3, measure.MaxSamples},
	} {
		l, why := count(c.command, time.Second, c.next)
		if l.Count != c.count || why != c.why {
			t.Errorf("%s: %d launches, %s, want %d, %s", what, l.Count, why, c.count, c.why)
		}
	}
	if l, why := count(until(0.001), 24*time.Hour, loud); l.Count != 50 || why != measure.MaxSamples {
		t.Errorf("days without a limit: %d launches, %s", l.Count, why)
	}
	l, _ := count(until(0.01), time.Second, quiet)
	if got := l.Rows[0].Values("t"); fmt.Sprint(got) != "[100 100.1 100 100.1 100 100.1]" ||
		len(l.Rows[0].Samples["t"][0]) != 3 {
		t.Errorf("six launches: %v of %v", got, l.Rows[0].Samples)
	}
	if l, _ := count(&decl.Command{UntilMetric: "t"}, 0, quiet); fmt.Sprint(l.Rows[0].Values("t")) != "[99 100 500]" ||
		!math.IsNaN(l.Noise(l.Rows[0])) {
		t.Errorf("one launch: %v, noise %v", l.Rows[0].Values("t"), l.Noise(l.Rows[0]))
	}
}

// The least known row decides, in whatever order rows are printed. Rows that never have the metric do not count.
func TestLeastKnownRow(t *testing.T) {
	same := [][]float64{{5}, {5}, {5}, {5}, {5}, {5}, {5}, {5}}
	sure, once := LaunchedRow{Samples: map[string][][]float64{"t": same}},
		LaunchedRow{Samples: map[string][][]float64{"t": same[:1]}}
	for _, c := range []struct {
		rows []LaunchedRow
		want measure.StopReason
	}{
		{[]LaunchedRow{sure, once}, ""}, {[]LaunchedRow{once, sure}, ""}, {[]LaunchedRow{{}}, ""},
		{[]LaunchedRow{{}, sure, {}}, measure.Precise},
	} {
		l := NewLaunches(&decl.Command{Until: plan.RepeatUntil(0.01), UntilMetric: "t"})
		l.Count, l.Rows = len(same), c.rows
		if got := l.Stopped(time.Second); got != c.want {
			t.Errorf("%v: stopped %q, want %q", c.rows, got, c.want)
		}
	}
}

// Launches of a point with different rows are an error.
func TestOtherRows(t *testing.T) {
	row := func(size int64) decl.ParsedRow {
		return decl.ParsedRow{Extra: point.Point{{Name: "size", Value: point.IntValue(size)}},
			Samples: map[string][]float64{"t": {1}}}
	}
	for want, second := range map[string][]decl.ParsedRow{
		"launch 2 of the point gave 1 rows, the first one 2":                     {row(8)},
		"launch 2 of the point gave a row for size=8, the first one for size=16": {row(8), row(8)},
	} {
		l := NewLaunches(&decl.Command{Until: plan.RepeatUntil(0.01)})
		must.Do(t, l.Add([]decl.ParsedRow{row(8), row(16)}))
		if err := l.Add(second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
