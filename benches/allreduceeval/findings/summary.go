// Package findings turns the rows of the bench allreduce-eval into a report: it
// counts cells and arranges them in grids, fits times and compares them with their
// limits, draws figures, recommends what to do, and lists what the run does not
// cover. It runs nothing.
package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/views"
)

// timedRows returns the rows with times. Imported rows may have no part.
func timedRows(rows dataset.Set) dataset.Set { return lists.Filter(rows, isTimed) }

// samplesOf returns the samples of the timed rows.
func samplesOf(rows dataset.Set) []model.Sample {
	return model.SamplesOf(rows.Where(func(r *journal.Row) bool { return isTimed(r) }))
}

// Sections returns the report's text, most important first: what is known, what it
// means, what to do, and what is not covered. required lists the tasks of a complete
// run; those without a row count as required cells that did not run.
func Sections(rows dataset.Set, required []plan.Task) []bench.Section {
	cells := cellsOf(rows, required)
	samples := samplesOf(rows)
	r := newResults(rows, cells, samples)
	short := bench.Section{Title: "In short", Lead: true, Sentences: r.summarize()}
	lead, rest := slices.Concat(claimSections(rows), adviceSections(r), inferenceSections(r)),
		slices.Concat(r.checkSections(), r.bestSections(), r.fitSections())
	return slices.Concat([]bench.Section{short}, lead,
		matrixSections(cells), testSections(cells), contractSections(cells), failureSections(cells), rest,
		timeSections(samples), gapSections(rows, cells, samples))
}

// results holds what the sections are made from.
type results struct {
	rows     dataset.Set
	cells    []cell
	samples  []model.Sample
	contests []contest
	curves   []model.Curve
	warnings []model.Warning
	advice   []advice
}

// newResults compares, fits and checks the samples of the rows.
func newResults(rows dataset.Set, cells []cell, samples []model.Sample) *results {
	r := &results{rows: rows, cells: cells, samples: samples, contests: contests(rows, samples),
		curves: model.Fit(samples)}
	r.warnings = r.check()
	r.advice = recommend(r)
	return r
}

// summarize returns the lines that a reader with one minute needs. A line that draws a conclusion
// from rows ends in the ID of its evidence.
func (r *results) summarize() (lines []views.Sentence) {
	add := func(id string, rows dataset.Set, format string, args ...any) {
		lines = append(lines, cite(id, rows, "- "+format, args...))
	}
	timed := r.rows.Where(func(row *journal.Row) bool { return isTimed(row) && !row.Status.NotRun() })
	add("verdict", append(decisive(r.cells), timed...), "**Verdict:** %s; %s.", correctVerdict(r.cells),
		timesVerdict(r.rows, r.samples))
	if text, rows := claimLine(r.rows); text != "" {
		add("claim", rows, "%s", text)
	}
	if fault := plantedFault(r.rows); fault != "" {
		add("", nil, "**A fault was planted** (`%s`): this run should show red cells.", fault)
	}
	add("correct", decisive(inPart(r.cells, matrix.Correctness)), "**Correctness:** %s", correctnessLine(r.cells))
	for _, part := range []struct{ name, kind, title, holds string }{
		{matrix.Contracts, "contract", "Contracts on bits", "all promised contracts hold"},
		{matrix.Errors, "failure", "Mistakes and failures", "every rank noticed all of them in time"},
	} {
		mine := inPart(r.cells, part.name)
		if t := count(mine); t != (counts{}) {
			add(part.kind, decisive(mine), "**%s:** %s (%s).", part.title, partState(t, part.holds), t)
		}
	}
	if missing := missingTimes(r.rows); len(missing) > 0 {
		add("missing", missing, "**Not measured:** %s not passed (%s).",
			unit.Counted(len(missing), "required point was never executed, so it has",
				"required points were never executed, so they have"),
			strings.Join(reasons(missing), "; "))
	}
	lines = slices.Concat(lines, r.warningLines(), r.tableLines(), r.choiceLines(), r.timeLines())
	if len(r.advice) > 0 {
		add("next", r.advice[0].rows, "**Next:** %s", r.advice[0].text)
	}
	return lines
}

// correctVerdict returns a line about whether results are correct.
func correctVerdict(cells []cell) string {
	t, all := count(inPart(cells, matrix.Correctness)), count(cells)
	switch {
	case t.ran() == 0 && all.failed == 0:
		return "correctness was **not run**"
	case t.failed > 0:
		return fmt.Sprintf("results are **wrong** (%s)", unit.Counted(t.failed, "cell failed", "cells failed"))
	case all.failed > 0:
		return fmt.Sprintf("sums are correct, but %s",
			unit.Counted(all.failed, "cell of the contracts or failures is **not** as promised",
				"cells of the contracts or failures are **not** as promised"))
	case t.required > 0:
		return fmt.Sprintf("**correct as far as it ran**, but %s not run",
			unit.Counted(t.required, "required cell was", "required cells were"))
	}
	return fmt.Sprintf("**correct** (%s passed)", unit.Plural(t.passed, "cell"))
}

// timesVerdict judges all times together. They are usable if all have settled, usable
// with care if at least half have, and not usable otherwise or if a timed row failed.
func timesVerdict(rows dataset.Set, samples []model.Sample) string {
	failed := len(lists.Filter(timedRows(rows), func(r *journal.Row) bool { return r.Status.Bad() }))
	if len(samples) == 0 && failed == 0 {
		return "times were **not run**"
	}
	why, settled := unsettledReasons(samples)
	if failed > 0 {
		why = append([]string{unit.Counted(failed, "timed row failed", "timed rows failed")}, why...)
	}
	ratio, reasons := fmt.Sprintf("%d of %d settled", settled, len(samples)), strings.Join(why, ", ")
	if fewLaunches(samples) == oneLaunch {
		ratio += ", " + oneLaunch
	}
	switch {
	case len(why) == 0:
		return fmt.Sprintf("times are **usable** (%s)", ratio)
	case failed > 0 || 2*settled < len(samples):
		return fmt.Sprintf("times are **not usable** (%s): %s", ratio, reasons)
	}
	return fmt.Sprintf("times are **usable with care** (%s; the conclusions below rely on these): %s", ratio, reasons)
}

// unsettledReasons returns why times have not settled, the most frequent reason
// first, and the number of times that have.
func unsettledReasons(samples []model.Sample) (why []string, settled int) {
	open := lists.Filter(samples, func(s model.Sample) bool { return !s.Settled() })
	type reason = lists.Group[string, []model.Sample]
	reasons := lists.GroupBy(open, func(s model.Sample) string {
		switch {
		case s.Disturbance != nil:
			return "disturbed by " + s.Disturbance.Label()
		case s.LowUS <= 0:
			return "without an interval"
		}
		return "with too wide an interval (too few samples for the noise)"
	})
	slices.SortFunc(reasons, func(a, b reason) int {
		return cmp.Or(len(b.Items)-len(a.Items), cmp.Compare(a.Key, b.Key))
	})
	why = lists.Map(reasons, func(r reason) string { return fmt.Sprintf("%d %s", len(r.Items), r.Key) })
	return why, len(samples) - len(open)
}

// partState summarizes a part of the matrix, with the given words if everything holds.
func partState(t counts, holds string) string {
	switch {
	case t.failed > 0:
		return fmt.Sprintf("%d do **not** hold", t.failed)
	case t.ran() == 0:
		return "not run"
	case t.required > 0:
		return fmt.Sprintf("all that ran hold, but %d were not run", t.required)
	}
	return holds
}

// missingTimes returns the required timed points that did not run.
func missingTimes(rows dataset.Set) dataset.Set {
	return rows.Where(func(r *journal.Row) bool {
		return isTimed(r) && r.Status == journal.NotExecuted && !r.Optional
	})
}

// reasons returns up to three different reasons of rows.
func reasons(rows dataset.Set) []string {
	all := lists.Distinct(lists.Map(rows, func(r *journal.Row) string { return string(r.Reason) }))
	return all[:min(len(all), 3)]
}

// plantedFault returns the value of --mutate, or "" if no fault was planted.
func plantedFault(rows dataset.Set) string {
	fault, _ := lists.First(rows.Distinct("mutate"), func(v string) bool { return v != "" && v != matrix.NoFault })
	return fault
}

func correctnessLine(cells []cell) string {
	mine := inPart(cells, matrix.Correctness)
	t := count(mine)
	switch {
	case t.ran() == 0:
		return "no cell of the matrix ran, so nothing is known. Times without it may be those of a wrong computation."
	case t.failed > 0:
		first, _ := lists.First(mine, func(c cell) bool { return c.status.Bad() })
		return fmt.Sprintf("**wrong results.** %s. First: %s: %s", t, first.at, first.reason) // the reason has the size
	case t.required > 0:
		return fmt.Sprintf("not shown. All cells that ran passed, but required cells did not run: %s.", t)
	}
	line := fmt.Sprintf("all passed. Every required cell ran: %s.", t)
	if t.missing > 0 {
		missing := lists.Filter(mine, func(c cell) bool { return c.status == journal.NotExecuted })
		line += fmt.Sprintf(" The cells not executed (%s) need something that this backend lacks.",
			strings.Join(distinct(missing, byCoord("algorithm")), ", "))
	}
	return line
}

// choiceLines names the fastest algorithm at each size, one line for each setting. If no
// comparison is resolved, there is one line for all settings.
func (r *results) choiceLines() (lines []views.Sentence) {
	compared := lists.Filter(r.contests, func(c contest) bool { return len(c.samples) > 1 || !c.resolved() })
	if len(compared) == 0 {
		return nil
	}
	if !slices.ContainsFunc(compared, contest.resolved) {
		why := notResolved(compared)
		if why == oneLaunch {
			why += fmt.Sprintf("; `--trials %d` gives more", judge.MinLaunches)
		}
		return []views.Sentence{cite("fastest", nil, "- **Fastest:** not resolved: %s.", why)}
	}
	for _, g := range bySetting(compared) {
		line := fmt.Sprintf("- **Fastest, %s:** ", settingName(g.Key))
		open := lists.Filter(g.Items, func(c contest) bool { return !c.resolved() })
		var parts []string
		var used []model.Sample
		for _, run := range winnerRuns(g.Items) {
			where := "at " + unit.FormatBytes(run[0].bytes)
			if last := run[len(run)-1].bytes; last > run[0].bytes {
				where = fmt.Sprintf("from %s to %s", unit.FormatBytes(run[0].bytes), unit.FormatBytes(last))
			}
			parts = append(parts, run[0].winner()+" "+where)
			for _, c := range run {
				used = append(used, c.samples...)
			}
		}
		if len(open) > 0 {
			sizes := lists.Map(open, func(c contest) string { return unit.FormatBytes(c.bytes) })
			parts = append(parts, fmt.Sprintf("not resolved at %s (%s)", strings.Join(sizes, ", "), notResolved(open)))
		}
		lines = append(lines, cite("fastest", rowsOf(used), "%s%s.", line, strings.Join(parts, ", ")))
	}
	return lines
}

// winnerRuns groups neighbouring resolved contests of one setting that have the same winner. A
// contest without a result ends a run.
func winnerRuns(list []contest) (runs [][]contest) {
	for i, c := range list {
		switch {
		case !c.resolved():
		case i > 0 && list[i-1].resolved() && list[i-1].winner() == c.winner():
			runs[len(runs)-1] = append(runs[len(runs)-1], c)
		default:
			runs = append(runs, []contest{c})
		}
	}
	return runs
}

// timeLines states, for each setting, the fastest time at the largest size, its distance from
// the limit, and what determines it. Settings without a result share one line, which is left out
// if choiceLines already states this for all sizes.
func (r *results) timeLines() (lines []views.Sentence) {
	var open []contest
	for _, g := range bySetting(r.contests) {
		c := g.Items[len(g.Items)-1]
		if !c.resolved() {
			open = append(open, c)
			continue
		}
		best := c.samples[0]
		line := fmt.Sprintf("- **Speed, %s:** at %s the fastest is %s with %s, a busbw of %s GB/s", settingName(g.Key),
			unit.FormatBytes(c.bytes), c.winner(), formatTime(best), unit.FormatSig(best.BusBW(), 3)) + c.limitText()
		if curve, ok := lists.First(r.curves, func(k model.Curve) bool { return k.Series == best.Series }); ok &&
			curve.Fitted() && r.unfit(best.Series) == "" && strings.Contains(curve.Bounds(), "-bound") {
			line += "; " + curve.Bounds()
		}
		if len(c.samples) == 1 {
			line += "; no other algorithm was timed"
		}
		lines = append(lines, cite("speed", rowsOf(c.samples), "%s.", line))
	}
	if len(open) > 0 && (len(lines) > 0 || notResolved(open) != notResolved(r.contests)) {
		lines = append(lines, cite("speed", nil, "- **Speed:** fastest at %s not resolved: %s.",
			unit.FormatBytes(open[0].bytes), notResolved(open)))
	}
	return lines
}

// limitText compares the fastest time with the limit that is common to all algorithms of the
// contest, and with its own.
func (c contest) limitText() string {
	best := c.samples[0]
	name, own := best.Ceiling(true)
	common := c.commonLimit(name)
	reached := fmt.Sprintf("%s of the limit %s", formatShare(own, best.TimeUS), name)
	switch {
	case own <= 0:
		return ", with no limit to compare it with"
	case best.AboveLimit():
		return fmt.Sprintf(", **%s, which is impossible**: the limit or the time is wrong", reached)
	case own > best.TimeUS:
		return fmt.Sprintf(", %s, which is within the uncertainty of such a limit", reached)
	case common > 0 && common < own*0.99:
		return fmt.Sprintf(", %s of the limit %s for the least traffic that any of the algorithms needs (%s for its own)",
			formatShare(common, best.TimeUS), name, formatShare(own, best.TimeUS))
	}
	return ", " + reached + otherRates(best, name)
}

// otherRates returns the shares of a link's other published rates (raw, line,
// reachable), because readers compute percentages from each of them.
func otherRates(s model.Sample, limit string) (text string) {
	link, _ := model.LinkOf(limit)
	for _, c := range link.Ceilings() {
		if us, has := s.Limits[c.Name]; has && c.Name != limit {
			text += fmt.Sprintf(", %s of %s", formatShare(us, s.TimeUS), c.Name)
		}
	}
	return text
}

// Exports returns tuning.json, the table that algorithm=auto reads. Its entries are the lines of the
// section Tuning table.
func Exports(rows dataset.Set) ([]bench.File, error) {
	samples := samplesOf(rows)
	if !slices.ContainsFunc(samples, model.Sample.Choosable) {
		return nil, nil
	}
	table, err := model.Tuning(samples, model.Sample.Comparable)
	return []bench.File{{Name: "tuning.json", Data: table}}, err
}
