package figure

import (
	"math"
)

// Axis maps numbers to positions and sets how they are written.
type Axis struct {
	Label string `json:"label,omitempty"`
	Scale Scale  `json:"scale,omitempty"`
	Unit  Unit   `json:"unit,omitempty"`
	// Min and Max fix an end of the axis; nil fits it to the data.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// Categories names the slots of a Category axis; slot i is at position i.
	Categories []string `json:"categories,omitempty"`
	// Break leaves out the values between its two ends, so that one tall bar
	// does not flatten the rest. Only a linear y axis can have one. It is ignored
	// if there is no data on one of its sides.
	Break *[2]float64 `json:"break,omitempty"`
}

// Scale is the spacing of the values on an axis.
type Scale string

// The scales. The empty string means Linear.
const (
	Linear   Scale = "linear"
	Log2     Scale = "log2"
	Log10    Scale = "log10"
	Category Scale = "category"
)

// log reports whether the scale is logarithmic and so has no place for values <= 0.
func (s Scale) log() bool { return s == Log2 || s == Log10 }

// validate adds the faults of an axis: an unknown scale or unit, missing categories, ends that the
// scale cannot show, and an invalid break.
func (a Axis) validate(f Faults) {
	oneOf(f, "scale", a.Scale, Linear, Log2, Log10, Category)
	oneOf(f, "unit", a.Unit, Plain, Bytes, Micros, Percent, GBps, TFlops)
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

// extreme bounds the values that are drawn. No benchmark gives larger ones, and
// their sums and differences could overflow.
const extreme = 1e100

// A broken axis is cut between these fractions of its length.
const (
	breakFrom = 0.64
	breakTo   = 0.67
)

// showable reports whether v is finite and at most extreme.
func showable(v float64) bool { return math.Abs(v) <= extreme } // false for NaN

// showable reports whether v has a place on the axis's scale.
func (a Axis) showable(v float64) bool {
	return showable(v) && (!a.Scale.log() || v >= 1/extreme)
}

// slack forgives rounding errors of values at the very end of an axis.
const slack = 1e-9

// ruler maps the values of an axis to positions on the page: lo to from, hi to
// to. The range is known when it is made, the positions and ticks after place.
type ruler struct {
	axis     Axis
	lo, hi   float64
	broken   bool
	from, to float64
	ticks    []Tick
}

// newRuler fits an axis around the values and ignores values that it cannot show.
// With fromZero a linear axis includes zero, as bars need.
func newRuler(a Axis, values []float64, fromZero bool) ruler {
	if a.Scale == Category {
		return ruler{axis: a, lo: -0.5, hi: float64(len(a.Categories)) - 0.5}
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if a.showable(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if a.Scale.log() {
		lo, hi = logRange(lo, hi)
	} else {
		lo, hi = linearRange(lo, hi, fromZero)
	}
	lo, hi = a.fixEnds(lo, hi)
	r := ruler{axis: a, lo: lo, hi: hi}
	if b := a.Break; b != nil {
		r.broken = lo < b[0] && hi > b[1]
	}
	return r
}

// logRange adds a margin to the range of the values on a log axis.
func logRange(lo, hi float64) (float64, float64) {
	if lo > hi { // no values
		return 1, 10
	}
	if hi/lo < 1.5 {
		return lo / 2, hi * 2 // puts a single value in the middle
	}
	// The margin is 4 % of the length. A short range gets more, so that the ends
	// of error bars are visible.
	pad := max(math.Pow(hi/lo, 0.04), min(1.2, 3*lo/hi+1))
	return lo / pad, hi * pad
}

// linearRange adds a margin, and usually zero, to the range of the values on a linear axis.
func linearRange(lo, hi float64, fromZero bool) (float64, float64) {
	if lo > hi { // no values
		return 0, 1
	}
	// Readers compare values by their distance from zero, so zero is included
	// unless the values lie in a narrow band far away from it.
	if fromZero || (lo >= 0 && lo <= hi/2) || (hi <= 0 && hi >= lo/2) {
		lo, hi = min(lo, 0), max(hi, 0)
	}
	if size := max(math.Abs(lo), math.Abs(hi)); size < 1/extreme {
		lo, hi = lo-1, hi+1
	} else if hi-lo <= size*1e-6 {
		pad := max(size/2, 1e-3)
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

// fixEnds applies Min and Max. If a fixed end lies beyond the fitted one, it
// moves the fitted end.
func (a Axis) fixEnds(lo, hi float64) (float64, float64) {
	if a.Min != nil {
		lo = *a.Min
	}
	if a.Max != nil {
		hi = *a.Max
	}
	size := max(math.Abs(lo), math.Abs(hi))
	if hi-lo > size*1e-9 {
		return lo, hi
	}
	switch {
	case a.Scale.log() && a.Max == nil:
		hi = lo * 10
	case a.Scale.log() && a.Min == nil:
		lo = hi / 10
	case a.Max == nil:
		hi = lo + max(size, 1)
	case a.Min == nil:
		lo = hi - max(size, 1)
	default: // both are fixed, closer than can be drawn
		hi = lo + max(size*1e-6, 1/extreme)
	}
	return lo, hi
}

// fraction returns the position of v: 0 at the low end, 1 at the high end.
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
	}
	return breakTo + (1-breakTo)*(v-b[1])/(hi-b[1])
}

// at returns the position of v on the page.
func (r ruler) at(v float64) float64 { return r.from + r.fraction(v)*(r.to-r.from) }

// covers reports whether v is visible: between the ends and not inside the break.
func (r ruler) covers(v float64) bool {
	f := r.fraction(v)
	if f < -slack || f > 1+slack {
		return false
	}
	return !r.broken || f <= breakFrom || f >= breakTo
}

// marks chooses the ticks for about n labels.
func (r ruler) marks(n int) []Tick {
	if !r.broken {
		return r.axis.Ticks(r.lo, r.hi, n)
	}
	// Both parts of a broken axis have ticks. They stay clear of the cut, where
	// the slashes are, and there are two above it if at all possible.
	b := r.axis.Break
	const clear = 0.05
	low := max(2, int(math.Round(float64(n)*breakFrom)))
	lower := r.axis.Ticks(r.lo, b[0]-clear*(b[0]-r.lo), low)
	var upper []Tick
	for wish := max(2, n-low); len(upper) < 2 && wish <= 8; wish++ {
		upper = r.axis.Ticks(b[1]+clear*(r.hi-b[1]), r.hi, wish)
	}
	return append(lower, upper...)
}

// place puts the ruler on the page and chooses as many ticks as fit: labels of the
// given extent stay gap apart, and there is at most one per spacing points.
func (r *ruler) place(from, to float64, extent func(string) float64, gap, spacing float64) {
	r.from, r.to = from, to
	for n := max(2, int((to-from)/spacing)); n >= 2; n-- {
		r.ticks = r.marks(n)
		if len(r.crowded(extent, gap)) == 0 {
			return
		}
	}
	for _, i := range r.crowded(extent, gap) {
		r.ticks[i].Label = ""
	}
}

// placeVertical is place for an axis with its labels at the side.
func (r *ruler) placeVertical(from, to float64) {
	r.place(from, to, func(string) float64 { return tickFace.Size }, 4, 32)
}

// crowded returns the ticks whose labels come closer than gap to the label before.
func (r *ruler) crowded(extent func(string) float64, gap float64) (ticks []int) {
	end := math.Inf(-1)
	for i, t := range r.ticks {
		if t.Label == "" {
			continue
		}
		half := extent(t.Label) / 2
		if at := r.at(t.Value); at-half < end+gap {
			ticks = append(ticks, i)
		} else {
			end = at + half
		}
	}
	return ticks
}

// widest returns the width of the longest tick label.
func (r *ruler) widest() float64 {
	w := 0.0
	for _, t := range r.ticks {
		w = max(w, tickFace.Width(t.Label))
	}
	return w
}
