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
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// advice is one recommendation.
type advice struct {
	gain float64 // predicted speedup; +Inf sorts before everything else
	text string
	rows dataset.Set
}

const (
	minGain       = 1.05 // smaller speedups are not mentioned
	wrongPathGain = 10.0 // a gap this large is not the kernel's fault: the data takes another path
)

// recommend derives recommendations from the resolved comparisons, sorted by predicted gain.
func recommend(r *results) (out []advice) {
	t := count(r.cells)
	if t.failed > 0 {
		out = append(out, advice{math.Inf(1), fmt.Sprintf("Fix the %s first: times of wrong results mean nothing.",
			unit.Counted(t.failed, "failed cell", "failed cells")), decisive(r.cells)})
	}
	if t.required > 0 {
		out = append(out, advice{math.MaxFloat64,
			fmt.Sprintf("Run the %s that did not run: until then their results are unknown.",
				unit.Plural(t.required, "required cell")), nil})
	}
	for _, w := range r.warnings {
		if w.Kind == model.Identical {
			out = append(out, advice{math.MaxFloat64, "Find out which path ran (kernel names, traffic counters) before " +
				"comparing " + w.Subject + ": their times are identical.", w.Rows})
		}
	}
	for _, g := range bySetting(lists.Filter(r.contests, contest.resolved)) {
		for _, a := range slices.Concat(autoAdvice(g.Items), limitAdvice(g.Items[len(g.Items)-1]), lossyAdvice(g.Items)) {
			a.rows = rowsOf(comparable(g.Items))
			a.text = settingName(g.Key) + ": " + a.text
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b advice) int { return cmp.Compare(b.gain, a.gain) })
	return out
}

// autoAdvice recommends the tuning table if auto chose another algorithm than the best
// and was significantly slower. In the mean, all other sizes count with a ratio of 1.
func autoAdvice(list []contest) []advice {
	logs, n := 0.0, 0
	worst, where := 1.0, ""
	for _, c := range list {
		best := c.samples[0]
		for _, a := range c.others {
			if a.Algorithm != matrix.Auto || !a.Comparable() {
				continue
			}
			n++
			if a.Executed == "" || a.Executed == best.Algorithm || !a.Slower(best) {
				continue
			}
			ratio := a.TimeUS / best.TimeUS
			logs += math.Log(ratio)
			if ratio > worst {
				worst = ratio
				where = fmt.Sprintf("at %s, where auto took %s (%s) and %s takes %s", unit.FormatBytes(c.bytes), a.Executed,
					formatTime(a), best.Algorithm, formatTime(best))
			}
		}
	}
	mean := math.Exp(logs / float64(n))
	if where == "" || mean < minGain {
		return nil
	}
	on := "this host"
	if dist.Describe(list[0].setting.Backend).Has(dist.OnDevice) {
		on = "GPUs of this kind"
	}
	return []advice{{mean, fmt.Sprintf("give auto this run's `tuning.json` on %s: %.2fx over all sizes "+
		"in the geometric mean, %.2fx %s.", on, mean, worst, where), nil}}
}

// formatTime formats the median time of several launches with their range, or a computed time.
func formatTime(s model.Sample) string {
	if s.LowUS <= 0 {
		return unit.FormatMicros(s.TimeUS)
	}
	return fmt.Sprintf("%s (%s to %s in %s)", unit.FormatMicros(s.TimeUS), unit.FormatMicros(s.LowUS),
		unit.FormatMicros(s.HighUS), unit.Counted(s.Launches, "launch", "launches"))
}

// limitAdvice states how far the fastest algorithm is from the limit of the least traffic that
// any algorithm needs. c is the contest at the largest size.
func limitAdvice(c contest) []advice {
	best := c.samples[0]
	name, own := best.Ceiling(true)
	us := cmp.Or(c.commonLimit(name), own)
	if us <= 0 || best.TimeUS/us < minGain {
		return nil
	}
	gain := best.TimeUS / us
	text := fmt.Sprintf("at %s the fastest, %s, reaches %s of %s", unit.FormatBytes(c.bytes), c.winner(),
		formatShare(us, best.TimeUS), name)
	if gain > wrongPathGain {
		return []advice{{gain, fmt.Sprintf("%s, %.0fx too slow: find out which path the data takes (through host memory, "+
			"a slower link, a copy) before changing the kernel.", text, gain), nil}}
	}
	return []advice{{gain, fmt.Sprintf("%s; a better kernel could be up to %.2fx faster.", text, gain), nil}}
}

// lossyAdvice names the size at which a quantised all-reduce gains most.
func lossyAdvice(list []contest) []advice {
	best := advice{gain: minGain}
	for _, c := range list {
		for _, s := range c.others {
			gain := c.samples[0].TimeUS / s.TimeUS
			if lossy(s.Algorithm) && s.Comparable() && c.samples[0].Slower(s) && gain >= best.gain {
				best = advice{gain, fmt.Sprintf("where its error bound is acceptable, %s is %.2fx faster at %s.", s.Algorithm, gain,
					unit.FormatBytes(c.bytes)), nil}
			}
		}
	}
	return lists.Filter([]advice{best}, func(a advice) bool { return a.text != "" })
}

// adviceSections lists the recommendations. If there are times but nothing to
// recommend, the section is one line.
func adviceSections(r *results) []bench.Section {
	s := bench.Section{Title: "Recommendations", Lead: true}
	switch resolved := lists.Filter(r.contests, contest.resolved); {
	case len(r.advice) > 0:
		s.Text = "Sorted by predicted gain.\n"
		for i, a := range r.advice[:min(len(r.advice), 12)] {
			s.Sentences = append(s.Sentences, cite("advice", a.rows, "%d. %s", i+1, a.text))
		}
	case len(r.contests) > 0 && len(resolved) == 0:
		s.Text = "Not resolved: " + notResolved(r.contests) + "."
	case len(r.contests) > 0:
		s.Text = fmt.Sprintf("None: these times show no gain of %.2fx or more beyond their noise.", minGain)
	default:
		return nil
	}
	return []bench.Section{s}
}

// gapSections lists the tests to add, and what this run does not cover.
func gapSections(rows dataset.Set, cells []cell, samples []model.Sample) (out []bench.Section) {
	if lines := testsToAdd(rows, cells); len(lines) > 0 {
		out = append(out, bench.Section{Title: "Tests to add",
			Text: "From the cells that did not run:\n\n" + strings.Join(lines, "\n")})
	}
	return append(out, bench.Section{Title: "Coverage gaps",
		Text: "This run says nothing about:\n\n" + strings.Join(notCovered(rows, cells, samples), "\n")})
}

// testsToAdd groups the cells and timed rows that did not run by reason.
func testsToAdd(rows dataset.Set, cells []cell) (lines []string) {
	var all []string
	for _, c := range cells {
		if c.status != journal.NotExecuted {
			continue
		}
		reason, algorithm := c.reason, c.coord("algorithm")
		if c.row == nil {
			reason = fmt.Sprintf("%s with %s ranks: %s", c.part, c.coord(bench.RanksAxis), c.reason)
		} else if hardware := matrix.Find(algorithm).Hardware; hardware != "" {
			reason = algorithm + ": on a machine with " + hardware
		}
		all = append(all, reason)
	}
	for _, r := range rows {
		if r.Part == matrix.Performance && (r.Status == journal.Skipped || r.Status == journal.NotExecuted) {
			all = append(all, "times: "+string(r.Reason))
		}
	}
	for _, g := range lists.GroupBy(all, func(reason string) string { return reason }) {
		lines = append(lines, fmt.Sprintf("- %s (%s)", g.Key, unit.Plural(len(g.Items), "cell")))
	}
	return lines
}

// notCovered compares the run with the full profile.
func notCovered(rows dataset.Set, cells []cell, samples []model.Sample) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, "- "+fmt.Sprintf(format, args...)) }
	timed := func(match func(s model.Sample) bool) bool { return slices.ContainsFunc(samples, match) }
	ran := lists.Filter(inPart(cells, matrix.Correctness),
		func(c cell) bool { return c.status == journal.OK || c.status.Bad() })
	if len(ran) == 0 {
		add("correctness: no cell of the matrix ran, so nothing is known about it")
	} else if sizes := distinct(ran, byCoord("sizes")); !slices.Contains(sizes, matrix.Full) &&
		!slices.Contains(sizes, matrix.Wide) {
		add("correctness at sizes outside the quick profile, especially above 1 MiB (`--profile full`)")
	}
	if len(samples) == 0 {
		add("times: none were taken")
	} else {
		bytes := lists.Map(samples, func(s model.Sample) int64 { return s.Bytes })
		if low, high := slices.Min(bytes), slices.Max(bytes); low > 1<<10 || high < 512<<20 {
			add("times outside %s to %s (the full profile has 1Ki to 512Mi)", unit.FormatBytes(low), unit.FormatBytes(high))
		}
		for _, n := range []int{2, 3, 4, 8} {
			if !timed(func(s model.Sample) bool { return s.Ranks == n }) {
				add("times with %d ranks", n)
			}
		}
		if !timed(func(s model.Sample) bool { return s.InPlace }) {
			add("times in place, as torch's all_reduce is called (`--inplace false,true`, or the full profile)")
		}
		for _, d := range []string{"bf16", "f16", "f32"} {
			if !timed(func(s model.Sample) bool { return s.DType == d }) {
				add("times of %s", d)
			}
		}
	}
	backends := lists.NonEmpty(lists.Distinct(lists.Map(rows, func(r *journal.Row) string { return r.Backend }))...)
	for _, name := range lists.Distinct(slices.Concat(lists.Map(backends, matrix.Offered)...)) {
		why := matrix.Find(name).Untimed
		if len(ran) > 0 && why != "" && !timed(func(s model.Sample) bool { return s.Algorithm == name }) {
			add("times of %s: %s (`--algorithm %s`)", name, why, name)
		}
	}
	add("several hosts, other loads on the machine, and calls that overlap with computation")
	if len(backends) == 1 {
		add("backends other than %s", backends[0])
	}
	if plantedFault(rows) != "" {
		add("the all-reduce itself: a fault was planted in this run")
	}
	return lines
}
