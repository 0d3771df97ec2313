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

// claimLine says how many claims about the numbers do not hold, and which.
func claimLine(rows []journal.Row) []string {
	var wrong []string
	all := 0
	for _, r := range rows {
		if r.Part != claimsPart {
			continue
		}
		all++
		if claim := r.Point.At("claim"); r.Status.Bad() {
			wrong = append(wrong, fmt.Sprintf("%q (%s)", claim, r.Details["answer"]))
		}
	}
	switch {
	case all == 0:
		return nil
	case len(wrong) == 0:
		return []string{"- **Claims:** none of " + unit.Plural(all, "claim") + " is refuted."}
	}
	return []string{fmt.Sprintf("- **Claims:** %d of %d do **not** hold: %s.", len(wrong), all, strings.Join(wrong, ", "))}
}

// warningTitles are the kinds of warnings as the summary's lines begin, in its order.
var warningTitles = []struct{ kind, title string }{
	{model.AboveLimit, "Faster than its limit"}, {model.Identical, "A switch without effect"},
	{model.FallingRate, "Falls with ranks"},
	{model.NoCeiling, "Per cent of what"}, {model.FarBelow, "Far from its limit"},
	{model.KnownFaster, "Far behind others"}, {model.EqualDTypes, "Element types"},
}

// warningLines are what the times contradict, one line for each kind.
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
	if timed > 0 && !slices.ContainsFunc(warnings, func(w model.Warning) bool { return !w.Note }) {
		lines = append(lines, "- **Plausibility:** no time contradicts a limit or another.")
	}
	return lines
}

// tableLines say what a table leaves out that conclusions are often drawn from all the same:
// small messages, and who measured it, on what.
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
			"Nothing here tells what decoding costs.", unit.FormatBytes(least), tokens, widest.Title,
			unit.FormatBytes(widest.Message(1))))
	}
	if missing := unsaid(rows); len(missing) > 0 {
		lines = append(lines, fmt.Sprintf("- **Provenance:** of %d imported times the file does not say %s, so nobody can "+
			"repeat them.", len(samples), strings.Join(missing, ", ")))
	}
	return lines
}

// unsaid is what nothing says about imported times; none where some of it is said.
func unsaid(rows []journal.Row) []string {
	const samples = "of how many samples they are"
	missing := []string{"on which machine, by whom, when and with which build and driver they were taken", samples}
	imported := false
	for _, r := range timedRows(rows) {
		if r.Status != journal.OK {
			continue
		}
		imported = imported || r.Details["tool"] != ""
		if r.Host != "" || r.Details["device"] != "" || r.Details["source"] != "" || r.Details["tool"] == "" {
			return nil
		}
		if r.Samples > 0 {
			missing = slices.DeleteFunc(missing, func(s string) bool { return s == samples })
		}
	}
	if !imported {
		return nil
	}
	return missing
}

// checkSections are the contradictions to physics.
func checkSections(warnings []model.Warning, timed int) []bench.Section {
	if timed == 0 {
		return nil
	}
	text := "No time contradicts a limit, no two algorithms take suspiciously equal times, and no efficiency falls " +
		"without a reason."
	var lines []string
	for _, w := range warnings {
		kind := "**" + w.Kind + "**: "
		if w.Note {
			kind = "note, " + w.Kind + ": "
		}
		lines = append(lines, "- "+kind+w.Text)
	}
	if slices.ContainsFunc(warnings, func(w model.Warning) bool { return !w.Note }) {
		text = "Numbers that contradict physics or each other; do not build on them before they are explained."
	}
	if len(lines) > 0 {
		text += "\n\n" + strings.Join(lines, "\n")
	}
	return []bench.Section{{Title: "Physics checks", Text: text}}
}

// claimSections judge what was said about imported numbers.
func claimSections(rows []journal.Row) []bench.Section {
	table := [][]string{{"claim", "verdict", "because"}}
	bad := 0
	for _, r := range rows {
		if r.Part != claimsPart {
			continue
		}
		because := r.Details["because"]
		if because == "" {
			_, because, _ = strings.Cut(r.Reason, ": ")
		}
		if r.Status.Bad() {
			bad++
		}
		table = append(table, []string{r.Point.At("claim").String(), r.Details["answer"], because})
	}
	if len(table) == 1 {
		return nil
	}
	return []bench.Section{{Title: "Claims", Lead: true,
		Text: fmt.Sprintf("What was said about these numbers, held against them: %d of %d claims do not hold.", bad,
			len(table)-1), Table: table}}
}
