// Package ticks chooses the marks of an axis and words their labels: round
// steps, few enough to be read, with one prefix for all.
//
// It knows no page: how many labels fit is the caller's to try.
package ticks

import (
	"math"
	"slices"
)

// Tick is a mark on an axis; a minor one has no label.
type Tick struct {
	Value float64
	Label string
}

// slack forgives rounding when a tick falls on the very end of an axis.
const slack = 1e-9

// Linear marks [lo, hi] at round steps, with about n labels. Bytes step by powers of two, everything else by 1, 2, 5.
func Linear(u Unit, lo, hi float64, n int) []Tick {
	step := roundStep((hi-lo)/float64(max(n, 1)), u == Bytes)
	first := math.Ceil(lo/step - slack)
	last := math.Floor(hi/step + slack)
	var values []float64
	for i := first; i <= last; i++ {
		values = append(values, i*step)
	}
	ticks := make([]Tick, len(values))
	for i, label := range u.formatAll(values, step) {
		ticks[i] = Tick{values[i], label}
	}
	return ticks
}

// roundStep gives the least round number not, or not by much, below raw: 20 for 21
// rather than 50.
func roundStep(raw float64, binary bool) float64 {
	if binary && raw > 1 {
		return math.Exp2(math.Ceil(math.Log2(raw * 0.85)))
	}
	decade := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if m*decade >= raw*0.85 {
			return m * decade
		}
	}
	return 10 * decade
}

// Log10 marks decades. A long axis labels only every second, third ...
// decade; a short one also 2 and 5, or falls back to linear steps.
func Log10(u Unit, lo, hi float64, n int) []Tick {
	first := int(math.Ceil(math.Log10(lo) - slack))
	last := int(math.Floor(math.Log10(hi) + slack))
	stride := 1
	for (last-first)/stride+1 > max(n, 2) {
		stride++
	}
	var multiples []float64 // labelled within a decade
	for _, try := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		multiples = try
		if labelled := countMultiples(lo, hi, try); labelled <= max(n, 2) {
			break
		}
	}
	if countMultiples(lo, hi, []float64{1, 2, 5}) < 3 {
		return Linear(u, lo, hi, n) // less than a decade
	}
	// Minor marks are clutter once the decades themselves are thinned out.
	minor := stride == 1 && last-first < 10

	var ticks []Tick
	for e := first - 1; e <= last; e++ {
		for m := 1.0; m <= 9; m++ {
			v := m * pow10(e)
			if v < lo*(1-slack) || v > hi*(1+slack) {
				continue
			}
			switch {
			case m == 1 && mod(e, stride) == 0, stride == 1 && m != 1 && slices.Contains(multiples, m):
				ticks = append(ticks, Tick{v, u.logLabel(v, lo)})
			case m == 1 || minor:
				ticks = append(ticks, Tick{v, ""})
			}
		}
	}
	return ticks
}

// countMultiples counts the values m*10^e inside [lo, hi].
func countMultiples(lo, hi float64, multiples []float64) int {
	n := 0
	for _, m := range multiples {
		first := math.Ceil(math.Log10(lo/m) - slack)
		last := math.Floor(math.Log10(hi/m) + slack)
		n += int(math.Max(0, last-first+1))
	}
	return n
}

// strides are the distances of labelled powers of two.
var strides = []int{1, 2, 3, 4, 5, 10, 20, 50, 100}

// Log2 marks powers of two and labels every first, second, third ...
// of them, counted from 2^0.
func Log2(u Unit, lo, hi float64, n int) []Tick {
	first := int(math.Ceil(math.Log2(lo) - slack))
	last := int(math.Floor(math.Log2(hi) + slack))
	if last-first < 1 {
		return Linear(u, lo, hi, n)
	}
	stride := last - first // two labels when nothing denser fits
	for _, s := range strides {
		if u == Bytes && s == 3 {
			continue // 8, 64, 512 ... would step over 1Mi and 1Gi
		}
		// A stride so long that no two multiples lie inside would lose the scale.
		labels := floorDiv(last, s) - floorDiv(first-1, s)
		if labels <= max(n, 2) && labels >= 2 {
			stride = s
			break
		}
	}
	offset := 0
	if floorDiv(last, stride)-floorDiv(first-1, stride) < 2 {
		offset = mod(first, stride)
	}
	minor := last-first <= 40 // beyond that the marks run together
	var ticks []Tick
	for e := first; e <= last; e++ {
		v := math.Ldexp(1, e)
		if mod(e-offset, stride) == 0 {
			ticks = append(ticks, Tick{v, u.powerOfTwo(e)})
		} else if minor {
			ticks = append(ticks, Tick{v, ""})
		}
	}
	return ticks
}

// mod is the remainder that is never negative.
func mod(a, b int) int { return ((a % b) + b) % b }

// floorDiv rounds towards minus infinity.
func floorDiv(a, b int) int { return (a - mod(a, b)) / b }
