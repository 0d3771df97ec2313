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

// effects describes the effect of every swept environment variable: the best value and its gain, no
// visible effect, or that the rows do not resolve it. "No visible effect" is a test of equivalence:
// the confidence interval must lie within equalWithin at every point. A setting may have been
// ignored, misspelt or overridden, which no exit code reveals.
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
		if v := newVariable(name, good, better); len(v.swept) > 1 {
			notes = append(notes, v.verdict())
		}
	}
	return notes
}

// envVariable is a swept variable and the logarithms of the metric under each of its values.
type envVariable struct {
	name   string
	metric string
	sign   float64         // 1 if less is better, else -1
	swept  map[string]bool // all values
	values []string        // with an undisturbed launch, in order of appearance
	exact  bool            // no row has noise
	points []string
	times  map[string]map[configuration]float64 // logarithms by value

	superlative string // "best", or "lowest" if it is unknown which direction is better
}

// configuration identifies a row apart from the variable's value. Rows that differ only in point
// belong to the same launch.
type configuration struct {
	launch string // ranks, backend, the other variables, trial
	point  string
	rest   string // the other variables
}

// newVariable collects the undisturbed values of the first headline metric by value of the
// variable. Rows with another headline metric are left out.
func newVariable(name string, rows []journal.Row, better map[string]string) *envVariable {
	v := &envVariable{name: name, sign: 1, exact: true, superlative: "best", swept: map[string]bool{},
		times: map[string]map[configuration]float64{}}
	for i := range rows {
		r := &rows[i]
		value, ok := r.Env.Get(name)
		metric := headline(r)
		v.metric = cmp.Or(v.metric, metric)
		if !ok || metric != v.metric || !(r.Metrics[metric] > 0) {
			continue
		}
		text := value.Text()
		v.swept[text] = true
		if r.Disturbed() != "" {
			continue
		}
		if v.times[text] == nil {
			v.times[text] = map[configuration]float64{}
			v.values = append(v.values, text)
		}
		v.times[text][configurationOf(r, name)] = math.Log(r.Metrics[metric])
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

// headline returns the name of the row's time, or of its first metric.
func headline(r *journal.Row) string {
	if _, ok := r.Metrics["time_us"]; ok || len(r.Metrics) == 0 {
		return "time_us"
	}
	return slices.Min(slices.Collect(maps.Keys(r.Metrics)))
}

func configurationOf(r *journal.Row, name string) configuration {
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
	return configuration{rest: rest, launch: fmt.Sprint(ranks, "|", r.Backend, "|", rest, "|", r.Trial),
		point: fmt.Sprint(r.Part, "|", r.Point, "|", ranks, "|", r.Backend, "|", r.Options)}
}

// differences returns the differences of value b from value a, where less is better, by group. Each
// difference is the mean over the points of one launch, because these are not independent.
func (v *envVariable) differences(a, b string, group func(configuration) string) map[string][]float64 {
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

// interval returns the confidence interval of differences between launches at level alpha. Values
// without noise need no minimum number of launches.
func (v *envVariable) interval(d []float64, alpha float64) judge.Interval {
	return judge.MeanDifference(d, alpha, v.exact)
}

func everything(configuration) string { return "" }

// verdict describes the effect of the variable in a sentence.
func (v *envVariable) verdict() string {
	unresolved := fmt.Sprintf("%s: effect not resolved: fewer than %d undisturbed launches of each value do not show how "+
		"launches differ; run with --trials 6", v.name, judge.MinLaunches)
	if len(v.values) < 2 || len(v.points) == 0 {
		return unresolved
	}
	if low, high, equal := v.equal(); equal {
		return fmt.Sprintf("%s: no visible effect: %s of its %d values is equal within %.0f %% at all %d points (95 %% "+
			"intervals %+.1f to %+.1f %%)",
			v.name, v.metric, len(v.values), 100*equalWithin, len(v.points), percent(low), percent(high))
	}
	best, others := v.rank()
	// Bonferroni correction: the best value was selected among all pairs of values.
	level := 0.05 / float64(len(others)*(len(others)+1)/2)
	text := ""
	var tied []string
	for _, o := range others {
		gain := v.interval(v.differences(o, best, everything)[""], level)
		switch {
		case !gain.Known:
			return unresolved
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
		text += "; indistinguishable from it: " + strings.Join(tied, ", ")
	}
	return text
}

func percent(log float64) float64 { return 100 * math.Expm1(log) }

// percent converts a difference to a change of the metric in percent.
func (v *envVariable) percent(log float64) float64 { return percent(v.sign * log) }

// equal reports whether all values are equivalent to the first at every point, and the widest
// interval.
func (v *envVariable) equal() (low, high float64, ok bool) {
	for _, b := range v.values[1:] {
		at := v.differences(v.values[0], b, func(p configuration) string { return p.point })
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

// rank returns the value with the smallest mean, and the other values in order of their means.
func (v *envVariable) rank() (best string, others []string) {
	means := map[string]float64{}
	for _, b := range v.values {
		means[b] = v.interval(v.differences(v.values[0], b, everything)[""], 0.05).Mid
	}
	order := slices.SortedStableFunc(slices.Values(v.values), func(a, b string) int {
		return cmp.Compare(means[a], means[b])
	})
	return order[0], order[1:]
}

// interactions names what changes the difference between two values, the point or the other
// variables: the intervals of two groups lie apart.
func (v *envVariable) interactions(a, b string) (with []string) {
	for _, f := range []struct {
		name  string
		group func(configuration) string
	}{{"the point", func(p configuration) string {
		return p.point
	}}, {"the other variables", func(p configuration) string { return p.rest }}} {
		groups := v.differences(a, b, f.group)
		least, most := math.Inf(1), math.Inf(-1) // lowest upper end, highest lower end
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
