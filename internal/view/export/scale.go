package export

import (
	"cmp"
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// timeEnds are the ends of the names of times, with what one of their units is in microseconds.
var timeEnds = map[string]float64{"_ns": 1e-3, "_us": 1, "_ms": 1e3, "_s": 1e6}

// times returns the name without its unit of a column of times whose unit the table may choose, and what a value of 1
// is in microseconds. A heading that the bench declares names its own unit, unless it ends like the name of a metric.
func (c Column) times() (name string, micros float64, ok bool) {
	for end, micros := range timeEnds {
		name, is := strings.CutSuffix(cmp.Or(c.label, c.Key), end)
		switch {
		case !is || !strings.HasSuffix(c.Key, end) || strings.HasSuffix(name, "_per"):
		case end == "_s" && c.Unit != "s": // flops_s is no time
		case c.Role == Metric || c.Role == Quantile || c.Role == Modes:
			return name, micros, true
		}
	}
	return "", 0, false
}

// scaled returns the column with a unit in which the middle value of the lines has one to three digits before
// the point.
func (c Column) scaled(ls []Line) Column {
	name, micros, ok := c.times()
	if !ok {
		return c
	}
	var values []float64
	for _, l := range ls {
		if v, ok := l.median(c.Key); ok {
			values = append(values, v*micros)
		}
	}
	in := unit.MicrosIn(values)
	c.time, c.scale, c.factor = name, in.Name, in.Factor*micros
	return c
}

// convert returns a value in the unit of the column.
func (c Column) convert(v float64) float64 {
	if c.factor == 0 {
		return v
	}
	return v * c.factor
}

// exactDigits shows picoseconds of a simulated step of minutes.
const exactDigits = 12

// number returns a metric of a line with as many digits as it deserves: all digits of a simulated time, and
// of a measured value one digit more than its interval leaves certain. Whole numbers are counts.
func (c Column) number(l Line, v float64) string {
	v = c.convert(v)
	_, _, isTime := c.times()
	if isTime && l.Rows[0].Kind == journal.Simulated {
		return unit.FormatSig(v, exactDigits)
	}
	if v == math.Trunc(v) && !isTime {
		return unit.FormatMetric(v)
	}
	return unit.FormatSig(v, l.digits())
}

// digits returns how many digits the time of a line deserves, and the rates derived from it.
func (l Line) digits() int {
	const least, usual, most = 2, 4, 5
	width := 0.0
	for _, r := range l.Rows.Counting() {
		if v, ok := spreadOf(r, headline); ok {
			width = max(width, v)
		}
	}
	if s := launchStatsOf(l.Rows, headline); s.known {
		width = max(width, s.spread)
	}
	if width == 0 {
		return usual
	}
	return min(most, max(least, 1+int(math.Ceil(-math.Log10(width/100)-1e-9))))
}
