package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// newMeanCase returns the geometric mean over the points in each trial of both sides, and the number of
// points. It uses only trials that are ok and count at every point, because the mean over fewer
// points is another quantity. ok is false if there are fewer than two points.
func newMeanCase(points []dataset.Matched, opts Options) (c judge.Case, n int, ok bool) {
	var sums [2]map[int]float64 // by trial: sum of the logarithms
	var counts [2]map[int]int
	for side := range sums {
		sums[side], counts[side] = map[int]float64{}, map[int]int{}
	}
	for _, m := range points {
		one, _ := newCase(m, opts)
		if one.Exact || !judge.HaveRatio(one.Old) || !judge.HaveRatio(one.New) {
			continue // points without noise or without a ratio
		}
		n++
		for side := range sums {
			for _, r := range opts.counting(withMetric(m[side], opts.Metric)) {
				sums[side][r.Trial] += math.Log(r.Metrics[opts.Metric])
				counts[side][r.Trial]++
			}
		}
	}
	values := func(side int) (out []float64) {
		for _, trial := range slices.Sorted(maps.Keys(sums[side])) {
			if counts[side][trial] == n {
				out = append(out, math.Exp(sums[side][trial]/float64(n)))
			}
		}
		return out
	}
	return judge.Case{Old: values(0), New: values(1)}, n, n > 1
}

// meanShare is the mean's share of the probability of a false verdict. With it, six launches on each side
// can still decide: at 1 % if Alpha is 5 %.
const meanShare = 0.2

// judgeMean judges the geometric mean over the points and returns the probability of a false verdict
// that is left for the points. The mean is judged separately, because it varies much less than the points.
func (r *Report) judgeMean(points []dataset.Matched, opts Options, rule judge.Rule) (left float64) {
	c, n, ok := newMeanCase(points, opts)
	if !ok {
		return rule.Alpha
	}
	left = rule.Alpha * (1 - meanShare)
	rule.Alpha *= meanShare
	result := rule.Decide([]judge.Case{c})[0]
	note := result.Note
	switch least := stats.LeastP(len(c.Old), len(c.New)); {
	case result.Effect.Method != judge.None && result.Verdict == judge.Ambiguous && least > rule.Alpha:
		needed := judge.MinLaunches
		for stats.LeastP(needed, needed) > rule.Alpha {
			needed++
		}
		note = opts.tooFew(c, needed)
	case result.Effect.Method != judge.None:
	case len(c.Old) == 0 || len(c.New) == 0:
		note = fmt.Sprintf("no trial is %s at every point", opts.good())
	default:
		note = opts.tooFew(c, judge.MinLaunches)
	}
	r.Whole = &Whole{n, Finding{Verdict: result.Verdict, Effect: &result.Effect, Notes: lists.NonEmpty(note)}}
	if result.Effect.Method == judge.None {
		opts.Disturbed = Disturbed{Count: true}
		all, _, _ := newMeanCase(points, opts)
		r.Whole.Effect = opts.raw(all, stats.Median(all.New)/stats.Median(all.Old))
	}
	return left
}

func (d Disturbed) tooFew(c judge.Case, needed int) string {
	return fmt.Sprintf("only %d and %d trials are %s at every point, and at least %d a side are needed", len(c.Old),
		len(c.New), d.good(), needed)
}

// Mean describes the geometric mean over the points of a comparison in one line. It is "" if there is none.
func (r Report) Mean() string {
	w := r.Whole
	if w == nil || r.Recent != nil {
		return ""
	}
	text := fmt.Sprintf("geometric mean over %s: ", unit.Plural(w.Points, "point"))
	change := changeText(w.Effect)
	switch {
	case change == "":
		return text + "not resolved: " + w.Notes[0]
	case w.Effect.Method == judge.None:
		return text + "not resolved: " + w.Notes[0] + "; between all trials it changed by " + change
	}
	text += change + ": " + string(w.Verdict)
	if len(w.Notes) > 0 {
		text += " (" + w.Notes[0] + ")"
	}
	return text
}
