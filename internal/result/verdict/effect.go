package verdict

import (
	"cmp"
	"fmt"
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

// Effects describes the effect of every swept environment variable: the best value and its gain, "no
// visible effect", or "effect not resolved". "No visible effect" is the result of an equivalence test:
// the confidence interval must lie within equalWithin at every point. It reveals settings that were
// ignored, misspelt or overridden, which no exit code shows. The launches of a run are interleaved, so
// disturbed rows count, unless their program printed an impossible time.
func Effects(rows dataset.Set, metrics []journal.MetricInfo) []string {
	good := Disturbed{alternate: true}.counting(rows.Good())
	main, _ := dataset.MainMetric(&journal.Header{Metrics: metrics}, good)
	return describeEffects(zipped(good), good, main, true)
}

// EffectsOf is like Effects, for the given variables of a tuning study: environment variables, axes and the number of
// ranks. The names in one element vary together.
func EffectsOf(variables [][]string, rows dataset.Set, metric journal.MetricInfo) []string {
	return describeEffects(variables, Disturbed{alternate: true}.counting(rows.Good()), metric, false)
}

// describeEffects returns a sentence for each variable with several values. advise adds which rows were disturbed, and
// what to do if the effect is not resolved.
func describeEffects(variables [][]string, rows dataset.Set, metric journal.MetricInfo, advise bool) (notes []string) {
	for _, names := range variables {
		if v := newVariable(names, rows, metric); len(v.values) > 1 {
			v.advise = advise
			notes = append(notes, v.verdict())
		}
	}
	return notes
}

// zipped groups the names of the variables. Variables whose values correspond one to one in all rows form one group,
// because no row shows the effect of only one of them.
func zipped(rows dataset.Set) (groups [][]string) {
	var names []string
	for _, r := range rows {
		names = append(names, envNames(r)...)
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

func envNames(r *journal.Row) []string {
	return lists.Map(r.Env, func(e point.EnvVar) string { return e.Name })
}

// follows reports whether each value of variable a occurs with only one value of variable b.
func follows(rows dataset.Set, a, b string) bool {
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

// variable is a swept variable, or several that vary together, and the logarithms of the metric under each of its
// values.
type variable struct {
	name   string
	metric journal.MetricInfo
	sign   float64  // 1 if less is better, else -1
	values []string // in order of appearance
	exact  bool     // no row has noise
	points []string // of the first value
	logs   map[string]map[configuration]float64
	rows   dataset.Set
	advise bool // see describeEffects
}

// configuration identifies a row apart from the variable's value. Rows that differ only in point
// belong to the same launch.
type configuration struct {
	launch string // ranks, backend, the other variables, trial
	point  string
	rest   string // the other variables
}

// newVariable collects the values of a metric by value of the named variables, which vary together. Rows without the
// metric are left out.
func newVariable(names []string, rows dataset.Set, metric journal.MetricInfo) *variable {
	v := &variable{name: strings.Join(names, " and "), metric: metric, sign: 1, exact: true,
		logs: map[string]map[configuration]float64{}}
	if metric.Better == "higher" {
		v.sign = -1
	}
	for _, r := range rows {
		text, ok := textOf(r, names)
		if !ok || !(r.Metrics[metric.Name] > 0) {
			continue
		}
		if v.logs[text] == nil {
			v.logs[text] = map[configuration]float64{}
			v.values = append(v.values, text)
		}
		c := configurationOf(r, names)
		v.logs[text][c] = math.Log(r.Metrics[metric.Name])
		v.exact = v.exact && r.Kind != journal.Measured && r.Samples <= 1
		v.rows = append(v.rows, r)
		if text == v.values[0] {
			v.points = append(v.points, c.point)
		}
	}
	v.points = lists.Distinct(v.points)
	return v
}

// textOf returns the values of variables that vary together, as one text: "4 and 8", or "4" if all are 4.
func textOf(r *journal.Row, names []string) (text string, ok bool) {
	var texts []string
	for _, name := range names {
		env, isEnv := r.Env.Get(name)
		axis, isAxis := r.Point.Get(name)
		switch {
		case isEnv:
			texts = append(texts, env.Text())
		case isAxis:
			texts = append(texts, axis.String())
		case name == dataset.NumRanks && r.NumRanks != nil:
			texts = append(texts, fmt.Sprint(*r.NumRanks))
		default:
			return "", false
		}
	}
	if len(lists.Distinct(texts)) == 1 {
		texts = texts[:1]
	}
	return strings.Join(texts, " and "), true
}

func configurationOf(r *journal.Row, names []string) configuration {
	rest := lists.Filter(r.Env, func(e point.EnvVar) bool { return !slices.Contains(names, e.Name) }).String()
	ranks := dataset.Ranks(r)
	if slices.Contains(names, dataset.NumRanks) {
		ranks = 0
	}
	return configuration{rest: rest, point: dataset.Key(r, append(envNames(r), names...)...),
		launch: fmt.Sprint(ranks, "|", r.Backend, "|", rest, "|", r.Trial)}
}

// differences returns the differences b - a between two values of the variable, by group. They are
// logarithms with their sign chosen so that less is better. Points of one launch are not independent,
// so each launch gives one difference: the mean over its points.
func (v *variable) differences(a, b string, group func(configuration) string) map[string][]float64 {
	type cell struct{ group, launch string }
	sums, counts := map[cell]float64{}, map[cell]int{}
	for p, x := range v.logs[a] {
		if y, ok := v.logs[b][p]; ok {
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
func (v *variable) interval(d []float64, alpha float64) judge.Interval {
	return judge.MeanDifference(d, alpha, v.exact)
}

// oneGroup puts all configurations into the same group.
func oneGroup(configuration) string { return "" }

// pointNames names all n points.
func pointNames(n int) string {
	if n == 1 {
		return "the only point"
	}
	return fmt.Sprintf("all %d points", n)
}

// tooFew returns the verdict for too few launches, with the cause and what to do.
func (v *variable) tooFew() string {
	for i, a := range v.values {
		for _, b := range v.values[:i] {
			if len(v.differences(a, b, oneGroup)) > 0 {
				return fmt.Sprintf("%s: effect not resolved: fewer than %d launches of each value do not show how much launches "+
					"differ%s", v.name, judge.MinLaunches, v.advice("run with --trials 6"))
			}
		}
	}
	return v.name + ": effect not resolved: no point was measured with two of its values"
}

// advice returns what to do as the end of a sentence.
func (v *variable) advice(text string) string {
	if !v.advise {
		return ""
	}
	return "; " + text
}

// verdict describes the effect of the variable in a sentence.
func (v *variable) verdict() string {
	text := v.effect()
	if n := len(v.rows.Where((*journal.Row).Disturbed)); n > 0 && v.advise {
		text += fmt.Sprintf("; %d of %d rows were disturbed, and count", n, len(v.rows))
	}
	return text
}

func (v *variable) effect() string {
	if low, high, equal := v.equal(); equal {
		return fmt.Sprintf("%s: no visible effect: %s of its %d values is equal within %.0f %% at %s (95 %% "+
			"intervals %+.1f to %+.1f %%)",
			v.name, v.metric.Name, len(v.values), 100*equalWithin, pointNames(len(v.points)), 100*math.Expm1(low),
			100*math.Expm1(high))
	}
	best, others := v.rank()
	// Bonferroni correction: the best value was selected among all pairs of values.
	level := 0.05 / float64(len(others)*(len(others)+1)/2)
	text, superlative := "", "best"
	if v.metric.Better == "" { // it is unknown which direction is better
		superlative = "lowest"
	}
	var tied []string
	for _, o := range others {
		gain := v.interval(v.differences(o, best, oneGroup)[""], level)
		switch {
		case !gain.Known:
			return v.tooFew()
		case gain.Verdict() != judge.Faster:
			tied = append(tied, fmt.Sprintf("%s (%+.1f to %+.1f %%)", o, v.percent(gain.Low), v.percent(gain.High)))
		case text == "":
			text = fmt.Sprintf("%s: %s is %s: %s %+.1f %% against %s (95 %% interval %+.1f to %+.1f %%)", v.name, superlative,
				best, v.metric.Name, v.percent(gain.Mid), o, v.percent(gain.Low), v.percent(gain.High))
			if with := v.interactions(o, best); len(with) > 0 {
				text += ", and it depends on " + strings.Join(with, " and ")
			}
		}
	}
	if text == "" {
		return fmt.Sprintf("%s: effect not resolved: %s of %s against %s%s", v.name, v.metric.Name, best, tied[0],
			v.advice("run more trials"))
	}
	if len(tied) > 0 {
		text += "; not separated from it: " + strings.Join(tied, ", ")
	}
	return text
}

// percent converts a difference to a change of the metric in percent.
func (v *variable) percent(log float64) float64 { return 100 * math.Expm1(v.sign*log) }

// equal reports whether all values are equivalent to the first at every point, and the widest
// interval.
func (v *variable) equal() (low, high float64, ok bool) {
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
func (v *variable) rank() (best string, others []string) {
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
func (v *variable) interactions(a, b string) (with []string) {
	for _, f := range []struct {
		name  string
		group func(configuration) string
	}{
		{"the point", func(p configuration) string { return p.point }},
		{"the other variables", func(p configuration) string { return p.rest }},
	} {
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
