package verdict

import (
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// allPoints names the whole of a bench in tables.
const allPoints = "all points"

// rule returns the rule of package changepoint.
func (o Options) rule() changepoint.Rule {
	return changepoint.Rule{Alpha: o.Alpha, Floor: o.Floor, Tolerance: o.Tolerance}
}

// Check judges the latest run against the runs before it. accepted has the runs of the baseline that were
// accepted by hand, and later has the runs since then, the latest last. Neither may be empty. The runs are in
// sequence, so disturbed trials are left out unless Options.Disturbed.Count is set.
func Check(accepted, later []dataset.Named, opts Options) (Report, error) {
	opts.sides = [2]string{"the baseline", "the latest run"}
	opts, err := opts.withDefaults(changepoint.DefaultAlpha, 0.25)
	if err != nil {
		return Report{}, err
	}
	t, err := newTimeline(slices.Concat(accepted, later), opts)
	if err != nil {
		return Report{}, err
	}
	result := opts.rule().Check(t.series, len(accepted))
	last := len(t.runs) - 1
	r := Report{Bench: t.runs[last].Header.Bench, Baseline: lists.Map(accepted, dataset.Named.ID),
		Recent: lists.Map(later, dataset.Named.ID),
		Metric: t.metric.Name, Unit: t.metric.Unit, Better: t.metric.Better, Floor: opts.Floor, Alpha: opts.Alpha,
		Tolerance: opts.Tolerance, Counts: map[judge.Verdict]int{}, columns: columnsOf(check),
		Whole: &Whole{Points: len(t.points),
			Finding: t.finding(result.AllPoints, !slices.Contains(t.series.Exact, false))},
		Suspected: result.Suspected, Warnings: t.warnings(len(accepted)), Usable: t.usable(len(accepted)),
		// Of all earlier runs, list the differences from the last accepted one: it is known to be good.
		Differences: differencesOf(t.runs[len(accepted)-1], t.runs[last], t.opts)}
	for i, m := range t.points {
		r.add(t.point(m, result.Points[i], t.series.Exact[i]))
	}
	r.addRaw(t, len(accepted))
	return r, nil
}

// point returns the point of the latest run and all runs before it: judged by the status of its rows, or by the
// statistics.
func (t *timeline) point(m dataset.Matched, f changepoint.Finding, exact bool) Point {
	last := len(m) - 1
	before := slices.Concat(m[:last]...)
	if good := before.Good(); len(good) > 0 { // the baseline is ok at a point if any of its runs is
		before = good
	}
	p := newPoint(dataset.Matched{before, m[last]}, t.opts)
	if p.Verdict == "" || p.Verdict == judge.Ambiguous {
		notes := p.Notes
		p.Finding = t.finding(f, exact)
		p.Notes = append(p.Notes, notes...)
	}
	if p.New != nil && !exact {
		p.Notes = append(p.Notes, lists.NonEmpty(t.opts.note(withMetric(m[last], t.opts.Metric), t.opts.sides[1]))...)
	}
	return p
}

// addRaw adds the change between all trials to the points without a change whose latest trials are disturbed.
func (r *Report) addRaw(t *timeline, accepted int) {
	lacks := func(p Point) bool { return p.Effect == nil && p.New != nil && p.New.counting < p.New.Trials }
	if !slices.ContainsFunc(r.Points, lacks) {
		return
	}
	t.opts.Disturbed = Disturbed{Count: true}
	t.fillSeries()
	result := t.opts.rule().Check(t.series, accepted)
	add := func(f *Finding, all changepoint.Finding) {
		if f.Effect = t.finding(all, false).Effect; f.Effect != nil {
			f.Effect.Method = judge.None
			f.Notes = append(f.Notes, "the change is between all trials; let them count with --count-disturbed")
		}
	}
	for i := range r.Points {
		if lacks(r.Points[i]) {
			add(&r.Points[i].Finding, result.Points[i])
		}
	}
	if r.Whole.Effect == nil {
		add(&r.Whole.Finding, result.AllPoints)
	}
}
