package compare

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// judge holds what all pairs of a report share.
type judge struct {
	opts          Options
	lowerIsBetter bool
}

// evidence is what the numbers of one pair say before the correction for being
// one of many. Changes are logarithms of NEW / OLD.
type evidence struct {
	method    Method
	change    float64
	low, high float64
	p         float64
	disagrees bool // a second test that has to confirm p does not
	notes     []string
}

// pairs judges all the points.
func (j judge) pairs(points []rowset.Matched) []Pair {
	pairs := make([]Pair, len(points))
	var contests []*contest
	var at []int
	for i, m := range points {
		pairs[i] = j.describe(m)
		if pairs[i].Verdict == "" {
			contests = append(contests, j.newContest(m))
			at = append(at, i)
		}
	}
	// How many are tested decides which test can speak, and the correction
	// needs every p, hence three rounds.
	all := newFamily(contests)
	found := make([]evidence, len(contests))
	var ps []float64
	for k, c := range contests {
		found[k] = j.weigh(c, all)
		if c.noisy() {
			ps = append(ps, found[k].p)
		}
	}
	corrected := stats.Holm(ps)
	for k, c := range contests {
		p := 0.0
		if c.noisy() {
			p, corrected = corrected[0], corrected[1:]
		}
		j.decide(&pairs[at[k]], found[k], p)
	}
	return pairs
}

// describe makes the pair of a point, with the verdict where statuses alone
// decide it.
func (j judge) describe(m rowset.Matched) Pair {
	r := m.AnyRow()
	p := Pair{
		Name: rowset.Label(r, j.opts.Ignore...), Key: rowset.Key(r, j.opts.Ignore...), group: rowset.BenchPart(r),
		fields: rowset.LabelFields(r, j.opts.Ignore...),
		Bench:  r.Bench, Part: r.Part, NumRanks: r.NumRanks, Backend: r.Backend, Point: r.Point, Env: r.Env,
		Old: side(m[0], j.opts.Metric), New: side(m[1], j.opts.Metric),
	}
	for i, s := range []*Side{p.Old, p.New} {
		name := j.opts.Sides[i]
		if s.ok() && s.Trials == 0 {
			p.Verdict = Ambiguous
			p.Notes = append(p.Notes, fmt.Sprintf("%s has no %s", name, j.opts.Metric))
		}
		if s != nil && s.NotOK > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s: %s", name, s.trouble()))
		}
	}
	oldOK, newOK := p.Old.ok(), p.New.ok()
	switch {
	case p.Old == nil:
		p.Verdict = New
	case oldOK && !newOK:
		p.Verdict = Lost
		if p.New == nil {
			p.Notes = append(p.Notes, "absent from "+j.opts.Sides[1])
		}
	case !oldOK && newOK:
		p.Verdict = Fixed
	case !oldOK:
		p.Verdict = Broken
	}
	return p
}

func (s *Side) ok() bool { return s != nil && s.Status == journal.OK }

// trouble says what became of the trials that are not ok.
func (s *Side) trouble() string {
	text := fmt.Sprintf("%d of %d trials not ok", s.NotOK, s.NotOK+s.Trials)
	if s.Trials == 0 {
		text = string(s.Status)
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return text
}

// decide turns evidence into the pair's verdict; p is corrected.
func (j judge) decide(pair *Pair, e evidence, p float64) {
	pair.Notes = append(pair.Notes, e.notes...)
	if e.method == None {
		pair.Verdict = Ambiguous
		if pair.Old.Value != 0 {
			pair.Effect = &Effect{Ratio: pair.New.Value / pair.Old.Value, Method: None}
		}
		return
	}
	pair.Effect = &Effect{Ratio: math.Exp(e.change), Low: math.Exp(e.low), High: math.Exp(e.high), Method: e.method}
	if e.method != Exact {
		pair.Effect.P = &p
	}
	sure, floor := p <= j.opts.Alpha && !e.disagrees, math.Log1p(j.opts.Floor)
	switch {
	case sure && math.Abs(e.change) > floor:
		pair.Verdict = Faster
		if (e.change > 0) == j.lowerIsBetter {
			pair.Verdict = Slower
		}
	case max(e.high, -e.low) <= floor:
		pair.Verdict = Same
	default:
		pair.Verdict = Ambiguous
	}
}
