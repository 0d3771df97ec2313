package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Bound says what decides the time of a message.
type Bound string

// The answers: the fixed cost, the bytes, both; that the data does not tell; that nobody
// measured there.
const (
	Latency    Bound = "latency"
	Bandwidth  Bound = "bandwidth"
	Mixed      Bound = "mixed"
	Unresolved Bound = "not resolved"
	Unknown    Bound = "unknown"
)

// Segment is the line through neighbouring sizes of a series: time = alpha + bytes/beta.
type Segment struct {
	AlphaUS float64 // the time of an empty message
	BetaGBs float64 // bytes over time of a large one; +Inf where size makes no difference

	Sizes    int   // distinct sizes behind it
	Min, Max int64 // their range in bytes
	WorstErr float64
	WorstAt  int64 // bytes

	misses []int64   // sizes at which the line is off by more than fitLimit
	folds  []Segment // lines through most of the sizes: what a few of them decide
}

// Curve is the segments through a series, in order of size.
type Curve struct {
	Series
	Segments []Segment
	Measured []int64 // the distinct sizes, in order
	// Fault says why the lines must not be trusted, "" if they fit.
	Fault string
}

const (
	// fitLimit is the relative error above which a line is said not to fit: twice
	// what the best public line fits of real libraries leave within one protocol.
	fitLimit = 0.10
	// sizesPerMiss is one of how many sizes may be off without spoiling its segment.
	sizesPerMiss = 5
	// minSegmentSizes is how many sizes a segment needs: any two lie on a line.
	minSegmentSizes = 3
)

// Fitted reports whether there is a line at all.
func (c Curve) Fitted() bool { return len(c.Segments) > 0 }

// Min and Max are the range that was measured.
func (c Curve) Min() int64 { return c.Measured[0] }
func (c Curve) Max() int64 { return c.Measured[len(c.Measured)-1] }

// US is the segment's time for a message.
func (s Segment) US(bytes int64) float64 { return s.AlphaUS + float64(bytes)/s.BetaGBs/1e3 }

// At is the segment of a size; between two it is neither's.
func (c Curve) At(bytes int64) (Segment, bool) {
	return lists.First(c.Segments, func(s Segment) bool { return bytes >= s.Min && bytes <= s.Max })
}

// String is the lines as formulas, with the range of each where there are several.
func (c Curve) String() string {
	var parts []string
	for _, s := range c.Segments {
		text := fmt.Sprintf("time = %s + bytes / (%s GB/s)", unit.FormatMicros(s.AlphaUS), unit.FormatSig(s.BetaGBs, 4))
		if len(c.Segments) > 1 {
			text += fmt.Sprintf(" from %s to %s", unit.FormatBytesApprox(float64(s.Min)), unit.FormatBytesApprox(float64(s.Max)))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// WorstErr is that of all segments.
func (c Curve) WorstErr() (worst float64, at int64) {
	for _, s := range c.Segments {
		if s.WorstErr > worst {
			worst, at = s.WorstErr, s.WorstAt
		}
	}
	return worst, at
}

// Bound says what decides at a size: whichever takes two thirds of the line's time.
// It is not resolved where the line does not fit, where a line through most of the
// sizes would say the opposite, and between two segments. Outside the measured sizes
// nothing is known.
func (c Curve) Bound(bytes int64) Bound {
	if !c.Fitted() || bytes < c.Min() || bytes > c.Max() {
		return Unknown
	}
	s, ok := c.At(bytes)
	if !ok || s.Sizes < minSegmentSizes || len(s.misses) > s.Sizes/sizesPerMiss || slices.Contains(s.misses, bytes) {
		return Unresolved
	}
	says := s.bound(bytes)
	for _, f := range s.folds {
		if other := f.bound(bytes); other != says && other != Mixed && says != Mixed {
			return Unresolved
		}
	}
	return says
}

func (s Segment) bound(bytes int64) Bound {
	switch share := s.AlphaUS / s.US(bytes); {
	case share >= 2.0/3:
		return Latency
	case share <= 1.0/3:
		return Bandwidth
	}
	return Mixed
}

// Bounds says it for every measured size, in words and only once where it does not
// change.
func (c Curve) Bounds() string {
	if !c.Fitted() {
		return "one size says neither"
	}
	var parts []string
	for i := 0; i < len(c.Measured); {
		from, b := i, c.Bound(c.Measured[i])
		for i < len(c.Measured) && c.Bound(c.Measured[i]) == b {
			i++
		}
		words := string(b)
		if b != Unresolved {
			words += "-bound"
		}
		low, high := unit.FormatBytesApprox(float64(c.Measured[from])), unit.FormatBytesApprox(float64(c.Measured[i-1]))
		if words += " at " + low; i-1 > from {
			words = strings.TrimSuffix(words, " at "+low) + " from " + low + " to " + high
		}
		parts = append(parts, words)
	}
	return strings.Join(parts, ", ")
}

// Fit puts lines through each series, in order of series: as many segments as the data
// supports (see segments). A line is the one with the least sum of relative errors (least
// absolute deviations), so that small messages count as much as large ones and one stray
// size bends nothing.
func Fit(samples []Sample) []Curve {
	return lists.Map(bySeries(samples), func(g group) Curve { return fit(g.Key, g.Items) })
}

// fitPoint is one size of a series.
type fitPoint struct{ x, t float64 }

// fitPoints takes the median where a size occurs more than once.
func fitPoints(samples []Sample) []fitPoint {
	times := map[int64][]float64{}
	for _, s := range samples {
		times[s.Bytes] = append(times[s.Bytes], s.TimeUS)
	}
	return lists.Map(slices.Sorted(maps.Keys(times)), func(bytes int64) fitPoint {
		return fitPoint{float64(bytes), stats.Median(times[bytes])}
	})
}

func fit(series Series, samples []Sample) Curve {
	ds := fitPoints(samples)
	c := Curve{Series: series, Measured: lists.Map(ds, func(d fitPoint) int64 { return int64(d.x) })}
	if len(ds) == 1 {
		c.Fault = "one size only: there is no line"
		return c
	}
	c.Segments = lists.Map(segments(ds, seriesNoise(samples)), newSegment)
	switch worst, at := c.WorstErr(); {
	case worst > fitLimit:
		c.Fault = fmt.Sprintf("off by %.0f %% at %s: no line, as where noise is large or too few sizes were measured to "+
			"tell where one ends", 100*worst, unit.FormatBytesApprox(float64(at)))
	case len(ds) == 2:
		c.Fault = "two sizes only: any two lie on a line"
	}
	return c
}

// newSegment is the line through sizes, and those through all but some of them.
func newSegment(ds []fitPoint) Segment {
	s := lineThrough(ds)
	for _, d := range ds {
		err := math.Abs(s.US(int64(d.x))-d.t) / d.t
		if err > s.WorstErr {
			s.WorstErr, s.WorstAt = err, int64(d.x)
		}
		if err > fitLimit {
			s.misses = append(s.misses, int64(d.x))
		}
	}
	const most = 10
	for fold, n := 0, min(len(ds), most); fold < n && len(ds) >= minSegmentSizes; fold++ {
		var rest []fitPoint
		for i, d := range ds {
			if i%n != fold {
				rest = append(rest, d)
			}
		}
		s.folds = append(s.folds, lineThrough(rest))
	}
	return s
}

func lineThrough(ds []fitPoint) Segment {
	alpha, slope, _ := leastDeviations(ds, math.Inf(1))
	s := Segment{AlphaUS: alpha, BetaGBs: 1 / slope / 1e3, Sizes: len(ds), Min: int64(ds[0].x),
		Max: int64(ds[len(ds)-1].x)}
	if slope == 0 {
		s.BetaGBs = math.Inf(1)
	}
	return s
}

// maxAnchors bounds the sizes that candidate lines go through.
const maxAnchors = 96

// leastDeviations finds the line t = alpha + slope x, with neither negative,
// that has the least sum of |error|/t. Such a line can always be chosen to go
// through two of the dots, or through one at a bound, so it is enough to try
// those; among many sizes evenly spread ones serve. Lines whose sum is not below best
// are of no interest.
func leastDeviations(ds []fitPoint, best float64) (alpha, slope, least float64) {
	anchors := spread(ds, maxAnchors)
	try := func(a, m float64) {
		if a < 0 || m < 0 {
			return
		}
		sum := 0.0
		for _, d := range ds {
			if sum += math.Abs(a+m*d.x-d.t) / d.t; sum >= best {
				return
			}
		}
		best, alpha, slope = sum, a, m
	}
	for i, p := range anchors {
		try(p.t, 0)     // size makes no difference
		try(0, p.t/p.x) // no latency at all
		for _, q := range anchors[:i] {
			m := (p.t - q.t) / (p.x - q.x)
			try(p.t-m*p.x, m)
		}
	}
	return alpha, slope, best
}

// spread are at most so many of the sizes, evenly spread, with both ends.
func spread(ds []fitPoint, most int) []fitPoint {
	if len(ds) <= most {
		return ds
	}
	out := make([]fitPoint, most)
	for i := range out {
		out[i] = ds[i*(len(ds)-1)/(most-1)]
	}
	return out
}
