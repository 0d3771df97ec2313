package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Side summarizes the rows of one side at a point.
type Side struct {
	Status  journal.Status `json:"status"` // ok if more trials are ok than failed
	Reason  journal.Text   `json:"reason,omitempty"`
	Value   float64        `json:"value"`            // median over the ok trials that count, or over all ok ones
	Trials  int            `json:"trials"`           // trials that are ok and have the metric
	NotOK   int            `json:"not_ok,omitempty"` // trials that are not ok
	Samples int            `json:"samples"`          // total over Trials
	// Unit is the unit of Value if it cannot be converted to the report's unit, and "" otherwise.
	Unit string `json:"unit,omitempty"`

	counting int            // number of trials among Trials that count
	bad      journal.Status // of the last trial that is not ok
	raw      float64        // median over all ok trials
}

// newSide summarizes the rows of one side at a point. It returns nil if there are none.
func newSide(rows dataset.Set, opts Options) *Side {
	if len(rows) == 0 {
		return nil
	}
	s := &Side{}
	failed := 0
	for _, r := range rows {
		if r.Status != journal.OK {
			s.NotOK++
			s.bad, s.Reason = r.Status, r.Reason
		}
		if r.Status.Bad() {
			failed++
		}
	}
	s.Status = s.bad
	if ok := len(rows) - s.NotOK; ok > failed {
		s.Status = journal.OK
	}
	good := withMetric(rows, opts.Metric)
	for _, r := range good {
		s.Samples += r.Samples
	}
	counting := opts.counting(good)
	s.Trials, s.counting = len(good), len(counting)
	s.raw = dataset.MedianOf(good, opts.Metric)
	s.Value = s.raw
	if n := len(counting); n > 0 && n < len(good) {
		s.Value = dataset.MedianOf(counting, opts.Metric)
	}
	return s
}

func (s *Side) ok() bool { return s != nil && s.Status == journal.OK }

// failures describes the trials that are not ok.
func (s *Side) failures() string {
	text := string(s.bad)
	if s.Trials > 0 {
		text = fmt.Sprintf("%d of %d trials not ok: %s", s.NotOK, s.NotOK+s.Trials, s.bad)
	}
	if s.Reason != "" {
		text += fmt.Sprintf(" (%s)", s.Reason)
	}
	return text
}

// withMetric returns the rows that are ok and have the metric.
func withMetric(rows dataset.Set, metric string) dataset.Set {
	return rows.Where(func(r *journal.Row) bool {
		_, has := r.Metrics[metric]
		return r.Status == journal.OK && has
	})
}

// newPoint describes a point, with its verdict if the statuses alone decide it.
func newPoint(m dataset.Matched, opts Options) Point {
	r := m.AnyRow()
	p := Point{Name: dataset.Label(r, opts.Ignore...), row: r, ignore: opts.Ignore, Bench: r.Bench, Part: r.Part,
		NumRanks: r.NumRanks, Backend: r.Backend, Point: r.Point, Env: r.Env, Old: newSide(m[0], opts),
		New: newSide(m[1], opts)}
	for i, s := range []*Side{p.Old, p.New} {
		name := opts.sides[i]
		if s.ok() && s.Trials == 0 {
			p.Verdict = judge.Ambiguous
			p.Notes = append(p.Notes, fmt.Sprintf("%s has no %s", name, opts.Metric))
		}
		if s != nil && s.NotOK > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s: %s", name, s.failures()))
		}
	}
	oldOK, newOK := p.Old.ok(), p.New.ok()
	switch {
	case (p.Old == nil || p.Old.Status.NotRun()) && p.New != nil && p.New.Status.Bad():
		p.Verdict = Failed
	case p.Old == nil:
		p.Verdict = New
	case oldOK && !newOK:
		p.Verdict = Lost
		if p.New == nil {
			p.Notes = append(p.Notes, "absent from "+opts.sides[1])
		}
	case !oldOK && newOK:
		p.Verdict = Fixed
	case !oldOK:
		p.Verdict = Broken
	}
	return p
}

// group returns the bench, or bench/part, with which the name begins.
func (p *Point) group() string { return dataset.BenchPart(p.row) }

// fields returns the other fields of the name.
func (p *Point) fields() []string { return dataset.LabelFields(p.row, p.ignore...) }

// add appends a point to the report, and counts it.
func (r *Report) add(p Point) {
	r.Counts[p.Verdict]++
	r.Points = append(r.Points, p)
}

// newCase returns the values of both sides that are compared, and notes about disturbed trials that are left out.
func newCase(m dataset.Matched, opts Options) (c judge.Case, notes []string) {
	old, new := withMetric(m[0], opts.Metric), withMetric(m[1], opts.Metric)
	c = judge.Case{Old: old.Values(opts.Metric), New: new.Values(opts.Metric)}
	if !judge.HaveRatio(c.Old) || !judge.HaveRatio(c.New) {
		return c, nil
	}
	if c.Exact = noiseless(old, c.Old) && noiseless(new, c.New); c.Exact {
		return c, nil
	}
	if notes = lists.NonEmpty(opts.note(old, opts.sides[0]), opts.note(new, opts.sides[1])); len(notes) > 0 {
		c.Old, c.New = opts.counting(old).Values(opts.Metric), opts.counting(new).Values(opts.Metric)
	}
	return c, notes
}

// noiseless reports whether the values have no noise: they are not measured, come from a single sample
// each, and are equal in every trial.
func noiseless(rows dataset.Set, values []float64) bool {
	noisy := func(r *journal.Row) bool { return r.Kind == journal.Measured || r.Samples > 1 }
	return !slices.ContainsFunc(rows, noisy) && judge.AllEqual(values)
}

// judge decides all points with values on both sides. decisive has, for each point, the differences that make it not
// comparable.
func (r *Report) judge(points []dataset.Matched, decisive [][]string, opts Options) {
	r.Points = make([]Point, len(points))
	var cases []judge.Case
	var at []int                 // index of each case's point
	var judged []dataset.Matched // the points of the cases
	for i, m := range points {
		p := &r.Points[i]
		*p = newPoint(m, opts)
		switch {
		case p.Verdict != "":
		case len(decisive[i]) > 0:
			p.Verdict = NotComparable
			p.Notes = append(p.Notes, "not comparable: different "+strings.Join(decisive[i], " and "))
		default:
			c, notes := newCase(m, opts)
			p.Notes = append(p.Notes, notes...)
			cases, at, judged = append(cases, c), append(at, i), append(judged, m)
		}
	}
	rule := judge.Rule{Floor: opts.Floor, Alpha: opts.Alpha, HigherIsBetter: r.Better == "higher"}
	if opts.Mean {
		rule.Alpha = r.judgeMean(judged, opts, rule)
	}
	results := rule.Decide(cases)
	for k, result := range results {
		p := &r.Points[at[k]]
		p.Verdict, p.Effect = result.Verdict, &result.Effect
		if result.Note == judge.TooFewLaunches {
			result.Note = p.tooFewTrials(opts.sides)
		}
		p.Notes = append(p.Notes, lists.NonEmpty(result.Note)...)
		if result.Effect.Method == judge.None { // show the change between all trials
			all := opts
			all.Disturbed = Disturbed{Count: true}
			c, _ := newCase(judged[k], all)
			p.Effect = opts.raw(c, p.New.raw/p.Old.raw)
			p.Old.Value, p.New.Value = p.Old.raw, p.New.raw
		}
	}
}

// raw returns the change between sides with too few trials for a verdict, or nil if there is no ratio. ratio is the
// median of the new side over the median of the old one.
func (o Options) raw(c judge.Case, ratio float64) *judge.Effect {
	if len(c.Old) == 0 || len(c.New) == 0 || !judge.HaveRatio(c.Old) || !judge.HaveRatio(c.New) {
		return nil
	}
	effect := judge.Rule{Floor: o.Floor, Alpha: o.Alpha}.Decide([]judge.Case{c})[0].Effect
	if effect.Method == judge.None {
		effect.Ratio = ratio
	}
	effect.Method, effect.P = judge.None, nil
	return &effect
}

// tooFewTrials returns why there are too few trials for a verdict, and what to do.
func (p *Point) tooFewTrials(sides [2]string) string {
	const needed = "at least %d a side are needed; "
	const calm = "measure again on a quiet machine, or let all trials count, as in this change, with --count-disturbed"
	for i, s := range []*Side{p.Old, p.New} {
		switch trials := s.Trials + s.NotOK; {
		case s.counting >= judge.MinLaunches || trials < judge.MinLaunches && s.counting == trials:
		case s.counting == 0 && s.Trials > 0:
			return fmt.Sprintf("not resolved: all trials of %s that are ok were disturbed: "+calm, sides[i])
		case s.Trials < judge.MinLaunches && s.NotOK > 0:
			return fmt.Sprintf("not resolved: only %d of %s of %s are ok, and "+needed+"find out why the others failed",
				s.Trials, unit.Plural(trials, "trial"), sides[i], judge.MinLaunches)
		default:
			return fmt.Sprintf("not resolved: only %d of %s of %s were undisturbed, and "+needed+calm, s.counting,
				unit.Plural(trials, "trial"), sides[i], judge.MinLaunches)
		}
	}
	return judge.TooFewLaunches
}
