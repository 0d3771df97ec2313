// Package views makes figures, tables and sentences of rows. A [Plot] describes a figure: which coordinate is on x,
// which metric on y, and what separates series and panels. The command line parses one from --plot, a bench declares
// one for each of its figures, and [AutoPlot] chooses one for runs that have neither.
//
// All views are pure functions of the header and the rows. The package draws nothing: a figure is a description that
// package figure draws.
package views

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Plot is a request for a figure, such as x=size,y=time_us,by=dtype. X and By name
// axes, environment variables, options, or one of num_ranks, backend, part, run,
// trial, kind, bench and machine. Y is a metric or a part of its spread such as
// time_us.p99.
type Plot struct {
	X, Y string
	By   []string
}

// plotForm is the correct form, for error messages.
const plotForm = "want x=AXIS[,y=METRIC][,by=AXIS[+AXIS...]], such as x=size,y=time_us,by=dtype"

// ParsePlot parses the value of --plot. Without y it plots time_us. by may be
// repeated, or name several coordinates joined by +.
func ParsePlot(text string) (Plot, error) {
	p, err := parsePlot(text)
	if err != nil {
		return Plot{}, fmt.Errorf("plot %q: %w: %s", text, err, plotForm)
	}
	return p, nil
}

// ParsePlots parses several plots.
func ParsePlots(texts []string) ([]Plot, error) { return lists.TryMap(texts, ParsePlot) }

// parsePlot parses a plot. ParsePlot adds the text and the correct form to its errors.
func parsePlot(text string) (p Plot, err error) {
	for _, word := range strings.Split(text, ",") {
		key, names, ok := strings.Cut(word, "=")
		key, names = strings.TrimSpace(key), strings.TrimSpace(names)
		switch {
		case !ok || names == "":
			return p, fmt.Errorf("%q has no name", strings.TrimSpace(word))
		case key == "x" && p.X == "":
			p.X = names
		case key == "y" && p.Y == "":
			p.Y = names
		case key == "by":
			for _, name := range strings.Split(names, "+") {
				if name = strings.TrimSpace(name); name == "" {
					return p, fmt.Errorf("%q has an empty name between two +", word)
				}
				if !slices.Contains(p.By, name) {
					p.By = append(p.By, name)
				}
			}
		case key == "x" || key == "y":
			return p, fmt.Errorf("duplicate %s", key)
		default:
			return p, suggest.Unknown("key", key, []string{"x", "y", "by"})
		}
	}
	if p.X == "" {
		return p, errors.New("missing x")
	}
	p.Y = cmp.Or(p.Y, Time)
	return p, nil
}

// String returns the plot in the form that ParsePlot reads.
func (p Plot) String() string {
	s := "x=" + p.X + ",y=" + p.Y
	if len(p.By) > 0 {
		s += ",by=" + strings.Join(p.By, "+")
	}
	return s
}

// Check returns an error if the rows of a planned run will not have the coordinates of the plot.
func (p Plot) Check(h *journal.Header, options point.Point) error {
	coords := coordsOf(h, []journal.Row{{Options: options}})
	for _, name := range append([]string{p.X}, p.By...) {
		if _, err := findCoord(coords, name); err != nil {
			return fmt.Errorf("plot %s: %w", p, err)
		}
	}
	return nil
}

// CheckMetric returns an error if the plot's metric is not one of the known metrics.
func (p Plot) CheckMetric(known []journal.MetricInfo) error {
	names := lists.Map(known, func(m journal.MetricInfo) string { return m.Name })
	metric := p.Y
	if !slices.Contains(names, metric) {
		metric, _ = splitStat(metric)
	}
	if slices.Contains(names, metric) {
		return nil
	}
	return fmt.Errorf("plot %s: %w", p, suggest.Unknown("metric", metric, names))
}

// maxStem is the longest name of a figure, in bytes. With its ending, every file system accepts it.
const maxStem = 120

// stem returns the name of the figure: plot_time_us_vs_size_by_dtype.
func (p Plot) stem() string {
	s := "plot_" + p.Y + "_vs_" + p.X
	if len(p.By) > 0 {
		s += "_by_" + strings.Join(p.By, "_")
	}
	s = figure.Stem(s)
	return s[:min(len(s), maxStem)]
}

// AutoPlot chooses a default plot. X is the numeric coordinate with the most values, or else the text
// coordinate with the most values. Y is the time or the first metric. By is everything else that varies. The
// result is false if nothing varies or no ok row has a metric.
func AutoPlot(h *journal.Header, rows []journal.Row) (Plot, bool) {
	if h == nil {
		h = &journal.Header{}
	}
	y, ok := autoMetric(h, rows)
	if !ok {
		return Plot{}, false
	}
	good := y.in(rows)
	coords := coordsOf(h, rows)
	best, mostValues, bestNum := coord{}, 1, false
	for _, c := range coords {
		if c.class == fieldClass && !c.is(ranksField, backendField, partField) {
			continue
		}
		n, num := c.count(good)
		if n > 1 && (n > mostValues && num == bestNum || num && !bestNum) {
			best, mostValues, bestNum = c, n, num
		}
	}
	if mostValues < 2 {
		return Plot{}, false
	}
	dots, _ := collect(rows, best, y)
	p := Plot{X: best.name, Y: y.name, By: namesOf(separate(dots, best, nil, coords))}
	// The legend must distinguish simulated curves from measured ones.
	kindVaries := slices.ContainsFunc(good, func(r *journal.Row) bool { return r.Kind != good[0].Kind })
	if kindVaries && p.X != kindField && !slices.Contains(p.By, kindField) { // an axis may have that name too
		p.By = append(p.By, kindField)
	}
	return p, true
}

// autoMetric returns the time if any ok row has it, else the first declared metric that an ok row has, else
// any metric.
func autoMetric(h *journal.Header, rows []journal.Row) (quantity, bool) {
	names := append([]string{Time}, lists.Map(h.Metrics, func(m journal.MetricInfo) string { return m.Name })...)
	for i := range rows {
		if rows[i].Status == journal.OK {
			names = append(names, slices.Sorted(maps.Keys(rows[i].Metrics))...)
		}
	}
	for _, name := range lists.Distinct(names) {
		q, err := quantityOf(h, rows, name)
		if err == nil && name != "" && len(q.in(rows)) > 0 {
			return q, true
		}
	}
	return quantity{}, false
}

// count returns the number of values that the rows have at the coordinate, and
// whether all of them are numbers.
func (c coord) count(rows []*journal.Row) (n int, numeric bool) {
	seen := map[string]bool{}
	numeric = true
	for _, r := range rows {
		if v := c.value(r); v.has {
			seen[v.id()] = true
			numeric = numeric && v.isNum
		}
	}
	return len(seen), numeric && len(seen) > 0
}

// Names returns the names that a plot of the rows may use: coordinates with more than
// one value, and metrics.
func Names(h *journal.Header, rows []journal.Row) (coords, metrics []string) {
	if len(rows) > 0 {
		coords = namesOf(lists.Filter(coordsOf(h, rows), func(c coord) bool { return c.varies(dataset.All(rows)) }))
	}
	var others []string
	for i := range rows {
		others = slices.AppendSeq(others, maps.Keys(rows[i].Metrics))
	}
	slices.Sort(others)
	metrics = lists.Map(h.Metrics, func(m journal.MetricInfo) string { return m.Name })
	return coords, lists.Distinct(append(metrics, others...))
}

// Time is the metric that every timed row has. It is in microseconds, like limits.
const Time = "time_us"

// quantity is the y coordinate of a plot: a metric or one number of its spread, such as its 99th percentile.
type quantity struct {
	name   string // as the user wrote it
	metric string
	stat   string // "" for the metric itself
	unit   string
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
func quantityOf(h *journal.Header, rows []journal.Row, name string) (quantity, error) {
	units, spreads := map[string]string{}, map[string]bool{}
	for _, m := range h.Metrics {
		units[m.Name] = m.Unit
	}
	anyOK := false
	for i := range rows {
		r := &rows[i]
		anyOK = anyOK || r.Status == journal.OK
		for m := range r.Metrics {
			units[m] = cmp.Or(units[m], r.Units[m])
		}
		for m := range r.Stats.All() {
			spreads[m] = true
		}
	}
	if unit, ok := units[name]; ok {
		return quantity{name, name, "", unit}, nil
	}
	if metric, stat := splitStat(name); stat != "" && (spreads[metric] || !anyOK) {
		return quantity{name, metric, stat, units[metric]}, nil
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
	s, hasStat := r.Stats.Find(q.metric)
	if q.stat != "" {
		v, ok = s.Part(q.stat)
		return v, 0, 0, ok && hasStat && finite(v)
	}
	v, ok = r.Metrics[q.metric]
	if ok && s.CILow != nil && s.CIHigh != nil && *s.CILow <= *s.CIHigh && finite(*s.CILow) && finite(*s.CIHigh) {
		low, high = *s.CILow, *s.CIHigh
	}
	return v, low, high, ok && finite(v)
}

// in returns the ok rows that have the quantity.
func (q quantity) in(rows []journal.Row) []*journal.Row {
	return dataset.Good(rows).Where(func(r *journal.Row) bool { _, _, _, has := q.value(r); return has })
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
