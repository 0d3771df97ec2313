package solvescaling

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The details that derive adds to a row.
const (
	// verdictDetail is the cause of the time of an iteration in a few words, for tables.
	verdictDetail = "verdict"
	// doubtDetail is the reason why the efficiency of a row is not resolved, if there is one.
	doubtDetail = "efficiency_doubt"
	// baselineDetail names the row of one rank that efficiencies refer to, if it is not of the same backend.
	baselineDetail = "baseline"
)

const (
	// widestInterval is the ratio of the ends of an interval above which an efficiency is not resolved.
	widestInterval = 2
	// aboveLinear is the efficiency above which a row needs an explanation. Smaller excesses are rounding and drift.
	aboveLinear = 1.02
	// moreCached is the additional share of the working set that the caches of several ranks must hold to explain an
	// efficiency above 1.
	moreCached = 0.2
)

// efficiencyDoubt returns the reason why the comparison of a row with the row of one rank, whose metrics are given, is
// not resolved, or "".
func efficiencyDoubt(r, one *journal.Row, m map[string]float64) string {
	low, high := m["efficiency_implementation_low"], m["efficiency_implementation_high"]
	for _, row := range (dataset.Set{r, one}) {
		if row.Disturbed() {
			return fmt.Sprintf("the row of %s was disturbed (%s)", unit.Plural(dataset.Ranks(row), "rank"),
				row.Conditions.Strongest().Sentence())
		}
	}
	switch {
	case oversubscribed(r):
		return "ranks share cores"
	case high == 0:
		return "one timed solve gives no interval"
	case high > widestInterval*low:
		return "the solves differ too much"
	}
	return ""
}

// efficiencyText describes how much of the efficiency of one rank is left, if this is known.
func efficiencyText(r *journal.Row) statement {
	m := r.Metrics
	if _, known := m["efficiency_implementation"]; !known || dataset.Ranks(r) == 1 {
		return statement{}
	}
	ranks := unit.Plural(dataset.Ranks(r), "rank")
	base := ""
	if of := r.Details[baselineDetail]; of != "" {
		base = " Compared with " + of + "."
	}
	if doubt := r.Details[doubtDetail]; doubt != "" {
		return statement{fmt.Sprintf("The efficiency of %s is not resolved: %s. By the time of an iteration it is about "+
			"%s.%s", ranks, doubt, efficiencyOf(r), base), true}
	}
	text := fmt.Sprintf("%s keep %s of one rank's efficiency", ranks, withInterval(m["efficiency"], m["efficiency_low"],
		m["efficiency_high"]))
	if _, solved := m["efficiency"]; !solved {
		text = fmt.Sprintf("%s keep %s of one rank's efficiency by the time of an iteration; the solves were stopped before "+
			"a solution.", ranks, efficiencyOf(r))
	} else {
		text += fmt.Sprintf(": %s by the number of iterations (%s), %s by the time of an iteration.",
			unit.FormatSig(m["efficiency_algorithmic"], 3), iterationsText(m["efficiency_algorithmic"]), efficiencyOf(r))
	}
	return statement{text: text + superlinearText(r) + base}
}

// tooEfficient reports whether an iteration is certainly more efficient than on one rank, and the caches do not explain
// it.
func tooEfficient(r *journal.Row) bool {
	own, one, known := cachedShares(r.Metrics)
	return r.Metrics["efficiency_implementation_low"] > aboveLinear && !(known && own-one >= moreCached)
}

// superlinearText explains an iteration that is certainly more efficient than on one rank, or flags it.
func superlinearText(r *journal.Row) string {
	m := r.Metrics
	if m["efficiency_implementation_low"] <= aboveLinear {
		return ""
	}
	own, one, known := cachedShares(m)
	switch {
	case !known:
		return " More than 1 is not explained: the working set and the caches are not known."
	case !tooEfficient(r):
		return fmt.Sprintf(" More than 1 is explained by the caches: they hold %.0f %% of the working set of a rank "+
			"(%s of %s), and %.0f %% of that of one rank.", 100*own, unit.FormatBytesApprox(m["cache_bytes"]),
			unit.FormatBytesApprox(m["working_set_bytes"]), 100*one)
	}
	return fmt.Sprintf(" More than 1 is not explained by the caches, which hold %.0f %% of the working set of "+
		"a rank and "+
		"%.0f %% of that of one rank: the row of 1 rank is probably too slow. Measure it again.", 100*own, 100*one)
}

// cachedShares returns the share of the working set of a rank that fits into the caches, for the row and for the row of
// one rank.
func cachedShares(m map[string]float64) (own, one float64, known bool) {
	share := func(cache, set string) float64 { return min(1, m[cache]/m[set]) }
	if !(m["working_set_bytes"] > 0 && m[oneSet] > 0 && m["cache_bytes"] > 0 && m[oneCache] > 0) {
		return 0, 0, false
	}
	return share("cache_bytes", "working_set_bytes"), share(oneCache, oneSet), true
}

// The working set and the caches of the row of one rank, which derive adds to the metrics of each row.
const (
	oneSet   = "one_rank_working_set_bytes"
	oneCache = "one_rank_cache_bytes"
)

// efficiencyOf formats the efficiency of a row by the time of an iteration.
func efficiencyOf(r *journal.Row) string {
	return withInterval(r.Metrics["efficiency_implementation"], r.Metrics["efficiency_implementation_low"],
		r.Metrics["efficiency_implementation_high"])
}

func iterationsText(algorithmic float64) string {
	if algorithmic < 0.995 || algorithmic > 1.005 {
		return fmt.Sprintf("%.2f times as many", 1/algorithmic)
	}
	return "as many"
}
