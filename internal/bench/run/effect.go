package run

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// equalWithin is the relative difference that is too small to act on: values closer than
// this are equivalent.
const equalWithin = 0.02

// effects says of every variable of the environment that was swept what it did: the
// best value and its gain, no visible effect, or that the rows cannot tell. No
// effect is an equivalence: its interval has to lie within equalWithin at every
// point. A setting may have been ignored, misspelt or overridden, which no exit
// code tells.
func effects(rows []journal.Row, metrics []journal.MetricInfo) []string {
	better := map[string]string{}
	for _, m := range metrics {
		better[m.Name] = m.Better
	}
	good := lists.Filter(rows, func(r journal.Row) bool { return r.Status == journal.OK })
	var names, notes []string
	for _, r := range good {
		names = append(names, envNames(r.Env)...)
	}
	for _, name := range lists.Distinct(names) {
		if v := newVariable(name, good, better); len(v.values) > 1 && len(v.points) > 0 {
			notes = append(notes, v.verdict())
		}
	}
	return notes
}

// variable is one variable, and the logarithms of the times under its values.
type variable struct {
	name   string
	metric string
	sign   float64  // 1 where less is better, else -1
	values []string // in order of appearance
	exact  bool     // no row has noise
	points []string
	times  map[string]map[place]float64 // by value

	superlative string // "best", or "lowest" where nobody says what is better
}

// place is a row's, apart from the variable's value: launches of the same place but
// for the point are one launch under each value.
type place struct {
	launch string // ranks, backend, the other variables, trial
	point  string
	rest   string // the other variables, as words
}

func newVariable(name string, rows []journal.Row, better map[string]string) *variable {
	v := &variable{name: name, sign: 1, exact: true, superlative: "best", times: map[string]map[place]float64{}}
	for i := range rows {
		r := &rows[i]
		value, ok := r.Env.Get(name)
		metric := headline(r)
		v.metric = cmp.Or(v.metric, metric)
		if !ok || metric != v.metric || !(r.Metrics[metric] > 0) || r.Disturbed() != "" {
			continue
		}
		text := value.Text()
		if v.times[text] == nil {
			v.times[text] = map[place]float64{}
			v.values = append(v.values, text)
		}
		v.times[text][placeOf(r, name)] = math.Log(r.Metrics[metric])
		v.exact = v.exact && r.Kind != journal.Measured && r.Samples <= 1
	}
	switch {
	case better[v.metric] == "higher":
		v.sign = -1
	case better[v.metric] == "" && v.metric != "time_us":
		v.superlative = "lowest"
	}
	seen := map[string]bool{}
	if len(v.values) > 0 {
		for p := range v.times[v.values[0]] {
			seen[p.point] = true
		}
	}
	v.points = slices.Sorted(maps.Keys(seen))
	return v
}

// headline is the name of the row's time, or of its first metric.
func headline(r *journal.Row) string {
	if _, ok := r.Metrics["time_us"]; ok || len(r.Metrics) == 0 {
		return "time_us"
	}
	return slices.Min(slices.Collect(maps.Keys(r.Metrics)))
}

func placeOf(r *journal.Row, name string) place {
	var others []string
	for _, e := range r.Env {
		if e.Name != name {
			others = append(others, e.Name+"="+e.Text())
		}
	}
	rest := strings.Join(others, " ")
	ranks := 0
	if r.NumRanks != nil {
		ranks = *r.NumRanks
	}
	return place{rest: rest, launch: fmt.Sprint(ranks, "|", r.Backend, "|", rest, "|", r.Trial),
		point: fmt.Sprint(r.Part, "|", r.Point, "|", ranks, "|", r.Backend, "|", r.Options)}
}

// differences are those of value b from a, less is better: for each group the mean of each
// launch's points, since points of a launch share its luck.
func (v *variable) differences(a, b string, group func(place) string) map[string][]float64 {
	type cell struct{ group, launch string }
	sums, counts := map[cell]float64{}, map[cell]int{}
	for p, x := range v.times[a] {
		if y, ok := v.times[b][p]; ok {
			c := cell{group(p), p.launch}
			sums[c] += v.sign * (y - x)
			counts[c]++
		}
	}
	out := map[string][]float64{}
	for c, sum := range sums {
		out[c.group] = append(out[c.group], sum/float64(counts[c]))
	}
	return out
}

// interval returns the mean of differences between launches with its interval.
func (v *variable) interval(d []float64, alpha float64) judge.Interval {
	return judge.MeanDifference(d, alpha, v.exact)
}

func all(place) string { return "" }

// verdict is what the variable did, in a sentence.
func (v *variable) verdict() string {
	if low, high, equal := v.equal(); equal {
		return fmt.Sprintf("%s: no visible effect: %s of its %d values is equal within %.0f %% at all %d points (95 %% "+
			"intervals %+.1f to %+.1f %%)",
			v.name, v.metric, len(v.values), 100*equalWithin, len(v.points), percent(low), percent(high))
	}
	best, others := v.rank()
	// The best was chosen: any two of the values might have been compared.
	level := 0.05 / float64(len(others)*(len(others)+1)/2)
	text := ""
	var tied []string
	for _, o := range others {
		gain := v.interval(v.differences(o, best, all)[""], level)
		switch {
		case !gain.Known:
			return fmt.Sprintf("%s: effect not resolved: fewer than %d undisturbed launches of each value do not show how "+
				"launches differ; run with --trials 6",
				v.name, judge.MinLaunches)
		case gain.High >= 0:
			tied = append(tied, fmt.Sprintf("%s (%+.1f to %+.1f %%)", o, v.percent(gain.Low), v.percent(gain.High)))
		case text == "":
			text = fmt.Sprintf("%s: %s is %s: %s %+.1f %% against %s (95 %% interval %+.1f to %+.1f %%)", v.name, v.superlative,
				best,
				v.metric, v.percent(gain.Mid), o, v.percent(gain.Low), v.percent(gain.High))
			if with := v.interactions(o, best); len(with) > 0 {
				text += ", and it depends on " + strings.Join(with, " and ")
			}
		}
	}
	if text == "" {
		return fmt.Sprintf("%s: effect not resolved: %s of %s against %s; more trials would tell", v.name, v.metric, best,
			tied[0])
	}
	if len(tied) > 0 {
		text += "; not told apart from it: " + strings.Join(tied, ", ")
	}
	return text
}

func percent(log float64) float64 { return 100 * math.Expm1(log) }

// percent is a difference as the metric has it.
func (v *variable) percent(log float64) float64 { return percent(v.sign * log) }

// equal reports whether all values are equivalent to the first at every point, and
// the widest interval.
func (v *variable) equal() (low, high float64, ok bool) {
	for _, b := range v.values[1:] {
		at := v.differences(v.values[0], b, func(p place) string { return p.point })
		if len(at) < len(v.points) {
			return 0, 0, false
		}
		for _, d := range at {
			i := v.interval(d, 0.05)
			low, high = min(low, i.Low), max(high, i.High)
			if !i.Within(equalWithin) {
				return 0, 0, false
			}
		}
	}
	return low, high, true
}

// rank is the value with the least mean, and the others in order of theirs.
func (v *variable) rank() (best string, others []string) {
	means := map[string]float64{}
	for _, b := range v.values {
		means[b] = v.interval(v.differences(v.values[0], b, all)[""], 0.05).Mid
	}
	order := slices.SortedStableFunc(slices.Values(v.values), func(a, b string) int {
		return cmp.Compare(means[a], means[b])
	})
	return order[0], order[1:]
}

// interactions names what changes the difference between two values: the point, or
// the other variables. Two of their intervals lie apart.
func (v *variable) interactions(a, b string) (with []string) {
	for _, f := range []struct {
		name  string
		group func(place) string
	}{{"the point", func(p place) string {
		return p.point
	}}, {"the other variables", func(p place) string { return p.rest }}} {
		groups := v.differences(a, b, f.group)
		least, most := math.Inf(1), math.Inf(-1) // the lowest upper end, the highest lower end
		for _, d := range groups {
			if i := v.interval(d, 0.05/float64(len(groups))); i.Known {
				least, most = min(least, i.High), max(most, i.Low)
			}
		}
		if most-least > math.Log1p(equalWithin) {
			with = append(with, f.name)
		}
	}
	return with
}
