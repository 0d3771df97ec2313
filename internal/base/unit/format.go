package unit

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// FormatBytes writes a size exactly, with a binary prefix where the size is a multiple of it:
// 65536 is "64Ki", 65537 stays "65537". ParseBytes reads it back.
func FormatBytes(n int64) string {
	power := 0
	for power < len(prefixes) && n != 0 && n%1024 == 0 {
		n /= 1024
		power++
	}
	text := strconv.FormatInt(n, 10)
	if power > 0 {
		text += prefixes[power-1:power] + "i"
	}
	return text
}

// FormatSig rounds v to a number of significant digits and writes it without trailing zeros:
// 0.25, 12.3, 1230. Numbers below 1e-5 and from 1e15 on get an exponent.
func FormatSig(v float64, digits int) string {
	rounded := roundSig(v, digits)
	size := math.Abs(rounded)
	switch {
	case rounded == 0:
		return "0" // never "-0"
	case math.IsInf(rounded, 1):
		return "Inf" // strconv would write "+Inf"
	case size < 1e-5 || size >= 1e15:
		return strconv.FormatFloat(rounded, 'g', -1, 64)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// roundSig rounds to significant digits. It goes through the decimal text, so that the result agrees
// with the text that FormatSig writes.
func roundSig(v float64, digits int) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', max(digits, 1)-1, 64), 64)
	if err != nil {
		return v // rounding up overflows float64
	}
	return rounded
}

// step is one unit of a ladder.
type step struct {
	from  float64 // the smallest value that is written in this unit
	scale float64 // the value of one unit
	name  string
}

// A ladder lists units, the largest first. The last one is used for all smaller values.
var (
	binaryLadder = []step{
		{1 << 40, 1 << 40, "Ti"}, {1 << 30, 1 << 30, "Gi"}, {1 << 20, 1 << 20, "Mi"}, {1 << 10, 1 << 10, "Ki"}, {0, 1, ""},
	}
	// Collectives take microseconds. Tenths of a microsecond keep this unit, so that small
	// times in a column can be compared at a glance.
	microsLadder = []step{
		{1e6, 1e6, "s"}, {1e3, 1e3, "ms"}, {0.1, 1, "µs"}, {0, 1e-3, "ns"},
	}
	siLadder = []step{
		{1e18, 1e18, "E"}, {1e15, 1e15, "P"}, {1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e3, 1e3, "k"},
		{1, 1, ""}, {1e-3, 1e-3, "m"}, {1e-6, 1e-6, "u"}, {0, 1e-9, "n"},
	}
)

// shownDigits is the number of significant digits in views. Measured times are rarely
// reproducible to more than one part in a thousand.
const shownDigits = 3

// climb chooses the unit for v and returns the scaled number as text. It chooses by the rounded
// value, so that 999.9 µs is written as "1 ms" and not as "1000 µs".
func climb(v float64, ladder []step) (number, name string) {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		for _, s := range ladder {
			if s.scale == 1 {
				return FormatSig(v, shownDigits), s.name
			}
		}
	}
	chosen := ladder[len(ladder)-1]
	for _, s := range ladder[:len(ladder)-1] {
		if roundSig(math.Abs(v)/s.from, shownDigits) >= 1 {
			chosen = s
			break
		}
	}
	scaled := v / chosen.scale
	digits := shownDigits
	if math.Abs(scaled) >= 1000 {
		digits++ // such as 1020 of 1024, or beyond the largest unit
	}
	return FormatSig(scaled, digits), chosen.name
}

// FormatMetric writes a metric with four significant digits, more than a measurement
// can resolve. Whole numbers are counts, such as 16384 bytes, and are written exactly.
func FormatMetric(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return FormatSig(v, 4)
}

// FormatBytesApprox writes a size with three digits and a binary prefix ("1.5Ki", "683Mi"),
// for axis ticks and prose. FormatBytes is exact.
func FormatBytesApprox(v float64) string {
	number, name := climb(v, binaryLadder)
	return number + name
}

// FormatMicros writes a time in microseconds, the unit of time metrics, with three digits:
// "0.25 µs", "1.2 ms", "3.4 s".
func FormatMicros(us float64) string {
	number, name := climb(us, microsLadder)
	return number + " " + name
}

// TimeUnit is a unit in which a table shows times that rows have in microseconds.
type TimeUnit struct {
	Name   string
	Factor float64 // of a time in microseconds
}

// TimeUnits lists the units of times, the largest first.
var TimeUnits = []TimeUnit{{"s", 1e-6}, {"ms", 1e-3}, {"µs", 1}, {"ns", 1e3}}

// MicrosIn returns the unit in which the middle one of some times in microseconds has one to three digits before the
// point. Times of 0 do not count.
func MicrosIn(us []float64) TimeUnit {
	middle := 1.0
	known := lists.Filter(us, func(v float64) bool { return v > 0 && !math.IsInf(v, 0) })
	if slices.Sort(known); len(known) > 0 {
		middle = known[len(known)/2]
	}
	for _, u := range TimeUnits {
		if middle*u.Factor >= 1 {
			return u
		}
	}
	return TimeUnits[len(TimeUnits)-1]
}

// Format returns a time without its unit.
func (u TimeUnit) Format(us float64, digits int) string { return FormatSig(us*u.Factor, digits) }

// FormatInterval formats a value with the ends of its interval, which are known less precisely.
func FormatInterval(v, low, high float64) string {
	return FormatSig(v, 3) + " (" + FormatSig(low, 2) + " to " + FormatSig(high, 2) + ")"
}

// WithUnit returns the name of a metric for people: with its unit in brackets, unless the name ends in it.
func WithUnit(name, unit string) string {
	if unit == "" || strings.HasSuffix(name, "_"+unit) {
		return name
	}
	if short := len(name) - len("_"+unit); short > 0 && strings.EqualFold(name[short:], "_"+unit) { // energy_uj in uJ
		name = name[:short]
	}
	return name + " (" + Symbol(unit) + ")"
}

// Symbol returns a unit as people write it: rows have times in "us" and energies in "uJ", which are shown as "µs"
// and "µJ".
func Symbol(unit string) string {
	switch unit {
	case "us", "uJ", "uW":
		return "µ" + unit[1:]
	}
	return unit
}

// FormatDuration is FormatMicros for a time.Duration.
func FormatDuration(d time.Duration) string {
	return FormatMicros(float64(d) / float64(time.Microsecond))
}

// FormatSI writes v with three digits and a decimal prefix: 12.34e9 is "12.3G".
func FormatSI(v float64) string {
	number, prefix := climb(v, siLadder)
	return number + prefix
}

// Plural writes a number with its noun: "1 rank", "2 ranks".
func Plural(n int, noun string) string { return Counted(n, noun, noun+"s") }

// Counted is Plural for irregular forms: "1 launch", "2 launches"; "1 row was", "2 rows were".
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
