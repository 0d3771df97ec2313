package solvescaling

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/refine"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// sections returns the tables of a scaling study, one for each curve, with a verdict in words.
func sections(rows dataset.Set) []bench.Section {
	out := comparisonSections(rows)
	all := curves(rows, "")
	for _, c := range all {
		s := bench.Section{Headline: true, Title: title(c),
			Table: [][]string{{"ranks", "unknowns", "iterations", "µs/iteration", "time s", "efficiency", "of triad",
				"verdict"}}}
		s.Table = append(s.Table, lists.Map(c.rows, line)...)
		s.Sentences = citeLines("scaling", append(trialsOf(c), verdict(c, rows)...), c.trials)
		for _, b := range c.bad {
			s.Sentences = append(s.Sentences, views.Sentence{Text: fmt.Sprintf("The row of %s failed and is in no curve: %s",
				unit.Plural(dataset.Ranks(b), "rank"), b.Reason)})
		}
		s.Sentences = append(s.Sentences, warnings(c.rows)...)
		out = append(out, s)
		if phases := phaseTable(c); len(phases) > 1 {
			out = append(out, bench.Section{Headline: true, Title: "phases of an iteration in µs, mean over the ranks: " +
				title(c), Table: phases, Text: phaseNotes(c)})
		}
		if n := len(c.rows); n > 0 {
			if work := workTable(c.rows[n-1]); len(work) > 1 {
				out = append(out, bench.Section{Title: fmt.Sprintf("work of an iteration on %s: %s",
					unit.Plural(dataset.Ranks(c.rows[n-1]), "rank"), title(c)), Table: work, Text: workNote})
			}
		}
		if levels := levelTable(c); len(levels) > 1 {
			out = append(out, bench.Section{Headline: true, Title: "levels of a traced cycle, mean over the ranks: " + title(c),
				Table: levels})
		}
	}
	return out
}

// citeLines returns sentences that rest on the same rows. Those that draw no conclusion cite none.
func citeLines(id string, lines []string, behind dataset.Set) []views.Sentence {
	return lists.Map(lines, func(line string) views.Sentence {
		if strings.Contains(line, "not resolved") {
			return views.Sentence{Text: line}
		}
		return views.Sentence{ID: id, Text: line, Rows: behind}
	})
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
		total := cmp.Or(r.Metrics["traced_us"], perIteration(r)) // older rows have the phases of a traced iteration
		if _, counted := r.Metrics[waitingShare]; counted {
			total = perIteration(r)
		}
		words := []string{fmt.Sprint(dataset.Ranks(r)), unit.FormatSig(total, 3)}
		for p := range krylov.NumPhases {
			words = append(words, cell(r, meanOf(p), func(us float64) string { return unit.FormatSig(us, 3) }))
		}
		out = append(out, words)
	}
	return out
}

// phaseNotes returns a note about which columns of the phases come from a trace, and for which rows the trace is
// doubtful.
func phaseNotes(c *curve) string {
	var doubtful []string
	counted := false
	for _, r := range c.rows {
		_, has := r.Metrics[waitingShare]
		counted = counted || has
		if traced, timed := r.Metrics["traced_us"], perIteration(r); traced > 0 && apart(traced, timed) {
			doubtful = append(doubtful, fmt.Sprintf("%d (%s traced, %s timed)", dataset.Ranks(r), unit.FormatMicros(traced),
				unit.FormatMicros(timed)))
		}
	}
	text := "The phases belong to a traced iteration."
	if counted {
		text = "Messages, reductions and the preconditioner were counted in the fastest timed solve. Its other time is " +
			"divided into product, scalar products, updates and the rest as in a traced iteration."
	}
	if len(doubtful) > 0 {
		text += fmt.Sprintf(" Tracing changed the iteration by more than %.0f %% on these ranks, where that is only a rough "+
			"guide: %s.", 100*tracedTolerance, strings.Join(doubtful, ", "))
	}
	return text
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
func warnings(rows dataset.Set) (list []views.Sentence) {
	var order []string
	about := map[string][]string{}
	for _, r := range rows {
		for _, w := range r.Conditions.Sentences() {
			if about[w] == nil {
				order = append(order, w)
			}
			about[w] = append(about[w], fmt.Sprint(dataset.Ranks(r)))
		}
	}
	for _, w := range order {
		list = append(list, views.Sentence{Text: fmt.Sprintf("Warning (ranks %s): %s", strings.Join(about[w], ", "), w)})
	}
	return list
}

// levelTable shows the time of each level of a multigrid cycle, for the largest number of ranks.
func levelTable(c *curve) [][]string {
	out := [][]string{{"level", "rows", "entries/row", "µs", "share"}}
	if len(c.rows) == 0 {
		return out
	}
	levels := unpack(c.rows[len(c.rows)-1].Details[levelsDetail], 3)
	total := max(sumOf(levels, levelTime), 1e-9)
	for i, l := range levels {
		out = append(out, []string{fmt.Sprint(i), fmt.Sprintf("%.0f", l[0]), unit.FormatSig(l[1]/max(1, l[0]), 3),
			unit.FormatSig(levelTime(l), 3), percentOf(levelTime(l), total)})
	}
	return out
}

// title describes the problem and the solver of a curve.
func title(c *curve) string {
	r := c.any()
	words := []string{solverOf(r), dataset.Text(r, partitionerAxis) + " partition"}
	if by := dataset.Text(r, weightsAxis); by == string(partition.ByEntries) {
		words[1] += " by " + by
	}
	if dataset.Text(r, storageAxis) == sparse.Plain.String() {
		words = append(words, "stored plain")
	}
	if kind := dataset.Text(r, precisionAxis); kind != "" && kind != refine.Double {
		words = append(words, "in "+kind)
	}
	if n := r.Metrics["rhs_columns"]; n > 1 {
		words = append(words, fmt.Sprintf("%.0f right-hand sides", n))
	}
	if size := sizeAxis(c.mode); dataset.Text(r, matrixOption) == "" {
		words = append(words, fmt.Sprintf("%s %s", count(dataset.Number(r, size)),
			map[string]string{perRankAxis: "unknowns per rank", totalAxis: "unknowns in all"}[size]))
	}
	head := c.mode + " scaling"
	if c.mode == throughput {
		head = throughput
	}
	return fmt.Sprintf("%s: %s, %s, backend %s", head, problemOf(r), strings.Join(words, ", "), r.Backend)
}

// problemOf names the problem. Rows that failed before they had a problem name their matrix file.
func problemOf(r *journal.Row) string {
	file := dataset.Text(r, matrixOption)
	if file != "" {
		file = filepath.Base(file)
	}
	return cmp.Or(r.Details["problem"], file, dataset.Text(r, problemAxis))
}

// line returns a table row. Rows of stopped solves lack some of its cells.
func line(r *journal.Row) []string {
	m := r.Metrics
	return []string{fmt.Sprint(dataset.Ranks(r)), fmt.Sprintf("%.0f", m["dof_global"]),
		fmt.Sprintf("%.0f", m["iterations"]), unit.FormatSig(m["time_us"], 4),
		cell(r, "solve_time_s", func(v float64) string { return unit.FormatSig(v, 4) }),
		cell(r, "efficiency", func(v float64) string {
			return withInterval(v, m["efficiency_low"], m["efficiency_high"])
		}),
		cell(r, "triad_fraction", func(v float64) string { return unit.FormatSig(v, 3) }),
		r.Details[verdictDetail]}
}

// withInterval formats a value with its interval if there is one.
func withInterval(v, low, high float64) string {
	if low == high {
		return unit.FormatSig(v, 3)
	}
	return unit.FormatInterval(v, low, high)
}

// verdict describes how well the curve scales, what limits it, and where the knee is.
func verdict(c *curve, rows dataset.Set) []string {
	if len(c.rows) == 0 {
		return nil
	}
	last := c.rows[len(c.rows)-1]
	var out []string
	if text := efficiencyText(last); text != "" {
		out = append(out, text)
	}
	out = append(out, fmt.Sprintf("On %s %s.", unit.Plural(dataset.Ranks(last), "rank"), causeOf(last).sentence))
	if !last.Disturbed() { // else another program can be the reason
		if text := last.Details[slowRankDetail]; text != "" {
			out = append(out, "One rank was slow by itself: "+text+".")
		}
		if text := hiddenText(last); text != "" {
			out = append(out, text)
		}
	}
	if k := knee(c, rows); k != "" {
		out = append(out, k)
	}
	return out
}

// hiddenText describes how much of the reductions is hidden behind other work. It returns "" for one rank
// and for methods that hide none.
func hiddenText(r *journal.Row) string {
	blocking := r.Metrics["allreduce_blocking_us"]
	exposed, traced := r.Metrics["allreduce_traced_us"]
	if !traced { // older rows have the traced time under this name
		exposed = r.Metrics[meanOf(krylov.AllReduce)]
	}
	if !(blocking > 0) {
		return ""
	}
	if exposed >= blocking {
		return fmt.Sprintf("None of the reductions was hidden: they take %s of a traced iteration behind the product, and "+
			"%s where ranks wait for them at once.",
			unit.FormatMicros(exposed), unit.FormatMicros(blocking))
	}
	return fmt.Sprintf("Of the reductions, which take %s of a traced iteration where ranks wait for them at once, %.0f "+
		"%% are hidden behind the product: %s are left.",
		unit.FormatMicros(blocking), 100*(1-exposed/blocking), unit.FormatMicros(exposed))
}
