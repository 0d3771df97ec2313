package export

import (
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// timeScale is a unit in which a table shows a column of times. Rows have them in microseconds.
type timeScale struct {
	name   string
	factor float64 // of a value in microseconds
}

// timeScales lists the units, the largest first.
var timeScales = []timeScale{{"s", 1e-6}, {"ms", 1e-3}, {"µs", 1}, {"ns", 1e3}}

// times reports whether the column has times in microseconds whose unit the table may choose. A heading
// that the bench declares names its own unit.
func (c Column) times() bool {
	switch c.Role {
	case Metric, Quantile, Modes:
		return c.label == "" && strings.HasSuffix(c.Key, "_us")
	}
	return false
}

// scaled returns the column with a unit in which the middle value of the lines has one to three digits before
// the point.
func (c Column) scaled(ls []line) Column {
	if !c.times() {
		return c
	}
	var values []float64
	for _, l := range ls {
		if v, ok := l.median(c.Key); ok && v > 0 && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return c
	}
	slices.Sort(values)
	middle := values[len(values)/2]
	for _, s := range timeScales {
		c.scale = s
		if middle*s.factor >= 1 {
			break
		}
	}
	return c
}

// convert returns a value in the unit of the column.
func (c Column) convert(v float64) float64 {
	if c.scale.factor == 0 {
		return v
	}
	return v * c.scale.factor
}

// exactDigits shows picoseconds of a simulated step of minutes.
const exactDigits = 12

// number returns a metric of a line with as many digits as it deserves: all digits of a simulated time, and
// of a measured value one digit more than its interval leaves certain. Whole numbers are counts.
func (c Column) number(l line, v float64) string {
	v = c.convert(v)
	if l.rows[0].Kind == journal.Simulated && (strings.HasSuffix(c.Key, "_us") || strings.HasSuffix(c.Key, "_ns")) {
		return unit.FormatSig(v, exactDigits)
	}
	if v == math.Trunc(v) && !strings.HasSuffix(c.Key, "_us") {
		return unit.FormatMetric(v)
	}
	return unit.FormatSig(v, l.digits())
}

// digits returns how many digits the time of a line deserves, and the rates derived from it.
func (l line) digits() int {
	const least, usual, most = 2, 4, 5
	width := 0.0
	for _, r := range journal.Counting(l.rows) {
		if v, ok := spreadOf(r, headline); ok {
			width = max(width, v)
		}
	}
	if s := launchStatsOf(l.rows, headline); s.known {
		width = max(width, s.spread)
	}
	if width == 0 {
		return usual
	}
	return min(most, max(least, 1+int(math.Ceil(-math.Log10(width/100)-1e-9))))
}
