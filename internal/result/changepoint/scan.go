package changepoint

import (
	"math"
	"slices"
)

// AllPoints is the index of all points together in a Step.
const AllPoints = -1

// Step is a change of level in a series.
type Step struct {
	Point             int // AllPoints if all points changed together
	First             int // first run at the new level
	Change, Low, High float64
	P                 float64 // probability of such a change by chance; 0 for exact points
}

// Scan returns the steps of a series in the order of time. It goes through the runs like a nightly check,
// and begins a new level at each step. The size of a step comes from all runs of the two levels, but at
// most maxReference on either side. If all points changed together, the points are not listed separately.
func (r Rule) Scan(s Series) []Step {
	q := newSearch(s, r)
	firsts, found := q.levels(s, len(s.Runs))
	var out []Step
	for i, points := range found {
		end := len(s.Runs)
		if i+2 < len(firsts) {
			end = firsts[i+2]
		}
		first := firsts[i+1]
		sizes := q.at(firsts[i], first, min(end, first+maxReference)-1)
		for _, p := range points {
			out = append(out, q.newStep(s, p, sizes[p], firsts[i], first))
		}
	}
	return out
}

// levels divides the runs before end into levels. It returns the first run of each level and, for each step, the points
// that changed, where len(s.Exact) stands for all points together. It adds the noise of all levels except the last to
// q.carried.
func (q search) levels(s Series, end int) (firsts []int, found [][]int) {
	firsts = []int{0}
	for last := 1; last < end; last++ {
		start := firsts[len(firsts)-1]
		if first, points := q.stepAt(s, start, last); len(points) > 0 {
			for p, c := range q.at(start, first, last) {
				q.carried[p] = q.carried[p].add(c.own)
			}
			firsts, found = append(firsts, first), append(found, points)
		}
	}
	return firsts, found
}

// stepAt looks for a step after run start that becomes significant with run last. It returns the first run
// at the new level and the points that changed.
func (q search) stepAt(s Series, start, last int) (first int, points []int) {
	for p, exact := range s.Exact {
		if exact && exactStep(s, p, start, last, q.rule.Floor) || !exact && gross(s, p, start, last, last) != "" {
			points = append(points, p)
		}
	}
	if len(points) > 0 {
		return last, points
	}
	steps := q.best(start, start+1, last)
	n := len(s.Exact)
	best := -1
	for p, c := range slices.Backward(steps) { // all points together first
		if q.step(c) {
			points = append(points, p)
			if best < 0 || c.p < steps[best].p {
				best = p
			}
		}
	}
	if len(points) == 0 {
		return 0, nil
	}
	if points[0] == n {
		best, points = n, points[:1]
	}
	slices.Sort(points)
	return q.locate(best, steps[best], start, start+1, last).first, points
}

// exactStep reports whether a point without noise has left its level. It compares with the first run of the level, so
// that several small changes in one direction are found together.
func exactStep(s Series, p, start, last int, floor float64) bool {
	return len(s.Runs[last][p]) > 0 && math.Abs(s.Runs[last][p][0]-exactLevel(s, p, start, last)) > math.Log1p(floor)
}

// exactLevel returns the value of a point without noise in the first run since start that has it, or in the last run
// before start. It is NaN if no run before the end has it.
func exactLevel(s Series, p, start, end int) float64 {
	for r := start; r < end; r++ {
		if len(s.Runs[r][p]) > 0 {
			return s.Runs[r][p][0]
		}
	}
	for r := start - 1; r >= 0; r-- {
		if len(s.Runs[r][p]) > 0 {
			return s.Runs[r][p][0]
		}
	}
	return math.NaN()
}

// newStep returns the step at run first of the point p from the level that begins at start. len(s.Exact) stands for all
// points together.
func (q search) newStep(s Series, p int, c candidate, start, first int) Step {
	step := Step{Point: p, First: first, Change: c.change, P: c.p}
	switch {
	case p == len(s.Exact):
		step.Point = AllPoints
	case s.Exact[p]:
		step.Change, step.P = s.Runs[first][p][0]-exactLevel(s, p, start, first), 0
		step.Low, step.High = step.Change, step.Change
		return step
	}
	step.Low, step.High = q.interval(c.estimate, 0.025)
	return step
}
