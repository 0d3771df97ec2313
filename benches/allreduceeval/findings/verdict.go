package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// verdictLine is the whole report in a sentence: correct or not, times usable or not and
// why.
func verdictLine(rows []journal.Row, cells []cell, samples []model.Sample) string {
	return "- **Verdict:** " + correctVerdict(cells) + "; " + timesVerdict(rows, samples) + "."
}

func correctVerdict(cells []cell) string {
	t := countOf(lists.Filter(cells, inPart(matrix.Correctness)))
	all := countOf(cells)
	switch {
	case t.ran() == 0 && all.failed == 0:
		return "correctness was **not run**"
	case t.failed > 0:
		return fmt.Sprintf("results are **wrong** (%s)", unit.Counted(t.failed, "cell failed", "cells failed"))
	case all.failed > 0:
		return fmt.Sprintf("sums are right, but %s",
			unit.Counted(all.failed, "contract or failure is **not** as promised",
				"contracts or failures are **not** as promised"))
	case t.required > 0:
		return fmt.Sprintf("**correct as far as it ran**, and %s not run",
			unit.Counted(t.required, "required cell was", "required cells were"))
	}
	return fmt.Sprintf("**correct** (%s passed)", unit.Plural(t.passed, "cell"))
}

// timesVerdict judges all times together: they are usable if all have settled, with care
// if most have, and not if fewer than half have or a timed row failed.
func timesVerdict(rows []journal.Row, samples []model.Sample) string {
	failed := len(lists.Filter(timedRows(rows), func(r journal.Row) bool { return r.Status.Bad() }))
	if len(samples) == 0 && failed == 0 {
		return "times were **not run**"
	}
	why, settled := doubts(samples)
	if failed > 0 {
		why = append([]string{unit.Counted(failed, "timed row failed", "timed rows failed")}, why...)
	}
	share := fmt.Sprintf("%d of %d settled", settled, len(samples))
	switch {
	case len(why) == 0:
		return fmt.Sprintf("times are **usable** (%s)", share)
	case failed > 0 || 2*settled < len(samples):
		return fmt.Sprintf("times are **not usable** (%s): %s", share, strings.Join(why, ", "))
	}
	return fmt.Sprintf("times are **usable with care** (%s; sentences and figures below rest on these): %s", share,
		strings.Join(why, ", "))
}

// doubts are why times have not settled, the most frequent reason first, and how many have.
func doubts(samples []model.Sample) (why []string, settled int) {
	open := lists.Filter(samples, func(s model.Sample) bool { return !s.Settled() })
	type reason = lists.Group[string, model.Sample]
	reasons := lists.GroupBy(open, func(s model.Sample) string {
		switch {
		case s.Disturbance != "":
			return "disturbed by " + doubtKind(s.Disturbance)
		case s.LowUS <= 0:
			return "without an interval"
		}
		return "with an interval that is too wide: too few samples for their noise"
	})
	slices.SortFunc(reasons, func(a, b reason) int {
		return cmp.Or(len(b.Items)-len(a.Items), cmp.Compare(a.Key, b.Key))
	})
	why = lists.Map(reasons, func(r reason) string { return fmt.Sprintf("%d %s", len(r.Items), r.Key) })
	return why, len(samples) - len(open)
}

// doubtKind is what disturbed a time, without the numbers that differ from time to time:
// "load" of "load: other programs used 60 %".
func doubtKind(doubt string) string {
	kind, _, _ := strings.Cut(doubt, ":")
	kind, _, _ = strings.Cut(kind, " (")
	return kind
}

// choiceLines say, once for each setting, which algorithm is best at which size, by times
// that have settled; two that no interval tells apart are both named.
func choiceLines(samples []model.Sample) (lines []string) {
	choices := model.Best(exactSamples(samples))
	for i := 0; i < len(choices); {
		set, settled := choices[i].Setting, false
		var parts []string
		for i < len(choices) && choices[i].Setting == set {
			from, best := choices[i], fastest(choices[i])
			for i < len(choices) && choices[i].Setting == set && fastest(choices[i]) == best {
				settled = settled || choices[i].Settled()
				i++
			}
			last := choices[i-1]
			where := "at " + unit.FormatBytes(from.Bytes)
			if last.Bytes > from.Bytes {
				where = fmt.Sprintf("from %s to %s", unit.FormatBytes(from.Bytes), unit.FormatBytes(last.Bytes))
			}
			parts = append(parts, best+" "+where)
		}
		switch {
		case len(choices) == 1:
		case !settled:
			lines = append(lines, fmt.Sprintf("- **Fastest, %s:** not known, as no time has settled.", settingOf(set)))
		default:
			lines = append(lines, fmt.Sprintf("- **Fastest, %s:** %s.", settingOf(set), strings.Join(parts, ", ")))
		}
	}
	return lines
}

// fastest names the best of a size, as far as it is known.
func fastest(c model.Choice) string {
	switch {
	case !c.Settled():
		return "not known"
	case c.Second != "" && c.Tied:
		return c.Best + " or " + c.Second
	}
	return c.Best
}

// partState words what a part of the matrix shows, with its own words where all holds.
func partState(t counts, holds string) string {
	switch {
	case t.failed > 0:
		return fmt.Sprintf("%d do **not** hold", t.failed)
	case t.ran() == 0:
		return "not run"
	case t.required > 0:
		return fmt.Sprintf("what ran holds, %d were not run", t.required)
	}
	return holds
}
