package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/document"
)

// Summary describes a run in one paragraph: the number of points, their outcome, the
// extremes of the headline metric, and how the run ended.
func Summary(d *dataset.Dataset, rows dataset.Set) string {
	sentences := []string{extent(&d.Header, rows)}
	if len(rows) > 0 {
		sentences = append(sentences, outcome(d, rows), views.Extremes(&d.Header, rows))
	}
	if n := disturbed(rows); n > 0 {
		sentences = append(sentences, fmt.Sprintf("%s disturbed while measured.", unit.Counted(n, "row was", "rows were")))
	}
	if n := warned(rows); n > 0 {
		sentences = append(sentences, fmt.Sprintf("%s a warning.", unit.Counted(n, "row has", "rows have")))
	}
	return strings.Join(lists.NonEmpty(append(sentences, ending(d.Run()))...), " ")
}

// extent returns a sentence about how many points and trials the run has, and on which backends.
func extent(h *journal.Header, rows dataset.Set) string {
	name := cmp.Or(h.Bench, "The run")
	if len(rows) == 0 {
		return name + " recorded no row."
	}
	backends, trials, points := map[string]bool{}, 0, len(rows.Points())
	for i := range rows {
		backends[rows[i].Backend] = true
		trials = max(trials, rows[i].Trial+1)
	}
	delete(backends, "")
	s := fmt.Sprintf("%s recorded %s", name, unit.Plural(points, "point"))
	if h.Points > points {
		s += fmt.Sprintf(" of %d planned", h.Points)
	}
	switch {
	case trials < 2:
	case len(rows) == trials*points:
		s += fmt.Sprintf(", %d trials each,", trials)
	default: // a point may also have several rows in a trial
		s += fmt.Sprintf(" in %d trials (%s)", trials, unit.Plural(len(rows), "row"))
	}
	if len(backends) > 0 {
		s += " on " + strings.Join(slices.Sorted(maps.Keys(backends)), ", ")
	}
	return strings.TrimSuffix(s, ",") + "."
}

// outcome counts the rows by status.
func outcome(d *dataset.Dataset, rows dataset.Set) string {
	counts := countStatuses(d, rows)
	if len(counts) == 1 && counts[0].Status == journal.OK {
		if len(rows) == 1 {
			return "It is ok."
		}
		return "All are ok."
	}
	parts := lists.Map(counts, func(c document.Count) string { return fmt.Sprintf("%d %s", c.N, verbs(c.Status, c.N)) })
	if len(parts) > 1 {
		parts = []string{strings.Join(parts[:len(parts)-1], ", "), parts[len(parts)-1]}
	}
	total := lists.Sum(lists.Map(counts, func(c document.Count) int { return c.N }))
	return "Of its " + unit.Plural(total, "row") + " " + strings.Join(parts, " and ") + "."
}

// opening returns the section that a reader needs first: whether the results are right, whether the times
// are usable, and what is missing.
func opening(in Input, rows dataset.Set) bench.Section {
	counts := map[journal.Status]int{}
	for _, c := range countStatuses(in.Data, rows) {
		counts[c.Status] = c.N
	}
	bad, lacking := counts[journal.Failed]+counts[journal.Timeout], counts[journal.NotExecuted]
	var lines []string
	switch {
	case len(rows) == 0:
		lines = append(lines, "- **Nothing was recorded.**")
	case bad > 0:
		lines = append(lines, fmt.Sprintf("- **Failures: %s of %d failed or timed out.** The reasons are listed with the "+
			"rows.", unit.Plural(bad, "row"), len(rows)))
	case counts[journal.OK] == 0:
		lines = append(lines, "- **No result:** no row is ok.")
	case counts[lost] == 0:
		lines = append(lines, fmt.Sprintf("- **No failure:** %s ok.", unit.Counted(counts[journal.OK], "row is", "rows are")))
	}
	if n := counts[lost]; n > 0 {
		lines = append(lines, fmt.Sprintf("- **%s lost:** lines of the journal are damaged or missing.",
			unit.Counted(n, "row is", "rows are")))
	}
	if lacking > 0 {
		lines = append(lines, fmt.Sprintf("- %s not executed.", unit.Counted(lacking, "row was", "rows were")))
	}
	if n, care := disturbed(rows), unsteady(&in.Data.Header, rows); n > 0 {
		lines = append(lines, fmt.Sprintf("- **Times in doubt:** %s disturbed while measured (hollow markers in figures).",
			unit.Counted(n, "row was", "rows were")))
	} else if line := modelledLine(rows); line != "" {
		lines = append(lines, line)
	} else if len(care) > 0 {
		lines = append(lines, fmt.Sprintf("- **Times usable with care:** %s.", strings.Join(care, "; ")))
	} else if counts[journal.OK] > 0 {
		lines = append(lines, "- **Times usable:** nothing is known to have disturbed them.")
	}
	lines = append(lines, lists.NonEmpty(in.Verdict)...)
	return bench.Section{Title: "Verdict", Text: strings.Join(lines, "\n"), Lead: true}
}

// unsteady returns why times that nothing has disturbed are not one steady value: the main metric has two modes, or it
// drifted over the trials.
func unsteady(h *journal.Header, rows dataset.Set) (why []string) {
	good := rows.Good()
	main, _ := dataset.MainMetric(h, good)
	split := good.Where(func(r *journal.Row) bool { return journal.Modes(r, main.Name) != nil })
	if n := len(split); n > 0 {
		why = append(why, "the samples of "+unit.Plural(n, "row")+" have two modes")
	}
	points := lists.Filter(good.Points(), func(p dataset.Set) bool {
		return p[0].Kind == journal.Measured && stats.FindModes(p.Values(main.Name)) != nil
	})
	if n := len(points); n > 0 {
		why = append(why, "the launches of "+unit.Plural(n, "point")+" have two modes")
	}
	return append(why, lists.Map(judge.Drifts(good, main.Name), judge.Drift.String)...)
}

// modelledLine returns a line about how far modelled times can be trusted, or "" if there are none.
func modelledLine(rows dataset.Set) string {
	modelled, validated := 0, 0
	for _, r := range rows {
		if r.Status != journal.OK || r.Kind != journal.Modelled {
			continue
		}
		modelled++
		if _, known := r.Metrics["error_pct_median"]; known {
			validated++
		}
	}
	switch {
	case modelled == 0:
		return ""
	case validated == 0:
		return "- **Times not validated:** they are modelled, and no measured time shows their error."
	case validated < modelled:
		return fmt.Sprintf("- **Times modelled:** %d of %d have a known error; the others are **not validated**.", validated,
			modelled)
	}
	return "- **Times modelled, not measured:** each row states its error and what validates it."
}

// verbs returns the verb of a sentence about n rows with a status.
func verbs(s journal.Status, n int) string {
	be, were := "is", "was"
	if n != 1 {
		be, were = "are", "were"
	}
	switch s {
	case journal.OK, lost:
		return be + " " + string(s)
	case journal.Failed:
		return "failed"
	case journal.Timeout:
		return "timed out"
	case journal.Skipped:
		return were + " skipped"
	case journal.NotExecuted:
		return were + " not executed"
	}
	return be + " in status " + string(s)
}

func disturbed(rows dataset.Set) int {
	return len(rows.Where((*journal.Row).Disturbed))
}

func warned(rows dataset.Set) int {
	return len(rows.Where(func(r *journal.Row) bool { return len(r.Conditions) > 0 }))
}

// ending returns a sentence about how the run ended.
func ending(run *journal.Run) string {
	switch {
	case run == nil:
		return ""
	case run.End == nil:
		s := "The run has not ended"
		if n := len(run.Unfinished()); n > 0 {
			s += fmt.Sprintf("; %s running when recording stopped", unit.Counted(n, "point was", "points were"))
		}
		return s + "."
	case run.End.Outcome == "complete":
		return fmt.Sprintf("The run completed in %s.", seconds(run.End.Seconds))
	}
	return fmt.Sprintf("The run ended as %s after %s.", run.End.Outcome, seconds(run.End.Seconds))
}

func seconds(s float64) string {
	// time.Duration overflows at about 290 years.
	if s < 60 || s > 1e9 || math.IsNaN(s) {
		return unit.FormatSig(s, 3) + " s"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// maxRemarks is the largest number of different warnings that a page lists.
const maxRemarks = 30

// Remarks returns the notes of a run and the conditions of its rows. Those of one kind are one remark, with the range
// of their values.
func Remarks(d *dataset.Dataset, rows dataset.Set) []string {
	// The result of a tuning study has its own section.
	notes := lists.Filter(d.Notes, func(n journal.Note) bool { return len(n.Tuned) == 0 })
	out := lists.Distinct(lists.Map(notes, func(n journal.Note) string { return string(n.Text) }))
	var legend texttab.Legend
	footnote := journal.Footnotes(rows)
	for i := range rows {
		legend.Mark(lists.Map(rows[i].Conditions, footnote)...)
	}
	texts := legend.Texts("row", "rows")
	out = append(out, texts[:min(len(texts), maxRemarks)]...)
	if more := len(texts) - maxRemarks; more > 0 {
		out = append(out, unit.Counted(more, "more remark is", "more different remarks are")+" with the rows")
	}
	return out
}
