package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/views"
)

// cite returns a sentence and the rows that it rests on.
func cite(id string, rows dataset.Set, format string, args ...any) views.Sentence {
	return views.Sentence{ID: id, Text: fmt.Sprintf(format, args...), Rows: rows}
}

// rowsOf returns the rows behind samples.
func rowsOf(samples []model.Sample) (rows dataset.Set) {
	for _, s := range samples {
		rows = append(rows, s.Rows...)
	}
	return rows
}

// contest is the comparison of all exact algorithms in one setting at one size. Sentences
// about the fastest algorithm come from contests only.
type contest struct {
	setting model.Series
	bytes   int64
	samples []model.Sample // one for each named algorithm that has a time, the fastest first
	others  []model.Sample // auto and lossy algorithms, which do not compete
	// unresolved is the reason why the fastest is unknown: a candidate did not run, failed, has too few
	// launches or has not settled. It is "" if the fastest is known.
	unresolved string
}

// contests returns the contests of all settings and sizes, in that order. The candidates of
// a contest are all algorithms that the run timed on the same backend. An algorithm that was
// skipped there, or needs something that the backend lacks, is no candidate.
func contests(rows dataset.Set, samples []model.Sample) (list []contest) {
	type key struct {
		setting model.Series
		bytes   int64
	}
	for _, g := range lists.GroupBy(samples, func(s model.Sample) key { return key{s.Setting(), s.Bytes} }) {
		c := contest{setting: g.Key.setting, bytes: g.Key.bytes}
		for _, s := range g.Items {
			if competes(s.Algorithm) {
				c.samples = append(c.samples, s)
			} else {
				c.others = append(c.others, s)
			}
		}
		slices.SortStableFunc(c.samples, func(a, b model.Sample) int {
			return cmp.Or(cmp.Compare(a.TimeUS, b.TimeUS), cmp.Compare(a.Algorithm, b.Algorithm))
		})
		c.unresolved = c.whyUnresolved(rows)
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b contest) int {
		return cmp.Or(a.setting.Compare(b.setting), cmp.Compare(a.bytes, b.bytes))
	})
	return list
}

// competes reports whether an algorithm can be the fastest: it is named and exact.
func competes(algorithm string) bool {
	return algorithm != matrix.Auto && algorithm != "" && !lossy(algorithm)
}

// bySetting groups contests by setting.
func bySetting(list []contest) []lists.Group[model.Series, []contest] {
	return lists.GroupBy(list, func(c contest) model.Series { return c.setting })
}

// whyUnresolved returns the first reason why the fastest algorithm is not known.
func (c contest) whyUnresolved(rows dataset.Set) string {
	if why := c.absentee(rows); why != "" {
		return why
	}
	if len(c.samples) == 0 {
		return "no named algorithm ran"
	}
	if why := fewLaunches(c.samples); why != "" {
		return why
	}
	for _, s := range slices.SortedFunc(slices.Values(c.samples), byAlgorithm) {
		if !s.Settled() {
			return s.Algorithm + " has not settled"
		}
	}
	for _, s := range c.others {
		if s.Algorithm == matrix.Auto && s.Settled() && c.samples[0].Slower(s) {
			return fmt.Sprintf("auto took %s, less than every named algorithm", unit.FormatMicros(s.TimeUS))
		}
	}
	return ""
}

// absentee names the first candidate without a time, or returns "".
func (c contest) absentee(rows dataset.Set) string {
	absent, excused := map[string]string{}, map[string]bool{}
	for _, r := range rows.Where(isTimed) {
		name := dataset.Text(r, "algorithm")
		switch timed := func(s model.Sample) bool { return s.Algorithm == name }; {
		case r.Backend != c.setting.Backend, !competes(name), slices.ContainsFunc(c.samples, timed):
		case r.Status == journal.Skipped, r.Status == journal.NotExecuted && r.Optional:
			excused[name] = excused[name] || r.NumRanks == nil || *r.NumRanks == c.setting.Ranks
		case r.Status == journal.OK:
			absent[name] = name + " was not timed at every size and setting"
		default:
			absent[name] = cmp.Or(absent[name], name+" did not run")
		}
	}
	maps.DeleteFunc(absent, func(name, _ string) bool { return excused[name] })
	for _, name := range slices.Sorted(maps.Keys(absent)) {
		return absent[name]
	}
	return ""
}

func byAlgorithm(a, b model.Sample) int { return cmp.Compare(a.Algorithm, b.Algorithm) }

// oneLaunch is the reason why times from one launch each are not compared. Launches differ by
// more than the samples of one, so that the differences may be between launches.
const oneLaunch = "one launch each"

// fewLaunches returns why there are too few launches to compare the samples, or "". Times without
// an interval are not judged; they have not settled.
func fewLaunches(samples []model.Sample) string {
	samples = lists.Filter(samples, func(s model.Sample) bool { return s.LowUS > 0 })
	few := lists.Filter(samples, func(s model.Sample) bool { return !s.Repeated() })
	if len(few) == 0 {
		return ""
	}
	made := func(s model.Sample) int { return max(len(s.Rows), s.Launches) }
	first := slices.MinFunc(few, byAlgorithm)
	alike := func(s model.Sample) bool { return made(s) == made(first) }
	switch n := made(first); {
	case n > first.Launches:
		return fmt.Sprintf("%d of %d launches of %s were undisturbed, and %d are needed", first.Launches, n,
			first.Algorithm, judge.MinLaunches)
	case n == 1 && len(lists.Filter(samples, alike)) == len(samples):
		return oneLaunch
	default:
		return fmt.Sprintf("%s of %s, and %d are needed", unit.Counted(n, "launch", "launches"), first.Algorithm,
			judge.MinLaunches)
	}
}

// isTimed reports whether a row belongs to the times. Imported rows may have no part.
func isTimed(r *journal.Row) bool { return r.Part == matrix.Performance || r.Part == "" }

// resolved reports whether the fastest algorithm is known.
func (c contest) resolved() bool { return c.unresolved == "" }

// winners returns the names of the fastest algorithms: one, or several if their intervals do not
// separate them. The contest must be resolved.
func (c contest) winners() []string {
	tied := lists.Filter(c.samples, func(s model.Sample) bool { return !s.Slower(c.samples[0]) })
	return slices.Sorted(slices.Values(lists.Map(tied, func(s model.Sample) string { return s.Algorithm })))
}

// winner names the fastest algorithms in words.
func (c contest) winner() string { return orList(c.winners()) }

// orList joins names as in "a, b or c".
func orList(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return names[0]
}

// commonLimit returns the limit to compare all algorithms of the contest with: the least time
// that any of them needs by the named ceiling. It returns 0 if a sample has no such limit.
func (c contest) commonLimit(ceiling string) (us float64) {
	return slices.Min(lists.Map(c.samples, func(s model.Sample) float64 { return s.Limits[ceiling] }))
}

// comparable returns the samples of the resolved contests. Lossy algorithms and auto are among them if they have
// settled over enough launches.
func comparable(list []contest) (samples []model.Sample) {
	for _, c := range lists.Filter(list, contest.resolved) {
		samples = slices.Concat(samples, c.samples, lists.Filter(c.others, model.Sample.Comparable))
	}
	return samples
}

// notResolved returns one short line about contests without a result: the most frequent reason,
// and how many others there are.
func notResolved(list []contest) string {
	reasons := lists.GroupBy(list, func(c contest) string { return c.unresolved })
	commonest := slices.MaxFunc(reasons, func(a, b lists.Group[string, []contest]) int {
		return cmp.Compare(len(a.Items), len(b.Items))
	})
	if len(reasons) == 1 {
		return commonest.Key
	}
	return fmt.Sprintf("%s, and %s", commonest.Key, unit.Plural(len(reasons)-1, "other reason"))
}
