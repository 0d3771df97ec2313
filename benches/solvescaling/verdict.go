package solvescaling

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// sections returns the tables of a scaling study, one for each curve, with a verdict in words.
func sections(rows []journal.Row) []bench.Section {
	out := comparisonSections(rows)
	all := curves(rows, "")
	for _, c := range all {
		s := bench.Section{Headline: true, Title: title(c),
			Table: [][]string{{"ranks", "DOF", "DOF/rank", "set-up s", "time s", "CPU s", "spread", "iterations",
				"us/iteration", "rel.res", "DOF/s",
				"efficiency", "algorithmic", "implementation"}}}
		s.Table = append(s.Table, lists.Map(c.rows, line)...)
		s.Text = strings.Join(verdict(c, rows), "\n")
		for _, b := range c.bad {
			s.Text += fmt.Sprintf("\nThe row of %s failed and is in no curve: %s", unit.Plural(rowset.Ranks(b), "rank"),
				b.Reason)
		}
		s.Text += warnings(c.rows)
		s.Text = strings.TrimSpace(s.Text)
		out = append(out, s)
		if phases := phaseTable(c); len(phases) > 1 {
			out = append(out, bench.Section{Headline: true,
				Title: "phases of a traced iteration in us, mean over the ranks: " + title(c), Table: phases})
		}
		if levels := levelTable(c); len(levels) > 1 {
			out = append(out, bench.Section{Headline: true, Title: "levels of a traced cycle, mean over the ranks: " + title(c),
				Table: levels})
		}
	}
	return out
}

// phaseTable shows the time of each phase of an iteration, one line for each number of ranks.
func phaseTable(c *curve) [][]string {
	head := []string{"ranks", "whole"}
	for p := range krylov.NumPhases {
		head = append(head, strings.ReplaceAll(p.String(), "_", " "))
	}
	out := [][]string{head}
	for _, r := range c.rows {
		if _, traced := r.Metrics[meanOf(krylov.SpMV)]; !traced {
			continue
		}
		whole := cmp.Or(r.Metrics["traced_us"], perIteration(r))
		words := []string{fmt.Sprint(rowset.Ranks(r)), unit.FormatSig(whole, 3)}
		for p := range krylov.NumPhases {
			words = append(words, cell(r, meanOf(p), func(us float64) string { return unit.FormatSig(us, 3) }))
		}
		out = append(out, words)
	}
	return out
}

// cell formats a metric for a table, or "-" if the row does not have it.
func cell(r *journal.Row, metric string, show func(float64) string) string {
	v, known := r.Metrics[metric]
	if !known {
		return "-"
	}
	return show(v)
}

// warnings lists each warning of the rows once, with the rank counts that it applies to.
func warnings(rows []*journal.Row) (text string) {
	var order []string
	about := map[string][]string{}
	for _, r := range rows {
		for _, w := range r.Warnings {
			if about[w] == nil {
				order = append(order, w)
			}
			about[w] = append(about[w], fmt.Sprint(rowset.Ranks(r)))
		}
	}
	for _, w := range order {
		text += fmt.Sprintf("\nWarning (ranks %s): %s", strings.Join(about[w], ", "), w)
	}
	return text
}

// levelTable shows the time of each level of a multigrid cycle, for the largest number of ranks.
func levelTable(c *curve) [][]string {
	out := [][]string{{"level", "rows", "entries/row", "us", "share"}}
	if len(c.rows) == 0 {
		return out
	}
	type level struct{ rows, entries, us float64 }
	var levels []level
	whole := 0.0
	for _, word := range strings.Fields(c.rows[len(c.rows)-1].Details[levelsDetail]) {
		var l level
		if _, err := fmt.Sscanf(word, "%g:%g:%g", &l.rows, &l.entries, &l.us); err != nil {
			continue
		}
		levels = append(levels, l)
		whole += l.us
	}
	for i, l := range levels {
		out = append(out, []string{fmt.Sprint(i), fmt.Sprintf("%.0f", l.rows), unit.FormatSig(l.entries/max(1, l.rows), 3),
			unit.FormatSig(l.us, 3), fmt.Sprintf("%.0f %%", 100*l.us/max(whole, 1e-9))})
	}
	return out
}

// title describes the problem and the solver of a curve.
func title(c *curve) string {
	r := c.any()
	words := []string{solverOf(r), rowset.Text(r, partitionerAxis) + " partition"}
	if by := rowset.Text(r, weightsAxis); by == string(partition.ByEntries) {
		words[1] += " by " + by
	}
	if rowset.Text(r, storageAxis) == sparse.Plain.String() {
		words = append(words, "stored plain")
	}
	if size := sizeAxis(c.mode); rowset.Text(r, matrixOption) == "" {
		words = append(words, fmt.Sprintf("%s %s", count(rowset.Number(r, size)),
			map[string]string{perRankAxis: "unknowns per rank", totalAxis: "unknowns in all"}[size]))
	}
	head := c.mode + " scaling"
	if c.mode == throughput {
		head = throughput
	}
	return fmt.Sprintf("%s: %s, %s, backend %s", head, problemOf(r), strings.Join(words, ", "), r.Backend)
}

func problemOf(r *journal.Row) string {
	return cmp.Or(r.Details["problem"], rowset.Text(r, problemAxis))
}

// line returns a table row.
func line(r *journal.Row) []string {
	m := r.Metrics
	percent := func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
	seconds := func(v float64) string { return unit.FormatSig(v, 3) }
	spread := ""
	if st, ok := r.Stats.Find("time_us"); ok && st.Min > 0 {
		spread = fmt.Sprintf("+%.0f %%", 100*(st.Max/st.Min-1))
	}
	// Rows of stopped solves lack some of these.
	return []string{fmt.Sprint(rowset.Ranks(r)), fmt.Sprintf("%.0f", m["dof_global"]),
		fmt.Sprintf("%.0f", m["dof_per_rank"]),
		cell(r, "precond_setup_s", seconds),
		cell(r, "solve_time_s", func(v float64) string { return unit.FormatSig(v, 4) }),
		cell(r, "solve_cpu_s", func(v float64) string { return seconds(v + m["precond_setup_cpu_s"]) }),
		spread, fmt.Sprintf("%.0f", m["iterations"]), unit.FormatSig(m["time_us"], 4),
		fmt.Sprintf("%.1e", m["rel_residual"]),
		cell(r, "throughput_dof_s", func(v float64) string { return fmt.Sprintf("%.3g", v) }),
		cell(r, "efficiency", percent), cell(r, "efficiency_algorithmic", percent),
		cell(r, "efficiency_implementation", percent)}
}

// verdict describes how well the curve scales, what limits it, and where the knee is.
func verdict(c *curve, rows []journal.Row) []string {
	if len(c.rows) == 0 {
		return nil
	}
	last := c.rows[len(c.rows)-1]
	var out []string
	if text := efficiencyText(last); text != "" {
		out = append(out, text)
	}
	out = append(out, fmt.Sprintf("On %s %s.", unit.Plural(rowset.Ranks(last), "rank"), causeOf(last).sentence))
	if text := hiddenText(last); text != "" {
		out = append(out, text)
	}
	if k := knee(c, rows); k != "" {
		out = append(out, k)
	}
	return out
}

// efficiencyText says how much of one rank's efficiency is left. It returns "" if that is not known.
func efficiencyText(r *journal.Row) string {
	m := r.Metrics
	each, known := m["efficiency_implementation"]
	if !known || rowset.Ranks(r) == 1 {
		return ""
	}
	ranks := unit.Plural(rowset.Ranks(r), "rank")
	if _, solved := m["efficiency"]; !solved {
		return fmt.Sprintf("%s keep %s of one rank's efficiency by the time of an iteration; the solves were stopped "+
			"before a solution.", ranks, withInterval(r, each))
	}
	return fmt.Sprintf("%s keep %.0f %% of one rank's efficiency: %.0f %% by the number of iterations (%s), %s by the "+
		"time of an iteration.",
		ranks, 100*m["efficiency"], 100*m["efficiency_algorithmic"], iterationsText(m["efficiency_algorithmic"]),
		withInterval(r, each))
}

// withInterval formats an efficiency by the time of an iteration, with its interval if several solves give one.
func withInterval(r *journal.Row, efficiency float64) string {
	low, high := r.Metrics["efficiency_implementation_low"], r.Metrics["efficiency_implementation_high"]
	if high == 0 {
		return fmt.Sprintf("%.0f %%", 100*efficiency)
	}
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*efficiency, 100*low, 100*high)
}

func iterationsText(algorithmic float64) string {
	if algorithmic < 0.995 || algorithmic > 1.005 {
		return fmt.Sprintf("%.2f times as many", 1/algorithmic)
	}
	return "as many"
}

// cause is the bottleneck of an iteration: a name, and a sentence with the numbers that show it.
type cause struct{ name, sentence string }

// Thresholds above which something counts as the cause, as fractions of an iteration or of the triad.
const (
	bindingShare   = 0.3 // time spent waiting
	imbalanceShare = 0.1 // additional work of the slowest rank
	bandwidthShare = 0.6 // bandwidth, relative to the triad
	// aboveMemory is the bandwidth relative to the triad above which the data must come from caches. Values slightly above
	// 1 are noise.
	aboveMemory = 1.1
	// explained is the fraction of the waiting time that messages alone must take to be its cause. It is also the fraction
	// of the slowest rank's additional work that its larger part must explain.
	explained = 0.5
	// preconditionShare applies to the preconditioner, whose messages cannot be separated from its work.
	preconditionShare = 0.5
)

// shares splits the time of a traced iteration into fractions: the work of the mean rank, the additional work of the
// slowest rank, and waiting.
type shares struct{ work, imbalance, waiting float64 }

// sharesOf computes the shares of a row. Waiting is the time in which not even the slowest rank works.
func sharesOf(r *journal.Row) (shares, bool) {
	us := cmp.Or(r.Metrics["traced_us"], r.Metrics["time_us"]) // older rows lack traced_us; their phases add up to time_us
	mean, most := 0.0, 0.0
	for _, p := range []krylov.Phase{krylov.SpMV, krylov.Dots, krylov.Updates, krylov.Precond, krylov.Other} {
		mean += r.Metrics[meanOf(p)]
		most += r.Metrics[slowestOf(p)]
	}
	if !(us > 0) || mean == 0 {
		return shares{}, false
	}
	most = min(most, us)
	return shares{mean / us, max(0, most-mean) / us, max(0, us-most) / us}, true
}

// causeOf determines what limits an iteration.
func causeOf(r *journal.Row) cause {
	s, ok := sharesOf(r)
	m := r.Metrics
	switch {
	case !ok:
		return cause{"an unknown reason", "what binds an iteration is not known: its phases were not timed"}
	case s.imbalance >= imbalanceShare && s.imbalance >= s.waiting:
		return unevenCause(r, s)
	case s.waiting >= bindingShare && rowset.Ranks(r) > 1:
		return waitingCause(r, s)
	case m["triad_fraction"] > aboveMemory:
		return cause{"the ranks' own work",
			fmt.Sprintf("an iteration works from the caches, not from memory: %.1f GB/s by the model, above the "+
				"triad's %.1f GB/s", m["gbps"], m["triad_gbps"])}
	case m["triad_fraction"] >= bandwidthShare:
		text := fmt.Sprintf("an iteration is bound by memory bandwidth: %.1f GB/s by the model, %.0f %% of the "+
			"triad's %.1f GB/s", m["gbps"], 100*m["triad_fraction"], m["triad_gbps"])
		if b := m["bandwidth_scaling"]; b > 0 && b < 0.95 {
			text += fmt.Sprintf(", which is %.2f times that of one rank", b*float64(rowset.Ranks(r)))
		}
		return cause{"memory bandwidth", text}
	case rowset.Ranks(r) > 1 && r.Details[gpuDetail] != "":
		return cause{"an unknown reason",
			fmt.Sprintf("what binds an iteration is not known: its kernels wait for other ranks where they work, which is "+
				"not told apart; it takes %.1f GB/s by the model, %.0f %% of the triad's %.1f GB/s",
				m["gbps"], 100*m["triad_fraction"], m["triad_gbps"])}
	case rowset.Ranks(r) > 1 && preconditioning(r) >= preconditionShare && m["alone_us"] == 0:
		return cause{"the preconditioner",
			fmt.Sprintf("an iteration is bound by its preconditioner, %.0f %% of it; how much of that is its messages is "+
				"not measured", 100*preconditioning(r))}
	}
	return cause{"the ranks' own work",
		fmt.Sprintf("an iteration is bound by the ranks' own work: it takes %.1f GB/s by the model, %.0f %% of the "+
			"triad's %.1f GB/s", m["gbps"], 100*m["triad_fraction"], m["triad_gbps"])}
}

// preconditioning returns the share of the preconditioner in a traced iteration, including its communication.
func preconditioning(r *journal.Row) float64 {
	if us := r.Metrics["traced_us"]; us > 0 {
		return r.Metrics[meanOf(krylov.Precond)] / us
	}
	return 0
}

// unevenCause explains why one rank works longer than the others: its part is larger, or it is slower.
func unevenCause(r *journal.Row, s shares) cause {
	m := r.Metrics
	rows, entries := m["row_imbalance"], m["nnz_imbalance"]
	if largest := max(rows, entries); (largest-1)*s.work >= explained*s.imbalance {
		text := fmt.Sprintf("an iteration is bound by imbalance: the slowest rank works %.0f %% of it longer than the "+
			"mean rank; the largest part has %.2f times the mean rows and %.2f times the mean entries",
			100*s.imbalance, rows, entries)
		if entries > 1.1*rows && rowset.Text(r, weightsAxis) != string(partition.ByEntries) {
			text += fmt.Sprintf(" (--%s %s evens these out)", weightsAxis, partition.ByEntries)
		}
		return cause{"imbalance", text}
	}
	return cause{"a slow rank", fmt.Sprintf("an iteration is bound by a slow rank: the slowest works %.0f %% of it "+
		"longer than the mean rank, though the largest part has only %.2f times the mean rows and %.2f times the mean "+
		"entries: another program, or a slower core",
		100*s.imbalance, rows, entries)}
}

// waitingCause explains why ranks wait. If messages alone take much less time, another rank is late.
func waitingCause(r *journal.Row, s shares) cause {
	m := r.Metrics
	own, known := m["communication_us"]
	waiting := s.waiting * m["time_us"]
	switch {
	case !known:
		return cause{"waiting", fmt.Sprintf("an iteration is bound by waiting, %.0f %% of it: whether for messages or for "+
			"late ranks was not measured", 100*s.waiting)}
	case own >= explained*waiting:
		return cause{"messages", fmt.Sprintf("an iteration is bound by messages and reductions (%.3g reductions per "+
			"iteration): ranks wait for %.0f %% of it, and the messages by themselves take %s of its %s",
			m["reductions_per_iteration"], 100*s.waiting, unit.FormatMicros(own), unit.FormatMicros(m["time_us"]))}
	}
	return cause{"late ranks", fmt.Sprintf("an iteration is bound by late ranks: ranks wait for %.0f %% of it, though "+
		"the messages by themselves take %s of its %s",
		100*s.waiting, unit.FormatMicros(own), unit.FormatMicros(m["time_us"]))}
}

// hiddenText says how much of the reductions is hidden behind other work. It returns "" for methods
// that hide none, and on one rank.
func hiddenText(r *journal.Row) string {
	blocking, left := r.Metrics["allreduce_blocking_us"], r.Metrics[meanOf(krylov.AllReduce)]
	if !(blocking > 0) {
		return ""
	}
	if left >= blocking {
		return fmt.Sprintf("None of the reductions was hidden: they take %s of a traced iteration behind the product, and "+
			"%s where ranks wait for them at once.",
			unit.FormatMicros(left), unit.FormatMicros(blocking))
	}
	return fmt.Sprintf("Of the reductions, which take %s of a traced iteration where ranks wait for them at once, %.0f "+
		"%% are hidden behind the product: %s are left.",
		unit.FormatMicros(blocking), 100*(1-left/blocking), unit.FormatMicros(left))
}
