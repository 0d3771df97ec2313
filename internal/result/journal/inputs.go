package journal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Inputs describes everything that produced a row, by name. Programs, interpreters, files and parts of
// the declaration have their SHA-256 as the value; variables and units have their own value. Messages
// show the names: "program ./mp.sh", "interpreter /bin/sh", "file common.sh", "command", "unit lat",
// "variable OMP_NUM_THREADS".
type Inputs map[string]string

// ContentPrefix begins the name of an input to which a value of the point or of an option refers, such
// as a swept file. Two points of the same build may have different ones.
const ContentPrefix = "content of "

// Fingerprint returns a hash of the inputs in hexadecimal digits, or "" for nil.
func (in Inputs) Fingerprint() string {
	if in == nil {
		return ""
	}
	var text keyText
	text.texts("kernbench inputs 1")
	text.inputs(in)
	return text.sum()
}

// Changed returns the sorted names of the inputs that differ between two sets. This includes names that
// only one set has.
func (in Inputs) Changed(other Inputs) (names []string) {
	for name, value := range in {
		if now, has := other[name]; !has || now != value {
			names = append(names, name)
		}
	}
	for name := range other {
		if _, has := in[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// conflicts reports whether any name that is in both sets has different values.
func (in Inputs) conflicts(other Inputs) bool {
	for name, value := range in {
		if now, has := other[name]; has && now != value {
			return true
		}
	}
	return false
}

// common returns the inputs that all points of a build share: all except contents.
func (in Inputs) common() Inputs {
	out := maps.Clone(in)
	maps.DeleteFunc(out, func(name, _ string) bool { return strings.HasPrefix(name, ContentPrefix) })
	return out
}

// InputsOf returns the inputs of a row, or nil if they were not recorded.
func (h *Header) InputsOf(r *Row) Inputs { return h.Fingerprints[r.Inputs] }

// build identifies the rows that have the same inputs, in one part of a bench and on one backend.
type build struct{ part, backend, inputs string }

func buildOf(r *Row) build { return build{r.Part, r.Backend, r.Inputs} }

// sameBuild reports whether the same programs, files and variables can have produced both. For the same
// part and backend, all inputs except contents must be equal. For others, such as two parts of a suite,
// the inputs that both have must be equal.
func (h *Header) sameBuild(a, b build) bool {
	if a.inputs == b.inputs {
		return true
	}
	x, y := h.Fingerprints[a.inputs], h.Fingerprints[b.inputs]
	if x == nil || y == nil || x.conflicts(y) {
		return false
	}
	return a.part != b.part || a.backend != b.backend || maps.Equal(x.common(), y.common())
}

// Builds splits the run into builds: runs whose rows have consistent inputs, so that they may be shown
// and aggregated together. The current build comes first. It has the inputs of the latest start or
// resumption or, if that has recorded no row, of the latest row. Most runs have only one build; then the
// result is the run itself.
func (r *Run) Builds() []*Run {
	groups := r.groupBuilds()
	if len(groups) < 2 {
		return []*Run{r}
	}
	out := make([]*Run, len(groups))
	for i, g := range groups {
		out[i] = r.restrict(g)
	}
	return out
}

// Current returns the run with only the rows of its current build. Its header has the machine and
// environment of that build. A run with AllBuilds is returned unchanged.
func (r *Run) Current() *Run {
	if r.AllBuilds {
		return r
	}
	return r.Builds()[0]
}

// groupBuilds groups the builds of the rows that sameBuild accepts. The current group comes first, then
// the others from the latest to the earliest.
func (r *Run) groupBuilds() [][]build {
	last := map[build]int{} // index of its last row
	for i := range r.Rows {
		if b := buildOf(&r.Rows[i]); i == 0 || b != buildOf(&r.Rows[i-1]) {
			last[b] = i // the first row of its latest block, which gives the same order as the last row
		}
	}
	order := slices.Collect(maps.Keys(last))
	var planned map[string]Inputs
	if n := len(r.Headers); n > 0 {
		planned = r.Headers[n-1].Fingerprints
	}
	slices.SortFunc(order, func(a, b build) int {
		_, x := planned[a.inputs]
		_, y := planned[b.inputs]
		if x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return last[b] - last[a]
	})
	var groups [][]build
	for _, b := range order {
		i := slices.IndexFunc(groups, func(g []build) bool {
			return !slices.ContainsFunc(g, func(a build) bool { return !r.Header.sameBuild(a, b) })
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], b)
	}
	return groups
}

// restrict returns the run with the rows of some builds only. Its header has the machine,
// environment, command line and metrics of the latest invocation that had these inputs.
func (r *Run) restrict(builds []build) *Run {
	out := *r
	out.Rows = nil
	if r.End != nil { // leave out its counts, which are for all builds
		out.End = &End{Run: r.End.Run, Outcome: r.End.Outcome, Seconds: r.End.Seconds, Time: r.End.Time}
	}
	origin := &Origin{Header: &out.Header}
	for _, row := range r.Rows {
		if slices.Contains(builds, buildOf(&row)) {
			row.Origin = origin
			out.Rows = append(out.Rows, row)
		}
	}
	for _, h := range slices.Backward(r.Headers) {
		if _, has := h.Fingerprints[builds[0].inputs]; has {
			out.Header.Time, out.Header.Argv, out.Header.Host, out.Header.Environ = h.Time, h.Argv, h.Host, h.Environ
			out.Header.Version, out.Header.Inputs = h.Version, h.Inputs
			out.Header.redefine(h.Metrics)
			break
		}
	}
	return &out
}

// current returns the rows of the current build.
func (r *Run) current() []Row {
	for i := 1; i < len(r.Rows); i++ {
		if buildOf(&r.Rows[i]) != buildOf(&r.Rows[0]) {
			return r.Builds()[0].Rows
		}
	}
	return r.Rows
}

// PreviousBuild returns the latest build of the same bench before the current build of a run, or
// nil if there is none; see OtherBuilds.
func (j *Journal) PreviousBuild(of *Run) *Run {
	if others := j.OtherBuilds(of); len(others) > 0 {
		return others[0]
	}
	return nil
}

// OtherBuilds returns the builds of a bench other than the current build of a run, the latest first. They
// are from the run itself, if it was resumed with other inputs, and from earlier runs of the folder. If
// several runs have the same build, only the latest is returned.
func (j *Journal) OtherBuilds(of *Run) []*Run {
	found := of.Builds()
	at := slices.Index(j.Runs, of)
	for _, r := range slices.Backward(j.Runs[:max(at, 0)]) {
		if r.Header.Bench != of.Header.Bench || len(r.Rows) == 0 {
			continue
		}
		for _, b := range r.Builds() {
			if !slices.ContainsFunc(found, func(other *Run) bool { return !b.differs(other) }) {
				found = append(found, b)
			}
		}
	}
	return found[1:]
}

// DescribeOthers returns one line about the builds of a folder besides the current one, or "" if there are none.
func (j *Journal) DescribeOthers(of *Run) string {
	others := j.OtherBuilds(of)
	if len(others) == 0 {
		return ""
	}
	changed := ChangedInputs(others[0], of.Builds()[0])
	what := "recorded without inputs"
	if len(changed) > 0 {
		const maxNames = 3
		what = strings.Join(changed[:min(maxNames, len(changed))], ", ")
		if len(changed) > maxNames {
			what += fmt.Sprintf(" and %d more", len(changed)-maxNames)
		}
		what += map[bool]string{true: " differs", false: " differ"}[len(changed) == 1]
	}
	return fmt.Sprintf("%s not shown (the latest: %s); --all-builds shows all, and compare %s compares the last two",
		unit.Plural(len(others), "other build"), what, j.Dir())
}

// AllBuilds returns a run with the rows of all builds that a folder has of a run's bench. The coordinate
// "build" distinguishes them: build 1 is the oldest.
func (j *Journal) AllBuilds(of *Run) *Run {
	builds := append([]*Run{of.Builds()[0]}, j.OtherBuilds(of)...)
	all := *builds[0]
	all.AllBuilds, all.Rows = true, nil
	all.Header.Axes = append([]AxisInfo{{Name: BuildAxis, Kind: point.String}}, all.Header.Axes...)
	for i, b := range slices.Backward(builds) {
		name := fmt.Sprintf("%d", len(builds)-i)
		if i == 0 {
			name += " (current)"
		}
		all.Header.AddColumns(b.Header)
		all.Header.addFingerprints(b.Header.Fingerprints)
		for _, row := range b.LatestOfAllBuilds() {
			row.Point = append(point.Point{{Name: BuildAxis, Value: point.StringValue(name)}}, row.Point...)
			row.Key = name + "\x00" + row.Key
			if row.Task != "" {
				row.Task = name + "\x00" + row.Task
			}
			all.Rows = append(all.Rows, row)
		}
	}
	return &all
}

// BuildAxis is the coordinate that AllBuilds adds.
const BuildAxis = "build"

// differs reports whether two runs have rows of the same part and backend whose inputs cannot belong to
// the same build. Rows without recorded inputs are ignored.
func (r *Run) differs(other *Run) bool {
	return len(ChangedInputs(r, other)) > 0
}

// ChangedInputs returns the sorted names of the inputs that differ between the rows of two runs. It
// compares the parts and backends that both runs have.
func ChangedInputs(a, b *Run) []string {
	type place struct{ part, backend string }
	inputsOf := func(r *Run) map[place]Inputs {
		found := map[place]Inputs{}
		seen := map[build]bool{} // even large runs have few builds
		for i := range r.Rows {
			b := buildOf(&r.Rows[i])
			if seen[b] {
				continue
			}
			seen[b] = true
			at := place{b.part, b.backend}
			for name, value := range r.Header.Fingerprints[b.inputs] {
				if found[at] == nil {
					found[at] = Inputs{}
				}
				found[at][name] = value
			}
		}
		return found
	}
	old, new := inputsOf(a), inputsOf(b)
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
			return both && had || !strings.HasPrefix(name, ContentPrefix)
		})...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
