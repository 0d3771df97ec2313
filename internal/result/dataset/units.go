package dataset

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// inUnits returns the rows with every metric in one unit, because a table or figure has one unit for all its rows. The
// unit is the one that the run declares, or else the unit of the first row. Rows in another unit come from a build
// that declared it, or from another program. Their values are converted or, if that is impossible, left out with a
// condition.
func inUnits(rows Set, metrics []journal.MetricInfo) Set {
	target := map[string]string{}
	for _, m := range metrics {
		target[m.Name] = m.Unit
	}
	cloned := false
	for i := range rows {
		for name, own := range rows[i].Units {
			wantedUnit := target[name]
			if _, has := rows[i].Metrics[name]; !has || own == wantedUnit || own == "" {
				continue
			}
			if wantedUnit == "" {
				target[name] = own
				continue
			}
			factor, ok := unit.Conversion(own, wantedUnit)
			if ok && factor == 1 {
				continue
			}
			if !cloned {
				rows, cloned = slices.Clone(rows), true
			}
			if ok {
				rows[i] = scaled(*rows[i], name, wantedUnit, factor)
			} else {
				rows[i] = without(*rows[i], name)
				why := fmt.Sprintf("%s is in %s, not in %s like the run's", name, own, wantedUnit)
				rows[i].Conditions.Add(journal.NewCondition(journal.CodeUnit, nil, why))
			}
		}
	}
	return rows
}

// scaled returns the row with a metric multiplied by a factor and given in another unit.
func scaled(r journal.Row, name, to string, factor float64) *journal.Row {
	r.Metrics, r.Units, r.Stats = maps.Clone(r.Metrics), maps.Clone(r.Units), slices.Clone(r.Stats)
	r.Metrics[name] *= factor
	r.Units[name] = to
	for i := range r.Stats {
		if r.Stats[i].Name == name {
			r.Stats[i].Value = scaledStat(r.Stats[i].Value, factor)
		}
	}
	r.Measurements = slices.Clone(r.Measurements)
	for i := range r.Measurements {
		m := slices.Clone(r.Measurements[i].Metrics)
		for k := range m {
			if m[k].Name == name {
				m[k].Value *= factor
			}
		}
		r.Measurements[i].Metrics = m
	}
	return &r
}

// without returns the row without a metric.
func without(r journal.Row, name string) *journal.Row {
	r.Metrics, r.Stats = maps.Clone(r.Metrics), r.Stats.Without(name)
	delete(r.Metrics, name)
	return &r
}

func scaledStat(s journal.Stat, factor float64) journal.Stat {
	for _, part := range []*float64{&s.Min, &s.P50, &s.P90, &s.P99, &s.Max, &s.Mean} {
		*part *= factor
	}
	end := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		scaled := *v * factor
		return &scaled
	}
	s.CILow, s.CIHigh = end(s.CILow), end(s.CIHigh)
	s.Modes = lists.Map(s.Modes, func(m stats.Mode) stats.Mode {
		return stats.Mode{Center: m.Center * factor, Share: m.Share}
	})
	return s
}
