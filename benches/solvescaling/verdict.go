package solvescaling

import (
	"fmt"
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
	out := comparisons(rows)
	all := curves(rows, "")
	for _, c := range all {
		s := bench.Section{Headline: true, Title: title(c),
			Table: [][]string{{"ranks", "DOF", "DOF/rank", "set-up s", "time s", "CPU s", "spread", "iterations", "us/iteration", "rel.res", "DOF/s",
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
		if phases := phaseTable(c); len(phases) > 1 {
			out = append(out, bench.Section{Headline: true, Title: "phases of a traced iteration in us, mean over the ranks: " + title(c), Table: phases})
		}
		if levels := levelTable(c); len(levels) > 1 {
			out = append(out, bench.Section{Headline: true, Title: "levels of a traced cycle, mean over the ranks: " + title(c), Table: levels})
		}
	}
	return out
}

// phaseTable is where the time of an iteration goes, a line for each number of ranks.
func phaseTable(c *curve) [][]string {
	head := []string{"ranks", "whole"}
	for p := range solve.NumPhases {
		head = append(head, strings.ReplaceAll(p.String(), "_", " "))
	}
	out := [][]string{head}
	for _, r := range c.rows {
		if _, traced := r.Metrics[meanOf(solve.SpMV)]; !traced {
			continue
		}
		whole, known := r.Metrics["traced_us"]
		if !known {
			whole = perIteration(r)
		}
		words := []string{fmt.Sprint(rowset.Ranks(r)), unit.FormatSig(whole, 3)}
		for p := range solve.NumPhases {
			words = append(words, unit.FormatSig(r.Metrics[meanOf(p)], 3))
		}
		out = append(out, words)
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

// levelTable is where the time of a multigrid cycle goes, of the most ranks.
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

// title says what was solved and how.
func title(c *curve) string {
	r := c.any()
	words := []string{solverOf(r), rowset.Text(r, partitionerAxis) + " partition"}
	if by := rowset.Text(r, weightsAxis); by == string(solve.ByEntries) {
		words[1] += " by " + by
	}
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
	if st, ok := r.Stats.Find("time_us"); ok && st.Min > 0 {
		spread = fmt.Sprintf("+%.0f %%", 100*(st.Max/st.Min-1))
	}
	setup, whole, cpu, rate := "-", "-", "-", "-" // of a solve that was stopped there is none
	if v, timed := m["precond_setup_s"]; timed {
		setup = unit.FormatSig(v, 3)
	}
	if _, solved := m["solve_time_s"]; solved {
		whole, rate = unit.FormatSig(m["solve_time_s"], 4), fmt.Sprintf("%.3g", m["throughput_dof_s"])
	}
	if v, timed := m["solve_cpu_s"]; timed {
		cpu = unit.FormatSig(v+m["precond_setup_cpu_s"], 3)
	}
	return []string{fmt.Sprint(rowset.Ranks(r)), fmt.Sprintf("%.0f", m["dof_global"]), fmt.Sprintf("%.0f", m["dof_per_rank"]),
		setup, whole, cpu, spread, fmt.Sprintf("%.0f", m["iterations"]), unit.FormatSig(m["time_us"], 4),
		fmt.Sprintf("%.1e", m["rel_residual"]), rate, percent("efficiency"), percent("efficiency_algorithmic"), percent("efficiency_implementation")}
}

// verdict says whether the curve scales, what it is bound by, and where the knee
// is.
func verdict(c *curve, rows []journal.Row) []string {
	if len(c.rows) == 0 {
		return nil
	}
	last := c.rows[len(c.rows)-1]
	var out []string
	if text := kept(last); text != "" {
		out = append(out, text)
	}
	out = append(out, fmt.Sprintf("On %s %s.", unit.Plural(rowset.Ranks(last), "rank"), causeOf(last).sentence))
	if text := hidden(last); text != "" {
		out = append(out, text)
	}
	if k := knee(c, rows); k != "" {
		out = append(out, k)
	}
	return out
}

// kept says how much of one rank's efficiency is left; nothing where that is not known.
func kept(r *journal.Row) string {
	m := r.Metrics
	each, known := m["efficiency_implementation"]
	if !known || rowset.Ranks(r) == 1 {
		return ""
	}
	ranks := unit.Plural(rowset.Ranks(r), "rank")
	if _, solved := m["efficiency"]; !solved {
		return fmt.Sprintf("%s keep %s of one rank's efficiency by the time of an iteration; the solves were stopped before a solution.", ranks, withInterval(r, each))
	}
	return fmt.Sprintf("%s keep %.0f %% of one rank's efficiency: %.0f %% by the number of iterations (%s), %s by the time of an iteration.",
		ranks, 100*m["efficiency"], 100*m["efficiency_algorithmic"], grown(m["efficiency_algorithmic"]), withInterval(r, each))
}

// withInterval is an efficiency by the time of an iteration, with its interval where
// several solves give one.
func withInterval(r *journal.Row, efficiency float64) string {
	low, high := r.Metrics["efficiency_implementation_low"], r.Metrics["efficiency_implementation_high"]
	if high == 0 {
		return fmt.Sprintf("%.0f %%", 100*efficiency)
	}
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*efficiency, 100*low, 100*high)
}

func grown(algorithmic float64) string {
	if algorithmic < 0.995 || algorithmic > 1.005 {
		return fmt.Sprintf("%.2f times as many", 1/algorithmic)
	}
	return "as many"
}
