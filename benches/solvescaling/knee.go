package solvescaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// knee returns a sentence about the sizes, in unknowns per rank, at which an iteration is efficient, and about the
// cause of the loss at other sizes. It compares rows of the same solve on the largest number of ranks with a core each.
func knee(c *curve, rows dataset.Set) string {
	var last *journal.Row
	for _, r := range c.rows {
		if dataset.Ranks(r) > 1 && !oversubscribed(r) {
			last = r
		}
	}
	if last == nil {
		return ""
	}
	sizes := bySize(last, rows)
	doubtful := func(r *journal.Row) bool { return r.Details[doubtDetail] != "" }
	if !slices.ContainsFunc(sizes, func(r *journal.Row) bool { return !doubtful(r) }) {
		return "" // the text on the efficiency says why
	}
	return fmt.Sprintf("The knee of %s, in unknowns per rank, by the time of an iteration: %s; %s.",
		unit.Plural(dataset.Ranks(last), "rank"), reached(0.8, sizes), reached(0.5, sizes))
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
func reached(goal float64, sizes dataset.Set) string {
	efficiency := func(r *journal.Row) float64 { return r.Metrics["efficiency_implementation"] }
	at := func(r *journal.Row) string {
		return fmt.Sprintf("at %s: %s", count(perRank(r)), efficiencyOf(r))
	}
	var stretches, losses, open []string
	named := map[int]bool{} // a size may lie between two ranges
	addLoss := func(i int, side string) {
		if i < 0 || i >= len(sizes) || named[i] || judgeGoal(goal, sizes[i]) != goalMissed {
			return
		}
		named[i] = true
		text := fmt.Sprintf("lost %s %s", side, at(sizes[i]))
		if c := causeOf(sizes[i]); c.name != unresolved("").name {
			text = fmt.Sprintf("lost %s at %s to %s: %s", side, count(perRank(sizes[i])), c.name,
				efficiencyOf(sizes[i]))
		}
		losses = append(losses, text)
	}
	for lo := 0; lo < len(sizes); lo++ {
		hi := lo
		for hi < len(sizes) && judgeGoal(goal, sizes[hi]) == goalReached {
			hi++
		}
		if hi == lo {
			continue
		}
		stretch := "at " + count(perRank(sizes[lo]))
		if hi-lo > 1 {
			stretch = fmt.Sprintf("from %s to %s", count(perRank(sizes[lo])), count(perRank(sizes[hi-1])))
		}
		stretches = append(stretches, stretch)
		addLoss(lo-1, "below")
		addLoss(hi, "above")
		lo = hi
	}
	for _, r := range sizes {
		if judgeGoal(goal, r) == goalOpen {
			open = append(open, at(r))
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
		return fmt.Sprintf("whether %g is reached is not resolved %s", goal, strings.Join(open, ", "))
	case len(open) == 0:
		best := slices.MaxFunc(sizes, func(a, b *journal.Row) int { return cmp.Compare(efficiency(a), efficiency(b)) })
		text += fmt.Sprintf(", the most is %s at %s", efficiencyOf(best), count(perRank(best)))
	}
	if len(open) > 0 {
		text += ", not resolved " + strings.Join(open, ", ")
	}
	return text
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
