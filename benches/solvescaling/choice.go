package solvescaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/solve/precondition"
)

// A comparison holds the solvers (method, preconditioner and peer) that solved the same system on the same number of
// ranks.
type comparison struct {
	title      string
	ranks      int
	candidates []*candidate // that solved the system, the fastest first
	failed     []string     // names of candidates that failed
}

// candidate is a method with a preconditioner, over all its trials that count.
type candidate struct {
	name         string
	rows         dataset.Set
	row          *journal.Row // their medians
	setup, solve float64      // median times, in seconds
	total, alone judge.Range  // in seconds: set-up plus solve, and the solve alone, over all trials and solves
}

// newCandidate returns the candidate that made trials.
func newCandidate(name string, trials dataset.Set) *candidate {
	row := trials.Merge()
	cand := &candidate{name: name, rows: trials.Counting(), row: row, setup: row.Metrics["precond_setup_s"],
		solve: row.Metrics["solve_time_s"]}
	for _, r := range cand.rows {
		setup, solve := r.Metrics["precond_setup_s"], r.Metrics["solve_time_s"]
		one := judge.Range{Low: solve, High: solve}
		if st, ok := r.Stats.Find("solve_time_s"); ok && st.Min > 0 {
			one = judge.Range{Low: st.Min, High: st.Max}
		}
		cand.total = cand.total.Include(judge.Range{Low: setup + one.Low, High: setup + one.High})
		cand.alone = cand.alone.Include(one)
	}
	return cand
}

func (cand *candidate) timeToSolution() float64 { return cand.setup + cand.solve }

// disturbed reports whether all trials were disturbed; otherwise only the undisturbed ones count.
func (cand *candidate) disturbed() bool { return cand.row.Disturbed() }

func total(cand *candidate) judge.Range { return cand.total }
func alone(cand *candidate) judge.Range { return cand.alone }

// repeated reports whether the candidate has enough launches to be compared. Launches differ by more than the solves of
// one.
func (cand *candidate) repeated() bool { return len(cand.rows) >= judge.MinLaunches }

// faster reports whether cand is certainly faster by one of its times: both candidates have enough
// undisturbed launches, and their intervals do not overlap.
func (cand *candidate) faster(than *candidate, by func(*candidate) judge.Range) bool {
	return !cand.disturbed() && !than.disturbed() && cand.repeated() && than.repeated() && by(cand).Below(by(than))
}

// systemKey identifies the system that the candidates of a comparison solve: everything but the solver and the number
// of ranks.
func systemKey(r *journal.Row) string {
	return keyOf(r, append([]string{dataset.NumRanks, methodAxis, precondAxis}, tuningAxes...)...)
}

// findComparisons finds the comparisons, each at the largest number of ranks on which at least two
// candidates solved the system.
func findComparisons(rows dataset.Set) (out []*comparison) {
	ended := rows.Where(func(r *journal.Row) bool {
		return (r.Status == journal.OK || r.Status == journal.Failed) && !stopped(r)
	})
	for _, same := range lists.GroupBy(ended, systemKey) {
		var best *comparison
		for _, g := range lists.GroupBy(same.Items, dataset.Ranks) {
			c := &comparison{title: comparisonTitle(g.Items[0]), ranks: g.Key}
			for _, solver := range lists.GroupBy(g.Items, solverOf) {
				solved := solver.Items.Good().Where(func(r *journal.Row) bool { return r.Metrics["solve_time_s"] > 0 })
				if len(solved) > 0 {
					c.candidates = append(c.candidates, newCandidate(solver.Key, solved))
				}
				if len(solved) < len(solver.Items) {
					c.failed = append(c.failed, solver.Key)
				}
			}
			if len(c.candidates) > 1 && (best == nil || c.ranks > best.ranks) {
				best = c
			}
		}
		if best != nil {
			slices.SortStableFunc(best.candidates, func(a, b *candidate) int {
				return cmp.Compare(a.timeToSolution(), b.timeToSolution())
			})
			out = append(out, best)
		}
	}
	return out
}

func comparisonTitle(r *journal.Row) string {
	return fmt.Sprintf("%s, %s unknowns, %s partition, backend %s", problemOf(r), count(r.Metrics["dof_global"]),
		dataset.Text(r, partitionerAxis), r.Backend)
}

// comparisonSections returns a section for each comparison: a table of the candidates, and a recommendation.
func comparisonSections(rows dataset.Set) (out []bench.Section) {
	for _, c := range findComparisons(rows) {
		s := bench.Section{Headline: true,
			Title: fmt.Sprintf("methods and preconditioners on %s: %s", unit.Plural(c.ranks, "rank"), c.title),
			Table: [][]string{{"solver", "iterations", "set-up s", "solve s", "time to solution s", "interval", "µs/iteration",
				"reductions", "bytes moved", "sent by products"}}}
		s.Table = append(s.Table, lists.Map(c.candidates, (*candidate).line)...)
		var behind dataset.Set
		for _, cand := range c.candidates {
			behind = append(behind, cand.rows...)
		}
		s.Sentences = cite("choice", c.advice(), behind)
		out = append(out, s)
	}
	return out
}

// line returns the table line of a candidate. Metrics per iteration are multiplied by the iterations of the solve.
func (cand *candidate) line() []string {
	m := cand.row.Metrics
	times := func(metric string, write func(float64) string) string {
		return cell(cand.row, metric, func(v float64) string { return write(v * m["iterations"]) })
	}
	interval := fmt.Sprintf("%s to %s", unit.FormatSig(total(cand).Low, 3), unit.FormatSig(total(cand).High, 3))
	if cand.disturbed() {
		interval = "disturbed"
	}
	return []string{cand.name, fmt.Sprintf("%.0f", m["iterations"]), unit.FormatSig(cand.setup, 3),
		unit.FormatSig(cand.solve, 3),
		unit.FormatSig(cand.timeToSolution(), 3), interval, unit.FormatSig(m["time_us"], 4),
		times("reductions_per_iteration", func(v float64) string { return fmt.Sprintf("%.0f", v) }),
		times("bytes_model", unit.FormatBytesApprox), times("bytes", unit.FormatBytesApprox)}
}

// advice recommends a candidate and explains why, as far as the rows allow.
func (c *comparison) advice() (out []statement) {
	best := c.candidates[0]
	// tied lists the candidates that may be as fast as the best, within the intervals of the measurements.
	tied := lists.Filter(c.candidates[1:], func(cand *candidate) bool { return !best.faster(cand, total) })
	if next := c.candidates[1]; len(tied) == 0 {
		out = append(out, statement{text: fmt.Sprintf("Choose %s: %s to the solution, %s the time of %s, the next.",
			best.name, seconds(best.timeToSolution()), ratio(best.timeToSolution(), next.timeToSolution()), next.name)},
			statement{text: c.why(best)})
	} else {
		out = append(out, statement{c.unresolved(best, tied), true})
	}
	if cand := c.fastestSolve(); cand != nil && cand != best {
		out = append(out, statement{text: fmt.Sprintf("With many right-hand sides for one matrix, the set-up is paid once: "+
			"a solve by %s takes %s, one by %s %s.", cand.name, seconds(cand.solve), best.name, seconds(best.solve))})
	}
	if len(c.failed) > 0 {
		out = append(out, statement{text: "Failed and not compared: " + strings.Join(c.failed, ", ") + "."})
	}
	return out
}

// unresolved names the candidates among which the choice is open, and the reason.
func (c *comparison) unresolved(best *candidate, tied []*candidate) string {
	names, why := []string{best.name}, "their intervals overlap"
	for _, cand := range tied {
		switch names = append(names, cand.name); {
		case best.disturbed() || cand.disturbed():
			why = "other programs disturbed the rows"
		case len(best.rows) == 1 && len(cand.rows) == 1:
			why = "one launch each"
		case !best.repeated() || !cand.repeated():
			why = fmt.Sprintf("fewer than %d undisturbed launches", judge.MinLaunches)
		}
	}
	among := " among " + strings.Join(names, ", ")
	if len(names) == len(c.candidates) {
		among = ""
	}
	return fmt.Sprintf("The fastest way to the solution is not resolved%s: %s. More launches (--trials %d) or a "+
		"quiet machine may resolve it.", among, why, judge.MinLaunches)
}

// why compares the best candidate with the same method without a preconditioner, or with the next
// candidate if that was not run.
func (c *comparison) why(best *candidate) string {
	plain := c.candidates[1]
	for _, cand := range c.candidates {
		same := dataset.Text(cand.row, methodAxis) == dataset.Text(best.row, methodAxis)
		if cand != best && same && dataset.Text(cand.row, precondAxis) == precondition.None {
			plain = cand
		}
	}
	m, p := best.row.Metrics, plain.row.Metrics
	if !(m["iterations"] > 0 && p["iterations"] > 0 && m["time_us"] > 0 && p["time_us"] > 0) {
		return ""
	}
	text := fmt.Sprintf("Why: %s needs %.0f iterations, %s %.0f; one takes %s the time", best.name, m["iterations"],
		plain.name, p["iterations"], ratio(m["time_us"], p["time_us"]))
	if a, b := m["bytes_model"], p["bytes_model"]; a > 0 && b > 0 {
		text += fmt.Sprintf(", and moves %s the bytes", ratio(a, b))
	}
	if best.setup > 0 {
		text += fmt.Sprintf("; set-up is %.0f %% of its time to the solution", 100*best.setup/best.timeToSolution())
	}
	return text + "."
}

// fastestSolve returns the candidate whose solve alone is certainly the shortest, or nil.
func (c *comparison) fastestSolve() *candidate {
	best := slices.MinFunc(c.candidates, func(a, b *candidate) int { return cmp.Compare(a.solve, b.solve) })
	for _, cand := range c.candidates {
		if cand != best && !best.faster(cand, alone) {
			return nil
		}
	}
	return best
}

func seconds(s float64) string { return unit.FormatMicros(1e6 * s) }

// ratio formats a/b as a fraction, or as a multiple if it is above 1.
func ratio(a, b float64) string {
	if a <= b {
		return unit.FormatSig(a/b, 2)
	}
	return unit.FormatSig(a/b, 2) + " times"
}

// maxComparisons is the largest number of comparisons that the figure shows.
const maxComparisons = 4

// comparisonFigure stacks set-up and solve: a bar for each candidate, and a panel for each comparison.
func comparisonFigure(rows dataset.Set) figure.Figure {
	f := figure.Figure{Name: "distributed_solve_comparison", Title: "Time to solution", Columns: 2}
	for _, c := range findComparisons(rows) {
		if len(f.Panels) == maxComparisons {
			break
		}
		p := figure.Panel{Title: fmt.Sprintf("%s, %s", c.title, unit.Plural(c.ranks, "rank")),
			X: figure.Axis{Scale: figure.Category}, Y: figure.Axis{Label: "time to solution", Unit: figure.Micros}}
		p.Series = []figure.Series{{Name: "solve", Kind: figure.StackedBars},
			{Name: "set-up of the preconditioner", Kind: figure.StackedBars}}
		for i, cand := range c.candidates {
			if cand.disturbed() {
				p.Note = "hollow: other programs disturbed the row"
			}
			p.X.Categories = append(p.X.Categories, cand.name)
			for k, s := range []float64{cand.solve, cand.setup} {
				p.Series[k].Points = append(p.Series[k].Points, figure.Point{X: float64(i), Y: 1e6 * s, Hollow: cand.disturbed()})
			}
		}
		f.Panels = append(f.Panels, p)
	}
	return f
}
