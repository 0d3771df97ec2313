package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/result/model"
)

// claimsOf returns the imported rows that judge claims about the numbers, and those
// among them whose claim does not hold.
func claimsOf(rows []journal.Row) (all, bad []journal.Row) {
	all = lists.Filter(rows, func(r journal.Row) bool { return r.Part == "claims" })
	return all, lists.Filter(all, func(r journal.Row) bool { return r.Status.Bad() })
}

// claimLine names the claims that do not hold.
func claimLine(rows []journal.Row) []string {
	all, bad := claimsOf(rows)
	switch {
	case len(all) == 0:
		return nil
	case len(bad) == 0:
		return []string{"- **Claims:** none of " + unit.Plural(len(all), "claim") + " is refuted."}
	}
	wrong := lists.Map(bad, func(r journal.Row) string {
		return fmt.Sprintf("%q (%s)", r.Point.At("claim"), r.Details["answer"])
	})
	return []string{fmt.Sprintf("- **Claims:** %d of %d do **not** hold: %s.", len(bad), len(all),
		strings.Join(wrong, ", "))}
}

// claimSections lists the claims about imported numbers with their verdicts.
func claimSections(rows []journal.Row) []bench.Section {
	all, bad := claimsOf(rows)
	table := [][]string{{"claim", "verdict", "because"}}
	for _, r := range all {
		because := r.Details["because"]
		if because == "" {
			_, because, _ = strings.Cut(r.Reason, ": ")
		}
		table = append(table, []string{r.Point.At("claim").String(), r.Details["answer"], because})
	}
	return tableSection(bench.Section{Title: "Claims", Lead: true,
		Text:  fmt.Sprintf("Claims about these numbers, compared with them: %d of %d do not hold.", len(bad), len(all)),
		Table: table})
}

// warningTitles lists the kinds of warnings in the order of the summary, with the
// words that begin their lines.
var warningTitles = []struct{ kind, title string }{
	{model.AboveLimit, "Faster than its limit"}, {model.Identical, "A switch without effect"},
	{model.FallingRate, "Falls with ranks"},
	{model.NoCeiling, "Per cent of what"}, {model.FarBelow, "Far from its limit"},
	{model.KnownFaster, "Far behind others"}, {model.EqualDTypes, "Element types"},
}

// warningLines returns one line for each kind of warning.
func warningLines(warnings []model.Warning, timed int) (lines []string) {
	for _, k := range warningTitles {
		mine := lists.Filter(warnings, func(w model.Warning) bool { return w.Kind == k.kind })
		if len(mine) == 0 {
			continue
		}
		line := fmt.Sprintf("- **%s:** %s", k.title, mine[0].Text)
		if n := len(mine) - 1; n > 0 {
			line += fmt.Sprintf(" (%d more under Physics checks)", n)
		}
		lines = append(lines, line+".")
	}
	if timed > 0 && !contradicted(warnings) {
		lines = append(lines, "- **Plausibility:** no time contradicts a limit or another time.")
	}
	return lines
}

// contradicted reports whether a warning is more than a note.
func contradicted(warnings []model.Warning) bool {
	return slices.ContainsFunc(warnings, func(w model.Warning) bool { return !w.Note })
}

// tableLines points out what a table of times lacks: messages as small as those of
// decode steps, and provenance. Readers tend to draw conclusions about both anyway.
func tableLines(rows []journal.Row, samples []model.Sample) (lines []string) {
	if len(samples) == 0 {
		return nil
	}
	least := slices.MinFunc(samples, func(a, b model.Sample) int { return cmp.Compare(a.Bytes, b.Bytes) }).Bytes
	wider := func(a, b llm.Model) int { return cmp.Compare(a.Hidden, b.Hidden) }
	widest := slices.MaxFunc(append(modelsOf(rows), llm.Model{}), wider)
	if tokens := least / max(widest.Message(1), 1); widest.Hidden > 0 && tokens > model.MaxDecode {
		lines = append(lines, fmt.Sprintf("- **No decode step:** the smallest message, %s, is %d tokens of %s, a long "+
			"prefill; a decode step has one token for each sequence (%s at batch 1). "+
			"These times do not tell what decoding costs.", unit.FormatBytes(least), tokens, widest.Title,
			unit.FormatBytes(widest.Message(1))))
	}
	if missing := missingProvenance(rows); len(missing) > 0 {
		lines = append(lines, fmt.Sprintf("- **Provenance:** of %d imported times the file does not say %s, so nobody can "+
			"repeat them.", len(samples), strings.Join(missing, " and ")))
	}
	return lines
}

// missingProvenance returns what a file of imported times does not say about them. It
// returns nil if the file names a host, device or source, or nothing was imported.
func missingProvenance(rows []journal.Row) []string {
	missing := []string{"on which machine, by whom, when and with which build and driver they were taken"}
	timed := lists.Filter(timedRows(rows), func(r journal.Row) bool { return r.Status == journal.OK })
	known := func(r journal.Row) bool {
		return r.Host != "" || r.Details["device"] != "" || r.Details["source"] != "" || r.Details["tool"] == ""
	}
	if len(timed) == 0 || slices.ContainsFunc(timed, known) {
		return nil
	}
	if !slices.ContainsFunc(timed, func(r journal.Row) bool { return r.Samples > 0 }) {
		missing = append(missing, "from how many samples")
	}
	return missing
}

// checkSections lists the contradictions to physics.
func checkSections(warnings []model.Warning, timed int) []bench.Section {
	if timed == 0 {
		return nil
	}
	text := "No time contradicts a limit, no two algorithms take suspiciously equal times, and no efficiency falls " +
		"without a reason."
	if contradicted(warnings) {
		text = "Some of these numbers contradict physics or each other. Do not rely on them before they are explained."
	}
	if len(warnings) > 0 {
		text += "\n"
	}
	for _, w := range warnings {
		kind := "**" + w.Kind + "**: "
		if w.Note {
			kind = "note, " + w.Kind + ": "
		}
		text += "\n- " + kind + w.Text
	}
	return []bench.Section{{Title: "Physics checks", Text: text}}
}
