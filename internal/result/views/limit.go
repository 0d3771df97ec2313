package views

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// limits adds the lower bounds on the times of the rows, or the upper bounds on their rates. A bound that is the same
// for all series is one line. Otherwise each series gets its bound as a dashed line in its color.
func (d *drawing) limits(all []panelDots, series []figure.Series) ([]figure.Line, []figure.Series) {
	q := d.ys[0]
	drawn := d.Limit != "none" && (q.name == dataset.TimeMetric || (q.isRate() || q.isOtherTime()) && d.Limit != "")
	if len(d.ys) > 1 || len(q.factors) > 0 || d.Over != "" || !drawn {
		return nil, series
	}
	if d.Limit == "least" {
		return d.leastLimits(all), series
	}
	var lines []figure.Line
	for _, name := range limitNames(all) {
		limit := func(r *journal.Row) (float64, bool) { us, has := r.Limits[name]; return us, has }
		text := cmp.Or(d.Labels[name], "limit: "+name)
		curves := lists.Map(all, func(s panelDots) []figure.Point { return d.limitCurve(s.dots, limit) })
		if curve, shared := commonCurve(curves); shared {
			lines = append(lines, limitLine(text, curve))
			continue
		}
		for i, curve := range curves {
			if len(curve) > 0 {
				series = append(series, figure.Series{Name: text + " (" + series[i].Name + ")", Points: curve,
					Color: i + 1, Dashed: true, NoMarker: len(curve) > 1})
			}
		}
	}
	return lines, series
}

// leastLimits returns a line for each machine through the least time that any series could reach. A row's limits must
// all be kept, so its own limit is the largest of them.
func (d *drawing) leastLimits(all []panelDots) (lines []figure.Line) {
	var dots []dot
	for _, s := range all {
		dots = append(dots, s.dots...)
	}
	largest := func(r *journal.Row) (us float64, has bool) {
		if q := d.ys[0]; q.isOtherTime() {
			us = r.Metrics[q.metric] * r.Metrics[strings.TrimSuffix(q.metric, "_us")+"_pct_of_limit"] / 100
			return us, us > 0
		}
		for _, v := range r.Limits {
			us = max(us, v)
		}
		return us, us > 0
	}
	values, groups := bucket(dots, func(d dot) dataset.Value { return machine.Of(d.row) })
	for _, v := range values {
		label := "limit"
		if len(values) > 1 {
			label = d.join(label, v.Text())
		}
		if curve := d.limitCurve(groups[v.ID()], largest); len(curve) > 1 {
			lines = append(lines, figure.Line{Label: label, Points: curve})
		}
	}
	return lines
}

// machine is the coordinate that names the machine of a row.
var machine = dataset.Coord{Name: dataset.Machine, Class: dataset.Field, Key: dataset.Machine}

func limitNames(all []panelDots) []string {
	seen := map[string]bool{}
	for _, s := range all {
		for _, d := range s.dots {
			for name := range d.row.Limits {
				seen[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// limitCurve returns a limit over x, in the unit of y. Trials of one point have the same limit; if rows differ, the
// smallest time is drawn.
func (d *drawing) limitCurve(dots []dot, limit func(*journal.Row) (float64, bool)) (curve []figure.Point) {
	values, groups := bucket(dots, func(d dot) dataset.Value { return d.x })
	for _, x := range values {
		best, y := math.Inf(1), 0.0
		for _, dot := range groups[x.ID()] {
			if us, has := limit(dot.row); has && finite(us) && us < best {
				best, y = us, us
				if d.ys[0].isRate() {
					y = dot.y * dot.row.Metrics[dataset.TimeMetric] / us
				}
			}
		}
		if finite(best) && finite(y) {
			curve = append(curve, figure.Point{X: d.axis.at(x), Y: y})
		}
	}
	return curve
}

// commonCurve joins curves if they agree wherever they have the same x.
func commonCurve(curves [][]figure.Point) ([]figure.Point, bool) {
	at := map[float64]float64{}
	for _, curve := range curves {
		for _, pt := range curve {
			if y, seen := at[pt.X]; seen && y != pt.Y {
				return nil, false
			}
			at[pt.X] = pt.Y
		}
	}
	out := lists.Map(slices.Sorted(maps.Keys(at)), func(x float64) figure.Point { return figure.Point{X: x, Y: at[x]} })
	return out, len(out) > 0
}

// limitLine returns a horizontal line if the limit does not depend on x.
func limitLine(label string, curve []figure.Point) figure.Line {
	y := curve[0].Y
	if slices.ContainsFunc(curve, func(p figure.Point) bool { return p.Y != y }) {
		return figure.Line{Label: label, Points: curve}
	}
	return figure.Line{Label: label, Y: &y}
}

// onIdeal reports whether the dots are only what the ideal starts from: all at one x, and on the ideal.
func (d *drawing) onIdeal(dots []dot) bool {
	level, unknown := strconv.ParseFloat(d.Ideal, 64)
	if unknown != nil && d.Ideal != "x" {
		return false
	}
	return !slices.ContainsFunc(dots, func(o dot) bool {
		x, _ := o.x.Number()
		return o.x.ID() != dots[0].x.ID() || unknown == nil && o.y != level || unknown != nil && o.y != x
	})
}

// ideal returns the line of the ideal: a level, y = x, or in proportion to x from the highest y at the first x.
func (d *drawing) ideal(dots []dot) []figure.Line {
	line := figure.Line{Label: d.label("ideal")}
	if y, err := strconv.ParseFloat(d.Ideal, 64); err == nil {
		line.Y = &y
		return []figure.Line{line}
	}
	low, high, first := math.Inf(1), math.Inf(-1), 0.0
	for _, dot := range dots {
		x, _ := dot.x.Number()
		if x < low {
			low, first = x, 0
		}
		if x == low {
			first = max(first, dot.y)
		}
		high = max(high, x)
	}
	slope := map[string]float64{"x": 1, "first": first / low}[d.Ideal]
	if !(slope > 0) || low >= high {
		return nil
	}
	line.Points = []figure.Point{{X: low, Y: slope * low}, {X: high, Y: slope * high}}
	return []figure.Line{line}
}
