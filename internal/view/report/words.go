package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// Summary is a run in one paragraph: how much there is, what became of it, the
// extremes, how it ended.
func Summary(run *journal.Run, rows []journal.Row) string {
	sentences := []string{extent(&run.Header, rows)}
	if len(rows) > 0 {
		sentences = append(sentences, outcome(rows), extremes(&run.Header, rows))
	}
	if n := disturbed(rows); n > 0 {
		sentences = append(sentences, fmt.Sprintf("%s disturbed while measured.", unit.Counted(n, "row was", "rows were")))
	}
	if n := warned(rows); n > 0 {
		sentences = append(sentences, fmt.Sprintf("%s with a warning.", unit.Counted(n, "row came", "rows came")))
	}
	return strings.Join(lists.NonEmpty(append(sentences, ending(run))...), " ")
}

func extent(h *journal.Header, rows []journal.Row) string {
	name := cmp.Or(h.Bench, "The run")
	if len(rows) == 0 {
		return name + " recorded no row."
	}
	points, backends := map[string]bool{}, map[string]bool{}
	trials := 0
	for i := range rows {
		points[rowset.Key(&rows[i])] = true
		backends[rows[i].Backend] = true
		trials = max(trials, rows[i].Trial+1)
	}
	delete(backends, "")
	s := fmt.Sprintf("%s recorded %s", name, unit.Plural(len(points), "point"))
	if h.Points > len(points) {
		s += fmt.Sprintf(" of %d planned", h.Points)
	}
	if trials > 1 {
		s += fmt.Sprintf(" in %d trials (%s)", trials, unit.Plural(len(rows), "row"))
	}
	if len(backends) > 0 {
		s += " on " + strings.Join(slices.Sorted(maps.Keys(backends)), ", ")
	}
	return s + "."
}

// outcome counts rows by status; passed, failed, skipped and not executed are
// different things.
func outcome(rows []journal.Row) string {
	counts := countStatus(rows)
	if counts[journal.OK] == len(rows) {
		if len(rows) == 1 {
			return "It is ok."
		}
		return "All are ok."
	}
	parts := lists.Map(statusesIn(counts), func(s journal.Status) string {
		return fmt.Sprintf("%d %s", counts[s], verbs(s, counts[s]))
	})
	if len(parts) > 1 {
		parts = []string{strings.Join(parts[:len(parts)-1], ", "), parts[len(parts)-1]}
	}
	return "Of its " + unit.Plural(len(rows), "row") + " " + strings.Join(parts, " and ") + "."
}

// verdict is what a reader wants to know first: whether the results are right, whether the
// times can be used, and what is lacking.
func verdict(rows []journal.Row, more string) bench.Section {
	counts := countStatus(rows)
	bad, lacking := counts[journal.Failed]+counts[journal.Timeout], counts[journal.NotExecuted]
	var lines []string
	switch {
	case len(rows) == 0:
		lines = append(lines, "- **Nothing was recorded.**")
	case bad > 0:
		lines = append(lines, fmt.Sprintf("- **Not right: %s failed or timed out** of %d; the reasons are with the rows.",
			unit.Plural(bad, "row"), len(rows)))
	case counts[journal.OK] == 0:
		lines = append(lines, "- **No result:** no row is ok.")
	default:
		lines = append(lines, fmt.Sprintf("- **No failure:** %s ok.", unit.Counted(counts[journal.OK], "row is", "rows are")))
	}
	if lacking > 0 {
		lines = append(lines, fmt.Sprintf("- %s not executed.", unit.Counted(lacking, "row was", "rows were")))
	}
	if n := disturbed(rows); n > 0 {
		lines = append(lines, fmt.Sprintf("- **Times in doubt:** %s disturbed while measured (hollow markers in figures).",
			unit.Counted(n, "row was", "rows were")))
	} else if counts[journal.OK] > 0 {
		lines = append(lines, "- **Times usable:** nothing is known to have disturbed them.")
	}
	if more != "" {
		lines = append(lines, more)
	}
	return bench.Section{Title: "Verdict", Text: strings.Join(lines, "\n"), Lead: true}
}

func verbs(s journal.Status, n int) string {
	be, were := "is", "was"
	if n != 1 {
		be, were = "are", "were"
	}
	switch s {
	case journal.OK:
		return be + " ok"
	case journal.Failed:
		return "failed"
	case journal.Timeout:
		return "timed out"
	case journal.Skipped:
		return were + " skipped"
	case journal.NotExecuted:
		return were + " not executed"
	}
	return be + " of status " + string(s)
}

func countStatus(rows []journal.Row) map[journal.Status]int {
	counts := map[journal.Status]int{}
	for i := range rows {
		counts[rows[i].Status]++
	}
	return counts
}

// statusesIn lists the statuses that occur, the known ones first.
func statusesIn(counts map[journal.Status]int) []journal.Status {
	all := lists.Distinct(append(slices.Clip(journal.Statuses), slices.Sorted(maps.Keys(counts))...))
	return lists.Filter(all, func(s journal.Status) bool { return counts[s] > 0 })
}

// extremes names the two ends of the headline metric and where they are, of rows that
// have settled; where no row has an interval to settle by, it says so.
func extremes(h *journal.Header, rows []journal.Row) string {
	y, ok := autoMetric(h, rows)
	if !ok {
		return ""
	}
	good, sure := settledRows(y, rows)
	if len(good) < 2 {
		return ""
	}
	compare := func(a, b *journal.Row) int {
		va, _, _, _ := y.of(a)
		vb, _, _, _ := y.of(b)
		return cmp.Compare(va, vb)
	}
	least, most := slices.MinFunc(good, compare), slices.MaxFunc(good, compare)
	coords := slices.DeleteFunc(coordsOf(h, rows), func(c coord) bool {
		return !c.varies(good) || c.class == fieldClass && (c.key == trialField || c.key == machineField)
	})
	at := func(r *journal.Row) (number, where string) {
		v, _, _, _ := y.of(r)
		words := lists.NonEmpty(lists.Map(coords, func(c coord) string { return c.label(c.of(r)) })...)
		if len(words) > 0 {
			where = " at " + strings.Join(words, " ")
		}
		return MetricText(v, y.unit) + within(y, r), where
	}
	lowText, lowAt := at(least)
	highText, highAt := at(most)
	text := fmt.Sprintf("%s lies between %s%s and %s%s", y.name, lowText, lowAt, highText, highAt)
	if y.name == headline {
		text = fmt.Sprintf("The fastest took %s%s, the slowest %s%s", lowText, lowAt, highText, highAt)
	}
	if !sure {
		text += ": an indication, as no row has an interval"
	}
	return text + "."
}

// settledRows are the good rows whose number can stand for them: computed, or measured
// undisturbed and known well enough. Where no row has an interval of that number, they are
// those that nothing disturbed, and not sure.
func settledRows(y quantity, rows []journal.Row) (out []*journal.Row, sure bool) {
	var whole []*journal.Row
	intervals := false
	for i := range rows {
		r := &rows[i]
		v, low, high, has := y.of(r)
		if !has || r.Status != journal.OK {
			continue
		}
		intervals = intervals || high > 0
		if r.Disturbed() != "" {
			continue
		}
		whole = append(whole, r)
		if r.Kind == journal.Simulated || r.Kind == journal.Modelled || high > 0 && journal.Narrow(low, high, v) {
			out = append(out, r)
		}
	}
	if len(out) == 0 && !intervals {
		return whole, false
	}
	return out, true
}

// within is the interval of a row's number with the samples it comes from, "" without.
func within(y quantity, r *journal.Row) string {
	_, low, high, _ := y.of(r)
	if high <= 0 {
		return ""
	}
	return fmt.Sprintf(" (95 %% from %s to %s, %s)", MetricText(low, y.unit), MetricText(high, y.unit),
		unit.Plural(r.Samples, "sample"))
}

// MetricText is a metric for people, in its unit.
func MetricText(v float64, u string) string {
	if u == "us" {
		return unit.FormatMicros(v)
	}
	return strings.TrimSpace(unit.FormatMetric(v) + " " + u)
}

func disturbed(rows []journal.Row) int {
	return len(rowset.All(rows).Where(func(r *journal.Row) bool { return r.Disturbed() != "" }))
}

func warned(rows []journal.Row) int {
	return len(rowset.All(rows).Where(func(r *journal.Row) bool { return len(r.Warnings) > 0 }))
}

// ending tells a complete run from one that was cut short.
func ending(run *journal.Run) string {
	switch {
	case run.End == nil:
		s := "The run has not come to its end"
		if n := len(run.Unfinished()); n > 0 {
			s += fmt.Sprintf("; %s under way when the writing stopped", unit.Counted(n, "point was", "points were"))
		}
		return s + "."
	case run.End.Outcome == "complete":
		return fmt.Sprintf("The run was complete after %s.", seconds(run.End.Seconds))
	case run.End.Outcome == "":
		return ""
	}
	return fmt.Sprintf("The run ended as %s after %s.", run.End.Outcome, seconds(run.End.Seconds))
}

func seconds(s float64) string {
	// Beyond a duration's range, about 290 years, there is nothing to round.
	if s < 60 || s > 1e9 || !finite(s) {
		return unit.FormatSig(s, 3) + " s"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// maxRemarks is how many different warnings a page lists.
const maxRemarks = 30

// Remarks are the notes of a run and the warnings of its rows, those that differ
// only in their numbers as one.
func Remarks(run *journal.Run, rows []journal.Row) []string {
	// the answer of a study has a section of its own
	notes := lists.Filter(run.Notes, func(n journal.Note) bool { return len(n.Tuned) == 0 })
	out := lists.Distinct(lists.Map(notes, func(n journal.Note) string { return n.Text }))
	var legend texttab.Legend
	for i := range rows {
		legend.Mark(rows[i].Warnings...)
	}
	texts := legend.Texts("row", "rows")
	out = append(out, texts[:min(len(texts), maxRemarks)]...)
	if more := len(texts) - maxRemarks; more > 0 {
		out = append(out, unit.Counted(more, "more warning is", "more different warnings are")+" with the rows")
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
