package journal

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
)

// Journal is the content of one journal file.
type Journal struct {
	Path     string    // the file
	Runs     []*Run    // in the order in which they were last started or resumed
	Problems []Problem // lines that could not be used, and breaks of the chain of rows
}

// Dir returns the RUN folder.
func (j *Journal) Dir() string { return filepath.Dir(j.Path) }

// Run holds the records of one run. The methods rely on the order in which Read saw begin
// records and rows.
type Run struct {
	// Header is the first header of the run, with the axes, metrics, variables, inputs and tags that
	// later headers add. A Label replaces its tags and note. If the run has no readable header, ID,
	// bench, backend and time are taken from its other records.
	Header  Header
	Headers []Header // as written; more than one means the run was resumed
	Rows    []Row    // in file order, repeated attempts included
	Begun   []Begin
	Notes   []Note
	End     *End // nil if the run, or its latest resumption, did not end

	path *string            // file that the run was read from
	open map[pointTrial]int // begun points that have no row yet: index of the latest record in Begun

	typed int // number of rows whose values were converted to the kinds of their axes

	cuts []int // indices of rows after which writing stopped without an End, before the run was resumed

	Breaks int // places where the chain of rows is broken: rows are missing, or were added
}

// pointTrial identifies a point in one trial. The key is Row.TaskKey or Row.Key.
type pointTrial struct {
	key   string
	trial int
}

// Dir returns the folder that the run was read from, with the files of its rows. It is ""
// for a run that was not read from a file.
func (r *Run) Dir() string {
	if r.path == nil || *r.path == "" {
		return ""
	}
	return filepath.Dir(*r.path)
}

// ID returns the run's id.
func (r *Run) ID() string { return r.Header.Run }

// Unfinished returns the begin records that no row of their point and trial follows: the work that was
// under way when writing stopped.
func (r *Run) Unfinished() []Begin {
	return lists.Map(slices.Sorted(maps.Values(r.open)), func(i int) Begin { return r.Begun[i] })
}

// CutAfter reports whether writing stopped without an End after the row with an index. More rows of its point may be
// missing.
func (r *Run) CutAfter(index int) bool {
	return index == len(r.Rows)-1 && r.End == nil || slices.Contains(r.cuts, index)
}

func (r *Run) addBegin(b Begin) {
	r.open[pointTrial{b.Key, b.Trial}] = len(r.Begun)
	r.Begun = append(r.Begun, b)
}

func (r *Run) addRow(row *Row) {
	// The first row of a point ends its begin record, even if more rows of the point follow.
	delete(r.open, pointTrial{row.TaskKey(), row.Trial})
	if len(r.Rows) == cap(r.Rows) { // append would grow a large slice by only a quarter and copy it too often
		r.Rows = slices.Grow(r.Rows, max(len(r.Rows), 16))
	}
	r.Rows = append(r.Rows, *row)
}

// addHeader sets the first header and merges later ones into it. The version and the files are the latest
// ones. Planned numbers are the largest of all headers, because a resumed run may plan only the rest. An End
// before the header belongs to the part of the run that is now continued, so it is dropped.
func (r *Run) addHeader(h Header) {
	if r.CutAfter(len(r.Rows) - 1) {
		r.cuts = append(r.cuts, len(r.Rows)-1)
	}
	r.Headers = append(r.Headers, h)
	r.End = nil
	r.typed = 0
	if len(r.Headers) == 1 {
		r.Header = h
		// Later merges must not change the header in r.Headers.
		r.Header.Environ, r.Header.Inputs = maps.Clone(h.Environ), maps.Clone(h.Inputs)
		r.Header.Fingerprints = maps.Clone(h.Fingerprints)
		r.Header.Tags = mergeTags(nil, h.Tags)
		return
	}
	m := &r.Header
	m.Resumed = true
	m.Add(h)
	m.Redefine(h.Metrics) // the declaration of the current build applies
	m.Envs = union(m.Envs, h.Envs, func(name string) string { return name })
	m.Environ = mergeMaps(h.Environ, m.Environ)
	m.Version, m.Inputs = h.Version, mergeMaps(m.Inputs, h.Inputs) // those of the current build
	m.Trials, m.Points, m.Launches = max(m.Trials, h.Trials), max(m.Points, h.Points), max(m.Launches, h.Launches)
	m.Tasks = max(m.Tasks, h.Tasks)
	m.Tags, m.Note = mergeTags(m.Tags, h.Tags), cmp.Or(h.Note, m.Note)
}

// Add adds the axes, metrics and inputs of another header that this header does not have.
func (h *Header) Add(other Header) {
	h.Axes = union(h.Axes, other.Axes, func(a AxisInfo) string { return a.Part + "\x00" + a.Name })
	h.Metrics = union(h.Metrics, other.Metrics, func(i MetricInfo) string { return i.Name })
	if len(other.Fingerprints) > 0 {
		all := maps.Clone(other.Fingerprints)
		maps.Copy(all, h.Fingerprints)
		h.Fingerprints = all
	}
}

// Redefine replaces metrics of the header by the given metrics with the same names.
func (h *Header) Redefine(metrics []MetricInfo) {
	h.Metrics = lists.Map(h.Metrics, func(old MetricInfo) MetricInfo {
		if i := slices.IndexFunc(metrics, func(m MetricInfo) bool { return m.Name == old.Name }); i >= 0 {
			return metrics[i]
		}
		return old
	})
}

// union appends to a the elements of b whose names are not in a.
func union[T any](a, b []T, name func(T) string) []T {
	a = slices.Clip(a)
	for _, x := range b {
		if !slices.ContainsFunc(a, func(y T) bool { return name(y) == name(x) }) {
			a = append(a, x)
		}
	}
	return a
}

// mergeMaps returns the members of both maps. If both have a name, the value of b counts.
func mergeMaps(a, b map[string]string) map[string]string {
	m := make(map[string]string, len(a)+len(b))
	maps.Copy(m, a)
	maps.Copy(m, b)
	return m
}

// finish converts the values of new rows to the kinds of their axes. It runs after the last line was read,
// because a later header may declare an axis.
func (r *Run) finish() {
	if len(r.Headers) == 0 {
		r.guessHeader()
	}
	type column struct{ part, name string }
	kinds := map[column]point.Kind{}
	for _, a := range r.Header.Axes {
		kinds[column{a.Part, a.Name}] = a.Kind
	}
	origin := &Origin{Header: &r.Header}
	var read, typed point.Point // of the row before
	for k := r.typed; k < len(r.Rows); k++ {
		row := &r.Rows[k]
		row.Origin = origin
		if len(row.Point) == 0 {
			continue
		}
		// Successive rows share a point. Other runs and parts may share it too, so it is not changed in place.
		if len(read) == 0 || &read[0] != &row.Point[0] || r.Rows[k-1].Part != row.Part {
			read, typed = row.Point, slices.Clip(slices.Clone(row.Point))
			for i, c := range typed {
				// An axis without a part belongs to every part.
				kind := cmp.Or(kinds[column{row.Part, c.Name}], kinds[column{"", c.Name}])
				if kind != 0 {
					typed[i].Value = c.Value.Retype(kind)
				}
			}
		}
		row.Point = typed
	}
	r.typed = len(r.Rows)
}

// guessHeader fills in the header of a run from its other records.
func (r *Run) guessHeader() {
	h := &r.Header
	switch {
	case len(r.Begun) > 0:
		h.Time = r.Begun[0].Time
	case len(r.Rows) > 0:
		h.Time = r.Rows[0].Time
	case len(r.Notes) > 0:
		h.Time = r.Notes[0].Time
	case r.End != nil:
		h.Time = r.End.Time
	}
	if len(r.Rows) > 0 {
		first := r.Rows[0]
		h.Schema, h.Bench, h.Backend = first.Schema, first.Bench, first.Backend
	}
}
