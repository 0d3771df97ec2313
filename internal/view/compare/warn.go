package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// runWarnings are those about the runs themselves.
func runWarnings(old, new Run, names [2]string) (out []string) {
	for i, side := range []Run{old, new} {
		if side.Incomplete != "" {
			out = append(out, names[i]+": "+side.Incomplete)
		}
	}
	a, b := old.Header, new.Header
	if a == nil || b == nil {
		return out
	}
	switch {
	case (a.Host.Hostname == "") != (b.Host.Hostname == ""): // a damaged header
		out = append(out, fmt.Sprintf("not known to be the same kind of host: %s and %s", a.Host.Summary(), b.Host.Summary()))
	case a.Host.Class() != b.Host.Class():
		out = append(out, fmt.Sprintf("different kinds of host: %s and %s", a.Host.Summary(), b.Host.Summary()))
	}
	if a.Bench == b.Bench && a.Version != b.Version {
		out = append(out, fmt.Sprintf("different versions of bench %s: %q and %q", a.Bench, a.Version, b.Version))
	}
	return out
}

// warnings are the reasons why the two runs may not be comparable as wholes.
func warnings(old, new Run, points []rowset.Matched, opts Options) []string {
	out := runWarnings(old, new, opts.Sides)
	fields := []struct {
		name string
		get  func(*journal.Row) string
	}{
		{"cadence", func(r *journal.Row) string { return r.Cadence }},
		{"cache", func(r *journal.Row) string { return r.Cache }},
		{"kind", func(r *journal.Row) string { return string(r.Kind) }},
		{"clock", func(r *journal.Row) string { return r.Clock }},
	}
	common, unequal, missing := 0, 0, 0
	differ := make([]int, len(fields))
	for _, m := range points {
		a, b := withMetric(m[0], opts.Metric), withMetric(m[1], opts.Metric)
		if len(m[0]) > 0 && len(m[1]) > 0 {
			common++
		}
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		if len(a) != len(b) && !old.Several {
			unequal++
		}
		if len(a) < len(m[0]) || len(b) < len(m[1]) {
			missing++
		}
		for i, f := range fields {
			if f.get(a[0]) != f.get(b[0]) {
				differ[i]++
			}
		}
	}
	for i, f := range fields {
		if differ[i] > 0 {
			out = append(out, fmt.Sprintf("different %s in %s", f.name, unit.Plural(differ[i], "point")))
		}
	}
	if unequal > 0 {
		out = append(out, opts.Sides[0]+" and "+opts.Sides[1]+" have different numbers of trials in "+
			unit.Plural(unequal, "point"))
	}
	if missing > 0 {
		out = append(out, "trials that are not ok are left out in "+unit.Plural(missing, "point"))
	}
	if common == 0 {
		out = append(out, "the runs have no point in common"+hint(old, new))
	}
	return out
}

// hint names the coordinates that have no value in common, any of which alone
// keeps all points apart.
func hint(old, new Run) string {
	a, b := rowset.CoordTexts(old.Rows), rowset.CoordTexts(new.Rows)
	names := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(names)
	apart := lists.Filter(slices.Compact(names), func(name string) bool {
		for v := range a[name] {
			if b[name][v] {
				return false
			}
		}
		return name != rowset.Sharing // which nobody can ignore
	})
	if len(apart) == 0 {
		return ""
	}
	return "; ignore what differs on purpose: " + strings.Join(apart, ", ")
}
