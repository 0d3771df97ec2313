package run

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// equalWithin is the relative difference below which two values of a variable count as equivalent.
const equalWithin = 0.02

// effects describes the effect of every swept environment variable: the best value and its gain, "no
// visible effect", or "effect not resolved". "No visible effect" is the result of an equivalence test:
// the confidence interval must lie within equalWithin at every point. It reveals settings that were
// ignored, misspelt or overridden, which no exit code shows.
func effects(rows []journal.Row, metrics []journal.MetricInfo) []string {
	good := lists.Filter(rows, func(r journal.Row) bool { return r.Status == journal.OK })
	main, _ := dataset.MainMetric(&journal.Header{Metrics: metrics}, dataset.All(good))
	var notes []string
	for _, names := range zipped(good) {
		if v := newVariable(names, good, main); len(v.all) > 1 {
			notes = append(notes, v.verdict())
		}
	}
	return notes
}

// zipped groups the names of the variables. Variables whose values correspond one to one in all rows form one group,
// because no row shows the effect of only one of them.
func zipped(rows []journal.Row) (groups [][]string) {
	var names []string
	for _, r := range rows {
		names = append(names, envNames(r.Env)...)
	}
	for _, name := range lists.Distinct(names) {
		at := slices.IndexFunc(groups, func(g []string) bool {
			return follows(rows, g[0], name) && follows(rows, name, g[0])
		})
		if at < 0 {
			groups = append(groups, []string{name})
			continue
		}
		groups[at] = append(groups[at], name)
	}
	return groups
}

// follows reports whether each value of variable a occurs with only one value of variable b.
func follows(rows []journal.Row, a, b string) bool {
	with := map[string]string{}
	for _, r := range rows {
		x, hasA := r.Env.Get(a)
		y, hasB := r.Env.Get(b)
		if hasA != hasB {
			return false
		}
		if seen, ok := with[x.Text()]; hasA && ok && seen != y.Text() {
			return false
		}
		with[x.Text()] = y.Text()
	}
	return true
}

// envVariable is a swept variable, or several that vary together, and the logarithms of the metric under each of its
// values.
type envVariable struct {
	name   string
	metric string
	sign   float64  // 1 if less is better, else -1
	values []string // values with an undisturbed launch, in order of appearance
	exact  bool     // no row has noise
	points []string
	good   int                                  // ok rows with the metric
	noisy  int                                  // disturbed rows among them, which are left out
	all    map[string]map[configuration]bool    // configurations by value, including disturbed rows
	times  map[string]map[configuration]float64 // logarithms of the metric by value, without disturbed rows

	superlative string // "best", or "lowest" if it is unknown which direction is better
}

// configuration identifies a row apart from the variable's value. Rows that differ only in point
// belong to the same launch.
type configuration struct {
	launch string // ranks, backend, the other variables, trial
	point  string
	rest   string // the other variables
}

// newVariable collects the undisturbed values of a metric by value of the named variables, which vary
// together. Rows without the metric are left out.
func newVariable(names []string, rows []journal.Row, main journal.MetricInfo) *envVariable {
	v := &envVariable{name: strings.Join(names, " and "), metric: main.Name, sign: 1, exact: true, superlative: "best",
		all: map[string]map[configuration]bool{}, times: map[string]map[configuration]float64{}}
	for i := range rows {
		r := &rows[i]
		text, ok := valueOf(r.Env, names)
		if !ok || !(r.Metrics[v.metric] > 0) {
			continue
		}
		v.good++
		if v.all[text] == nil {
			v.all[text] = map[configuration]bool{}
		}
		v.all[text][configurationOf(r, names)] = true
		if r.Disturbed() != "" {
			v.noisy++
			continue
		}
		if v.times[text] == nil {
			v.times[text] = map[configuration]float64{}
			v.values = append(v.values, text)
		}
		v.times[text][configurationOf(r, names)] = math.Log(r.Metrics[v.metric])
		v.exact = v.exact && r.Kind != journal.Measured && r.Samples <= 1
	}
	switch {
	case main.Better == "higher":
		v.sign = -1
	case main.Better == "":
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

// valueOf returns the values of variables that vary together, as one text: "4 and 8", or "4" if all are 4.
func valueOf(env point.Env, names []string) (text string, ok bool) {
	var texts []string
	for _, name := range names {
		value, has := env.Get(name)
		if !has {
			return "", false
		}
		texts = append(texts, value.Text())
	}
	if len(lists.Distinct(texts)) == 1 {
		texts = texts[:1]
	}
	return strings.Join(texts, " and "), true
}

func configurationOf(r *journal.Row, names []string) configuration {
	var others []string
	for _, e := range r.Env {
		if !slices.Contains(names, e.Name) {
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

// differences returns the differences b - a between two values of the variable, by group. They are
// logarithms with their sign chosen so that less is better. Points of one launch are not independent,
// so each launch gives one difference: the mean over its points.
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

// oneGroup puts all configurations into the same group.
func oneGroup(configuration) string { return "" }

// allPoints names all n points.
func allPoints(n int) string {
	if n == 1 {
		return "the only point"
	}
	return fmt.Sprintf("all %d points", n)
}

// tooFew returns the verdict for too few usable launches, with the cause and what to do.
func (v *envVariable) tooFew() string {
	if !v.comparable() {
		return v.name + ": effect not resolved: no point was measured with two of its values"
	}
	for _, configurations := range v.all {
		launches := map[string]bool{}
		for c := range configurations {
			launches[c.launch] = true
		}
		if len(launches) < judge.MinLaunches {
			return fmt.Sprintf("%s: effect not resolved: fewer than %d launches of each value do not show how much launches "+
				"differ; run with --trials 6", v.name, judge.MinLaunches)
		}
	}
	return fmt.Sprintf("%s: effect not resolved: %d of %d rows were disturbed and left out, and %d undisturbed "+
		"launches of each value are needed; measure again on a quiet machine", v.name, v.noisy, v.good, judge.MinLaunches)
}

// comparable reports whether two values of the variable were measured in the same configuration.
func (v *envVariable) comparable() bool {
	seen := map[configuration]bool{}
	for _, configurations := range v.all {
		for c := range configurations {
			if seen[c] {
				return true
			}
		}
		maps.Copy(seen, configurations)
	}
	return false
}

// verdict describes the effect of the variable in a sentence.
func (v *envVariable) verdict() string {
	if len(v.values) < 2 || len(v.points) == 0 {
		return v.tooFew()
	}
	if low, high, equal := v.equal(); equal {
		return fmt.Sprintf("%s: no visible effect: %s of its %d values is equal within %.0f %% at %s (95 %% "+
			"intervals %+.1f to %+.1f %%)",
			v.name, v.metric, len(v.values), 100*equalWithin, allPoints(len(v.points)), percent(low), percent(high))
	}
	best, others := v.rank()
	// Bonferroni correction: the best value was selected among all pairs of values.
	level := 0.05 / float64(len(others)*(len(others)+1)/2)
	text := ""
	var tied []string
	for _, o := range others {
		gain := v.interval(v.differences(o, best, oneGroup)[""], level)
		switch {
		case !gain.Known:
			return v.tooFew()
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
		return fmt.Sprintf("%s: effect not resolved: %s of %s against %s; run more trials", v.name, v.metric, best,
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

// rank returns the value with the best mean, and the other values from best to worst.
func (v *envVariable) rank() (best string, others []string) {
	means := map[string]float64{}
	for _, b := range v.values {
		means[b] = v.interval(v.differences(v.values[0], b, oneGroup)[""], 0.05).Mid
	}
	order := slices.SortedStableFunc(slices.Values(v.values), func(a, b string) int {
		return cmp.Compare(means[a], means[b])
	})
	return order[0], order[1:]
}

// interactions returns what the difference between two values depends on: the point, the other
// variables, or both. There is a dependence if the intervals of two groups do not overlap.
func (v *envVariable) interactions(a, b string) (with []string) {
	for _, f := range []struct {
		name  string
		group func(configuration) string
	}{{"the point", func(p configuration) string {
		return p.point
	}}, {"the other variables", func(p configuration) string { return p.rest }}} {
		groups := v.differences(a, b, f.group)
		lowestHigh, highestLow := math.Inf(1), math.Inf(-1) // lowest upper end, highest lower end
		for _, d := range groups {
			if i := v.interval(d, 0.05/float64(len(groups))); i.Known {
				lowestHigh, highestLow = min(lowestHigh, i.High), max(highestLow, i.Low)
			}
		}
		if highestLow-lowestHigh > math.Log1p(equalWithin) {
			with = append(with, f.name)
		}
	}
	return with
}
