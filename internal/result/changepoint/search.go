package changepoint

import "math"

// windows are the numbers of latest runs that are tested together against the runs before them.
var windows = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48}

const (
	maxReference = 60   // largest number of runs before a step with which it is compared
	minRuns      = 4    // runs that a reference needs to estimate how much runs differ
	suspicion    = 0.01 // probability by chance below which a step is suspected
	presence     = 0.5  // fraction of a step that must remain in the last run; else it was fixed meanwhile
)

// share returns the fraction of the error probability that a window may use. Steps should be found within
// three runs, so the first three windows get most of it.
func share(window int) float64 {
	switch window {
	case 1:
		return 0.1
	case 2:
		return 0.25
	case 3:
		return 0.3
	}
	return 0.35 / float64(len(windows)-3)
}

// search looks for steps in a table.
type search struct {
	table
	rule    Rule
	carried []noise // noise of earlier levels, by point; the last element is for all points together
	quantiles
}

func newSearch(s Series, r Rule) search {
	return search{newTable(s), r, make([]noise, len(s.Exact)+1), quantiles{}}
}

// candidate is a possible step at run first.
type candidate struct {
	estimate
	first  int
	p      float64 // probability by chance
	level  float64 // largest p that is significant
	agrees bool    // for all points together: most points show the change too
}

// at returns the candidates of a step at run first: one for each point, and the last one for all points together. It
// compares the runs from first to last with the runs from start to before first.
func (s search) at(start, first, last int) []candidate {
	n := len(s.values)
	a, c := max(start, first-maxReference), last+1
	points, out := make([]estimate, n), make([]candidate, n+1)
	tested := 0
	for p := range n {
		if points[p] = s.point(p, a, first, c, s.carried[p]); points[p].known() {
			tested++
		}
	}
	together := s.allPoints(points, a, first, c, s.carried[n])
	for p, e := range append(points, together) {
		out[p] = candidate{estimate: e, first: first, p: 1, agrees: true}
		if !e.known() {
			continue
		}
		out[p].p = e.chance()
		switch {
		case tested == 1: // all points together are this one
			out[p].level = s.rule.Alpha
		case p < n:
			out[p].level = s.rule.Alpha / 2 / float64(tested)
		default:
			out[p].level, out[p].agrees = s.rule.Alpha/2, agree(points, together.change)
		}
	}
	return out
}

// agree reports whether more than half of the points changed by at least half of a change.
func agree(points []estimate, change float64) bool {
	known, moved := 0, 0
	for _, e := range points {
		if e.known() {
			known++
			if e.change/change >= 0.5 {
				moved++
			}
		}
	}
	return 2*moved > known
}

// best returns the most significant candidate of each point and of all points together. It considers steps at run least
// and later. The reference begins at run start.
func (s search) best(start, least, last int) []candidate {
	out := make([]candidate, len(s.values)+1)
	for i := range out {
		out[i].p, out[i].level = 1, 1
	}
	for _, m := range windows {
		first := last - m + 1
		if first < max(least, start+1) {
			break
		}
		for p, c := range s.at(start, first, last) {
			if !c.known() || c.own.dof+s.carried[p].dof < minRuns-1 {
				continue
			}
			c.level *= share(m)
			if !out[p].known() || c.p/c.level < out[p].p/out[p].level {
				out[p] = c
			}
		}
	}
	return out
}

// locate returns the candidate for the same step at the run where it is most significant.
func (s search) locate(p int, c candidate, start, least, last int) candidate {
	for first := max(least, start+1); first <= last; first++ {
		if other := s.at(start, first, last)[p]; other.p < c.p && (other.change > 0) == (c.change > 0) {
			other.level, other.agrees = c.level, c.agrees
			c = other
		}
	}
	return c
}

// possible reports whether a candidate is large enough to matter and still there in the last run.
func (s search) possible(c candidate) bool {
	return c.known() && c.agrees && math.Abs(c.change) > math.Log1p(s.rule.Floor) && c.last/c.change >= presence
}

// step reports whether a candidate is a step.
func (s search) step(c candidate) bool { return s.possible(c) && c.ranks && c.p <= c.level }

// suspected reports whether a candidate may be a step. tests is the number of points.
func (s search) suspected(c candidate, tests int) bool {
	return s.possible(c) && c.p <= suspicion/float64(tests)
}
