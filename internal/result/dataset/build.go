package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// build identifies the rows that have the same inputs, in one part of a bench and on one backend.
type build struct{ part, backend, inputs string }

func inputsOf(r *journal.Row) build { return build{r.Part, r.Backend, r.Inputs} }

// of returns the rows of some builds.
func (s Set) of(builds []build) Set {
	var last build
	is := false
	return s.Where(func(r *journal.Row) bool {
		if b := inputsOf(r); b != last || !is { // neighbours are mostly of one build
			last, is = b, slices.Contains(builds, b)
		}
		return is
	})
}

// sameBuild reports whether the same programs, files and variables can have produced both. For the same
// part and backend, all inputs except contents must be equal. For others, such as two parts of a suite,
// the inputs that both have must be equal.
func sameBuild(h *journal.Header, a, b build) bool {
	if a.inputs == b.inputs {
		return true
	}
	x, y := h.Fingerprints[a.inputs], h.Fingerprints[b.inputs]
	if x == nil || y == nil || x.Conflicts(y) {
		return false
	}
	return a.part != b.part || a.backend != b.backend || maps.Equal(x.Common(), y.Common())
}

// groupBuilds groups the builds of the rows that sameBuild accepts. The current group comes first: it has the inputs
// of the latest start or resumption of the run or, if that has recorded no row, of the latest row. The others follow
// from the latest to the earliest. There is at least one group.
func groupBuilds(rows Set, h *journal.Header, r *journal.Run) [][]build {
	last := map[build]int{} // index of its last row
	for i, row := range rows {
		if b := inputsOf(row); i == 0 || b != inputsOf(rows[i-1]) {
			last[b] = i // the first row of its latest block, which gives the same order as the last row
		}
	}
	if len(last) < 2 {
		return [][]build{slices.Collect(maps.Keys(last))}
	}
	var planned map[string]journal.Inputs
	if n := len(r.Headers); n > 0 {
		planned = r.Headers[n-1].Fingerprints
	}
	rank := func(b build) int { // builds with a lower rank come first
		if _, is := planned[b.inputs]; is {
			return -len(rows) - last[b]
		}
		return -last[b]
	}
	order := slices.SortedFunc(maps.Keys(last), func(a, b build) int { return rank(a) - rank(b) })
	var groups [][]build
	for _, b := range order {
		i := slices.IndexFunc(groups, func(g []build) bool {
			return !slices.ContainsFunc(g, func(a build) bool { return !sameBuild(h, a, b) })
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], b)
	}
	return groups
}

// Builds splits the latest rows of a run into builds: rows with consistent inputs, which may be shown and aggregated
// together. The current build comes first. Most runs have only one.
func Builds(r *journal.Run) []*Dataset {
	rows := All(r.Rows)
	all := latest(rows)
	groups := groupBuilds(rows, &r.Header, r)
	if len(groups) == 1 {
		return []*Dataset{{Header: r.Header, Rows: inUnits(all, r.Header.Metrics), Notes: r.Notes,
			Runs: []*journal.Run{r}, current: all,
			latest: all}}
	}
	out := make([]*Dataset, len(groups))
	for i, g := range groups {
		d := &Dataset{Header: r.Header, Notes: r.Notes, Runs: []*journal.Run{r}, latest: all}
		d.describe(g[0])
		d.Rows = inUnits(latest(rows.of(g)), d.Header.Metrics)
		d.Rows = d.under("")
		d.current = d.Rows
		if i > 0 {
			d.current = out[0].Rows
		}
		out[i] = d
	}
	return out
}

// describe gives the header the machine, environment, command line and metrics of the latest invocation that had the
// inputs of a build.
func (d *Dataset) describe(b build) {
	for _, h := range slices.Backward(d.Run().Headers) {
		if _, has := h.Fingerprints[b.inputs]; has {
			d.Header.Time, d.Header.Argv, d.Header.Host, d.Header.Environ = h.Time, h.Argv, h.Host, h.Environ
			d.Header.Version, d.Header.Inputs = h.Version, h.Inputs
			d.Header.Redefine(h.Metrics)
			return
		}
	}
}

// OtherBuilds returns the builds of a bench other than the current build of a run, the latest first. They
// are from the run itself, if it was resumed with other inputs, and from earlier runs of the folder. If
// several runs have the same build, only the latest is returned.
func OtherBuilds(j *journal.Journal, of *journal.Run) []*Dataset {
	found := Builds(of)
	at := slices.Index(j.Runs, of)
	for _, r := range slices.Backward(j.Runs[:max(at, 0)]) {
		if r.Header.Bench != of.Header.Bench || len(r.Rows) == 0 {
			continue
		}
		for _, b := range Builds(r) {
			if !slices.ContainsFunc(found, func(other *Dataset) bool { return len(ChangedInputs(b, other)) == 0 }) {
				found = append(found, b)
			}
		}
	}
	return found[1:]
}

// DescribeOthers returns one line about the builds of a folder besides the current one of a run, or "" if there are
// none.
func DescribeOthers(j *journal.Journal, of *journal.Run) string {
	others := OtherBuilds(j, of)
	if len(others) == 0 {
		return ""
	}
	changed := ChangedInputs(others[0], Of(of))
	what := "recorded without inputs"
	if len(changed) > 0 {
		const maxNames = 3
		what = strings.Join(changed[:min(maxNames, len(changed))], ", ")
		if len(changed) > maxNames {
			what += fmt.Sprintf(" and %d more", len(changed)-maxNames)
		}
		verb := " differ"
		if len(changed) == 1 {
			verb = " differs"
		}
		what += verb
	}
	return fmt.Sprintf("%s not shown (the latest: %s); --all-builds shows all, and compare %s compares the last two",
		unit.Plural(len(others), "other build"), what, j.Dir())
}

// AllBuilds returns the rows of all builds that a folder has of a run's bench. The coordinate build distinguishes
// them: build 1 is the oldest.
func AllBuilds(j *journal.Journal, of *journal.Run) *Dataset {
	out := *Of(of)
	builds := append([]*Dataset{&out}, OtherBuilds(j, of)...)
	var all Set
	for i, b := range slices.Backward(builds) {
		name := fmt.Sprint(len(builds) - i)
		if i == 0 {
			name += " (current)"
		}
		all = append(all, b.under(name)...)
		out.Header.Add(b.Header)
	}
	out.Rows = inUnits(all, out.Header.Metrics)
	return &out
}

// ChangedInputs returns the sorted names of the inputs that differ between the rows of two datasets. It compares the
// parts and backends that both have, and ignores rows without recorded inputs.
func ChangedInputs(a, b *Dataset) []string {
	old, new := a.inputs(), b.inputs()
	var names []string
	for at, x := range old {
		y := new[at]
		if y == nil {
			continue
		}
		names = append(names, lists.Filter(x.Changed(y), func(name string) bool {
			_, both := y[name]
			_, had := x[name]
			// A content that only one run has belongs to a point or option that only this run has.
			return both && had || !strings.HasPrefix(name, journal.ContentPrefix)
		})...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// inputs returns the inputs of the rows by part and backend.
func (d *Dataset) inputs() map[build]journal.Inputs {
	found := map[build]journal.Inputs{}
	seen := map[build]bool{} // even large runs have few builds
	for _, r := range d.Rows {
		b := inputsOf(r)
		if seen[b] {
			continue
		}
		seen[b] = true
		at := build{part: b.part, backend: b.backend}
		for name, value := range d.Header.Fingerprints[b.inputs] {
			if found[at] == nil {
				found[at] = journal.Inputs{}
			}
			found[at][name] = value
		}
	}
	return found
}
