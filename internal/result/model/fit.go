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

// Bound names what limits the time of a message.
type Bound string

// The values of Bound.
const (
	Latency    Bound = "latency"      // the fixed cost of a message
	Bandwidth  Bound = "bandwidth"    // the cost of its bytes
	Mixed      Bound = "mixed"        // both
	Unresolved Bound = "not resolved" // measured, but the data does not tell
	Unknown    Bound = "unknown"      // not measured at this size
)

// Segment is a line through neighbouring sizes of a series: time = alpha + bytes/beta.
type Segment struct {
	AlphaUS float64 // time of an empty message
	BetaGBs float64 // bytes per time of a large message; +Inf if the size makes no difference

	Sizes    int     // number of distinct sizes that the line goes through
	Min, Max int64   // their range in bytes
	WorstErr float64 // largest relative error of the line at one of the sizes
	WorstAt  int64   // the size at which it occurs, in bytes

	misses []int64   // sizes at which the relative error exceeds fitLimit
	folds  []Segment // lines that leave out some sizes; they show what a few sizes decide
}

// Curve is the result of fitting one series: its segments in order of size.
type Curve struct {
	Series
	Segments []Segment
	Measured []int64 // the distinct sizes in ascending order
	Fault    string  // why the lines must not be trusted; "" if they fit
}

const (
	// fitLimit is the relative error above which a line does not fit. It is twice the
	// error that the best public line fits of real libraries have within one protocol.
	fitLimit = 0.10
	// sizesPerMiss is the number of sizes for which a segment may have one size that misses its line.
	sizesPerMiss = 5
	// minSegmentSizes is the least number of sizes in a segment: any two lie on a line.
	minSegmentSizes = 3
	// maxFolds bounds the number of lines that check how much a few sizes decide.
	maxFolds = 10
	// maxAnchors bounds the number of sizes through which candidate lines are drawn.
	maxAnchors = 96
	// maxCutSizes bounds the number of sizes between which segments are cut. If there are
	// more, evenly spread ones are enough.
	maxCutSizes = 48
	// minNoise is the least relative noise to expect within a series. Launches of the same
	// call differ by this much, however narrow the interval within one launch is.
	minNoise = 0.02
)

// Fitted reports whether the curve has any line.
func (c Curve) Fitted() bool { return len(c.Segments) > 0 }

// Min returns the smallest measured size.
func (c Curve) Min() int64 { return c.Measured[0] }

// Max returns the largest measured size.
func (c Curve) Max() int64 { return c.Measured[len(c.Measured)-1] }

// US returns the line's time for a message.
func (s Segment) US(bytes int64) float64 { return s.AlphaUS + float64(bytes)/s.BetaGBs/1e3 }

// At returns the segment that contains a size. A size between two segments is in neither.
func (c Curve) At(bytes int64) (Segment, bool) {
	return lists.First(c.Segments, func(s Segment) bool { return bytes >= s.Min && bytes <= s.Max })
}

// String returns the lines as formulas. If there are several, each has its range.
func (c Curve) String() string {
	return strings.Join(lists.Map(c.Segments, func(s Segment) string {
		text := fmt.Sprintf("time = %s + bytes / (%s GB/s)", unit.FormatMicros(s.AlphaUS), unit.FormatSig(s.BetaGBs, 4))
		if len(c.Segments) > 1 {
			text += fmt.Sprintf(" from %s to %s", sizeText(s.Min), sizeText(s.Max))
		}
		return text
	}), ", ")
}

func sizeText(bytes int64) string { return unit.FormatBytesApprox(float64(bytes)) }

// WorstErr returns the largest relative error of all segments, and the size at which it
// occurs.
func (c Curve) WorstErr() (worst float64, at int64) {
	for _, s := range c.Segments {
		if s.WorstErr > worst {
			worst, at = s.WorstErr, s.WorstAt
		}
	}
	return worst, at
}

// Bound returns what limits a message: the part of the line, alpha or bytes/beta, that
// takes at least two thirds of its time. The answer is Unresolved if the line does not fit,
// if a line that leaves out some sizes gives the opposite answer, or if the size lies
// between two segments, and Unknown outside the measured sizes.
func (c Curve) Bound(bytes int64) Bound {
	if !c.Fitted() || bytes < c.Min() || bytes > c.Max() {
		return Unknown
	}
	s, ok := c.At(bytes)
	if !ok || s.Sizes < minSegmentSizes || len(s.misses) > s.Sizes/sizesPerMiss || slices.Contains(s.misses, bytes) {
		return Unresolved
	}
	bound := s.bound(bytes)
	for _, f := range s.folds {
		if other := f.bound(bytes); other != bound && other != Mixed && bound != Mixed {
			return Unresolved
		}
	}
	return bound
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

// Bounds describes in words what limits the measured sizes. Neighbouring sizes with the
// same answer are combined into a range.
func (c Curve) Bounds() string {
	if !c.Fitted() {
		return string(Unresolved)
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
		if i-1 > from {
			words += " from " + sizeText(c.Measured[from]) + " to " + sizeText(c.Measured[i-1])
		} else {
			words += " at " + sizeText(c.Measured[from])
		}
		parts = append(parts, words)
	}
	return strings.Join(parts, ", ")
}

// Fit fits lines to each series, in the order of Series.Compare. Each gets as many segments
// as its data supports (see segments). A line minimises the sum of relative errors (least
// absolute deviations), so that small messages count as much as large ones and a single
// outlier does not bend it.
func Fit(samples []Sample) []Curve {
	return lists.Map(bySeries(samples), func(g group) Curve { return fit(g.Key, g.Items) })
}

// fitPoint is one size of a series: x in bytes, t in microseconds.
type fitPoint struct{ x, t float64 }

// fitPoints returns the sizes in ascending order, with the median time if a size occurs
// more than once.
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
	points := fitPoints(samples)
	c := Curve{Series: series, Measured: lists.Map(points, func(p fitPoint) int64 { return int64(p.x) })}
	if len(points) == 1 {
		c.Fault = "one size only: there is no line"
		return c
	}
	c.Segments = lists.Map(segments(points, seriesNoise(samples)), newSegment)
	switch worst, at := c.WorstErr(); {
	case worst > fitLimit:
		noise := "noise or "
		if !slices.ContainsFunc(samples, func(s Sample) bool { return !s.computed() }) {
			noise = ""
		}
		c.Fault = fmt.Sprintf("the line is off by %.0f %% at %s, because of %stoo few sizes to see where one line ends",
			100*worst, sizeText(at), noise)
	case len(points) == 2:
		c.Fault = "two sizes only: any two lie on a line"
	}
	return c
}

// newSegment fits a line to the points, lists the points that it misses, and fits the
// fold lines, each of which leaves out about a tenth of the points.
func newSegment(points []fitPoint) Segment {
	s := lineThrough(points)
	for _, p := range points {
		err := math.Abs(s.US(int64(p.x))-p.t) / p.t
		if err > s.WorstErr {
			s.WorstErr, s.WorstAt = err, int64(p.x)
		}
		if err > fitLimit {
			s.misses = append(s.misses, int64(p.x))
		}
	}
	for fold, n := 0, min(len(points), maxFolds); fold < n && len(points) >= minSegmentSizes; fold++ {
		var rest []fitPoint
		for i, p := range points {
			if i%n != fold {
				rest = append(rest, p)
			}
		}
		s.folds = append(s.folds, lineThrough(rest))
	}
	return s
}

func lineThrough(points []fitPoint) Segment {
	alpha, slope, _ := leastDeviations(points, math.Inf(1))
	s := Segment{AlphaUS: alpha, BetaGBs: 1 / slope / 1e3, Sizes: len(points), Min: int64(points[0].x),
		Max: int64(points[len(points)-1].x)}
	if slope == 0 {
		s.BetaGBs = math.Inf(1)
	}
	return s
}

// leastDeviations returns the line t = alpha + slope x, with neither negative, that has the
// least sum of |error|/t. An optimal line goes through two of the points, or through one
// if alpha or the slope is 0, so it is enough to try all of those. If there are many
// points, it tries lines through maxAnchors of them. Lines whose sum is not below best are
// skipped; if no line is better, least equals best.
func leastDeviations(points []fitPoint, best float64) (alpha, slope, least float64) {
	try := func(a, m float64) {
		if a < 0 || m < 0 {
			return
		}
		sum := 0.0
		for _, p := range points {
			if sum += math.Abs(a+m*p.x-p.t) / p.t; sum >= best {
				return
			}
		}
		best, alpha, slope = sum, a, m
	}
	anchors := spread(points, maxAnchors)
	for i, p := range anchors {
		try(p.t, 0)     // the size makes no difference
		try(0, p.t/p.x) // no latency at all
		for _, q := range anchors[:i] {
			m := (p.t - q.t) / (p.x - q.x)
			try(p.t-m*p.x, m)
		}
	}
	return alpha, slope, best
}

// spread returns at most n of the points, evenly spread, with both ends.
func spread(points []fitPoint, n int) []fitPoint {
	if len(points) <= n {
		return points
	}
	out := make([]fitPoint, n)
	for i := range out {
		out[i] = points[i*(len(points)-1)/(n-1)]
	}
	return out
}

// seriesNoise returns the relative noise to expect in a series: the median of the noise
// that the samples' intervals show, and at least minNoise.
func seriesNoise(samples []Sample) float64 {
	return max(minNoise, stats.Median(lists.Map(samples, Sample.noise)))
}

// segments cuts the points where one line ends and another begins. Among all ways to cut
// them into parts of at least minSegmentSizes, it takes the one with the least Bayesian
// information criterion,
//
//	BIC = 2 sum |error| / (noise t)  +  p ln n
//
// where n is the number of sizes and p = 3k - 1 the number of parameters of k lines: two
// for each line and one for each cut. The first term is the log-likelihood of errors with a
// Laplace distribution of known scale, for which least absolute deviations are the maximum
// likelihood estimate. The search is dynamic programming over the end of the last segment.
func segments(points []fitPoint, noise float64) (out [][]fitPoint) {
	few := spread(points, maxCutSizes)
	n := len(few)
	perLine := 3 * math.Log(float64(n)) // criterion of one more line
	scale := noise / 2                  // deviations per unit of the criterion
	if _, _, oneLine := leastDeviations(few, math.Inf(1)); oneLine <= perLine*scale {
		return [][]fitPoint{points} // even a perfect fit of two lines would not pay for the cut
	}
	// best[j] is the least criterion of the first j sizes, and from[j] the index at which
	// the last segment of that solution begins.
	best, from := make([]float64, n+1), make([]int, n+1)
	for j := 1; j <= n; j++ {
		best[j] = math.Inf(1)
		for i := 0; i <= j-minSegmentSizes; i++ {
			bound := (best[j] - best[i] - perLine) * scale
			if math.IsInf(best[i], 1) || bound <= 0 {
				continue
			}
			if _, _, sum := leastDeviations(few[i:j], bound); sum < bound {
				best[j], from[j] = best[i]+perLine+sum/scale, i
			}
		}
	}
	last := len(points)
	for j := n; j > 0; j = from[j] {
		first := slices.Index(points, few[from[j]])
		out = append(out, points[first:last])
		last = first
	}
	slices.Reverse(out)
	return out
}
