package solvescaling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// knee returns a sentence about the sizes, in unknowns per rank, at which an iteration is efficient, and about the
// cause of the loss at other sizes. It compares rows of the same solve on the largest number of ranks with a core each.
func knee(c *curve, rows []journal.Row) string {
	var last *journal.Row
	for _, r := range c.rows {
		if rowset.Ranks(r) > 1 && !oversubscribed(r) {
			last = r
		}
	}
	if last == nil {
		return ""
	}
	sizes := bySize(last, rows)
	if len(sizes) == 0 {
		return ""
	}
	return fmt.Sprintf("The knee of %s, in unknowns per rank, by the time of an iteration: %s; %s.",
		unit.Plural(rowset.Ranks(last), "rank"), reached(0.8, sizes), reached(0.5, sizes))
}

// bySize returns the best row of each size, among rows that differ from like in nothing else, the smallest first.
func bySize(like *journal.Row, rows []journal.Row) []*journal.Row {
	best := map[float64]*journal.Row{}
	for _, r := range rowset.Good(rows) {
		if _, known := r.Metrics["efficiency_implementation"]; !known || rowset.Ranks(r) != rowset.Ranks(like) ||
			configurationKey(r) != configurationKey(like) || oversubscribed(r) {
			continue
		}
		if old := best[perRank(r)]; old == nil || perIteration(r) < perIteration(old) {
			best[perRank(r)] = r
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b *journal.Row) int { return cmp.Compare(perRank(a), perRank(b)) })
}

func perRank(r *journal.Row) float64 { return r.Metrics["dof_per_rank"] }

// oversubscribed reports whether ranks of a row shared cores, judging by its warnings.
func oversubscribed(r *journal.Row) bool {
	return slices.ContainsFunc(r.Warnings, func(w string) bool {
		return strings.Contains(w, " ranks share ") && strings.Contains(w, " cores")
	})
}

// halfPercent is the amount by which an efficiency may miss a goal that it rounds to.
const halfPercent = 0.005

// reached describes the ranges of sizes at which a goal is reached, and the cause of the loss at the next size on
// either side.
func reached(goal float64, sizes []*journal.Row) string {
	efficiency := func(r *journal.Row) float64 { return r.Metrics["efficiency_implementation"] }
	var stretches, losses []string
	named := map[int]bool{} // a size may lie between two ranges
	lost := func(at int, side string) {
		if at < 0 || at >= len(sizes) || named[at] {
			return
		}
		named[at] = true
		r := sizes[at]
		losses = append(losses, fmt.Sprintf("lost %s at %s to %s: %s", side, count(perRank(r)), causeOf(r).name,
			withInterval(r, efficiency(r))))
	}
	for lo := 0; lo < len(sizes); lo++ {
		hi := lo
		for hi < len(sizes) && efficiency(sizes[hi]) >= goal-halfPercent {
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
		lost(lo-1, "below")
		lost(hi, "above")
		lo = hi
	}
	if len(stretches) == 0 {
		best := slices.MaxFunc(sizes, func(a, b *journal.Row) int { return cmp.Compare(efficiency(a), efficiency(b)) })
		return fmt.Sprintf("%.0f %% at no measured size, the most is %s at %s", 100*goal,
			withInterval(best, efficiency(best)), count(perRank(best)))
	}
	text := fmt.Sprintf("%.0f %% %s", 100*goal, strings.Join(stretches, " and "))
	if len(losses) == 0 {
		return text + ", all that was measured"
	}
	return text + ", " + strings.Join(losses, ", ")
}
