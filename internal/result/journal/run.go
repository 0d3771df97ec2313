package journal

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
)

// Journal is the content of one journal file.
type Journal struct {
	Path     string    // the file
	Runs     []*Run    // in the order they were last started or resumed
	Problems []Problem // lines that could not be used
}

// Dir is the RUN folder, in which samples and logs lie.
func (j *Journal) Dir() string { return filepath.Dir(j.Path) }

// Run is what a journal holds of one run. Runs come from Read: the methods rely
// on the order in which it saw begin records and rows.
type Run struct {
	// Header is the first header of the run, with the axes, metrics, variables
	// and inputs that later ones add. For a run without a readable header it
	// holds what the other records tell: id, bench, backend and time.
	Header  Header
	Headers []Header // as written; more than one means the run was resumed
	Rows    []Row    // in file order, repeated attempts included
	Begun   []Begin
	Notes   []Note
	End     *End // nil if the run, or its latest resumption, did not come to an end

	// Earlier are the headers of the other runs of which an accumulated run shows rows, in
	// their order.
	Earlier []Header

	path *string            // of the journal that it was read from
	last *Run               // of an accumulated run, the one it ends with
	open map[pointTrial]int // work begun and without a row since: its latest begin record, an index of Begun

	typed int // how many rows have values of their axes' kinds
}

// pointTrial is one piece of work of a run; the key is Row.TaskKey or Row.Key.
type pointTrial struct {
	key   string
	trial int
}

// Dir is the folder that the run was read from, in which the files of its rows lie; "" if it was put
// together otherwise.
func (r *Run) Dir() string {
	if r.path == nil || *r.path == "" {
		return ""
	}
	return filepath.Dir(*r.path)
}

// ID is the run's id.
func (r *Run) ID() string { return r.Header.Run }

// Latest returns the rows that count, in the declared order of their points
// (Row.Index), else as they first appeared: the last one of each key and trial. A
// point that gives several rows (Row.Task) may give others when it is tried again,
// so a row of another attempt replaces all the earlier ones of the point. A row
// that was not run replaces none with a result. Rows without a key, which only
// other programs write, replace nothing. The rows may be those of the run itself: who
// changes or sorts them clones them first.
func (r *Run) Latest() []Row {
	order := make([]outcome, 0, len(r.Rows))
	of := make(map[pointTrial]int, len(r.Rows))
	room := make([]int, len(r.Rows)) // for one row each, which most points have
	for i := range r.Rows {
		id := pointTrial{r.Rows[i].TaskKey(), r.Rows[i].Trial}
		k, has := of[id]
		if !has || id.key == "" {
			k = len(order)
			of[id] = k
			order = append(order, outcome{rows: room[i : i : i+1]})
		}
		order[k].add(r.Rows, i)
	}
	counting := make([]int, 0, len(r.Rows))
	for k := range order {
		counting = append(counting, order[k].rows...)
	}
	slices.SortStableFunc(counting, func(a, b int) int { return cmp.Compare(r.Rows[a].Index, r.Rows[b].Index) })
	if len(counting) == len(r.Rows) && slices.IsSorted(counting) { // all count, in order: nothing to copy
		return slices.Clip(r.Rows)
	}
	return lists.Map(counting, func(i int) Row { return r.Rows[i] })
}

// outcome is what counts of one point in one trial.
type outcome struct {
	attempt int
	rows    []int          // indices of the run's rows
	at      map[string]int // where in rows a key is; nil while there is at most one
	good    int            // how many of them have a result
}

// add takes a row of the point, later than all before it.
func (p *outcome) add(rows []Row, i int) {
	row := &rows[i]
	at := p.find(rows, row.Key)
	if p.good > 0 && row.Status.NotRun() {
		// It speaks for what it would replace: its own key, or all of the point.
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
		if p.at != nil {
			p.at[row.Key] = len(p.rows) - 1
		}
	}
	if row.Status == OK {
		p.good++
	}
}

// find is the place of a key's row, or -1. Most points give one row, a large
// launch a hundred thousand.
func (p *outcome) find(rows []Row, key string) int {
	if p.at == nil && len(p.rows) > 1 {
		p.at = make(map[string]int, len(p.rows))
		for k, i := range p.rows {
			p.at[rows[i].Key] = k
		}
	}
	if p.at == nil {
		if len(p.rows) == 1 && rows[p.rows[0]].Key == key {
			return 0
		}
		return -1
	}
	if k, ok := p.at[key]; ok {
		return k
	}
	return -1
}

// Accumulated is the run together with all before it in the journal that did work
// of the same kind: the same bench, version and seed. A row of a later run
// replaces that of an earlier one with the same key and trial, good or bad, unless
// it was not run.
// Points come in the order in which they first appeared.
func (j *Journal) Accumulated(last *Run) *Run {
	sum := &Run{path: &j.Path, last: last, open: map[pointTrial]int{}}
	for _, r := range j.Runs {
		h := r.Header
		if h.Bench == last.Header.Bench && h.Version == last.Header.Version && h.Seed == last.Header.Seed {
			sum.addHeader(h)
			for _, row := range r.Latest() {
				row.Index = 0
				sum.addRow(row)
			}
		}
		if r == last {
			break
		}
	}
	// It is shown as the run it ends with.
	axes, metrics := sum.Header.Axes, sum.Header.Metrics
	sum.Header = last.Header
	sum.Header.Axes, sum.Header.Metrics = axes, metrics
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

// Unfinished returns the begin records of the work that was under way when the
// writing stopped: the latest of each point and trial that no row follows.
func (r *Run) Unfinished() []Begin {
	return lists.Map(slices.Sorted(maps.Values(r.open)), func(i int) Begin { return r.Begun[i] })
}

// Progress is how many of the planned points, in all their trials, have come to an end. What is
// planned is 0 where nobody knows.
func (r *Run) Progress() (done, planned int) {
	begun := map[string]bool{}
	for _, b := range r.Begun {
		begun[b.Key] = true
	}
	ended := map[pointTrial]bool{}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Status != Skipped || begun[row.TaskKey()] { // what was dropped from the plan is not counted in it
			ended[pointTrial{row.TaskKey(), row.Trial}] = true
		}
	}
	return len(ended), r.Header.Points * max(r.Header.Trials, 1)
}

// Incomplete says how much there is of a run that was cut short, such as "6 of 18 points: the run was interrupted"; it
// is empty for one that is whole, or of which nobody knows what was planned.
func (r *Run) Incomplete() string {
	if r.last != nil {
		return r.last.Incomplete()
	}
	if r.End != nil && r.End.Outcome == "complete" {
		return ""
	}
	done, planned := r.Progress()
	if done >= planned {
		return ""
	}
	what, why := "points", "the run has not come to its end"
	if r.Header.Trials > 1 {
		what = fmt.Sprintf("points in %d trials", r.Header.Trials)
	}
	switch {
	case r.End != nil && r.End.Outcome == "interrupted":
		why = "the run was interrupted"
	case r.End != nil:
		why = "the run was given up"
	}
	return fmt.Sprintf("%d of %d %s: %s", done, planned, what, why)
}

// Counts is the number of latest rows of each status.
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

func (r *Run) addRow(row Row) {
	// Begin records are of the point, which may give several rows an attempt.
	delete(r.open, pointTrial{row.TaskKey(), row.Trial})
	if len(r.Rows) == cap(r.Rows) { // a large slice would grow by a quarter, and most of a long run would be copies
		r.Rows = slices.Grow(r.Rows, max(len(r.Rows), 16))
	}
	r.Rows = append(r.Rows, row)
}

// addHeader takes the first header as it is and merges later ones into it. The
// planned numbers are the largest seen, since a resumption may plan only the
// rest. An end before the header belongs to the part that is continued.
func (r *Run) addHeader(h Header) {
	r.Headers = append(r.Headers, h)
	r.End = nil
	r.typed = 0
	if len(r.Headers) == 1 {
		r.Header = h
		// Merging must not reach into the header as written.
		r.Header.Environ, r.Header.Inputs = maps.Clone(h.Environ), maps.Clone(h.Inputs)
		return
	}
	m := &r.Header
	m.Resumed = true
	m.AddColumns(h)
	m.Envs = union(m.Envs, h.Envs, func(name string) string { return name })
	m.Environ, m.Inputs = addMissing(m.Environ, h.Environ), addMissing(m.Inputs, h.Inputs)
	m.Trials, m.Points, m.Launches = max(m.Trials, h.Trials), max(m.Points, h.Points), max(m.Launches, h.Launches)
}

// AddColumns adds the axes and metrics of another header that this one lacks.
func (h *Header) AddColumns(other Header) {
	h.Axes = union(h.Axes, other.Axes, func(a AxisInfo) string { return a.Part + "\x00" + a.Name })
	h.Metrics = union(h.Metrics, other.Metrics, func(i MetricInfo) string { return i.Name })
}

// union appends to a the elements of b whose name a lacks.
func union[T any](a, b []T, name func(T) string) []T {
	a = slices.Clip(a)
	for _, x := range b {
		if !slices.ContainsFunc(a, func(y T) bool { return name(y) == name(x) }) {
			a = append(a, x)
		}
	}
	return a
}

func addMissing(a, b map[string]string) map[string]string {
	for k, v := range b {
		if _, have := a[k]; !have {
			if a == nil {
				a = map[string]string{}
			}
			a[k] = v
		}
	}
	return a
}

// finish completes a run once all that there is of the file has been seen.
func (r *Run) finish() {
	if len(r.Headers) == 0 {
		r.guessHeader()
	}
	type column struct{ part, name string }
	kinds := map[column]point.Kind{}
	for _, a := range r.Header.Axes {
		kinds[column{a.Part, a.Name}] = a.Kind
	}
	for _, row := range r.Rows[r.typed:] {
		for i := range row.Point {
			c := &row.Point[i]
			// An axis without a part is one of every part.
			kind := cmp.Or(kinds[column{row.Part, c.Name}], kinds[column{"", c.Name}])
			if kind != 0 {
				c.Value = c.Value.Retype(kind)
			}
		}
	}
	r.typed = len(r.Rows)
}

// guessHeader fills what the records of a run without a header tell about it.
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
