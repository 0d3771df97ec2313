package solvescaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// knee returns a sentence about the sizes, in unknowns per rank, at which an iteration is efficient, and about the
// cause of the loss at other sizes. It compares rows of the same solve on the largest number of ranks with a core each.
func knee(c *curve, rows dataset.Set) (s statement) {
	var last *journal.Row
	for _, r := range c.rows {
		if dataset.Ranks(r) > 1 && !oversubscribed(r) {
			last = r
		}
	}
	if last == nil {
		return s
	}
	sizes := bySize(last, rows)
	doubtful := func(r *journal.Row) bool { return r.Details[doubtDetail] != "" }
	if !slices.ContainsFunc(sizes, func(r *journal.Row) bool { return !doubtful(r) }) {
		return s // the text on the efficiency says why
	}
	high, low := reached(0.8, sizes), reached(0.5, sizes)
	return statement{fmt.Sprintf("The knee of %s, in unknowns per rank, by the time of an iteration: %s; %s.",
		unit.Plural(dataset.Ranks(last), "rank"), high.text, low.text), high.open || low.open}
}

// bySize returns the point of each size, among rows that differ from like in nothing else, the smallest first.
func bySize(like *journal.Row, rows dataset.Set) dataset.Set {
	alike := rows.Good().Where(func(r *journal.Row) bool {
		_, known := r.Metrics["efficiency_implementation"]
		return known && dataset.Ranks(r) == dataset.Ranks(like) && configurationKey(r) == configurationKey(like) &&
			!oversubscribed(r)
	})
	sizes := merged(alike)
	slices.SortFunc(sizes, func(a, b *journal.Row) int { return cmp.Compare(perRank(a), perRank(b)) })
	return sizes
}

func perRank(r *journal.Row) float64 { return r.Metrics["dof_per_rank"] }

// oversubscribed reports whether ranks of a row shared cores.
func oversubscribed(r *journal.Row) bool { return r.Conditions.Has(journal.CodeCrowded) }

// reached describes the ranges of sizes at which a goal is certainly reached, and the cause of the
// loss at the next size on either side. Sizes whose interval contains the goal, or whose efficiency is
// not resolved, are listed as such.
func reached(goal float64, sizes dataset.Set) statement {
	efficiency := func(r *journal.Row) float64 { return r.Metrics["efficiency_implementation"] }
	at := func(r *journal.Row) string {
		return fmt.Sprintf("at %s: %s", count(perRank(r)), efficiencyOf(r))
	}
	judged := lists.Map(sizes, func(r *journal.Row) goalVerdict { return judgeGoal(goal, r) })
	var stretches, losses, open []string
	first := 0 // of the present range
	for i, r := range sizes {
		before := i > 0 && judged[i-1] == goalReached
		after := i+1 < len(sizes) && judged[i+1] == goalReached
		switch {
		case judged[i] == goalOpen:
			open = append(open, at(r))
		case judged[i] == goalMissed && before:
			losses = append(losses, "lost above "+lossText(r))
		case judged[i] == goalMissed && after:
			losses = append(losses, "lost below "+lossText(r))
		case judged[i] == goalReached:
			if !before {
				first = i
			}
			if !after && first < i {
				stretches = append(stretches, fmt.Sprintf("from %s to %s", count(perRank(sizes[first])), count(perRank(r))))
			} else if !after {
				stretches = append(stretches, "at "+count(perRank(r)))
			}
		}
	}
	text := fmt.Sprintf("%g at no measured size", goal)
	switch {
	case len(stretches) > 0:
		text = fmt.Sprintf("%g %s", goal, strings.Join(append([]string{strings.Join(stretches, " and ")},
			losses...), ", "))
		if len(losses)+len(open) == 0 {
			text += ", all that was measured"
		}
	case len(open) == len(sizes):
		return statement{fmt.Sprintf("whether %g is reached is not resolved %s", goal, strings.Join(open, ", ")), true}
	case len(open) == 0:
		best := slices.MaxFunc(sizes, func(a, b *journal.Row) int { return cmp.Compare(efficiency(a), efficiency(b)) })
		text += fmt.Sprintf(", the most is %s at %s", efficiencyOf(best), count(perRank(best)))
	}
	if len(open) > 0 {
		text += ", not resolved " + strings.Join(open, ", ")
	}
	return statement{text, len(open) > 0}
}

// lossText names the cause of a loss, if it is known.
func lossText(r *journal.Row) string {
	text := "at " + count(perRank(r))
	if c := causeOf(r); !c.open {
		text += " to " + c.name
	}
	return text + ": " + efficiencyOf(r)
}

// goalVerdict is whether an efficiency reaches a goal.
type goalVerdict uint8

const (
	goalOpen goalVerdict = iota // the interval contains the goal, or the efficiency is not resolved or not plausible
	goalReached
	goalMissed
)

// judgeGoal compares the interval of a row's efficiency with a goal.
func judgeGoal(goal float64, r *journal.Row) goalVerdict {
	low, high := r.Metrics["efficiency_implementation_low"], r.Metrics["efficiency_implementation_high"]
	switch {
	case r.Details[doubtDetail] != "" || tooEfficient(r):
		return goalOpen
	case low >= goal:
		return goalReached
	case high < goal:
		return goalMissed
	}
	return goalOpen
}
