package views

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// quantity is the y coordinate of a plot: a metric or one number of its spread, such as its 99th percentile.
type quantity struct {
	name   string // as the user wrote it
	metric string // "" for 1
	stat   string // "" for the metric itself
	unit   string

	factors []factor // multiply the metric
}

// factor is a number, or what a row has under a name.
type factor struct {
	number float64
	name   string // "" for the number
	over   bool   // divides
	of     func(r *journal.Row) (v float64, has bool)
}

// factorsOf splits a name such as 2*size/time_us.
func factorsOf(name string) (list []factor) {
	for len(name) > 0 {
		f := factor{over: name[0] == '/', name: strings.TrimLeft(name, "*/")}
		end := strings.IndexAny(f.name, "*/")
		if end < 0 {
			end = len(f.name)
		}
		f.name, name = strings.TrimSpace(f.name[:end]), f.name[end:]
		if n, err := strconv.ParseFloat(f.name, 64); err == nil {
			f.number, f.name = n, ""
		}
		list = append(list, f)
	}
	return list
}

// productOf resolves a product. Its first metric has the interval and the statistics.
func productOf(h *journal.Header, rows dataset.Set, name string) (quantity, error) {
	product := quantity{name: name}
	coords := rows.Coords(h)
	for _, f := range factorsOf(name) {
		c, err := dataset.FindCoord(coords, f.name)
		switch {
		case f.name == "":
		case err == nil:
			f.of = func(r *journal.Row) (float64, bool) { return c.Of(r).Number() }
		default:
			q, err := quantityOf(h, rows, f.name)
			if err != nil {
				return quantity{}, err
			}
			if product.metric == "" && !f.over {
				product.metric, product.stat = q.metric, q.stat
				continue
			}
			f.of = func(r *journal.Row) (float64, bool) { v, _, _, has := q.absolute(r); return v, has }
		}
		product.factors = append(product.factors, f)
	}
	return product, nil
}

// rates are the metrics that the harness computes from the time. Their intervals and limits follow from those of the
// time.
var rates = []string{"gbps", "algbw", "busbw", "tflops"}

// isRate reports whether the quantity is a rate that is inversely proportional to the time.
func (q quantity) isRate() bool {
	return q.stat == "" && len(q.factors) == 0 && slices.Contains(rates, q.metric)
}

// isOtherTime reports whether the quantity is a time that a body takes itself. Its limit is in NAME_pct_of_limit.
func (q quantity) isOtherTime() bool {
	return q.unit == "us" && q.stat == "" && len(q.factors) == 0 && q.metric != dataset.TimeMetric
}

// splitStat splits time_us.p99 into the metric and the statistic. If the name does not end in a known
// statistic, it returns the whole name as the metric.
func splitStat(name string) (metric, stat string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 && slices.Contains(journal.StatNames, name[i+1:]) {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// quantityOf resolves the name of a metric or of a part of its spread. If there is no ok row, the metrics are
// unknown, so it accepts every name.
func quantityOf(h *journal.Header, rows dataset.Set, name string) (quantity, error) {
	units, spreads := map[string]string{}, map[string]bool{}
	for _, m := range h.Metrics {
		units[m.Name] = m.Unit
	}
	anyOK := false
	for _, r := range rows {
		anyOK = anyOK || r.Status == journal.OK
		for m := range r.Metrics {
			units[m] = cmp.Or(units[m], r.Units[m])
		}
		for m := range r.Stats.All() {
			spreads[m] = true
		}
	}
	if unit, ok := units[name]; ok {
		return quantity{name: name, metric: name, unit: unit}, nil
	}
	if metric, stat := splitStat(name); stat != "" && (spreads[metric] || !anyOK) {
		return quantity{name: name, metric: metric, stat: stat, unit: units[metric]}, nil
	}
	if strings.ContainsAny(name, "*/") {
		return productOf(h, rows, name)
	}
	if !anyOK {
		return quantity{name: name, metric: name}, nil
	}
	names := slices.Sorted(maps.Keys(units))
	for _, m := range slices.Sorted(maps.Keys(spreads)) {
		for _, s := range journal.StatNames {
			names = append(names, m+"."+s)
		}
	}
	return quantity{}, suggest.Unknown("metric", name, names)
}

// value returns the row's value and the ends of its error bar. Both ends are 0 if it has none.
func (q quantity) value(r *journal.Row) (v float64, low, high float64, ok bool) {
	v, low, high, ok = q.absolute(r)
	for _, f := range q.factors {
		by := f.number
		if f.of != nil {
			var has bool
			by, has = f.of(r)
			ok = ok && has
		}
		if f.over {
			ok = ok && by > 0
			v, low, high = v/by, low/by, high/by
			continue
		}
		v, low, high = v*by, low*by, high*by
	}
	return v, low, high, ok && finite(v)
}

// median returns the value of several trials: of their medians or, for a statistic, the median of its values.
func (q quantity) median(trials dataset.Set) float64 {
	if q.stat == "" {
		v, _, _, _ := q.value(trials.Merge())
		return v
	}
	v, _ := dataset.MedianBy(trials, func(r *journal.Row) (float64, bool) { v, _, _, has := q.value(r); return v, has })
	return v
}

// absolute returns the value before it is divided by another metric. The interval of a metric is in its statistics. A
// metric that a bench derives from other rows may have the metrics NAME_low and NAME_high instead.
func (q quantity) absolute(r *journal.Row) (v float64, low, high float64, ok bool) {
	if q.metric == "" {
		return 1, 0, 0, true
	}
	s, hasStat := r.Stats.Find(q.metric)
	if q.stat != "" {
		v, ok = s.Part(q.stat)
		return v, 0, 0, ok && hasStat && finite(v)
	}
	if v, ok = r.Metrics[q.metric]; !ok || !finite(v) {
		return v, 0, 0, false
	}
	low, high, has := interval(s)
	if us := r.Metrics[dataset.TimeMetric]; !has && q.isRate() && us > 0 {
		if low, high, has = interval(r.Stats.Get(dataset.TimeMetric)); has && low > 0 {
			return v, v * us / high, v * us / low, true
		}
		has = false
	}
	if !has {
		low, high = r.Metrics[q.metric+"_low"], r.Metrics[q.metric+"_high"]
		has = low <= high && finite(low) && finite(high)
	}
	if !has {
		low, high = 0, 0
	}
	return v, low, high, true
}

// sampled reports whether the error bar of a row is a confidence interval of its samples. A bench explains other ones.
func (q quantity) sampled(r *journal.Row) bool {
	_, derived := r.Metrics[q.metric+"_low"]
	return !derived
}

// interval returns the confidence interval of a statistic, and whether it has one.
func interval(s journal.Stat) (low, high float64, has bool) {
	if s.CILow == nil || s.CIHigh == nil || !finite(*s.CILow) || !finite(*s.CIHigh) || *s.CILow > *s.CIHigh {
		return 0, 0, false
	}
	return *s.CILow, *s.CIHigh, true
}

// rounding is the share of the largest value below which another one is 0.
const rounding = 1e-7

// counts returns whether a row has the quantity, and more of it than a rounding error of the largest of all.
func (q quantity) counts(all []quantity) func(*journal.Row) bool {
	return func(r *journal.Row) bool {
		largest := 0.0
		for _, other := range all {
			v, _, _, _ := other.value(r)
			largest = max(largest, math.Abs(v))
		}
		v, _, _, _ := q.value(r)
		return math.Abs(v) > rounding*largest
	}
}

// in returns the ok rows that have the quantity.
func (q quantity) in(rows dataset.Set) dataset.Set {
	return rows.Good().Where(func(r *journal.Row) bool { _, _, _, has := q.value(r); return has })
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// FigureAxis returns an axis for a metric. of is the unit of the metric. The label contains the unit only if
// the ticks do not: ticks such as "10 µs" already do.
func FigureAxis(label, of string) figure.Axis {
	switch of {
	case "":
		return figure.Axis{Label: label}
	case "us":
		return figure.Axis{Label: strings.TrimSuffix(label, "_us"), Unit: figure.Micros}
	case "%":
		return figure.Axis{Label: label, Unit: figure.Percent}
	case "B", "bytes":
		return figure.Axis{Label: label + " (" + of + ")", Unit: figure.Bytes}
	case string(figure.GBps), string(figure.TFlops):
		return figure.Axis{Label: label, Unit: figure.Unit(of)} // the figure adds the unit to the label
	}
	return figure.Axis{Label: unit.WithUnit(label, of)}
}

// MetricText formats a metric with its unit for a reader.
func MetricText(v float64, u string) string {
	if u == "us" {
		return unit.FormatMicros(v)
	}
	return strings.TrimSpace(unit.FormatMetric(v) + " " + u)
}
