package ticks

import (
	"math"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Unit is what an axis's numbers count; it decides the wording of tick labels.
type Unit string

// The units; the empty string is a plain number.
const (
	Plain   Unit = "plain"
	Bytes   Unit = "bytes"   // 512, 4Ki, 1Mi
	Micros  Unit = "us"      // values in microseconds: 500 ns, 10 µs, 1 ms
	Percent Unit = "percent" // values in percent: 85%
	GBps    Unit = "GB/s"    // plain ticks, the unit goes to the axis label
	TFlops  Unit = "TFLOP/s" // plain ticks, the unit goes to the axis label
)

// Units are all of them.
func Units() []Unit { return []Unit{Plain, Bytes, Micros, Percent, GBps, TFlops} }

// prefix is a step of a unit's ladder: values from size upward are divided by
// size and get the suffix.
type prefix struct {
	size   float64
	suffix string
}

var (
	plainLadder = []prefix{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}
	byteLadder  = []prefix{{1 << 40, "Ti"}, {1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}}
	timeLadder  = []prefix{{1e6, " s"}, {1e3, " ms"}, {1, " µs"}, {1e-3, " ns"}}
)

// prefixFor chooses how a value of this magnitude is written in the unit.
func (u Unit) prefixFor(magnitude float64) prefix {
	// Rounding noise must not turn 1000 µs, computed as 999.9999999, into µs.
	magnitude *= 1 + 1e-9
	none := prefix{1, ""}
	var ladder []prefix
	switch {
	case u == Bytes:
		ladder = byteLadder
	case u == Micros:
		ladder, none = timeLadder, timeLadder[len(timeLadder)-1]
	case u == Percent:
		none = prefix{1, "%"}
	case magnitude >= 1e4: // four digits are as short as "1.02k", and exact
		ladder = plainLadder
	}
	if p, found := lists.First(ladder, func(p prefix) bool { return magnitude >= p.size }); found {
		return p
	}
	return none
}

// Format writes one value by itself, to four significant digits.
func (u Unit) Format(v float64) string {
	if v == 0 {
		return zero(u)
	}
	return u.Digits(v, 4)
}

// Digits writes a value with at most so many significant digits.
func (u Unit) Digits(v float64, digits int) string {
	p := u.prefixFor(math.Abs(v))
	return number(v/p.size, digits) + p.suffix
}

// formatAll writes the ticks of a linear axis: one prefix for all, and just
// the decimals that keep neighbours apart.
func (u Unit) formatAll(values []float64, step float64) []string {
	largest := 0.0
	for _, v := range values {
		largest = math.Max(largest, math.Abs(v))
	}
	p := u.prefixFor(largest)
	decimals := max(0, -int(math.Floor(math.Log10(step/p.size)+1e-9)))
	if s := step / p.size; decimals <= 12 && math.Abs(s*pow10(decimals)-math.Round(s*pow10(decimals))) > 1e-6 {
		decimals++ // a step of 2.5 or 1/4 needs one more
	}
	labels := make([]string, len(values))
	for i, v := range values {
		scaled := v / p.size
		switch {
		case math.Abs(v) < step/1e6:
			labels[i] = zero(u)
		case decimals > 5 || math.Abs(scaled) >= 1e7:
			labels[i] = number(scaled, 6) + p.suffix
		default:
			labels[i] = strconv.FormatFloat(scaled, 'f', decimals, 64) + p.suffix
		}
	}
	return labels
}

func zero(u Unit) string {
	if u == Percent {
		return "0%"
	}
	return "0"
}

// number writes v with at most digits significant digits, no trailing zeros,
// and an exponent only where digits would be hard to count.
func number(v float64, digits int) string {
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e6) {
		return exponential(v, digits)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// exponential writes v as 1.5e-7.
func exponential(v float64, digits int) string {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', digits-1, 64), "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	e, _ := strconv.Atoi(exponent) // FormatFloat wrote it
	return mantissa + "e" + strconv.Itoa(e)
}

// logLabel writes a tick of a log axis that starts at lo. Where exponents cannot be
// avoided at the low end, all values below one have them: 1, 1e-2, 1e-4.
func (u Unit) logLabel(v, lo float64) string {
	if u.bare() && lo < 1e-3 && v < 0.999 {
		return exponential(v, 4)
	}
	return u.Format(v)
}

// bare reports whether ticks of the unit are numbers without a suffix.
func (u Unit) bare() bool { return u == "" || u == Plain || u == GBps || u == TFlops }

// powerOfTwo writes 2^e exactly: digits as long as they can be read at a glance.
func (u Unit) powerOfTwo(e int) string {
	v := math.Ldexp(1, e)
	if u.bare() {
		if e >= -4 && e <= 20 {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return "2^" + strconv.Itoa(e)
	}
	return u.Format(v)
}

// Label joins an axis label with the unit the ticks leave out.
func (u Unit) Label(text string) string {
	if (u != GBps && u != TFlops) || strings.Contains(text, string(u)) {
		return text
	}
	return strings.TrimSpace(text + " (" + string(u) + ")")
}

func pow10(n int) float64 { return math.Pow(10, float64(n)) }
