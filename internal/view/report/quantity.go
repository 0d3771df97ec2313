package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// headline is the metric that every timed row has, in microseconds as limits are.
const headline = "time_us"

// quantity is what a plot shows upward: a metric, or one number of its spread.
type quantity struct {
	name   string // as it was asked for
	metric string
	stat   string // "" for the metric itself
	unit   string
}

// quantityOf resolves the name of a metric or of a part of its spread. A run
// without a good row does not tell which metrics there are, so any name will do.
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
	if i := strings.LastIndexByte(name, '.'); i >= 0 && slices.Contains(journal.StatNames, name[i+1:]) {
		if metric := name[:i]; spreads[metric] || !anyOK {
			return quantity{name, metric, name[i+1:], units[metric]}, nil
		}
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

// of is the row's number, and the ends of its error bar where it has one.
func (q quantity) of(r *journal.Row) (v float64, low, high float64, ok bool) {
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

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// FigureUnit is how the ticks of a unit are written, and whether the axis label
// still has to name it: "10 µs" speaks for itself.
func FigureUnit(unit string) (u figure.Unit, inLabel bool) {
	switch unit {
	case "":
		return "", false
	case "us":
		return figure.Micros, false
	case "%":
		return figure.Percent, false
	case "B", "bytes":
		return figure.Bytes, true
	case string(figure.GBps):
		return figure.GBps, false // figure itself adds it
	case string(figure.TFlops):
		return figure.TFlops, false
	}
	return "", true
}
