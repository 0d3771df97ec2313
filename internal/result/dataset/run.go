package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Dataset is the rows that a view shows, with the header that describes them. It is immutable: a function that
// changes it returns another one.
type Dataset struct {
	Header  journal.Header
	Earlier []journal.Header // of the other runs that have rows in it
	Rows    Set
	Notes   []journal.Note

	Runs []*journal.Run // whose rows it has, the latest last; none for an overlay

	current Set // the rows of Run that belong to its current build
	latest  Set // the rows of Run, of all builds
}

// Run returns the latest run that it shows, or nil for an overlay.
func (d *Dataset) Run() *journal.Run {
	if len(d.Runs) == 0 {
		return nil
	}
	return d.Runs[len(d.Runs)-1]
}

// ID returns the id of the run.
func (d *Dataset) ID() string { return d.Header.Run }

// Dir returns the folder of the run with the files of its rows, or "" if it has none.
func (d *Dataset) Dir() string {
	if r := d.Run(); r != nil {
		return r.Dir()
	}
	return ""
}

// HeaderOf returns the header of the run and the build that a row belongs to.
func (d *Dataset) HeaderOf(r *journal.Row) *journal.Header {
	if r.Origin != nil && r.Origin.Header != nil {
		return r.Origin.Header
	}
	return &d.Header
}

// Of returns the latest rows of the current build of a run: the last row of each key and trial, in the declared
// order of the points (Row.Index), then in order of appearance. Every metric is in one unit. A run that was resumed
// with changed inputs also has rows of other builds, which Builds returns.
func Of(r *journal.Run) *Dataset { return Builds(r)[0] }

// Latest returns the latest rows of all builds of a run, in the units of the rows.
//
// A point may give several rows (Row.Task), and another attempt may give different ones. So a row of a
// new attempt replaces all rows of the earlier attempt. A skipped or not-executed row does not replace a
// result. Rows without a key, which only other programs write, replace nothing.
func Latest(r *journal.Run) Set { return latest(All(r.Rows)) }

func latest(rows Set) Set {
	order := make([]outcome, 0, len(rows))
	index := make(map[pointTrial]int, len(rows)) // in order
	room := slices.Clone(rows)                   // space for one row of each outcome, because most have one
	for i, r := range rows {
		id := pointTrial{r.TaskKey(), r.Trial}
		k, has := index[id]
		if !has || id.key == "" {
			k = len(order)
			index[id] = k
			order = append(order, outcome{rows: room[i : i : i+1]})
		}
		order[k].add(r)
	}
	counting := make(Set, 0, len(rows))
	for k := range order {
		counting = append(counting, order[k].rows...)
	}
	slices.SortStableFunc(counting, func(a, b *journal.Row) int { return cmp.Compare(a.Index, b.Index) })
	return counting
}

// pointTrial identifies a point in one trial. The key is Row.TaskKey.
type pointTrial struct {
	key   string
	trial int
}

// outcome collects the latest rows of one point in one trial.
type outcome struct {
	attempt int
	rows    Set
	byKey   map[string]int // index in rows by key; nil while there is at most one row
	good    int            // number of rows with a result
}

// add adds a row that is later than all rows added before.
func (p *outcome) add(r *journal.Row) {
	at := p.find(r.Key)
	if p.good > 0 && r.Status.NotRun() {
		// Do not replace a result of the same key or, in a new attempt, of the point.
		if p.attempt != r.Attempt || at >= 0 && p.rows[at].Status == journal.OK || at < 0 && r.Task == "" {
			return
		}
	}
	if p.attempt != r.Attempt {
		*p, at = outcome{attempt: r.Attempt, rows: p.rows[:0]}, -1
	}
	if at >= 0 {
		if p.rows[at].Status == journal.OK {
			p.good--
		}
		p.rows[at] = r
	} else {
		p.rows = append(p.rows, r)
		if p.byKey != nil {
			p.byKey[r.Key] = len(p.rows) - 1
		}
	}
	if r.Status == journal.OK {
		p.good++
	}
}

// find returns the index in p.rows of the row with a key, or -1. Most points give one row, but a point
// can give a hundred thousand. It therefore makes a map as soon as there is a second row.
func (p *outcome) find(key string) int {
	if p.byKey == nil && len(p.rows) > 1 {
		p.byKey = make(map[string]int, len(p.rows))
		for k, r := range p.rows {
			p.byKey[r.Key] = k
		}
	}
	if p.byKey == nil {
		if len(p.rows) == 1 && p.rows[0].Key == key {
			return 0
		}
		return -1
	}
	if k, ok := p.byKey[key]; ok {
		return k
	}
	return -1
}

// Accumulated returns the run last merged with all earlier runs of the same bench, version and seed, under the name
// of the last run. A row of a later run replaces the row of an earlier run with the same key and trial, even if the
// later one failed, but not if it was skipped or not executed. Points are in order of appearance.
func Accumulated(j *journal.Journal, last *journal.Run) *Dataset {
	d := *Of(last)
	var all Set
	d.Runs = nil
	d.Header.Axes, d.Header.Metrics, d.Header.Fingerprints = nil, nil, nil
	for _, r := range j.Runs[:slices.Index(j.Runs, last)+1] {
		h := r.Header
		if h.Bench != last.Header.Bench || h.Version != last.Header.Version || h.Seed != last.Header.Seed {
			continue
		}
		d.Runs = append(d.Runs, r)
		d.Header.Add(h)
		d.Header.Redefine(h.Metrics)
		all = append(all, Latest(r).Clone()...)
	}
	for _, r := range all {
		r.Index = 0
	}
	d.Rows = inUnits(latest(all.of(groupBuilds(all, &d.Header, last)[0])), d.Header.Metrics)
	for _, r := range d.Runs[:len(d.Runs)-1] {
		if slices.ContainsFunc(d.Rows, func(row *journal.Row) bool { return row.Run == r.ID() }) {
			d.Earlier = append(d.Earlier, r.Header)
		}
	}
	return &d
}

// Named is a dataset with a name for reports, such as one side of a comparison. The name "" stands for the id of its
// run.
type Named struct {
	Name string
	*Dataset
}

// ID returns the name for reports.
func (n Named) ID() string { return cmp.Or(n.Name, n.Header.Run) }

// WithRows returns the dataset with other rows, such as some of its own.
func (n Named) WithRows(rows Set) Named {
	d := *n.Dataset
	d.Rows = rows
	return Named{n.Name, &d}
}

// Overlay returns the rows of several datasets with different names. The coordinate run tells them apart, so that the
// same point in two runs gives two rows.
func Overlay(list []Named) *Dataset {
	first := list[0].Header
	out := &Dataset{Header: journal.Header{Time: first.Time, Backend: first.Backend, Host: first.Host, Run: list[0].Name}}
	for i, d := range list {
		if i > 0 {
			h := d.Header
			h.Run = d.Name
			out.Earlier = append(out.Earlier, h)
		}
		out.Header.Add(d.Header)
		machine := hostLabel(d.Header.Host)
		for _, r := range d.under(d.Name) {
			r.Run = d.Name
			if r.Kind == journal.Measured && machine != "" && r.Details[journal.DeviceDetail] == "" &&
				r.Details[MachineDetail] == "" {
				details := map[string]string{MachineDetail: machine}
				maps.Copy(details, r.Details)
				r.Details = details
			}
			out.Rows = append(out.Rows, r)
		}
		for _, n := range d.Notes {
			n.Text, n.Tuned = journal.Text(d.Name+": ")+n.Text, nil
			out.Notes = append(out.Notes, n)
		}
	}
	benches := lists.Distinct(lists.Map(list, func(d Named) string { return d.Header.Bench }))
	out.Header.Bench = strings.Join(benches, ", ")
	return out
}

// under returns copies of the rows whose origin has a name for the rows together.
func (d *Dataset) under(name string) Set {
	rows := d.Rows.Clone()
	origin := &journal.Origin{Header: &d.Header, Build: name}
	for _, r := range rows {
		r.Origin = origin
	}
	return rows
}

// hostLabel names a host in legends by its processor.
func hostLabel(h hostinfo.Host) string {
	if h.CPU.Model == "" {
		return ""
	}
	return fmt.Sprintf("%s, %.4g cores", h.CPU.Model, h.CPU.Usable)
}
