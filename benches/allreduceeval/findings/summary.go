// Package findings says what the rows of the bench allreduce-eval mean: cells
// counted and laid out in grids, times fitted and held against their limits,
// figures, recommendations, and what nobody knows. It makes text and figures of
// rows and runs nothing.
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
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// claimsPart is the part of imported rows that judge claims.
const claimsPart = "claims"

// timedRows are those that samples are taken from, so that the indices of
// warnings fit.
func timedRows(rows []journal.Row) []journal.Row {
	return lists.Filter(rows, func(r journal.Row) bool { return r.Part == matrix.Performance || r.Part == "" })
}

// Sections is the report in words: what is known, what it means, what to do,
// and what nobody knows, in the order in which a reader with little time needs it.
// Rows that are declared and not there are required cells that did not run.
func Sections(rows []journal.Row, declared []plan.Task) []bench.Section {
	cells := cellsOf(rows, declared)
	samples := model.SamplesOf(timedRows(rows))
	curves := model.Fit(samples)
	warnings := model.Check(samples)
	advice := recommend(cells, samples)
	out := []bench.Section{{Title: "In short", Lead: true, Text: inShort(rows, cells, samples, curves, warnings, advice)}}
	return slices.Concat(out, claimSections(rows), adviceSections(advice, samples), inferenceSections(rows, samples),
		matrixSections(cells),
		testTable(cells), contractSections(cells), failureSections(cells), checkSections(warnings, len(samples)),
		bestSections(samples), fitSections(curves), timeSections(samples), gapSections(rows, cells, samples))
}

// inShort is what somebody with one minute must know, each sentence made from
// the rows.
func inShort(rows []journal.Row, cells []cell, samples []model.Sample, curves []model.Curve, warnings []model.Warning,
	advice []advice) string {
	lines := append([]string{verdictLine(rows, cells, samples)}, claimLine(rows)...)
	add := func(format string, args ...any) { lines = append(lines, "- "+fmt.Sprintf(format, args...)) }
	if v := injected(rows); v != "" {
		add("**A fault was planted** (`%s`): red cells are what this run should show.", v)
	}
	add("**Correctness:** %s", correctnessLine(cells))
	for _, part := range []struct{ name, title string }{{matrix.Contracts, "Contracts on bits"},
		{matrix.Errors, "Mistakes and failures"}} {
		if t := countOf(lists.Filter(cells, inPart(part.name))); t != (counts{}) {
			holds := "all hold that are promised"
			if part.name == matrix.Errors {
				holds = "all are noticed by every rank, in time"
			}
			add("**%s:** %s (%s).", part.title, partState(t, holds), t)
		}
	}
	if n, why := missingTimes(rows); n > 0 {
		add("**Not measured:** %s executed, so nothing has passed there (%s).",
			unit.Counted(n, "required point was never", "required points were never"), strings.Join(why, "; "))
	}
	lines = append(append(append(lines, warningLines(warnings, len(samples))...), tableLines(rows, samples)...),
		choiceLines(samples)...)
	lines = append(lines, timeLines(samples, curves)...)
	if len(advice) > 0 {
		add("**Next:** %s", advice[0].text)
	}
	return strings.Join(lines, "\n")
}

// missingTimes counts the timed points that should have run and did not, with the reasons.
func missingTimes(rows []journal.Row) (n int, why []string) {
	for _, r := range timedRows(rows) {
		if r.Status == journal.NotExecuted && !r.Optional {
			n++
			if len(why) < 3 && !slices.Contains(why, r.Reason) {
				why = append(why, r.Reason)
			}
		}
	}
	return n, why
}

// planted names the fault of --mutate.
func injected(rows []journal.Row) string {
	for _, r := range rows {
		if v, has := r.Options.Get("mutate"); has && v.String() != matrix.NoFault {
			return v.String()
		}
	}
	return ""
}

func correctnessLine(cells []cell) string {
	mine := lists.Filter(cells, inPart(matrix.Correctness))
	t := countOf(mine)
	switch {
	case t.ran() == 0:
		return "no cell of the matrix ran, so nothing is known. Numbers without it are times of an unknown computation."
	case t.failed > 0:
		first := lists.Filter(mine, func(c cell) bool { return c.status.Bad() })[0]
		where := first.name
		if first.row != nil {
			where = fmt.Sprintf("%s, size %s", first.at, first.name)
		}
		return fmt.Sprintf("**wrong results.** %s. First: %s: %s", t, where, first.reason)
	case t.required > 0:
		return fmt.Sprintf("not shown. What ran is right, but required cells did not run: %s.", t)
	}
	line := fmt.Sprintf("all passed. Every required cell ran: %s.", t)
	if t.missing > 0 {
		why := values(lists.Filter(mine, func(c cell) bool { return c.status == journal.NotExecuted }), byCoord("algorithm"))
		line += fmt.Sprintf(" Those not executed (%s) need what this backend lacks.", strings.Join(why, ", "))
	}
	return line
}

// timeLines say, for each setting, what decides the time and how far the limit is.
func timeLines(samples []model.Sample, curves []model.Curve) (lines []string) {
	for _, set := range settings(exactSamples(samples)) {
		mine := inSetting(exactSamples(samples), set)
		if named := lists.Filter(mine, func(s model.Sample) bool { return s.Algorithm != matrix.Auto }); len(named) > 0 {
			mine = named // else only what the backend takes by itself
		}
		settled := lists.Filter(mine, model.Sample.Settled)
		if len(settled) > 0 {
			mine = settled
		}
		best := slices.MinFunc(mine, func(a, b model.Sample) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.TimeUS, b.TimeUS))
		})
		line := fmt.Sprintf("- **Speed, %s:** at %s the fastest is %s with %s, a busbw of %s GB/s", settingOf(set),
			unit.FormatBytes(best.Bytes),
			best.Algorithm, timeOf(best), unit.FormatSig(best.BusBW(), 3))
		if len(settled) == 0 {
			line += " (an indication: no time here has a narrow 95 % interval)"
		}
		switch name, us := best.Ceiling(true); {
		case us <= 0:
			line += ", with no ceiling to hold it against"
		case best.AboveLimit():
			line += fmt.Sprintf(", **%s of the limit %s, which cannot be**: that limit or this time is wrong",
				share(us, best.TimeUS), name)
		case us > best.TimeUS:
			line += fmt.Sprintf(", %s of the limit %s, which is as much as such a limit may be off", share(us, best.TimeUS),
				name)
		default:
			line += fmt.Sprintf(", %s of the limit %s", share(us, best.TimeUS), name) + otherRates(best, name)
		}
		for _, c := range curves {
			if c.Series == best.Series && c.Fitted() {
				line += "; " + c.Bounds()
			}
		}
		lines = append(lines, line+".")
	}
	return lines
}

// otherRates is the share of the other rates that the link of a limit is known by, since
// people divide by each of them.
func otherRates(s model.Sample, limit string) (text string) {
	link, _ := model.LinkOf(limit)
	for _, c := range link.Ceilings() {
		if us, has := s.Limits[c.Name]; has && c.Name != limit {
			text += fmt.Sprintf(", %s of %s", share(us, s.TimeUS), c.Name)
		}
	}
	return text
}

// Exports writes the table that algorithm=auto reads.
func Exports(rows []journal.Row) ([]bench.File, error) {
	own := tunable(model.SamplesOf(timedRows(rows)))
	if len(own) == 0 {
		return nil, nil
	}
	table, err := model.Tuning(own)
	if err != nil {
		return nil, err
	}
	return []bench.File{{Name: "tuning.json", Data: table}}, nil
}

// tunable are the samples of algorithms that a table may choose from, beside what auto
// took; none where nothing tells on which memory they were measured.
func tunable(samples []model.Sample) []model.Sample {
	out := lists.Filter(exactSamples(samples), func(s model.Sample) bool {
		named := slices.Contains(schedule.Names(schedule.AllReduce), s.Algorithm)
		return s.Buffers != "" && (named || s.Algorithm == matrix.Auto)
	})
	if !slices.ContainsFunc(out, func(s model.Sample) bool { return s.Algorithm != matrix.Auto }) {
		return nil
	}
	return out
}
