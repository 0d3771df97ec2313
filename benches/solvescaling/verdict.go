package solvescaling

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/solve"
)

// sections are the tables that scaling studies have, one for each curve, each
// with a verdict in words.
func sections(rows []journal.Row) []bench.Section {
	var out []bench.Section
	all := curves(rows, "")
	for _, c := range all {
		s := bench.Section{Headline: true, Title: title(c),
			Table: [][]string{{"ranks", "DOF", "DOF/rank", "time s", "spread", "iterations", "us/iteration", "rel.res", "DOF/s",
				"efficiency", "algorithmic", "implementation"}}}
		for _, r := range c.rows {
			s.Table = append(s.Table, line(r))
		}
		s.Text = strings.Join(verdict(c, rows), "\n")
		for _, b := range c.bad {
			s.Text += fmt.Sprintf("\nThe row of %s failed and is in no curve: %s", unit.Plural(rowset.Ranks(b), "rank"), b.Reason)
		}
		s.Text += warnings(c.rows)
		s.Text = strings.TrimSpace(s.Text)
		out = append(out, s)
	}
	return out
}

// warnings are those of the rows, each once with the rank counts it is about.
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

// title says what was solved and how.
func title(c *curve) string {
	r := c.any()
	words := []string{rowset.Text(r, methodAxis)}
	if p := rowset.Text(r, precondAxis); p != "none" {
		words[0] += " + " + p
	}
	words = append(words, rowset.Text(r, partitionerAxis)+" partition")
	if size := sizeAxis(c.mode); rowset.Text(r, matrixOption) == "" {
		words = append(words, fmt.Sprintf("%s %s", count(rowset.Number(r, size)),
			map[string]string{perRankAxis: "unknowns per rank", totalAxis: "unknowns in all"}[size]))
	}
	name := r.Details["problem"]
	if name == "" {
		name = rowset.Text(r, problemAxis)
	}
	head := c.mode + " scaling"
	if c.mode == throughput {
		head = throughput
	}
	return fmt.Sprintf("%s: %s, %s, backend %s", head, name, strings.Join(words, ", "), r.Backend)
}

// line is a row of the table.
func line(r *journal.Row) []string {
	m := r.Metrics
	percent := func(name string) string {
		v, ok := m[name]
		if !ok {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	spread := ""
	if st, ok := r.Stats["solve_time_s"]; ok && st.Min > 0 {
		spread = fmt.Sprintf("+%.0f %%", 100*(st.Max/st.Min-1))
	}
	return []string{fmt.Sprint(rowset.Ranks(r)), fmt.Sprintf("%.0f", m["dof_global"]), fmt.Sprintf("%.0f", m["dof_per_rank"]),
		unit.FormatSig(m["solve_time_s"], 4), spread, fmt.Sprintf("%.0f", m["iterations"]), unit.FormatSig(m["time_us"], 4),
		fmt.Sprintf("%.1e", m["rel_residual"]), fmt.Sprintf("%.3g", m["throughput_dof_s"]), percent("efficiency"), percent("efficiency_algorithmic"), percent("efficiency_implementation")}
}

// verdict says whether the curve scales, what it is bound by, and where the knee
// is.
func verdict(c *curve, rows []journal.Row) []string {
	if len(c.rows) == 0 {
		return nil
	}
	last := c.rows[len(c.rows)-1]
	m := last.Metrics
	var out []string
	if e, ok := m["efficiency"]; ok && rowset.Ranks(last) > 1 {
		text := fmt.Sprintf("%s keep %.0f %% of one rank's efficiency: %.0f %% algorithmic (%s iterations), %.0f %% implementation (time per iteration).",
			unit.Plural(rowset.Ranks(last), "rank"), 100*e, 100*m["efficiency_algorithmic"], grown(m["efficiency_algorithmic"]), 100*m["efficiency_implementation"])
		if b := m["bandwidth_scaling"]; b > 0 && b < 0.95 {
			text += fmt.Sprintf(" The memory bandwidth of the cores allows %.0f %%.", 100*b)
		}
		if c := m["efficiency_communication"]; c > 0 && c < 0.95 {
			text += fmt.Sprintf(" Iterations in which no rank waits for another take %.0f %% of the time.", 100*c)
		}
		out = append(out, text)
	}
	out = append(out, bound(last))
	if k := knee(last, rows); k != "" {
		out = append(out, k)
	}
	return out
}

func grown(algorithmic float64) string {
	switch {
	case algorithmic < 0.995:
		return fmt.Sprintf("%.2f times as many", 1/algorithmic)
	case algorithmic > 1.005:
		return fmt.Sprintf("%.2f times as many", 1/algorithmic)
	}
	return "as many"
}

// The shares of an iteration from which something is what binds it.
const (
	bindingShare   = 0.3 // of communication
	imbalanceShare = 0.1 // of waiting for the slowest rank's arithmetic
)

// aboveMemory is the part of the triad from which the memory cannot be where the data
// comes from; a little above is the noise of both.
const aboveMemory = 1.1

// shares are what an iteration's time goes to, as fractions.
type shares struct{ work, imbalance, communication float64 }

// sharesOf splits an iteration: the mean rank's own work, what the slowest rank
// works more than that, and what is left, which is messages and reductions.
func sharesOf(r *journal.Row) (shares, bool) {
	us := r.Metrics["time_us"]
	mean, most := 0.0, 0.0
	for _, p := range []solve.Phase{solve.SpMV, solve.Dots, solve.Updates, solve.Other} {
		mean += r.Metrics[meanOf(p)]
		most += r.Metrics[slowestOf(p)]
	}
	if !(us > 0) || mean == 0 {
		return shares{}, false
	}
	most = min(most, us)
	return shares{mean / us, max(0, most-mean) / us, max(0, us-most) / us}, true
}

// bound says what an iteration is bound by.
func bound(r *journal.Row) string {
	s, ok := sharesOf(r)
	if !ok {
		return "What binds it is not known: its phases were not timed."
	}
	m := r.Metrics
	comm := m[meanOf(solve.HaloWait)] + m[meanOf(solve.HaloPack)]
	what := fmt.Sprintf("On %s", unit.Plural(rowset.Ranks(r), "rank"))
	switch {
	case s.imbalance >= imbalanceShare && s.imbalance >= s.communication:
		return fmt.Sprintf("%s it is imbalance-bound: the slowest rank works %.0f %% of an iteration longer than the mean (rows %.2f, entries %.2f of even).", what, 100*s.imbalance, m["row_imbalance"], m["nnz_imbalance"])
	case s.communication >= bindingShare:
		return fmt.Sprintf("%s it is latency-bound: %.0f %% of an iteration is messages and reductions (%s halo, %s all-reduce, %.3g reductions per iteration).",
			what, 100*s.communication, unit.FormatMicros(comm), unit.FormatMicros(m[meanOf(solve.AllReduce)]), m["reductions_per_iteration"])
	case m["triad_fraction"] > aboveMemory:
		return fmt.Sprintf("%s it works from the caches, not from memory: %.1f GB/s by the model, above the triad's %.1f GB/s.",
			what, m["gbps"], m["triad_gbps"])
	case m["triad_fraction"] >= 0.6:
		return fmt.Sprintf("%s it is bandwidth-bound: %.1f GB/s by the model, %.0f %% of the triad's %.1f GB/s.", what,
			m["gbps"], 100*m["triad_fraction"], m["triad_gbps"])
	}
	return fmt.Sprintf("%s it is bound by the ranks' own work, not by memory: %.1f GB/s by the model, %.0f %% of the triad's %.1f GB/s.", what, m["gbps"], 100*m["triad_fraction"], m["triad_gbps"])
}

// knee is the smallest number of unknowns per rank that still is efficient, by
// time per iteration, over all rows of the same solve with as many ranks.
func knee(last *journal.Row, rows []journal.Row) string {
	if rowset.Ranks(last) == 1 {
		return ""
	}
	type measurement struct{ dof, efficiency float64 }
	var all []measurement
	for _, r := range rowset.Good(rows) {
		if e, ok := r.Metrics["efficiency_implementation"]; ok && rowset.Ranks(r) == rowset.Ranks(last) && sameSolve(r, last) {
			all = append(all, measurement{r.Metrics["dof_per_rank"], e})
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b measurement) int { return cmp.Compare(b.dof, a.dof) })
	words := make([]string, 0, 2)
	for _, goal := range []float64{0.8, 0.5} {
		least := math.NaN()
		for _, p := range all { // from the largest down to the first that is too slow
			if p.efficiency < goal {
				break
			}
			least = p.dof
		}
		switch {
		case math.IsNaN(least):
			words = append(words, fmt.Sprintf("%.0f %% is not reached with %s unknowns per rank", 100*goal, count(all[0].dof)))
		case least == all[len(all)-1].dof:
			words = append(words, fmt.Sprintf("%.0f %% down to %s, the fewest measured", 100*goal, count(least)))
		default:
			words = append(words, fmt.Sprintf("%.0f %% down to %s", 100*goal, count(least)))
		}
	}
	return "The knee, in unknowns per rank, by time per iteration: " + strings.Join(words, "; ") + "."
}

// sameSolve reports whether two rows differ in size, mode and ranks alone.
func sameSolve(a, b *journal.Row) bool {
	for _, axis := range []string{problemAxis, dimAxis, stencilAxis, methodAxis, precondAxis, partitionerAxis,
		objectiveAxis, rhsAxis, storageAxis, matrixOption} {
		if rowset.Text(a, axis) != rowset.Text(b, axis) {
			return false
		}
	}
	return a.Backend == b.Backend
}
