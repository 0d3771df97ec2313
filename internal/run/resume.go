package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kernbench/kernbench/internal/journal"
	"github.com/kernbench/kernbench/internal/plan"
)

// earlier is what the journal already holds of a run that is resumed.
type earlier struct {
	done  map[work]bool // settled: not to be run again
	tries map[work]int
}

type work struct {
	key   string
	trial int
}

// maxTries is how often a point may fail over all resumptions: the first time
// and once more.
const maxTries = 2

func (e *earlier) settled(t plan.Task) bool { return e.done[work{t.Key, t.Trial}] }
func (e *earlier) attempts(t plan.Task) int { return e.tries[work{t.Key, t.Trial}] }

// earlier finds the run to continue, or starts a new one.
func (r *runner) earlier() (*earlier, error) {
	e := &earlier{done: map[work]bool{}, tries: map[work]int{}}
	r.id = newRunID()
	if !r.opts.Resume {
		return e, nil
	}
	j, err := journal.Read(r.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil // nothing to continue: a first run
	}
	if err != nil {
		return nil, fmt.Errorf("resuming: %w", err)
	}
	if len(j.Runs) == 0 {
		return e, nil
	}
	last := j.Runs[len(j.Runs)-1]
	if last.Header.Bench != r.plan.Bench.Name {
		return nil, fmt.Errorf("resuming: the latest run in %s is of bench %q, not %q: choose another --out", r.opts.Dir, last.Header.Bench, r.plan.Bench.Name)
	}
	r.id = last.ID()
	r.launch = lastLaunch(filepath.Join(r.opts.Dir, "logs", r.id))
	planned := map[work]bool{}
	for _, g := range r.plan.Groups {
		for _, t := range g.Tasks {
			planned[work{t.Key, t.Trial}] = true
		}
	}
	for _, t := range r.plan.Dropped {
		for trial := range r.plan.Trials {
			planned[work{t.Key, trial}] = true
		}
	}
	for _, row := range last.Rows {
		w := work{row.TaskKey(), row.Trial}
		e.tries[w] = max(e.tries[w], row.Attempt+1)
		if planned[w] {
			e.done[w] = !row.Status.Bad() || e.tries[w] >= maxTries
		}
	}
	for _, row := range last.Latest() {
		if w := (work{row.TaskKey(), row.Trial}); e.done[w] {
			r.counts[row.Status]++
			r.rows = append(r.rows, row)
		}
	}
	for w, done := range e.done {
		if !done {
			delete(e.done, w)
		}
	}
	return e, nil
}

// lastLaunch is the highest launch number that has a log folder.
func lastLaunch(dir string) int {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	last := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, n)
		}
	}
	return last
}
