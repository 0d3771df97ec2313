package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// advice is something to do, with the factor by which times would fall.
type advice struct {
	gain float64 // +Inf: before anything else
	text string
}

const (
	worthwhile = 1.05 // the least gain that is worth a line
	elsewhere  = 10.0 // no kernel is so bad: the data takes another way
)

// recommend ranks what follows from the rows by what it would bring.
func recommend(cells []cell, samples []model.Sample) (out []advice) {
	if t := countOf(cells); t.failed > 0 {
		out = append(out, advice{math.Inf(1),
			fmt.Sprintf("Mend the %s first: times of wrong results mean nothing.",
				unit.Counted(t.failed, "cell that failed", "cells that failed"))})
	}
	if t := countOf(cells); t.required > 0 {
		out = append(out, advice{math.MaxFloat64,
			fmt.Sprintf("Run the %s that did not: until then nobody knows.", unit.Plural(t.required, "required cell"))})
	}
	for _, w := range model.Check(samples) {
		if w.Kind == model.Identical {
			out = append(out, advice{math.MaxFloat64,
				"Show which path ran (names of kernels, counters of traffic) before comparing " + w.Subject +
					": their times are identical."})
		}
	}
	for _, set := range settings(samples) {
		mine := inSetting(samples, set)
		out = append(out, autoAdvice(set, mine)...)
		out = append(out, limitAdvice(set, mine)...)
		out = append(out, lossyAdvice(set, mine)...)
	}
	slices.SortStableFunc(out, func(a, b advice) int { return cmp.Compare(b.gain, a.gain) })
	return out
}

// at finds a sample of a setting.
func at(samples []model.Sample, algorithm string, bytes int64) (model.Sample, bool) {
	return lists.First(samples, func(s model.Sample) bool { return s.Algorithm == algorithm && s.Bytes == bytes })
}

// autoAdvice says where auto took another algorithm than the best, and was slower
// beyond doubt. Sizes at which it was not count as equal.
func autoAdvice(set model.Series, samples []model.Sample) []advice {
	sum, n := 0.0, 0
	worst, where := 1.0, ""
	for _, c := range model.Best(exactSamples(samples)) {
		a, ok := at(samples, matrix.Auto, c.Bytes)
		if !ok {
			continue
		}
		n++
		best, _ := at(samples, c.Best, c.Bytes)
		if a.Executed == "" || a.Executed == c.Best || !a.Slower(best) {
			continue
		}
		ratio := a.TimeUS / c.TimeUS
		sum += math.Log(ratio)
		if ratio > worst {
			worst = ratio
			where = fmt.Sprintf("at %s, where auto took %s (%s) and %s takes %s", unit.FormatBytes(c.Bytes), a.Executed,
				timeOf(a), c.Best, timeOf(best))
		}
	}
	if where == "" {
		return nil
	}
	mean := math.Exp(sum / float64(n))
	if mean < worthwhile {
		return nil
	}
	on := "this host"
	if dist.Describe(set.Backend).Has(dist.OnDevice) {
		on = "GPUs of this kind"
	}
	return []advice{{mean, fmt.Sprintf("%s: give auto the table `tuning.json` of this run on %s: %.2fx over all sizes "+
		"in the geometric mean, %.2fx %s.",
		settingOf(set), on, mean, worst, where)}}
}

// timeOf is a time with its interval and the number of its samples.
func timeOf(s model.Sample) string {
	if s.LowUS <= 0 {
		return unit.FormatMicros(s.TimeUS)
	}
	return fmt.Sprintf("%s, 95 %% from %s to %s, %s", unit.FormatMicros(s.TimeUS), unit.FormatMicros(s.LowUS),
		unit.FormatMicros(s.HighUS), unit.Plural(s.Samples, "sample"))
}

// limitAdvice says how far the best algorithm of the largest size is from the
// ceiling that counts there.
func limitAdvice(set model.Series, samples []model.Sample) []advice {
	choices := model.Best(exactSamples(samples))
	if len(choices) == 0 {
		return nil
	}
	c := choices[len(choices)-1]
	s, _ := at(samples, c.Best, c.Bytes)
	name, us := s.Ceiling(true)
	if us <= 0 || s.TimeUS/us < worthwhile {
		return nil
	}
	gain, doubt := s.TimeUS/us, ""
	if !s.Settled() {
		doubt = " (an indication: this time has not settled)"
	}
	if gain > elsewhere {
		return []advice{{gain, fmt.Sprintf("%s: at %s the fastest, %s, reaches %s of %s, %.0fx too slow: find out which "+
			"way the data goes (through host memory, a slower link, a copy) before touching the kernel%s.",
			settingOf(set), unit.FormatBytes(c.Bytes), c.Best, share(us, s.TimeUS), name, gain, doubt)}}
	}
	return []advice{{gain, fmt.Sprintf("%s: at %s the fastest, %s, reaches %s of %s; up to %.2fx is left for a "+
		"better kernel%s.",
		settingOf(set), unit.FormatBytes(c.Bytes), c.Best, share(us, s.TimeUS), name, gain, doubt)}}
}

// lossyAdvice says where the quantised all-reduce would be faster.
func lossyAdvice(set model.Series, samples []model.Sample) []advice {
	best, where, of := 1.0, int64(0), ""
	for _, c := range model.Best(exactSamples(samples)) {
		exact, _ := at(samples, c.Best, c.Bytes)
		for _, s := range samples {
			if lossy(s.Algorithm) && s.Bytes == c.Bytes && exact.Slower(s) && c.TimeUS/s.TimeUS > best {
				best, where, of = c.TimeUS/s.TimeUS, c.Bytes, s.Algorithm
			}
		}
	}
	if best < worthwhile {
		return nil
	}
	return []advice{{best, fmt.Sprintf("%s: where its error bound is acceptable, %s is %.2fx faster at %s.",
		settingOf(set), of, best, unit.FormatBytes(where))}}
}

// adviceSections has a section for times that give no reason to act, too: a reader who
// finds none would not know whether anybody looked.
func adviceSections(list []advice, samples []model.Sample) []bench.Section {
	var text string
	switch {
	case len(list) > 0:
		var lines []string
		for i, a := range list[:min(len(list), 12)] {
			lines = append(lines, fmt.Sprintf("%d. %s", i+1, a.text))
		}
		text = "In order of what each is predicted to bring.\n\n" + strings.Join(lines, "\n")
	case len(samples) > 0:
		text = fmt.Sprintf("None: these times show nothing that would bring %.2fx or more beyond their noise.", worthwhile)
	default:
		return nil
	}
	return []bench.Section{{Title: "Recommendations", Lead: true, Text: text}}
}

// gaps are the tests to add and what this run says nothing about.
func gapSections(rows []journal.Row, cells []cell, samples []model.Sample) []bench.Section {
	var out []bench.Section
	if lines := testsToAdd(rows, cells); len(lines) > 0 {
		out = append(out, bench.Section{Title: "Tests to add",
			Text: "From the cells that did not run:\n\n" + strings.Join(lines, "\n")})
	}
	out = append(out, bench.Section{Title: "Coverage gaps",
		Text: "What nothing here speaks of:\n\n" + strings.Join(notCovered(rows, cells, samples), "\n")})
	return out
}

// testsToAdd groups cells that were not executed, and rows that were left out, by
// reason.
func testsToAdd(rows []journal.Row, cells []cell) (lines []string) {
	var all []string
	add := func(what string) { all = append(all, what) }
	for _, c := range cells {
		if c.status != journal.NotExecuted {
			continue
		}
		switch {
		case c.row == nil:
			add(fmt.Sprintf("%s with %s ranks: %s", c.part, c.coord(bench.RanksAxis), c.reason))
		case matrix.Find(c.coord("algorithm")).Hardware != "":
			add(c.coord("algorithm") + ": on a machine with " + matrix.Find(c.coord("algorithm")).Hardware)
		default:
			add(c.reason)
		}
	}
	for _, r := range rows {
		if r.Part == matrix.Performance && (r.Status == journal.Skipped || r.Status == journal.NotExecuted) {
			add("times: " + r.Reason)
		}
	}
	for _, g := range lists.GroupBy(all, func(what string) string { return what }) {
		lines = append(lines, fmt.Sprintf("- %s (%s)", g.Key, unit.Plural(len(g.Items), "cell")))
	}
	return lines
}

// untimed are the algorithms that are checked and, for a reason, not timed.
func untimed(samples []model.Sample) (lines []string) {
	for _, name := range matrix.Algorithms() {
		timed := slices.ContainsFunc(samples, func(s model.Sample) bool { return s.Algorithm == name })
		if why := matrix.Find(name).Untimed; why != "" && !timed {
			lines = append(lines, fmt.Sprintf("- times of %s: %s (`--algorithm %s`)", name, why, name))
		}
	}
	return lines
}

// notCovered compares the run with what the full profile has.
func notCovered(rows []journal.Row, cells []cell, samples []model.Sample) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, "- "+fmt.Sprintf(format, args...)) }
	ran := lists.Filter(cells, func(c cell) bool { return c.status == journal.OK || c.status.Bad() })
	mine := lists.Filter(ran, inPart(matrix.Correctness))
	if len(mine) == 0 {
		add("correctness: no cell of the matrix ran, so nothing is known about it")
	} else if sizes := values(mine, byCoord("sizes")); !slices.Contains(sizes, matrix.Full) &&
		!slices.Contains(sizes, matrix.Wide) {
		add("correctness at other sizes than those of the quick profile, above all beyond 1 MiB (`--profile full`)")
	}
	if len(samples) == 0 {
		add("times: none were taken")
	} else {
		bytes := lists.Map(samples, func(s model.Sample) int64 { return s.Bytes })
		if low, high := slices.Min(bytes), slices.Max(bytes); low > 1<<10 || high < 512<<20 {
			add("times outside %s to %s (the full profile has 1Ki to 512Mi)", unit.FormatBytes(low), unit.FormatBytes(high))
		}
		for _, n := range []int{2, 3, 4, 8} {
			if !slices.ContainsFunc(samples, func(s model.Sample) bool { return s.Ranks == n }) {
				add("times with %d ranks", n)
			}
		}
		if !slices.ContainsFunc(samples, func(s model.Sample) bool { return s.InPlace }) {
			add("times in place, as torch's all_reduce is called (`--inplace false,true`, or the full profile)")
		}
		for _, d := range []string{"bf16", "f16", "f32"} {
			if !slices.ContainsFunc(samples, func(s model.Sample) bool { return s.DType == d }) {
				add("times of %s", d)
			}
		}
	}
	if len(mine) > 0 {
		lines = append(lines, untimed(samples)...)
	}
	add("several hosts, other loads on the machine, and calls that overlap with computation")
	backends := lists.Distinct(lists.Map(rows, func(r journal.Row) string { return r.Backend }))
	if len(backends) == 1 {
		add("other backends than %s", backends[0])
	}
	if injected(rows) != "" {
		add("the all-reduce itself: a fault was planted in this run")
	}
	return lines
}
