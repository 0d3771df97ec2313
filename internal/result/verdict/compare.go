package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Compare pairs the points of two runs and judges each pair.
func Compare(old, new dataset.Named, opts Options) (Report, error) {
	opts, err := opts.withDefaults(DefaultAlpha, 0.5)
	if err != nil {
		return Report{}, err
	}
	if len(old.Rows) == 0 {
		return Report{}, fmt.Errorf("run %s has no rows to compare with", old.ID())
	}
	metric, err := metricInfo(opts.Metric, old, new)
	if err != nil {
		return Report{}, err
	}
	opts.Metric = metric.Name
	columns, err := chooseColumns(opts.Columns)
	if err != nil {
		return Report{}, err
	}
	ours, _ := onlyBench(old.Rows)
	theirs, _ := onlyBench(new.Rows)
	old, new = InUnit(old, metric), InUnit(asBench(new, ours), metric)
	points, err := match(old, new, opts)
	if err != nil {
		return Report{}, err
	}
	if ours != "" && theirs != "" && ours != theirs && !slices.ContainsFunc(points, inBoth) {
		return Report{}, fmt.Errorf("%s is a run of %s and %s is a run of %s, and they have no point in common: "+
			"compare two runs of one bench", old.ID(), ours, new.ID(), theirs)
	}
	opts.Disturbed = opts.Disturbed.of(points)
	differ, decisive := differences(old, new, points, opts)
	report := Report{
		OldRun: old.ID(), NewRun: new.ID(), Metric: metric.Name, Unit: metric.Unit, Better: metric.Better,
		Floor: opts.Floor, Alpha: opts.Alpha, Counts: map[judge.Verdict]int{}, columns: columns,
		Differences: differ, Warnings: warnings(old, new, points, opts),
	}
	report.judge(points, decisive, opts)
	report.Warnings = append(report.Warnings, lists.NonEmpty(report.inSequence(points, opts))...)
	target := targetUnit(metric)
	for i := range report.Points {
		p := &report.Points[i]
		report.Counts[p.Verdict]++
		p.Old.setUnit(old, points[i][0], metric.Name, target)
		p.New.setUnit(new, points[i][1], metric.Name, target)
	}
	return report, report.sort(opts.Sort)
}

// By compares values of an axis, a variable or an option within one run: the first value with each of the
// others. spec is NAME for all values, or NAME=A,B for these values in this order. The comparisons share
// Options.Alpha, the probability of a false verdict.
func By(run dataset.Named, spec string, opts Options) ([]Report, error) {
	opts, err := opts.withDefaults(DefaultAlpha, 0.5)
	if err != nil {
		return nil, err
	}
	name, list, chosen := strings.Cut(spec, "=")
	coords := dataset.Identities(run.Rows)
	by, err := dataset.FindCoord(coords, name)
	if err != nil {
		return nil, suggest.Unknown("coordinate of this run", name, dataset.Names(coords))
	}
	parts := map[string]dataset.Set{}
	var values []string
	for _, r := range run.Rows {
		v := by.Of(r)
		if !v.Has {
			continue
		}
		value := v.String()
		if parts[value] == nil {
			values = append(values, value)
		}
		parts[value] = append(parts[value], r)
	}
	if chosen {
		requested := strings.Split(list, ",")
		for i, text := range requested {
			if requested[i] = valueOf(text, values); parts[requested[i]] == nil {
				return nil, suggest.Unknown("value of "+name, text, values)
			}
		}
		if values = lists.Distinct(requested); len(values) < len(requested) {
			return nil, fmt.Errorf("--by %s names a value twice: want different values", spec)
		}
	}
	if len(values) < 2 {
		return nil, fmt.Errorf("%s has only the value %s: want at least two values to compare", name,
			strings.Join(values, ", "))
	}
	opts.Ignore, opts.compared = append(slices.Clip(opts.Ignore), name), append(slices.Clip(opts.compared), name)
	opts.Alpha /= float64(len(values) - 1)
	side := func(value string) dataset.Named {
		return dataset.Named{Name: name + "=" + value, Dataset: &dataset.Dataset{Header: run.Header, Rows: parts[value]}}
	}
	return lists.TryMap(values[1:], func(value string) (Report, error) {
		report, err := Compare(side(values[0]), side(value), opts)
		if part := run.Incomplete(); part != "" { // the table shows which values lack points
			report.Warnings = slices.Insert(report.Warnings, 0, "the run: "+part)
		}
		return report, err
	})
}

// valueOf returns the value that a text from the command line stands for, or the text itself if there is none. The
// text may be the value as rows show it, or use the notation of the flags of run: "-" for an unset variable, "1K" for
// 1Ki bytes, and the name of a file without its digest.
func valueOf(text string, values []string) string {
	if slices.Contains(values, text) {
		return text
	}
	found := lists.Filter(values, func(v string) bool {
		return text == "-" && v == "(unset)" || text+"i" == v || strings.HasPrefix(v, text+"#")
	})
	if len(found) == 1 {
		return found[0]
	}
	return text
}

// match pairs the rows of two runs by point: first the points of old in their order, then the points that
// only new has.
func match(old, new dataset.Named, opts Options) ([]dataset.Matched, error) {
	key := func(r *journal.Row) string { return dataset.Key(r, opts.Ignore...) }
	points := dataset.Match(key, old.Rows, new.Rows)
	if len(opts.Ignore) == 0 {
		return points, nil
	}
	known := dataset.Names(append(dataset.Identities(old.Rows), dataset.Identities(new.Rows)...))
	if err := checkIgnore("coordinate or difference", opts.Ignore, known, old, new); err != nil {
		return nil, err
	}
	// Two points of a run that differ only in an ignored coordinate would be taken for
	// trials of one point.
	for _, m := range points {
		for i, run := range []dataset.Named{old, new} {
			if merged := m[i].Points(); len(merged) > 1 {
				return nil, fmt.Errorf("ignoring %s makes several points of run %s alike, among them %s; ignore only what has "+
					"one value in each run",
					strings.Join(opts.Ignore, ", "), run.ID(), dataset.Label(merged[1][0]))
			}
		}
	}
	return points, nil
}

// inSequence returns a warning if all launches of one side came before the launches of the other side, and there is a
// verdict based on them. On most machines, two runs of the same build differ by more than the spread of their launches
// suggests, although hardly by a factor of changepoint.GrossFactor.
func (r *Report) inSequence(points []dataset.Matched, opts Options) string {
	changed := func(f Finding) bool {
		return (f.Verdict == judge.Slower || f.Verdict == judge.Faster) && f.Effect.Method.Tested() &&
			max(f.Effect.Ratio, 1/f.Effect.Ratio) < changepoint.GrossFactor
	}
	wholeChanged := r.Whole != nil && changed(r.Whole.Finding)
	var first, last [2]time.Time
	for i, p := range r.Points {
		if !inBoth(points[i]) || !wholeChanged && !changed(p.Finding) {
			continue
		}
		for side, rows := range points[i] {
			for _, row := range withMetric(rows, opts.Metric) {
				if first[side].IsZero() || row.Time.Before(first[side]) {
					first[side] = row.Time
				}
				if row.Time.After(last[side]) {
					last[side] = row.Time
				}
			}
		}
	}
	for early, name := range opts.sides {
		if last[early].Before(first[1-early]) {
			return name + " was measured before " + opts.sides[1-early] + ", so a change of the machine in between looks like " +
				"one of the program: kernbench ab alternates their launches"
		}
	}
	return ""
}

// inBoth reports whether both runs have rows of a point.
func inBoth(m dataset.Matched) bool { return len(m[0]) > 0 && len(m[1]) > 0 }

// warnings returns warnings about incomplete runs, missing trials and disturbed ones that count. How the sides differ
// is in Report.Differences.
func warnings(old, new dataset.Named, points []dataset.Matched, opts Options) []string {
	out := runWarnings(old, new, opts.sides)
	common, unequal, missing := 0, 0, 0
	for _, m := range points {
		a, b := withMetric(m[0], opts.Metric), withMetric(m[1], opts.Metric)
		if inBoth(m) {
			common++
		}
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		if len(a) != len(b) {
			unequal++
		}
		if len(a) < len(m[0]) || len(b) < len(m[1]) {
			missing++
		}
	}
	if unequal > 0 {
		out = append(out, opts.sides[0]+" and "+opts.sides[1]+" have different numbers of trials in "+
			unit.Plural(unequal, "point"))
	}
	if missing > 0 {
		out = append(out, "trials that are not ok are left out in "+unit.Plural(missing, "point"))
	}
	if common == 0 {
		out = append(out, "the runs have no point in common"+ignoreHint(old, new))
	}
	return append(out, lists.NonEmpty(opts.warning(old.Rows, new.Rows))...)
}

// runWarnings returns warnings that concern a whole run.
func runWarnings(old, new dataset.Named, names [2]string) (out []string) {
	for i, side := range []dataset.Named{old, new} {
		if part := side.Incomplete(); part != "" {
			out = append(out, names[i]+": "+part)
		}
	}
	a, b := old.Header.Host, new.Header.Host
	if (a.Hostname == "") != (b.Hostname == "") { // one header is damaged
		out = append(out, fmt.Sprintf("not known to be the same kind of host: %s and %s", a.Summary(), b.Summary()))
	}
	return out
}

// ignoreHint returns a hint that names the coordinates for which the runs have no common value. Each of
// them is enough to prevent any match of points.
func ignoreHint(old, new dataset.Named) string {
	both := dataset.Identities(slices.Concat(old.Rows, new.Rows))
	differing := dataset.Names(lists.Filter(both, func(c dataset.Coord) bool {
		theirs := lists.Map(c.Known(new.Rows), dataset.Value.String)
		common := func(v dataset.Value) bool { return slices.Contains(theirs, v.String()) }
		return !slices.ContainsFunc(c.Known(old.Rows), common) && !c.Is(dataset.Sharing) // which cannot be ignored
	}))
	if len(differing) == 0 {
		return ""
	}
	return "; ignore what differs on purpose: " + strings.Join(differing, ", ")
}

// asBench returns a side with another bench in its rows, if its rows and those of the other side are of one bench each.
// This pairs the points of two sweeps with different names. The names are listed as a difference.
func asBench(side dataset.Named, bench string) dataset.Named {
	if name, single := onlyBench(side.Rows); !single || bench == "" || name == bench {
		return side
	}
	rows := side.Rows.Clone()
	for _, row := range rows {
		row.Bench = bench
	}
	return side.WithRows(rows)
}

// onlyBench returns the bench of all rows, and whether there is exactly one.
func onlyBench(rows dataset.Set) (name string, single bool) {
	for i, row := range rows {
		if i > 0 && row.Bench != name {
			return "", false
		}
		name = row.Bench
	}
	return name, len(rows) > 0
}
