package journal

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Journal is the content of one journal file.
type Journal struct {
	Path      string    // the file
	Runs      []*Run    // in the order in which they were last started or resumed
	Problems  []Problem // lines that could not be used
	Unchecked int       // lines without a checksum, of all runs; see Run.Unchecked
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

	// Earlier has the headers of the other runs whose rows are part of an accumulated run.
	Earlier []Header

	// Unchecked is the number of lines without a checksum. Earlier versions wrote such lines. Damage to
	// them may go unnoticed.
	Unchecked int

	// AllBuilds makes Latest return the rows of all builds. The rows must have a coordinate that
	// distinguishes the builds, or the name of the run must do so.
	AllBuilds bool

	path *string            // file that the run was read from
	last *Run               // for an accumulated run: the latest of its runs
	open map[pointTrial]int // begun points that have no row yet: index of the latest record in Begun

	typed int // number of rows whose values were converted to the kinds of their axes

	cuts []int // indices of rows after which writing stopped without an End, before the run was resumed
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

// Latest returns the last row of each key and trial of the current build, in the declared order of the
// points (Row.Index), then in order of appearance. A run that was resumed with changed inputs also has
// rows of other builds. They are left out unless AllBuilds is set.
//
// A point may give several rows (Row.Task), and another attempt may give different ones. So a row of a
// new attempt replaces all rows of the earlier attempt. A skipped or not-executed row does not replace a
// result. Rows without a key, which only other programs write, replace nothing. Every metric is in one
// unit. The result may be r.Rows itself, so callers must clone it before they change or sort it.
func (r *Run) Latest() []Row {
	if r.AllBuilds {
		return r.inUnits(latestRows(r.Rows))
	}
	return r.inUnits(latestRows(r.current()))
}

// LatestOfAllBuilds is like Latest for the rows of all builds, but keeps the units of the rows.
func (r *Run) LatestOfAllBuilds() []Row { return latestRows(r.Rows) }

func latestRows(rows []Row) []Row {
	order := make([]outcome, 0, len(rows))
	index := make(map[pointTrial]int, len(rows)) // in order
	room := make([]int, len(rows))               // space for one row of each outcome, because most have one
	for i := range rows {
		id := pointTrial{rows[i].TaskKey(), rows[i].Trial}
		k, has := index[id]
		if !has || id.key == "" {
			k = len(order)
			index[id] = k
			order = append(order, outcome{rows: room[i : i : i+1]})
		}
		order[k].add(rows, i)
	}
	counting := make([]int, 0, len(rows))
	for k := range order {
		counting = append(counting, order[k].rows...)
	}
	slices.SortStableFunc(counting, func(a, b int) int { return cmp.Compare(rows[a].Index, rows[b].Index) })
	if len(counting) == len(rows) && slices.IsSorted(counting) { // rows itself is the result
		return slices.Clip(rows)
	}
	return lists.Map(counting, func(i int) Row { return rows[i] })
}

// outcome collects the latest rows of one point in one trial.
type outcome struct {
	attempt int
	rows    []int          // indices in Run.Rows
	byKey   map[string]int // index in rows by key; nil while there is at most one row
	good    int            // number of rows with a result
}

// add adds row i, which is later than all rows added before.
func (p *outcome) add(rows []Row, i int) {
	row := &rows[i]
	at := p.find(rows, row.Key)
	if p.good > 0 && row.Status.NotRun() {
		// Do not replace a result of the same key or, in a new attempt, of the point.
		if p.attempt != row.Attempt || at >= 0 && rows[p.rows[at]].Status == OK || at < 0 && row.Task == "" {
			return
		}
	}
	if p.attempt != row.Attempt {
		*p, at = outcome{attempt: row.Attempt, rows: p.rows[:0]}, -1
	}
	if at >= 0 {
		if rows[p.rows[at]].Status == OK {
			p.good--
		}
		p.rows[at] = i
	} else {
		p.rows = append(p.rows, i)
		if p.byKey != nil {
			p.byKey[row.Key] = len(p.rows) - 1
		}
	}
	if row.Status == OK {
		p.good++
	}
}

// find returns the index in p.rows of the row with a key, or -1. Most points give one row, but a point
// can give a hundred thousand. It therefore makes a map as soon as there is a second row.
func (p *outcome) find(rows []Row, key string) int {
	if p.byKey == nil && len(p.rows) > 1 {
		p.byKey = make(map[string]int, len(p.rows))
		for k, i := range p.rows {
			p.byKey[rows[i].Key] = k
		}
	}
	if p.byKey == nil {
		if len(p.rows) == 1 && rows[p.rows[0]].Key == key {
			return 0
		}
		return -1
	}
	if k, ok := p.byKey[key]; ok {
		return k
	}
	return -1
}

// Accumulated returns the run last merged with all earlier runs of the same bench, version and seed. A
// row of a later run replaces the row of an earlier run with the same key and trial, even if the later
// one failed, but not if it was skipped or not executed. Points are in order of appearance.
func (j *Journal) Accumulated(last *Run) *Run {
	sum := &Run{path: &j.Path, last: last, open: map[pointTrial]int{}}
	for _, r := range j.Runs {
		h := r.Header
		if h.Bench == last.Header.Bench && h.Version == last.Header.Version && h.Seed == last.Header.Seed {
			sum.addHeader(h)
			for _, row := range r.LatestOfAllBuilds() {
				row.Index = 0
				sum.addRow(&row)
			}
			sum.Unchecked += r.Unchecked
		}
		if r == last {
			break
		}
	}
	// Views show the merged run under the name of the last run.
	axes, metrics, inputs := sum.Header.Axes, sum.Header.Metrics, sum.Header.Fingerprints
	sum.Header = last.Header
	sum.Header.Axes, sum.Header.Metrics, sum.Header.Fingerprints = axes, metrics, inputs
	sum.Headers, sum.Notes, sum.End = last.Headers, last.Notes, last.End
	shown := map[string]bool{last.ID(): true}
	for _, row := range sum.Latest() {
		shown[row.Run] = true
	}
	for _, r := range j.Runs {
		if r != last && shown[r.ID()] {
			sum.Earlier = append(sum.Earlier, r.Header)
		}
	}
	return sum
}

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

// Progress returns the numbers of finished and of planned points, counting each trial. planned is 0 if it
// is unknown.
func (r *Run) Progress() (done, planned int) {
	begun := map[string]bool{}
	for _, b := range r.Begun {
		begun[b.Key] = true
	}
	ended := map[pointTrial]bool{}
	rows := r.current() // the plan is for the current build
	for i := range rows {
		row := &rows[i]
		if row.Status != Skipped || begun[row.TaskKey()] { // points dropped from the plan are not counted in planned
			ended[pointTrial{row.TaskKey(), row.Trial}] = true
		}
	}
	return len(ended), cmp.Or(r.Header.Tasks, r.Header.Points*max(r.Header.Trials, 1))
}

// Incomplete describes which part of a run the journal has: "6 of 18 points: the run was interrupted" for an
// unfinished run, or how many rows are left of a finished run whose lines are damaged. It is "" if the run is
// complete or the plan is unknown.
func (r *Run) Incomplete() string {
	if r.last != nil {
		return r.last.Incomplete()
	}
	if r.End != nil && r.End.Outcome == "complete" {
		if lost := r.Lost(); lost > 0 {
			rows := len(r.LatestOfAllBuilds())
			return fmt.Sprintf("%d of %d rows: the other lines of the journal are damaged or missing", rows, rows+lost)
		}
		return ""
	}
	done, planned := r.Progress()
	if done >= planned {
		return ""
	}
	what, why := "points", "the run has not ended"
	if r.Header.Trials > 1 {
		what = fmt.Sprintf("points in %d trials", r.Header.Trials)
	}
	if r.Header.Tasks > 0 {
		what = fmt.Sprintf("points in up to %d trials", r.Header.Trials)
	}
	switch {
	case r.End != nil && r.End.Outcome == "interrupted":
		why = "the run was interrupted"
	case r.End != nil:
		why = "the run was aborted"
	}
	return fmt.Sprintf("%d of %d %s: %s", done, planned, what, why)
}

// Lost returns the number of rows of a complete run that were recorded and cannot be read, because their lines are
// damaged or missing.
func (r *Run) Lost() int {
	if r.last != nil {
		return r.last.Lost()
	}
	if r.End == nil || r.End.Outcome != "complete" {
		return 0
	}
	return max(0, lists.Sum(slices.Collect(maps.Values(r.End.Counts)))-len(r.LatestOfAllBuilds()))
}

// Unverified returns a warning that damage to the run may go unnoticed, or "" if every line has a checksum.
func (r *Run) Unverified() string {
	if r.Unchecked == 0 {
		return ""
	}
	return fmt.Sprintf("%s of the journal without a checksum (from an earlier version): damage to them may go unnoticed",
		unit.Plural(r.Unchecked, "line"))
}

// Counts returns the number of latest rows by status.
func (r *Run) Counts() map[Status]int {
	counts := map[Status]int{}
	for _, row := range r.Latest() {
		counts[row.Status]++
	}
	return counts
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
	m.AddColumns(h)
	m.redefine(h.Metrics) // the declaration of the current build applies
	m.Envs = union(m.Envs, h.Envs, func(name string) string { return name })
	m.Environ = mergeMaps(h.Environ, m.Environ)
	m.Version, m.Inputs = h.Version, mergeMaps(m.Inputs, h.Inputs) // those of the current build
	m.addFingerprints(h.Fingerprints)
	m.Trials, m.Points, m.Launches = max(m.Trials, h.Trials), max(m.Points, h.Points), max(m.Launches, h.Launches)
	m.Tasks = max(m.Tasks, h.Tasks)
	m.Tags, m.Note = mergeTags(m.Tags, h.Tags), cmp.Or(h.Note, m.Note)
}

func (h *Header) addFingerprints(more map[string]Inputs) {
	if len(more) > 0 && h.Fingerprints == nil {
		h.Fingerprints = map[string]Inputs{}
	}
	maps.Copy(h.Fingerprints, more)
}

// AddColumns adds axes and metrics of another header that this header does not have.
func (h *Header) AddColumns(other Header) {
	h.Axes = union(h.Axes, other.Axes, func(a AxisInfo) string { return a.Part + "\x00" + a.Name })
	h.Metrics = union(h.Metrics, other.Metrics, func(i MetricInfo) string { return i.Name })
}

// redefine replaces metrics of the header by the given metrics with the same names.
func (h *Header) redefine(metrics []MetricInfo) {
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
	for k := r.typed; k < len(r.Rows); k++ {
		row := &r.Rows[k]
		row.Origin = origin
		for i := range row.Point {
			c := &row.Point[i]
			// An axis without a part belongs to every part.
			kind := cmp.Or(kinds[column{row.Part, c.Name}], kinds[column{"", c.Name}])
			if kind != 0 {
				c.Value = c.Value.Retype(kind)
			}
		}
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
