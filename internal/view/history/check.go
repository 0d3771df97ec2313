package history

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/compare"
)

// Verdict is the decision on a point: one of package changepoint's, or one of those below.
type Verdict string

// Verdicts that follow from the status of the rows.
const (
	Lost   Verdict = "lost"   // ok in the baseline; absent, or failed in half of the trials, in the latest run
	New    Verdict = "new"    // not in the baseline
	Fixed  Verdict = "fixed"  // not ok in the baseline, ok in the latest run
	Broken Verdict = "broken" // not ok in either
	Failed Verdict = "failed" // not run in the baseline, failed in the latest run
)

const (
	slower     = Verdict(changepoint.Slower)
	faster     = Verdict(changepoint.Faster)
	noSlowdown = Verdict(changepoint.NoSlowdown)
	cannotTell = Verdict(changepoint.CannotTell)
)

// verdicts lists all verdicts, the most urgent first.
var verdicts = []Verdict{slower, Lost, Failed, cannotTell, Broken, faster, noSlowdown, Fixed, New}

// Effect is a change as a ratio of the metric: latest / baseline. Low and High are the ends of its
// 95 % interval, 0 without one.
type Effect struct {
	Ratio  float64  `json:"ratio"`
	Low    float64  `json:"ci_low,omitempty"`
	High   float64  `json:"ci_high,omitempty"`
	P      *float64 `json:"p,omitempty"`
	Method string   `json:"method"` // "steps", or "exact" for values without noise
}

// Finding is the decision on one point, or on all points together.
type Finding struct {
	Verdict Verdict  `json:"verdict"`
	Effect  *Effect  `json:"effect,omitempty"`
	Since   *RunName `json:"since,omitempty"` // the first run at the present level, if slower or faster
	// RulesOut is the smallest slow-down that is excluded with a confidence of 95 %, as a ratio minus 1.
	RulesOut *float64 `json:"rules_out,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// Side summarizes one side of a check at a point.
type Side struct {
	Status journal.Status `json:"status"` // ok if any row is
	Value  float64        `json:"value"`  // median over the undisturbed ok rows
	Trials int            `json:"trials"` // rows behind it
}

// Point is a point of the latest run or of the baseline.
type Point struct {
	Name     string      `json:"name"`
	Bench    string      `json:"bench"`
	Part     string      `json:"part,omitempty"`
	NumRanks *int        `json:"num_ranks"`
	Backend  string      `json:"backend"`
	Point    point.Point `json:"point"`
	Env      point.Env   `json:"env"`
	Old      *Side       `json:"old"` // nil if the baseline does not have it
	New      *Side       `json:"new"` // nil if the latest run does not have it
	Finding

	group  string   // bench or bench/part
	fields []string // of Name after it
}

// Report is the result of Check.
type Report struct {
	Bench     string          `json:"bench"`
	Baseline  []string        `json:"baseline_runs"`
	Recent    []string        `json:"recent_runs"` // the latest last
	Metric    string          `json:"metric"`
	Unit      string          `json:"unit,omitempty"`
	Better    string          `json:"better"`
	Floor     float64         `json:"floor"`
	Alpha     float64         `json:"alpha"`
	Tolerance float64         `json:"tolerance"`
	Counts    map[Verdict]int `json:"counts"`
	Whole     Finding         `json:"whole"`
	Points    []Point         `json:"points"`
	Warnings  []string        `json:"warnings,omitempty"`
	// Differences lists how the latest run differs from the last run of the baseline, besides its results.
	Differences []compare.Difference `json:"differences,omitempty"`
	// Suspected means that the latest runs may be at another level, so they should not become part of
	// the baseline.
	Suspected bool `json:"suspected"`
	// Usable has the runs of Recent with undisturbed values on the latest run's kind of machine.
	Usable []string `json:"-"`
}

// Check judges the latest run against the runs before it. accepted has the runs of the baseline that were
// accepted by hand, and later has the runs since then, the latest last. Neither may be empty.
func Check(accepted, later []compare.Run, opts Options) (Report, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return Report{}, err
	}
	runs := append(append([]compare.Run{}, accepted...), later...)
	t, err := newTimeline(runs, opts)
	if err != nil {
		return Report{}, err
	}
	result := opts.rule().Check(t.series, len(accepted))
	last := len(runs) - 1
	r := Report{Bench: benchOf(runs[last]), Baseline: lists.Map(accepted, compare.Run.ID),
		Recent: lists.Map(later, compare.Run.ID), Metric: opts.Metric, Unit: t.metric.Unit, Better: t.metric.Better,
		Floor: opts.Floor, Alpha: opts.Alpha, Tolerance: opts.Tolerance, Counts: map[Verdict]int{},
		Whole: t.finding(result.AllPoints, !slices.Contains(t.series.Exact, false)), Suspected: result.Suspected,
		Warnings: t.warnings(len(accepted)),
		Usable:   t.usable(len(accepted)),
		// Of all earlier runs, list the differences from the last accepted one: it is known to be good.
		Differences: compare.Differences(t.runs[len(accepted)-1], t.runs[last], opts.Metric, opts.Ignore)}
	for p, key := range t.keys {
		pt := t.newPoint(key, last)
		t.decide(&pt, result.Points[p], t.series.Exact[p], key, last)
		r.Counts[pt.Verdict]++
		r.Points = append(r.Points, pt)
	}
	return r, nil
}

func benchOf(r compare.Run) string {
	switch {
	case r.Header != nil:
		return r.Header.Bench
	case len(r.Rows) > 0:
		return r.Rows[0].Bench
	}
	return ""
}

// ExitCode returns 1 if anything is slower, lost or failed, else 3 if the data cannot tell, else 0.
func (r Report) ExitCode() int {
	switch {
	case r.Whole.Verdict == slower || r.Counts[slower]+r.Counts[Lost]+r.Counts[Failed] > 0:
		return 1
	case r.Whole.Verdict == cannotTell || r.Counts[cannotTell] > 0:
		return 3
	}
	return 0
}

func (t *timeline) newPoint(key string, last int) Point {
	row := t.anyRow(key)
	return Point{Name: dataset.Label(row), Bench: row.Bench, Part: row.Part, NumRanks: row.NumRanks, Backend: row.Backend,
		Point: row.Point, Env: row.Env, Old: t.side(0, last, key), New: t.side(last, last+1, key),
		group: dataset.BenchPart(row), fields: dataset.LabelFields(row)}
}

// side summarizes the rows of a point in the runs [from, to). It returns nil if there are none.
func (t *timeline) side(from, to int, key string) *Side {
	var s *Side
	for i := from; i < to; i++ {
		for _, row := range t.rows[i][key] {
			if s == nil || row.Status == journal.OK {
				s = &Side{Status: row.Status}
			}
		}
	}
	if s == nil {
		return nil
	}
	for i := from; i < to; i++ {
		s.Trials += len(t.values(i, key))
	}
	s.Value, _ = t.median(from, to, key)
	return s
}

func (s *Side) ok() bool { return s != nil && s.Status == journal.OK }

// decide sets the finding of a point: from the status of its rows, or from the statistics.
func (t *timeline) decide(p *Point, f changepoint.Finding, exact bool, key string, last int) {
	bad, failed := 0, 0
	reason := ""
	for _, row := range t.rows[last][key] {
		if row.Status.Bad() {
			failed++
		}
		if row.Status != journal.OK {
			bad++
			reason = string(row.Status)
			if row.Reason != "" {
				reason += " (" + row.Reason + ")"
			}
		}
	}
	switch {
	case (p.Old == nil || p.Old.Status.NotRun()) && p.New != nil && !p.New.ok() && failed > 0:
		p.Verdict = Failed
	case p.Old == nil:
		p.Verdict = New
	case p.Old.ok() && p.New == nil:
		p.Verdict, p.Notes = Lost, []string{"absent from the latest run"}
	case p.Old.ok() && !p.New.ok():
		p.Verdict, p.Notes = Lost, []string{"latest run: " + reason}
		return
	case !p.Old.ok() && p.New.ok():
		p.Verdict, p.Notes = Fixed, []string{"not ok in the baseline"}
	case !p.Old.ok():
		p.Verdict = Broken
	case failed >= len(t.rows[last][key])-bad:
		p.Verdict = Lost
	default:
		p.Finding = t.finding(f, exact)
	}
	if bad > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("latest run: %d of %d trials not ok: %s", bad, len(t.rows[last][key]), reason))
	}
	if n, why := t.disturbed(last, key); n > 0 && !exact {
		p.Notes = append(p.Notes, fmt.Sprintf("latest run: %d of %d trials disturbed and left out (%s)", n,
			len(t.rows[last][key]), texttab.Shorten(why, 60)))
	}
}

// finding converts a finding of package changepoint, whose changes are logarithms, to ratios.
func (t *timeline) finding(f changepoint.Finding, exact bool) Finding {
	out := Finding{Verdict: Verdict(f.Verdict), Notes: lists.NonEmpty(f.Missing)}
	if !math.IsNaN(f.Change) {
		out.Effect = &Effect{Ratio: t.ratio(f.Change), Method: "steps"}
		if exact {
			out.Effect.Method = "exact"
		}
		if !math.IsNaN(f.Low) {
			low, high := t.ratio(f.Low), t.ratio(f.High)
			out.Effect.Low, out.Effect.High = min(low, high), max(low, high)
		}
	}
	if out.Verdict == slower || out.Verdict == faster {
		since := nameOf(t.runs[f.First])
		out.Since = &since
		if out.Effect != nil && f.P > 0 {
			out.Effect.P = &f.P
		}
	}
	if !math.IsNaN(f.Bound) {
		out.RulesOut = &f.Bound
	}
	return out
}

// warnings returns warnings that concern whole runs.
func (t *timeline) warnings(accepted int) (out []string) {
	for i, r := range t.runs {
		switch {
		case r.Incomplete == "":
		case i == len(t.runs)-1:
			out = append(out, "latest run: "+r.Incomplete)
		case i < accepted:
			out = append(out, fmt.Sprintf("baseline: run %s: %s", r.ID(), r.Incomplete))
		}
	}
	if t.otherMachine > 0 {
		out = append(out, fmt.Sprintf("%s on another kind of machine than the latest: measured values left out",
			unit.Plural(t.otherMachine, "run")))
	}
	if t.otherUnit > 0 {
		out = append(out, fmt.Sprintf("%s with %s in a unit or direction that cannot be compared with the latest: left out",
			unit.Plural(t.otherUnit, "run"), t.metric.Name))
	}
	return out
}
