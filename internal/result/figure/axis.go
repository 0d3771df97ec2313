package figure

import (
	"math"

	"github.com/kernbench/kernbench/internal/result/ticks"
)

// Axis says how numbers become positions, and how they are written.
type Axis struct {
	Label string `json:"label,omitempty"`
	Scale Scale  `json:"scale,omitempty"`
	Unit  Unit   `json:"unit,omitempty"`
	// Min and Max fix an end; nil fits the data.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// Categories names the slots of a Category axis; slot i is at position i.
	Categories []string `json:"categories,omitempty"`
	// Break leaves out the values between its two ends, so that one tall bar
	// does not flatten the rest. Only for a linear y axis; without data on both
	// sides the axis is drawn whole.
	Break *[2]float64 `json:"break,omitempty"`
}

// Scale is how an axis spreads its values.
type Scale string

// The scales; the empty string is Linear.
const (
	Linear   Scale = "linear"
	Log2     Scale = "log2"
	Log10    Scale = "log10"
	Category Scale = "category"
)

// log reports whether only positive values have a place on the scale.
func (s Scale) log() bool { return s == Log2 || s == Log10 }

// Unit is what an axis's numbers count; it decides the wording of tick labels.
type Unit = ticks.Unit

// The units; the empty string is a plain number.
const (
	Plain   = ticks.Plain
	Bytes   = ticks.Bytes   // 512, 4Ki, 1Mi
	Micros  = ticks.Micros  // values in microseconds: 500 ns, 10 µs, 1 ms
	Percent = ticks.Percent // values in percent: 85%
	GBps    = ticks.GBps    // plain ticks, the unit goes to the axis label
	TFlops  = ticks.TFlops  // plain ticks, the unit goes to the axis label
)

func (a Axis) validate(f Faults) {
	oneOf(f, "scale", a.Scale, Linear, Log2, Log10, Category)
	oneOf(f, "unit", a.Unit, ticks.Units()...)
	if (a.Scale == Category) != (len(a.Categories) > 0) {
		f.Add("scale %q with %d categories: a category axis names its categories, no other axis has any", a.Scale,
			len(a.Categories))
	}
	for _, end := range []struct {
		name  string
		value *float64
	}{{"min", a.Min}, {"max", a.Max}} {
		switch {
		case end.value == nil:
		case a.Scale == Category:
			f.Add("%s is set on a category axis, which always shows all its categories", end.name)
		case !showable(*end.value):
			f.Add("%s is %g, want a finite number below 1e100", end.name, *end.value)
		case a.Scale.log() && !a.showable(*end.value):
			f.Add("%s is %g, want a positive number on a log axis", end.name, *end.value)
		}
	}
	if a.Min != nil && a.Max != nil && *a.Min >= *a.Max {
		f.Add("min %g is not below max %g", *a.Min, *a.Max)
	}
	if b := a.Break; b != nil {
		if a.Scale != "" && a.Scale != Linear {
			f.Add("break on a %s axis, which only a linear y axis can have", a.Scale)
		}
		if !(b[0] < b[1]) || !showable(b[0]) || !showable(b[1]) {
			f.Add("break from %g to %g, want two finite numbers in rising order", b[0], b[1])
		}
	}
}

// extreme bounds what is drawn. Beyond it lie values no benchmark gives and
// sums and differences that overflow.
const extreme = 1e100

// Where a broken axis is cut, as fractions of its length.
const (
	breakFrom = 0.64
	breakTo   = 0.67
)

// showable reports whether v is finite and of sane size.
func showable(v float64) bool { return math.Abs(v) <= extreme } // false for NaN

// showable reports whether v has a place on the axis's scale.
func (a Axis) showable(v float64) bool {
	return showable(v) && (!a.Scale.log() || v >= 1/extreme)
}

// slack forgives rounding when a value falls on the very end of an axis.
const slack = 1e-9

// ruler maps the values of an axis onto [from, to] on the page.
type ruler struct {
	axis     Axis
	lo, hi   float64
	broken   bool
	from, to float64
	ticks    []ticks.Tick
}

// newRuler fits an axis around the values (those it cannot show are ignored).
// With fromZero a linear axis starts at zero, as bars must.
func newRuler(a Axis, values []float64, fromZero bool) ruler {
	if a.Scale == Category {
		return ruler{axis: a, lo: -0.5, hi: float64(len(a.Categories)) - 0.5}
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if a.showable(v) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	if a.Scale.log() {
		lo, hi = logRange(lo, hi)
	} else {
		lo, hi = linearRange(lo, hi, fromZero)
	}
	lo, hi = fixEnds(a, lo, hi)
	r := ruler{axis: a, lo: lo, hi: hi}
	if b := a.Break; b != nil {
		r.broken = lo < b[0] && hi > b[1]
	}
	return r
}

func logRange(lo, hi float64) (float64, float64) {
	if lo > hi {
		return 1, 10
	}
	if hi/lo < 1.5 {
		return lo / 2, hi * 2 // a single value stands in the middle
	}
	// A short range needs more than its 4 % for error bars to be seen ending.
	pad := math.Max(math.Pow(hi/lo, 0.04), math.Min(1.2, 3*lo/hi+1))
	return lo / pad, hi * pad
}

func linearRange(lo, hi float64, fromZero bool) (float64, float64) {
	if lo > hi {
		return 0, 1
	}
	// Values that spread over a good part of their size are compared by length,
	// which needs the zero; a narrow band far from zero is not.
	if fromZero || (lo >= 0 && lo <= hi/2) || (hi <= 0 && hi >= lo/2) {
		lo, hi = math.Min(lo, 0), math.Max(hi, 0)
	}
	if size := math.Max(math.Abs(lo), math.Abs(hi)); hi-lo <= size*1e-6 || size < 1/extreme {
		pad := math.Max(size/2, 1e-3)
		if size < 1/extreme {
			pad = 1
		}
		lo, hi = lo-pad, hi+pad
	}
	pad := (hi - lo) * 0.05
	if lo != 0 {
		lo -= pad
	}
	if hi != 0 {
		hi += pad
	}
	return lo, hi
}

// fixEnds lets the description's own ends win, and moves the fitted end out of
// the way when the fixed one lies beyond it.
func fixEnds(a Axis, lo, hi float64) (float64, float64) {
	if a.Min != nil {
		lo = *a.Min
	}
	if a.Max != nil {
		hi = *a.Max
	}
	if hi-lo > math.Max(math.Abs(lo), math.Abs(hi))*1e-9 {
		return lo, hi
	}
	switch size := math.Max(math.Abs(lo), math.Abs(hi)); {
	case a.Scale.log() && a.Max == nil:
		hi = lo * 10
	case a.Scale.log() && a.Min == nil:
		lo = hi / 10
	case a.Max == nil:
		hi = lo + math.Max(size, 1)
	case a.Min == nil:
		lo = hi - math.Max(size, 1)
	default: // both fixed, closer than can be drawn
		hi = lo + math.Max(size*1e-6, 1/extreme)
	}
	return lo, hi
}

// fraction places v: 0 at the low end, 1 at the high end.
func (r ruler) fraction(v float64) float64 {
	lo, hi := r.lo, r.hi
	if r.axis.Scale.log() {
		if v <= 0 {
			return -1 // below every log axis
		}
		return math.Log(v/lo) / math.Log(hi/lo)
	}
	if !r.broken {
		return (v - lo) / (hi - lo)
	}
	b := r.axis.Break
	switch {
	case v <= b[0]:
		return breakFrom * (v - lo) / (b[0] - lo)
	case v < b[1]:
		return breakFrom + (breakTo-breakFrom)*(v-b[0])/(b[1]-b[0])
	default:
		return breakTo + (1-breakTo)*(v-b[1])/(hi-b[1])
	}
}

// at gives the position of v on the page.
func (r ruler) at(v float64) float64 { return r.from + r.fraction(v)*(r.to-r.from) }

// covers reports whether v is seen: between the ends, not inside a break.
func (r ruler) covers(v float64) bool {
	f := r.fraction(v)
	if f < -slack || f > 1+slack {
		return false
	}
	return !r.broken || f <= breakFrom || f >= breakTo
}

// marks makes the ticks for a wish of n labels.
func (r ruler) marks(n int) []ticks.Tick {
	u := r.axis.Unit
	switch {
	case r.axis.Scale == Category:
		marks := make([]ticks.Tick, len(r.axis.Categories))
		for i, name := range r.axis.Categories {
			marks[i] = ticks.Tick{Value: float64(i), Label: name}
		}
		return marks
	case r.axis.Scale == Log10:
		return ticks.Log10(u, r.lo, r.hi, n)
	case r.axis.Scale == Log2:
		return ticks.Log2(u, r.lo, r.hi, n)
	case r.broken:
		return r.brokenMarks(n)
	default:
		return ticks.Linear(u, r.lo, r.hi, n)
	}
}

// brokenMarks makes the ticks of both parts of a broken axis. They keep off
// the cut, where the slashes are, and there are two above it if at all possible.
func (r ruler) brokenMarks(n int) []ticks.Tick {
	u, b := r.axis.Unit, r.axis.Break
	const off = 0.05
	low := max(2, int(math.Round(float64(n)*breakFrom)))
	lower := ticks.Linear(u, r.lo, b[0]-off*(b[0]-r.lo), low)
	var upper []ticks.Tick
	for wish := max(2, n-low); len(upper) < 2 && wish <= 8; wish++ {
		upper = ticks.Linear(u, b[1]+off*(r.hi-b[1]), r.hi, wish)
	}
	return append(lower, upper...)
}
