package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/views"
)

// claimsOf returns the imported rows that judge claims about the numbers, and those
// among them whose claim does not hold.
func claimsOf(rows dataset.Set) (all, bad dataset.Set) {
	all = rows.Part("claims")
	return all, all.Where(func(r *journal.Row) bool { return r.Status.Bad() })
}

// claimLine names the claims that do not hold, and returns the rows that judge them.
func claimLine(rows dataset.Set) (text string, of dataset.Set) {
	all, bad := claimsOf(rows)
	switch {
	case len(all) == 0:
		return "", nil
	case len(bad) == 0:
		return "**Claims:** none of " + unit.Plural(len(all), "claim") + " is refuted.", all
	}
	wrong := lists.Map(bad, func(r *journal.Row) string {
		return fmt.Sprintf("%q (%s)", r.Point.At("claim"), r.Details["answer"])
	})
	return fmt.Sprintf("**Claims:** %d of %d do **not** hold: %s.", len(bad), len(all), strings.Join(wrong, ", ")), bad
}

// claimSections lists the claims about imported numbers with their verdicts.
func claimSections(rows dataset.Set) []bench.Section {
	all, bad := claimsOf(rows)
	table := [][]string{{"claim", "verdict", "because"}}
	for _, r := range all {
		table = append(table, []string{r.Point.At("claim").String(), r.Details["answer"], r.Details["because"]})
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

// check compares the samples with physics. Comparisons of times from too few launches say so.
func (r *results) check() []model.Warning {
	return lists.Map(model.Check(r.samples), func(w model.Warning) model.Warning {
		behind := lists.Filter(r.samples, func(s model.Sample) bool {
			return slices.ContainsFunc(s.Rows, func(r *journal.Row) bool { return slices.Contains(w.Rows, r) })
		})
		if why := fewLaunches(behind); why != "" && w.Kind != model.AboveLimit && w.Kind != model.NoCeiling {
			w.Text += " (" + why + ")"
		}
		return w
	})
}

// warningLines returns one line for each kind of warning.
func (r *results) warningLines() (lines []views.Sentence) {
	for _, k := range warningTitles {
		mine := lists.Filter(r.warnings, func(w model.Warning) bool { return w.Kind == k.kind })
		if len(mine) == 0 {
			continue
		}
		line := fmt.Sprintf("- **%s:** %s", k.title, mine[0].Text)
		if n := len(mine) - 1; n > 0 {
			line += fmt.Sprintf(" (%d more under Physics checks)", n)
		}
		lines = append(lines, cite("warning", mine[0].Rows, "%s.", line))
	}
	if len(r.samples) > 0 && !contradicted(r.warnings) {
		lines = append(lines, cite("plausible", rowsOf(r.samples), "- **Plausibility:** %s", r.plausibility()))
	}
	return lines
}

// plausibility states that nothing contradicts the samples, and what they were compared with.
func (r *results) plausibility() string {
	text := "no time contradicts another"
	if slices.ContainsFunc(r.samples, func(s model.Sample) bool { return len(s.Limits) > 0 }) {
		text = "no time contradicts a limit or another time"
	}
	if n := len(lists.Filter(r.samples, model.Sample.Doubtful)); n > 0 {
		text += fmt.Sprintf("; %d of %d have not settled and were compared with limits only", n, len(r.samples))
	}
	return text + "."
}

// contradicted reports whether a warning is more than a note.
func contradicted(warnings []model.Warning) bool {
	return slices.ContainsFunc(warnings, func(w model.Warning) bool { return !w.Note })
}

// tableLines returns lines about what a table of times lacks: messages as small as in decode steps, and
// provenance. Readers tend to draw conclusions about both anyway.
func (r *results) tableLines() (lines []views.Sentence) {
	rows, samples := r.rows, r.samples
	if len(samples) == 0 {
		return nil
	}
	add := func(of []model.Sample, format string, args ...any) {
		lines = append(lines, cite("note", rowsOf(of), format, args...))
	}
	minBytes := slices.MinFunc(samples, func(a, b model.Sample) int { return cmp.Compare(a.Bytes, b.Bytes) }).Bytes
	smallest := lists.Filter(samples, func(s model.Sample) bool { return s.Bytes == minBytes })
	wider := func(a, b llm.Model) int { return cmp.Compare(a.Hidden, b.Hidden) }
	widest := slices.MaxFunc(append(modelsOf(rows), llm.Model{}), wider)
	if tokens := minBytes / max(widest.Message(1), 1); widest.Hidden > 0 && tokens > model.MaxDecode {
		add(smallest, "- **No decode step:** the smallest message, %s, is %d tokens of %s, a long "+
			"prefill; a decode step has one token for each sequence (%s at batch 1). "+
			"These times do not tell what decoding costs.", unit.FormatBytes(minBytes), tokens, widest.Title,
			unit.FormatBytes(widest.Message(1)))
	}
	if missing := missingProvenance(rows); len(missing) > 0 {
		add(samples, "- **Provenance:** of %d imported times the file does not say %s, so nobody can "+
			"repeat them.", len(samples), strings.Join(missing, " and "))
	}
	return lines
}

// missingProvenance returns what a file of imported times does not say about them. It
// returns nil if the file names a host, device or source, or nothing was imported.
func missingProvenance(rows dataset.Set) []string {
	missing := []string{"on which machine, by whom, when and with which build and driver they were taken"}
	timed := lists.Filter(timedRows(rows), func(r *journal.Row) bool { return r.Status == journal.OK })
	known := func(r *journal.Row) bool {
		return r.Host != "" || r.Details["device"] != "" || r.Details["source"] != "" || r.Details["tool"] == ""
	}
	if len(timed) == 0 || slices.ContainsFunc(timed, known) {
		return nil
	}
	if !slices.ContainsFunc(timed, func(r *journal.Row) bool { return r.Samples > 0 }) {
		missing = append(missing, "from how many samples")
	}
	return missing
}

// checkSections lists the samples that contradict physical limits or each other. If there are none,
// the summary says so.
func (r *results) checkSections() []bench.Section {
	if len(r.warnings) == 0 {
		return nil
	}
	text := "Notes that prevent a wrong conclusion. The numbers themselves are not in doubt.\n"
	if contradicted(r.warnings) {
		text = "Some of these numbers contradict physics or each other. Do not rely on them before they are explained.\n"
	}
	s := bench.Section{Title: "Physics checks", Text: text}
	for _, w := range r.warnings {
		kind := "**" + w.Kind + "**: "
		if w.Note {
			kind = "note, " + w.Kind + ": "
		}
		s.Sentences = append(s.Sentences, cite("warning", w.Rows, "- %s%s", kind, w.Text))
	}
	return []bench.Section{s}
}
