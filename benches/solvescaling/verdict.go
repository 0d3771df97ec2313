package solvescaling

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
)

// sections returns the tables of a scaling study, one for each curve, with a verdict in words.
func sections(rows dataset.Set) []bench.Section {
	out := comparisonSections(rows)
	all := curves(rows)
	for _, c := range all {
		s := bench.Section{Headline: true, Title: title(c),
			Table: [][]string{{"ranks", "unknowns", "iterations", "µs/iteration", "time s", "efficiency", "of triad",
				"verdict"}}}
		s.Table = append(s.Table, lists.Map(c.rows, line)...)
		s.Sentences = cite("scaling", append(trialsOf(c), verdict(c, rows)...), c.trials)
		for _, b := range c.bad {
			s.Sentences = append(s.Sentences, views.Sentence{Text: fmt.Sprintf("The row of %s failed and is in no curve: %s",
				unit.Plural(dataset.Ranks(b), "rank"), b.Reason)})
		}
		s.Sentences = append(s.Sentences, warnings(c.rows)...)
		out = append(out, s)
		last, ok := c.last()
		if !ok {
			continue
		}
		if work := workTable(last); len(work) > 1 {
			out = append(out, bench.Section{Title: fmt.Sprintf("work of an iteration on %s: %s",
				unit.Plural(dataset.Ranks(last), "rank"), title(c)), Table: work, Text: workNote})
		}
		if levels := levelTable(last); len(levels) > 1 {
			out = append(out, bench.Section{Headline: true, Title: "levels of a traced cycle, mean over the ranks: " + title(c),
				Table: levels})
		}
	}
	return out
}

// statement is a sentence, or "" for none. It is open if it draws no conclusion.
type statement struct {
	text string
	open bool
}

// cite returns the statements as sentences that rest on the same rows. Open ones cite none.
func cite(id string, list []statement, behind dataset.Set) (out []views.Sentence) {
	for _, s := range list {
		switch {
		case s.open:
			out = append(out, views.Sentence{Text: s.text})
		case s.text != "":
			out = append(out, views.Sentence{ID: id, Text: s.text, Rows: behind})
		}
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
func warnings(rows dataset.Set) []views.Sentence {
	var texts lists.Set[string]
	for _, r := range rows {
		for _, w := range r.Conditions.Sentences() {
			texts.Add(w)
		}
	}
	return lists.Map(texts.List, func(text string) views.Sentence {
		about := rows.Where(func(r *journal.Row) bool { return slices.Contains(r.Conditions.Sentences(), text) })
		ranks := lists.Map(about, func(r *journal.Row) string { return fmt.Sprint(dataset.Ranks(r)) })
		return views.Sentence{Text: fmt.Sprintf("Warning (ranks %s): %s", strings.Join(ranks, ", "), text)}
	})
}

// levelTable shows the time of each level of a multigrid cycle.
func levelTable(r *journal.Row) [][]string {
	out := [][]string{{"level", "rows", "entries/row", "µs", "share"}}
	levels := factsOf[[]level](r, levelsDetail)
	total := max(sumOf(levels, levelTime), 1e-9)
	for i, l := range levels {
		out = append(out, []string{fmt.Sprint(i), fmt.Sprintf("%.0f", l.Rows), unit.FormatSig(l.Entries/max(1, l.Rows), 3),
			unit.FormatSig(l.US, 3), percentOf(l.US, total)})
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
	if kind := dataset.Text(r, precisionAxis); kind != "" && kind != system.Double {
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
func verdict(c *curve, rows dataset.Set) []statement {
	last, ok := c.last()
	if !ok {
		return nil
	}
	found := causeOf(last)
	out := []statement{efficiencyText(last),
		{fmt.Sprintf("On %s %s.", unit.Plural(dataset.Ranks(last), "rank"), found.sentence), found.open}}
	if !last.Disturbed() { // else another program can be the reason
		if slow := factsOf[*slowRank](last, slowRankDetail); slow != nil {
			out = append(out, statement{"One rank was slow by itself: " + slow.String() + ".", slow.open()})
		}
		out = append(out, statement{text: hiddenText(last)})
	}
	return append(out, knee(c, rows))
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
