package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Bound says what decides the time of a message.
type Bound string

// The answers: the fixed cost, the bytes, both, or that nobody measured there.
const (
	Latency   Bound = "latency"
	Bandwidth Bound = "bandwidth"
	Mixed     Bound = "mixed"
	Unknown   Bound = "unknown"
)

// Curve is the line through a series: time = alpha + bytes/beta.
type Curve struct {
	Series
	AlphaUS float64 // the time of an empty message
	BetaGBs float64 // bytes over time of a large one; +Inf where size makes no difference

	Sizes     int   // distinct sizes behind it
	Min, Max  int64 // their range in bytes
	WorstErr  float64
	WorstAt   int64 // bytes
	MedianErr float64
	// Fault says why the line must not be trusted, "" if it fits.
	Fault string
}

// fitLimit is the relative error above which a line is said not to fit: twice
// what the best public line fits of real libraries leave within one protocol.
const fitLimit = 0.10

// Fitted reports whether there is a line at all.
func (c Curve) Fitted() bool { return c.Sizes > 1 }

// US is the line's time for a message.
func (c Curve) US(bytes int64) float64 { return c.AlphaUS + float64(bytes)/c.BetaGBs/1e3 }

// HalfBytes is the size at which latency and bandwidth take equal shares.
func (c Curve) HalfBytes() float64 { return c.AlphaUS * c.BetaGBs * 1e3 }

// Bound says what decides at a size: whichever takes two thirds of the line's
// time. Outside the measured sizes nothing is known.
func (c Curve) Bound(bytes int64) Bound {
	if !c.Fitted() || bytes < c.Min || bytes > c.Max {
		return Unknown
	}
	switch share := c.AlphaUS / c.US(bytes); {
	case share >= 2.0/3:
		return Latency
	case share <= 1.0/3:
		return Bandwidth
	}
	return Mixed
}

// Bounds says it for the whole range, in words and only once where it does not
// change.
func (c Curve) Bounds() string {
	if !c.Fitted() {
		return "one size says neither"
	}
	low, high := c.Bound(c.Min), c.Bound(c.Max)
	if low == high {
		return fmt.Sprintf("%s-bound from %s to %s", low, unit.FormatBytesApprox(float64(c.Min)),
			unit.FormatBytesApprox(float64(c.Max)))
	}
	return fmt.Sprintf("%s-bound at %s, %s-bound at %s, equal shares at %s", low, unit.FormatBytesApprox(float64(c.Min)),
		high, unit.FormatBytesApprox(float64(c.Max)), unit.FormatBytesApprox(c.HalfBytes()))
}

// Fit puts a line through each series, in order of series. The line is the one
// with the least sum of relative errors (least absolute deviations), so that
// small messages count as much as large ones and one stray size bends nothing.
func Fit(samples []Sample) []Curve {
	order, groups := bySeries(samples)
	var out []Curve
	for _, series := range order {
		out = append(out, fit(series, groups[series]))
	}
	return out
}

// dot is one size of a series.
type dot struct{ x, t float64 }

// dots takes the median where a size occurs more than once.
func dots(samples []Sample) []dot {
	times := map[int64][]float64{}
	for _, s := range samples {
		times[s.Bytes] = append(times[s.Bytes], s.TimeUS)
	}
	var out []dot
	for bytes, list := range times {
		out = append(out, dot{float64(bytes), stats.Median(list)})
	}
	slices.SortFunc(out, func(a, b dot) int { return cmp.Compare(a.x, b.x) })
	return out
}

func fit(series Series, samples []Sample) Curve {
	ds := dots(samples)
	c := Curve{Series: series, Sizes: len(ds), Min: int64(ds[0].x), Max: int64(ds[len(ds)-1].x)}
	if len(ds) == 1 {
		c.AlphaUS, c.BetaGBs = math.NaN(), math.NaN()
		c.Fault = "one size only: there is no line"
		return c
	}
	alpha, slope := leastDeviations(ds)
	c.AlphaUS, c.BetaGBs = alpha, 1/slope/1e3
	if slope == 0 {
		c.BetaGBs = math.Inf(1)
	}
	errs := make([]float64, len(ds))
	for i, d := range ds {
		errs[i] = math.Abs(alpha+slope*d.x-d.t) / d.t
		if errs[i] > c.WorstErr {
			c.WorstErr, c.WorstAt = errs[i], int64(d.x)
		}
	}
	c.MedianErr = stats.Median(errs)
	switch {
	case c.WorstErr > fitLimit:
		c.Fault = fmt.Sprintf("off by %.0f %% at %s: no single line, as where an algorithm or protocol is switched or a cache is left", 100*c.WorstErr, unit.FormatBytesApprox(float64(c.WorstAt)))
	case len(ds) == 2:
		c.Fault = "two sizes only: any two lie on a line"
	}
	return c
}

// maxAnchors bounds the sizes that candidate lines go through.
const maxAnchors = 96

// leastDeviations finds the line t = alpha + slope x, with neither negative,
// that has the least sum of |error|/t. Such a line can always be chosen to go
// through two of the dots, or through one at a bound, so it is enough to try
// those; among many sizes evenly spread ones serve.
func leastDeviations(ds []dot) (alpha, slope float64) {
	anchors := ds
	if len(ds) > maxAnchors {
		anchors = nil
		for i := range maxAnchors {
			anchors = append(anchors, ds[i*(len(ds)-1)/(maxAnchors-1)])
		}
	}
	best := math.Inf(1)
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
	return alpha, slope
}
