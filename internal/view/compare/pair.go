package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// match pairs the rows of two runs by point: first the points of old in their order, then the points that
// only new has.
func match(old, new Run, opts Options) ([]dataset.Matched, error) {
	points := dataset.Match(func(r *journal.Row) string { return dataset.Key(r, opts.Ignore...) }, old.Rows,
		new.Rows)
	if len(opts.Ignore) == 0 {
		return points, nil
	}
	known := append(dataset.CoordNames(slices.Concat(old.Rows, new.Rows)), differenceNames(old, new)...)
	for _, name := range opts.Ignore {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("nothing to ignore: %w", suggest.Unknown("coordinate or difference of these runs", name,
				known))
		}
	}
	// Two points of a run that differ only in an ignored coordinate would be taken for
	// trials of one point.
	for _, m := range points {
		for i, run := range []Run{old, new} {
			if merged := dataset.GroupBy(m[i], func(r *journal.Row) string { return dataset.Key(r) }); len(merged) > 1 {
				return nil, fmt.Errorf("ignoring %s makes several points of run %s alike, among them %s; ignore only what has "+
					"one value in each run",
					strings.Join(opts.Ignore, ", "), run.ID(), dataset.Label(merged[1].Rows[0]))
			}
		}
	}
	return points, nil
}

// judgePairs describes all points and judges those with values on both sides. decisive has, for each
// point, the differences that make it not comparable.
func (r *Report) judgePairs(points []dataset.Matched, decisive [][]string, opts Options) {
	pairs := make([]Pair, len(points))
	var cases []judge.Case
	var at []int                 // index of each case's pair
	var judged []dataset.Matched // the points of the cases
	for i, m := range points {
		pairs[i] = describe(m, opts)
		if pairs[i].Verdict == "" && len(decisive[i]) > 0 {
			pairs[i].Verdict = NotComparable
			pairs[i].Notes = append(pairs[i].Notes, "not comparable: different "+strings.Join(decisive[i], " and "))
			continue
		}
		if pairs[i].Verdict == "" {
			c, notes := newCase(m, opts)
			pairs[i].Notes = append(pairs[i].Notes, notes...)
			cases, at, judged = append(cases, c), append(at, i), append(judged, m)
		}
	}
	rule := judge.Rule{Floor: opts.Floor, Alpha: opts.Alpha, HigherIsBetter: r.Better == "higher"}
	if opts.Mean {
		rule.Alpha = r.judgeMean(judged, opts, rule)
	}
	for k, result := range rule.Decide(cases) {
		p := &pairs[at[k]]
		p.Verdict, p.Effect = result.Verdict, &result.Effect
		if result.Note == judge.TooFewLaunches {
			result.Note = p.tooFewTrials(opts.sides)
		}
		p.Notes = append(p.Notes, lists.NonEmpty(result.Note)...)
		if result.Effect.Method != judge.None {
			continue
		}
		if p.Effect.Ratio = p.New.Value / p.Old.Value; !judge.HaveRatio([]float64{p.Old.Value, p.New.Value}) {
			p.Effect = nil
		}
	}
	r.Pairs = pairs
	r.Warnings = append(r.Warnings, lists.NonEmpty(r.inSequence(points, opts))...)
}

// inSequence returns a warning if all launches of one side came before the launches of the other side, and there is a
// verdict based on them. On most machines, two runs of the same build differ by more than the spread of their launches
// suggests, although hardly by a factor of changepoint.GrossFactor.
func (r *Report) inSequence(points []dataset.Matched, opts Options) string {
	changed := func(v judge.Verdict, e *judge.Effect) bool {
		return (v == judge.Slower || v == judge.Faster) && e.Method.Tested() &&
			max(e.Ratio, 1/e.Ratio) < changepoint.GrossFactor
	}
	meanChanged := r.Mean != nil && changed(r.Mean.Verdict, &r.Mean.Effect)
	var first, last [2]time.Time
	for i, p := range r.Pairs {
		if !inBoth(points[i]) || !meanChanged && !changed(p.Verdict, p.Effect) {
			continue
		}
		for side, rows := range points[i] {
			for _, row := range withMetric(rows, opts.Metric) {
				if first[side].IsZero() || row.Time.Before(first[side]) {
					first[side] = row.Time
				}
				if row.Time.After(last[side]) {
					last[side] = row.Time
				}
			}
		}
	}
	for early, name := range opts.sides {
		if last[early].Before(first[1-early]) {
			return name + " was measured before " + opts.sides[1-early] + ", so a change of the machine in between looks like " +
				"one of the program: compare --run alternates their launches"
		}
	}
	return ""
}

// tooFewTrials returns why there are too few trials for a verdict, and what to do.
func (p *Pair) tooFewTrials(sides [2]string) string {
	const needed = "at least %d a side are needed; "
	for i, s := range []*Side{p.Old, p.New} {
		switch trials := s.Trials + s.NotOK; {
		case s.quiet >= judge.MinLaunches || trials < judge.MinLaunches && s.quiet == trials:
		case s.quiet == 0 && s.Trials > 0:
			return fmt.Sprintf("not resolved: all trials of %s that are ok were disturbed: measure again on a quiet machine",
				sides[i])
		case s.Trials < judge.MinLaunches && s.NotOK > 0:
			return fmt.Sprintf("not resolved: only %d of %s of %s are ok, and "+needed+"find out why the others failed",
				s.Trials, unit.Plural(trials, "trial"), sides[i], judge.MinLaunches)
		default:
			return fmt.Sprintf("not resolved: only %d of %s of %s were undisturbed, and "+needed+
				"measure again on a quiet machine", s.quiet, unit.Plural(trials, "trial"), sides[i], judge.MinLaunches)
		}
	}
	return judge.TooFewLaunches
}

// describe returns the pair of a point, with its verdict if the statuses alone decide it.
func describe(m dataset.Matched, opts Options) Pair {
	r := m.AnyRow()
	p := Pair{
		Name: dataset.Label(r, opts.Ignore...), key: dataset.Key(r, opts.Ignore...), group: dataset.BenchPart(r),
		fields: dataset.LabelFields(r, opts.Ignore...),
		Bench:  r.Bench, Part: r.Part, NumRanks: r.NumRanks, Backend: r.Backend, Point: r.Point, Env: r.Env,
		Old: newSide(m[0], opts.Metric), New: newSide(m[1], opts.Metric),
	}
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
	case (p.Old == nil || p.Old.Status.NotRun()) && p.New.bad():
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

// newSide summarizes the rows of one run at a point. It returns nil if there are none.
func newSide(rows dataset.Set, metric string) *Side {
	if len(rows) == 0 {
		return nil
	}
	s := &Side{}
	bad := 0
	for _, r := range rows {
		if r.Status != journal.OK {
			s.NotOK++
			s.Status, s.Reason = r.Status, r.Reason
		}
		if r.Status.Bad() {
			bad++
		}
	}
	good := withMetric(rows, metric)
	for _, r := range good {
		s.Samples += r.Samples
	}
	s.Trials = len(good)
	s.quiet = len(good.Where(func(r *journal.Row) bool { return r.Disturbed() == "" }))
	if ok := len(rows) - s.NotOK; ok > bad {
		s.Status = journal.OK
	}
	if values := valuesOf(dataset.Set(good).Counting(), metric); len(values) > 0 {
		s.Value = stats.Median(values)
	}
	return s
}

func (s *Side) ok() bool { return s != nil && s.Status == journal.OK }

func (s *Side) bad() bool { return s != nil && s.Status.Bad() }

// failures describes the trials that are not ok.
func (s *Side) failures() string {
	text := fmt.Sprintf("%d of %d trials not ok", s.NotOK, s.NotOK+s.Trials)
	if s.Trials == 0 {
		text = string(s.Status)
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return text
}

// withMetric returns the rows that are ok and have the metric.
func withMetric(rows dataset.Set, metric string) dataset.Set {
	return rows.Where(func(r *journal.Row) bool {
		_, ok := r.Metrics[metric]
		return r.Status == journal.OK && ok
	})
}

func valuesOf(rows dataset.Set, metric string) []float64 {
	return lists.Map(rows, func(r *journal.Row) float64 { return r.Metrics[metric] })
}

// newCase returns the values of both sides that are compared, and notes about disturbed trials that are
// left out.
func newCase(m dataset.Matched, opts Options) (c judge.Case, notes []string) {
	old, new := withMetric(m[0], opts.Metric), withMetric(m[1], opts.Metric)
	c = judge.Case{Old: valuesOf(old, opts.Metric), New: valuesOf(new, opts.Metric)}
	if !judge.HaveRatio(c.Old) || !judge.HaveRatio(c.New) {
		return c, nil
	}
	if c.Exact = noiseless(old, c.Old) && noiseless(new, c.New); c.Exact {
		return c, nil
	}
	old, oldNote := undisturbed(old, opts.sides[0])
	new, newNote := undisturbed(new, opts.sides[1])
	return judge.Case{Old: valuesOf(old, opts.Metric), New: valuesOf(new, opts.Metric)},
		lists.NonEmpty(oldNote, newNote)
}

// noiseless reports whether the values have no noise: they are not measured, come from a single sample
// each, and are equal in every trial.
func noiseless(rows dataset.Set, values []float64) bool {
	noisy := func(r *journal.Row) bool { return r.Kind == journal.Measured || r.Samples > 1 }
	return !slices.ContainsFunc(rows, noisy) && judge.AllEqual(values)
}

// maxReason limits the length of the description of a disturbance in a note, in characters.
const maxReason = 60

// undisturbed returns the rows without a known disturbance, and a note about the others.
func undisturbed(rows dataset.Set, side string) (quiet dataset.Set, note string) {
	for _, r := range rows {
		if r.Disturbed() == "" {
			quiet = append(quiet, r)
		} else if note == "" {
			note = r.Disturbed()
		}
	}
	if note != "" {
		note = fmt.Sprintf("%s: %d of %d trials disturbed and left out (%s)", side, len(rows)-len(quiet), len(rows),
			texttab.Shorten(note, maxReason))
	}
	return quiet, note
}

// runWarnings returns warnings that concern a whole run.
func runWarnings(old, new Run, names [2]string) (out []string) {
	for i, side := range []Run{old, new} {
		if side.Incomplete != "" {
			out = append(out, names[i]+": "+side.Incomplete)
		}
	}
	a, b := old.Header, new.Header
	if a != nil && b != nil && (a.Host.Hostname == "") != (b.Host.Hostname == "") { // one header is damaged
		out = append(out, fmt.Sprintf("not known to be the same kind of host: %s and %s", a.Host.Summary(), b.Host.Summary()))
	}
	return out
}

// differenceNames returns the names of all possible differences between runs.
func differenceNames(runs ...Run) []string {
	names := lists.Map(properties, func(p property) string { return p.name })
	names = append(names, unitProperty, betterProperty, inputsProperty)
	for _, run := range runs {
		if run.Header != nil {
			names = append(names, slices.Collect(maps.Keys(run.Header.Environ))...)
		}
	}
	return names
}

// inBoth reports whether both runs have rows of a point.
func inBoth(m dataset.Matched) bool { return len(m[0]) > 0 && len(m[1]) > 0 }

// warnings returns warnings about incomplete runs and missing trials. How the sides differ is in
// Report.Differences.
func warnings(old, new Run, points []dataset.Matched, opts Options) []string {
	out := runWarnings(old, new, opts.sides)
	common, unequal, missing := 0, 0, 0
	for _, m := range points {
		a, b := withMetric(m[0], opts.Metric), withMetric(m[1], opts.Metric)
		if inBoth(m) {
			common++
		}
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		if len(a) != len(b) {
			unequal++
		}
		if len(a) < len(m[0]) || len(b) < len(m[1]) {
			missing++
		}
	}
	if unequal > 0 {
		out = append(out, opts.sides[0]+" and "+opts.sides[1]+" have different numbers of trials in "+
			unit.Plural(unequal, "point"))
	}
	if missing > 0 {
		out = append(out, "trials that are not ok are left out in "+unit.Plural(missing, "point"))
	}
	if common == 0 {
		out = append(out, "the runs have no point in common"+ignoreHint(old, new))
	}
	return out
}

// ignoreHint returns a hint that names the coordinates for which the runs have no common value. Each of
// them is enough to prevent any match of points.
func ignoreHint(old, new Run) string {
	a, b := dataset.CoordTexts(old.Rows), dataset.CoordTexts(new.Rows)
	names := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(names)
	differing := lists.Filter(slices.Compact(names), func(name string) bool {
		for v := range a[name] {
			if b[name][v] {
				return false
			}
		}
		return name != dataset.Sharing // cannot be ignored
	})
	if len(differing) == 0 {
		return ""
	}
	return "; ignore what differs on purpose: " + strings.Join(differing, ", ")
}
