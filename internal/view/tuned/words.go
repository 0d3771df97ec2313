// Package tuned presents the result of a study of package tune: as text, as sections and figures of
// a report, and as configuration files. It only formats the result stored in the journal.
package tuned

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/verdict"
)

// Load returns the latest result that the notes of a run have, or nil if there is none.
func Load(run *dataset.Dataset) (*tune.Result, error) {
	for _, n := range slices.Backward(run.Notes) {
		if len(n.Tuned) == 0 {
			continue
		}
		var r tune.Result
		if err := json.Unmarshal(n.Tuned, &r); err != nil {
			return nil, fmt.Errorf("reading what run %s found: %w", run.ID(), err)
		}
		return &r, nil
	}
	return nil, nil
}

// Note returns the result as a note for the journal, with its headlines as text.
func Note(r tune.Result) (journal.Note, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return journal.Note{}, fmt.Errorf("recording what was found: %w", err)
	}
	lines := lists.Map(r.Findings, func(f tune.Finding) string { return story{r: r, f: f}.headline() })
	const maxLines = 3
	if len(lines) > maxLines {
		lines = append(lines[:maxLines], fmt.Sprintf("and %d more winners", len(lines)-maxLines))
	}
	return journal.Note{Text: journal.Text("tuned: " + strings.Join(lines, "; ")), Tuned: data}, nil
}

// Text formats the whole result for a terminal. rows are the rows of the study.
func Text(r tune.Result, rows dataset.Set) string {
	var b strings.Builder
	for i, f := range r.Findings {
		s := story{r, f, rows}
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, line := range s.lines() {
			fmt.Fprintln(&b, texttab.Plain(line))
		}
	}
	if found := lists.Map(statements(r), texttab.Plain); len(found) > 0 {
		fmt.Fprintf(&b, "\nto use it:\n%s\n", strings.Join(found, "\n"))
	}
	return b.String()
}

// story formats one finding of a result.
type story struct {
	r    tune.Result
	f    tune.Finding
	rows dataset.Set // of the whole study
}

// name describes a setting by its values, and marks the default.
func (s story) name(setting int) string {
	levels := s.f.Levels[setting]
	if setting == s.f.Default {
		return "the default (" + s.values(levels) + ")"
	}
	return s.values(levels)
}

func (s story) values(levels []int) string {
	var parts []string
	for v, l := range levels {
		parts = append(parts, Level(s.r.Variables[v], l))
	}
	return strings.Join(parts, " ")
}

// Level formats a level of a variable.
func Level(v tune.Variable, level int) string {
	var parts []string
	for i, n := range v.Names {
		if v.Unset[level][i] {
			parts = append(parts, n+" unset")
		} else {
			parts = append(parts, n+"="+v.Values[level][i])
		}
	}
	return strings.Join(parts, " ")
}

// percent converts a log ratio to a change of the metric in percent.
func (s story) percent(log float64) float64 {
	if s.r.Maximise {
		log = -log
	}
	return 100 * math.Expm1(log)
}

// change formats the metric's change with its interval.
func (s story) change(i judge.Interval) string {
	if !i.Known {
		return fmt.Sprintf("%+.1f %% (%s: too few for an interval)", s.percent(i.Mid), unit.Plural(i.Count, "pair"))
	}
	low, high := s.percent(i.Low), s.percent(i.High)
	return fmt.Sprintf("%+.1f %% (95 %% interval %+.1f to %+.1f %%)", s.percent(i.Mid), min(low, high), max(low, high))
}

// Gained reports whether the confirmation shows that the best setting is better than the default.
func Gained(f tune.Finding) bool {
	c := f.Answer.Confirmed
	return c != nil && c.Verdict() == judge.Faster && f.Answer.Done
}

// headline states the result in one sentence. If the launches of the best setting have two modes, it
// gives both values, because no launch has the value in between.
func (s story) headline() string {
	if len(s.f.Answer.Modes) == 2 {
		return s.verdict() + "; " + s.modes()
	}
	return s.verdict()
}

func (s story) verdict() string {
	a, at := s.f.Answer, ""
	if s.f.Per != "" {
		at = s.f.Per + ": "
	}
	switch c := a.Confirmed; {
	case a.Best < 0 && len(a.Failed) == 0:
		return at + "nothing is known yet: no launch has ended"
	case a.Best < 0:
		return at + "no setting works: " + s.reasons()
	case a.Best == s.f.Default && !a.Done:
		return at + "so far nothing is better than " + s.name(a.Best)
	case a.Best == s.f.Default:
		return at + "nothing better was found than " + s.name(a.Best)
	case s.singleLaunch():
		return fmt.Sprintf("%snot resolved: the fastest launch was with %s, but one launch does not show how launches "+
			"differ", at, s.name(a.Best))
	case !a.Done:
		return fmt.Sprintf("%sbest so far, not confirmed: %s (%s %+.1f %% by the launches that chose it)", at,
			s.name(a.Best), s.r.Metric, s.percent(a.Expected))
	case c == nil && s.defaultFailed() != "":
		return fmt.Sprintf("%sbest is %s; it was not compared with the default%s", at, s.name(a.Best), s.defaultFailed())
	case c == nil:
		return fmt.Sprintf("%sbest so far is %s, not confirmed: nothing was left to compare it with the default", at,
			s.name(a.Best))
	case Gained(s.f):
		return fmt.Sprintf("%sbest is %s: %s %s against the default", at, s.name(a.Best), s.r.Metric, s.change(*c))
	case !c.Known:
		return fmt.Sprintf("%snot confirmed: the limit of time or launches was reached after %s of %s and the default, too "+
			"few to tell them apart (%s %+.1f %%)",
			at, unit.Plural(c.Count, "pair"), s.name(a.Best), s.r.Metric, s.percent(c.Mid))
	case c.Verdict() == judge.Slower:
		return fmt.Sprintf("%snothing better was found than %s: with the best of the others, %s, %s changes by %s", at,
			s.name(s.f.Default), s.name(a.Best), s.r.Metric, s.change(*c))
	default:
		return fmt.Sprintf("%sno gain over the default is confirmed: with %s, %s changes by %s", at, s.name(a.Best),
			s.r.Metric, s.change(*c))
	}
}

// singleLaunch reports whether the best setting was chosen by only one launch.
func (s story) singleLaunch() bool {
	a := s.f.Answer
	return a.ChosenBy == 1 && (a.Confirmed == nil || !a.Done) && a.Rounds == 0
}

// reasons explains why all settings failed: the first reason, and how many have others.
func (s story) reasons() string {
	failed := s.f.Answer.Failed
	others := len(lists.Filter(failed, func(f tune.Failure) bool { return f.Reason != failed[0].Reason }))
	if others == 0 {
		return failed[0].Reason
	}
	return fmt.Sprintf("%s; %s for other reasons", failed[0].Reason, unit.Counted(others, "is out", "are out"))
}

func (s story) defaultFailed() string {
	f, failed := lists.First(s.f.Answer.Failed, func(f tune.Failure) bool { return f.Setting == s.f.Default })
	if !failed {
		return ""
	}
	return ", which fails: " + f.Reason
}

// lines returns the whole result, headline first.
func (s story) lines() (out []string) {
	a := s.f.Answer
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("%s", s.headline())
	if c := a.Confirmed; c != nil && a.Done {
		how := "measured in"
		if Gained(s.f) {
			how = "confirmed by"
		}
		add("  %s %s of new launches, which were not used for the choice", how, unit.Plural(c.Count, "pair"))
	}
	if l := a.Level; l != nil && s.f.Cells == 1 && len(a.Modes) != 2 { // the headline has the two modes
		add("  %s", s.level(*l))
	}
	if a.Best >= 0 {
		add("  %s", s.equals())
	}
	if a.Refuted {
		add("  the race and the confirmation disagree: by the race the default was slower beyond doubt (%s %+.1f %%); "+
			"the machine or the program changed in between, so the rest of the race is uncertain too", s.r.Metric,
			s.percent(a.Expected))
	}
	for _, line := range s.effects() {
		add("  %s", line)
	}
	if n := len(a.Failed); n > 0 {
		add("  excluded: %s", s.failures())
	}
	if n := s.f.Disturbed; n > 0 {
		add("  disturbed while measured: %d of %d rows (%s)", n, s.f.Rows, s.f.DisturbedBy.Sentence())
	}
	add("  cost: %s", s.cost())
	return out
}

// modes describes the two modes of the best setting.
func (s story) modes() string {
	values := lists.Map(s.f.Answer.Modes, func(m stats.Mode) float64 { return s.value(math.Log(m.Center)) })
	shares := lists.Map(s.f.Answer.Modes, func(m stats.Mode) float64 { return 100 * m.Share })
	if s.f.Cells > 1 { // the mean over several cells has no unit
		return fmt.Sprintf("its launches have two modes: %.0f %% of them take %.2f times as long as the others", shares[1],
			s.f.Answer.Modes[1].Center/s.f.Answer.Modes[0].Center)
	}
	return fmt.Sprintf("its launches have two modes: %s is %s in %.0f %% and %s in %.0f %% of them", s.r.Metric,
		s.withUnit(values[0]), shares[0], s.withUnit(values[1]), shares[1])
}

// value converts a logarithm of the objective to a value of the metric.
func (s story) value(log float64) float64 {
	if s.r.Maximise {
		log = -log
	}
	return math.Exp(log)
}

func (s story) withUnit(v float64) string {
	if s.r.Unit == "us" {
		return unit.FormatMicros(v)
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, unit.Symbol(s.r.Unit)))
}

// level formats the metric's value for the best setting.
func (s story) level(l judge.Interval) string {
	value := s.value
	text := s.r.Metric + " " + s.withUnit(value(l.Mid))
	if l.Known {
		low, high := value(l.Low), value(l.High)
		text += fmt.Sprintf(" (95 %% interval %s to %s)", s.withUnit(min(low, high)), s.withUnit(max(low, high)))
	}
	return text
}

// shown is the largest number of settings that a sentence lists.
const shown = 5

func (s story) list(settings []int) string {
	names := lists.Map(settings[:min(shown, len(settings))], s.name)
	if more := len(settings) - shown; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// equals lists the settings that may be as good as the best, or the reason why this is unknown.
func (s story) equals() string {
	a := s.f.Answer
	text := "no other setting of the race works"
	switch raceless := a.Rounds == 0 && a.Dropped == 0; {
	case raceless && (a.ChosenBy > 0 || len(a.Raced) == 0): // old journals record neither rounds nor ChosenBy
		why := "the limit of time or launches was reached before it"
		if !a.Done {
			why = "it was interrupted before that"
		}
		text = fmt.Sprintf("there was no race: %s, and this was chosen by %s of its own", why,
			unit.Counted(max(1, a.ChosenBy), "launch", "launches"))
		if len(a.Raced) > 0 {
			text += "; not separated from it by the search: " + s.list(a.Raced)
		}
	case len(a.Raced) > 0:
		text = "not separated from it by the search: " + s.list(a.Raced)
	case a.Dropped > 0:
		text = "all others of the race are slower beyond doubt"
	}
	if len(a.Open) > 0 {
		text += fmt.Sprintf("; outside the race, %s not ruled out by the model",
			unit.Counted(len(a.Open), "setting is", "settings are"))
	}
	return text
}

// race returns the rows of the finding's race.
func (s story) race() dataset.Set {
	return s.rows.Where(func(r *journal.Row) bool { return raceOf(r, s.r) == s.f.Per })
}

// effects describes the effect of each variable, by the verdict that runs have too.
func (s story) effects() []string {
	metric := journal.MetricInfo{Name: s.r.Metric, Unit: s.r.Unit, Better: "lower"}
	if s.r.Maximise {
		metric.Better = "higher"
	}
	return verdict.EffectsOf(lists.Map(s.r.Variables, func(v tune.Variable) []string { return v.Names }), s.race(),
		metric)
}

// failures lists the excluded settings by reason.
func (s story) failures() string {
	kinds := lists.GroupBy(s.f.Answer.Failed, func(f tune.Failure) string { return f.Reason })
	var parts []string
	for _, k := range kinds[:min(shown, len(kinds))] {
		settings := lists.Map(k.Items, func(f tune.Failure) int { return f.Setting })
		parts = append(parts, fmt.Sprintf("%s (%s)", s.list(settings), k.Items[0].Reason))
	}
	if more := len(kinds) - shown; more > 0 {
		parts = append(parts, unit.Counted(more, "more for another reason", "more for other reasons"))
	}
	return strings.Join(parts, "; ")
}

// few is the number of repeated launches below which their variation is not reported.
const few = 8

func (s story) cost() string {
	a, each := s.f.Answer, max(1, s.f.Each)
	text := fmt.Sprintf("%d launches over %d of %d settings; the full sweep at %d trials takes %d", a.Launches*each,
		a.Started, s.f.Size,
		tune.Trials, a.Full*each)
	switch {
	case a.Repeats > 0 && a.Repeats < few:
		text += fmt.Sprintf("; launches were repeated %d times, too few to show how much they differ", a.Repeats)
	case a.Noise > 0:
		text += fmt.Sprintf("; launches differ by %.1f %%", 100*math.Expm1(a.Noise))
	}
	if len(s.r.Findings) == 1 && a.Launches > 0 {
		took := time.Duration(s.r.Seconds * float64(time.Second))
		full := time.Duration(s.r.Seconds / float64(a.Launches) * float64(a.Full) * float64(time.Second))
		text += fmt.Sprintf("; the study took %v, the full sweep would take about %v", rounded(took), rounded(full))
	}
	return text
}

func rounded(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
