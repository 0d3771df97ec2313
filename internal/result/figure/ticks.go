package figure

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// The plotting library has tickers of its own, but they know neither byte sizes
// nor times nor how many labels fit, and they label a log axis at decades only.

// Tick is a mark on an axis. A minor tick has an empty label.
type Tick struct {
	Value float64
	Label string
}

// Ticks chooses round values between lo and hi for about n labels, and writes
// them in the unit of the axis. A category axis has one tick per category.
func (a Axis) Ticks(lo, hi float64, n int) []Tick {
	switch a.Scale {
	case Category:
		ticks := make([]Tick, len(a.Categories))
		for i, name := range a.Categories {
			ticks[i] = Tick{float64(i), name}
		}
		return ticks
	case Log10:
		return a.Unit.decades(lo, hi, n)
	case Log2:
		return a.Unit.powersOfTwo(lo, hi, n)
	}
	return a.Unit.steps(lo, hi, n)
}

// steps marks a linear axis. Bytes step by powers of two, all other units by 1, 2 and 5.
func (u Unit) steps(lo, hi float64, n int) []Tick {
	step := roundStep((hi-lo)/float64(max(n, 1)), u == Bytes)
	var values []float64
	for i := math.Ceil(lo/step - slack); i <= math.Floor(hi/step+slack); i++ {
		values = append(values, i*step)
	}
	ticks := make([]Tick, len(values))
	for i, label := range u.formatSteps(values, step) {
		ticks[i] = Tick{values[i], label}
	}
	return ticks
}

// roundStep returns the smallest round step that is at least 85 % of raw: for 21
// it prefers 20 to 50.
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

// decades marks a log axis at powers of ten. A long axis labels every second or
// third decade, a short one also 2 and 5 (or 3) within a decade. An axis shorter
// than a decade gets linear steps.
func (u Unit) decades(lo, hi float64, n int) []Tick {
	if countMultiples(lo, hi, []float64{1, 2, 5}) < 3 {
		return u.steps(lo, hi, n)
	}
	first := int(math.Ceil(math.Log10(lo) - slack))
	last := int(math.Floor(math.Log10(hi) + slack))
	stride := 1
	for (last-first)/stride+1 > max(n, 2) {
		stride++
	}
	var labelled []float64 // multiples of a power of ten that get a label
	for _, labelled = range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		if countMultiples(lo, hi, labelled) <= max(n, 2) {
			break
		}
	}
	// If even the decades are thinned out, minor ticks would be clutter.
	minor := stride == 1 && last-first < 10

	var ticks []Tick
	for e := first - 1; e <= last; e++ {
		for m := 1.0; m <= 9; m++ {
			v := m * pow10(e)
			if v < lo*(1-slack) || v > hi*(1+slack) {
				continue
			}
			switch {
			case m == 1 && mod(e, stride) == 0, stride == 1 && m != 1 && slices.Contains(labelled, m):
				ticks = append(ticks, Tick{v, u.formatDecade(v, lo)})
			case m == 1 || minor:
				ticks = append(ticks, Tick{v, ""})
			}
		}
	}
	return ticks
}

// countMultiples counts the values m*10^e between lo and hi.
func countMultiples(lo, hi float64, multiples []float64) int {
	n := 0
	for _, m := range multiples {
		first := math.Ceil(math.Log10(lo/m) - slack)
		last := math.Floor(math.Log10(hi/m) + slack)
		n += int(math.Max(0, last-first+1))
	}
	return n
}

// strides are the allowed distances between labelled powers of two.
var strides = []int{1, 2, 3, 4, 5, 10, 20, 50, 100}

// powersOfTwo marks a log axis at powers of two and labels every k-th of them,
// counted from 2^0. An axis shorter than one power gets linear steps.
func (u Unit) powersOfTwo(lo, hi float64, n int) []Tick {
	first := int(math.Ceil(math.Log2(lo) - slack))
	last := int(math.Floor(math.Log2(hi) + slack))
	if last-first < 1 {
		return u.steps(lo, hi, n)
	}
	labels := func(stride int) int { return floorDiv(last, stride) - floorDiv(first-1, stride) }
	stride := last - first // two labels if nothing denser fits
	for _, s := range strides {
		if u == Bytes && s == 3 {
			continue // 8, 64, 512 ... would skip 1Mi and 1Gi
		}
		// With fewer than two labels a reader could not see the scale.
		if labels(s) <= max(n, 2) && labels(s) >= 2 {
			stride = s
			break
		}
	}
	offset := 0
	if labels(stride) < 2 {
		offset = mod(first, stride)
	}
	minor := last-first <= 40 // more marks would run together
	var ticks []Tick
	for e := first; e <= last; e++ {
		v := math.Ldexp(1, e)
		if mod(e-offset, stride) == 0 {
			ticks = append(ticks, Tick{v, u.formatPowerOfTwo(e)})
		} else if minor {
			ticks = append(ticks, Tick{v, ""})
		}
	}
	return ticks
}

// mod returns the remainder of a/b in [0, b).
func mod(a, b int) int { return ((a % b) + b) % b }

// floorDiv returns a/b rounded towards minus infinity.
func floorDiv(a, b int) int { return (a - mod(a, b)) / b }

func pow10(n int) float64 { return math.Pow(10, float64(n)) }

// Unit is the unit of an axis. It decides how tick labels are written.
type Unit string

// The units. The empty string is a plain number.
const (
	Plain   Unit = "plain"
	Bytes   Unit = "bytes"   // 512, 4Ki, 1Mi
	Micros  Unit = "us"      // values in microseconds: 500 ns, 10 µs, 1 ms
	Percent Unit = "percent" // values in percent: 85%
	GBps    Unit = "GB/s"    // plain ticks; the axis label names the unit
	TFlops  Unit = "TFLOP/s" // plain ticks; the axis label names the unit
)

// prefix scales the values of a unit: a value of at least size is divided by size
// and gets the suffix.
type prefix struct {
	size   float64
	suffix string
}

var (
	plainPrefixes = []prefix{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}
	bytePrefixes  = []prefix{{1 << 40, "Ti"}, {1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}}
	timePrefixes  = []prefix{{1e6, " s"}, {1e3, " ms"}, {1, " µs"}, {1e-3, " ns"}}
)

// prefixFor chooses the prefix for values of this magnitude.
func (u Unit) prefixFor(magnitude float64) prefix {
	// Rounding errors must not keep 1000 µs, computed as 999.9999999, from becoming 1 ms.
	magnitude *= 1 + 1e-9
	none := prefix{1, ""}
	var prefixes []prefix
	switch {
	case u == Bytes:
		prefixes = bytePrefixes
	case u == Micros:
		prefixes, none = timePrefixes, timePrefixes[len(timePrefixes)-1]
	case u == Percent:
		none = prefix{1, "%"}
	case magnitude >= 1e4: // four digits are as short as "1.02k", and exact
		prefixes = plainPrefixes
	}
	if p, found := lists.First(prefixes, func(p prefix) bool { return magnitude >= p.size }); found {
		return p
	}
	return none
}

// Format writes a single value with up to four significant digits.
func (u Unit) Format(v float64) string {
	if v == 0 {
		return u.zero()
	}
	return u.formatDigits(v, 4)
}

// formatDigits writes a value with up to this many significant digits.
func (u Unit) formatDigits(v float64, digits int) string {
	p := u.prefixFor(math.Abs(v))
	return formatNumber(v/p.size, digits) + p.suffix
}

// formatSteps writes the ticks of a linear axis with the same prefix for all and
// just enough decimals to tell neighbours apart.
func (u Unit) formatSteps(values []float64, step float64) []string {
	largest := 0.0
	for _, v := range values {
		largest = math.Max(largest, math.Abs(v))
	}
	p := u.prefixFor(largest)
	decimals := max(0, -int(math.Floor(math.Log10(step/p.size)+slack)))
	if s := step / p.size; decimals <= 12 && math.Abs(s*pow10(decimals)-math.Round(s*pow10(decimals))) > 1e-6 {
		decimals++ // a step of 2.5 or 1/4 needs one more
	}
	return lists.Map(values, func(v float64) string {
		scaled := v / p.size
		switch {
		case math.Abs(v) < step/1e6:
			return u.zero()
		case decimals > 5 || math.Abs(scaled) >= 1e7:
			return formatNumber(scaled, 6) + p.suffix
		}
		return strconv.FormatFloat(scaled, 'f', decimals, 64) + p.suffix
	})
}

func (u Unit) zero() string {
	if u == Percent {
		return "0%"
	}
	return "0"
}

// formatNumber writes v with up to this many significant digits and no trailing
// zeros. It uses an exponent only if the zeros would be hard to count.
func formatNumber(v float64, digits int) string {
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e6) {
		return formatExponent(v, digits)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// formatExponent writes v as 1.5e-7.
func formatExponent(v float64, digits int) string {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', digits-1, 64), "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	e, _ := strconv.Atoi(exponent) // cannot fail: FormatFloat wrote it
	return mantissa + "e" + strconv.Itoa(e)
}

// formatDecade writes a tick of a log axis that starts at lo. If the smallest
// values need an exponent, all values below one get one: 1, 1e-2, 1e-4.
func (u Unit) formatDecade(v, lo float64) string {
	if u.bare() && lo < 1e-3 && v < 0.999 {
		return formatExponent(v, 4)
	}
	return u.Format(v)
}

// bare reports whether the unit's ticks are numbers without a suffix.
func (u Unit) bare() bool { return u == "" || u == Plain || u == GBps || u == TFlops }

// formatPowerOfTwo writes 2^e exactly: in digits up to 2^20, as a power beyond.
func (u Unit) formatPowerOfTwo(e int) string {
	v := math.Ldexp(1, e)
	if !u.bare() {
		return u.Format(v)
	}
	if e >= -4 && e <= 20 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return "2^" + strconv.Itoa(e)
}

// Title returns the label of the axis, with the unit if the ticks do not show it.
func (a Axis) Title() string {
	if (a.Unit != GBps && a.Unit != TFlops) || strings.Contains(a.Label, string(a.Unit)) {
		return a.Label
	}
	return strings.TrimSpace(a.Label + " (" + string(a.Unit) + ")")
}
