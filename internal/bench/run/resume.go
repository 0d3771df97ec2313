package run

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// resumeState is what a resumed run knows from its journal.
type resumeState struct {
	done     map[taskID]bool   // tasks that need not run again
	attempts map[taskID]int    // number of the next attempt
	final    bool              // failed tasks count as done
	failed   map[taskID]string // how the latest attempt failed
	changes  []string          // descriptions of the changed inputs for which points run again; see inputChanges
}

func newResumeState() *resumeState {
	return &resumeState{done: map[taskID]bool{}, attempts: map[taskID]int{}, failed: map[taskID]string{}}
}

type taskID struct {
	key   string
	trial int
}

func (e *resumeState) isDone(t plan.Task) bool        { return e.done[taskID{t.Key, t.Trial}] }
func (e *resumeState) nextAttempt(t plan.Task) int    { return e.attempts[taskID{t.Key, t.Trial}] }
func (e *resumeState) lastFailure(t plan.Task) string { return e.failed[taskID{t.Key, t.Trial}] }

// claim locks the run to continue and returns it. If there is none, it locks a new run and returns nil.
func (r *runner) claim() (last *journal.Run, err error) {
	if last, err = r.holdLatest(); err != nil {
		return nil, fmt.Errorf("resuming: %w", err)
	}
	if last == nil {
		return nil, r.holdNew()
	}
	r.id = last.ID()
	r.launch = lastLaunch(filepath.Join(r.opts.Dir, "logs", r.id))
	r.starts = lists.Map(last.Headers, func(h journal.Header) time.Time { return h.Time })
	return last, nil
}

// loadResumeState finds out which tasks of the plan are done. last is the run to continue, or nil.
func (r *runner) loadResumeState(last *journal.Run) *resumeState {
	e := newResumeState()
	if last == nil {
		return e
	}
	wanted := planned(r.plan)
	if r.opts.Source != nil { // a source chooses its own trials, and a failure is a valid answer for it
		keys := map[string]bool{}
		for w := range wanted {
			keys[w.key] = true
		}
		for _, row := range last.Rows {
			if w := (taskID{row.TaskKey(), row.Trial}); keys[w.key] {
				wanted[w] = true
				e.final = !r.opts.RetryFailed
			}
		}
	}
	e.review(last, wanted, r.opts.RetryFailed)
	e.reviveSkipped(last, r.plan)
	e.changes = r.inputChanges(last, e)
	for _, row := range dataset.Latest(last) {
		if w := (taskID{row.TaskKey(), row.Trial}); e.done[w] {
			r.counts[row.Status]++
			r.rows = append(r.rows, *row)
			if row.Status.Bad() {
				r.givenUp++
			}
		}
	}
	return e
}

// holdNew locks a new run. It draws another ID if a live process holds the same one.
func (r *runner) holdNew() (err error) {
	var held *journal.HeldError
	for {
		r.id = journal.NewRunID(time.Now(), rand.Reader)
		if r.hold, err = journal.HoldRun(r.opts.Dir, r.id); !errors.As(err, &held) {
			return err
		}
	}
}

// holdLatest locks the folder's latest run. It returns nil if there is none to continue.
func (r *runner) holdLatest() (*journal.Run, error) {
	for {
		found, err := r.latest()
		if found == nil || err != nil {
			return nil, err
		}
		hold, err := journal.HoldRun(r.opts.Dir, found.ID())
		if _, is := errors.AsType[*journal.HeldError](err); is {
			return nil, fmt.Errorf("%w; follow it with show %s --follow, stop it, or start a new run without --resume", err,
				r.opts.Dir)
		}
		if err != nil {
			return nil, err
		}
		// Read again: the previous holder may have written rows before it released the run.
		last, err := r.latest()
		if err == nil && last != nil && last.ID() == found.ID() {
			r.hold = hold
			return last, nil
		}
		if err := errors.Join(err, hold.Release()); err != nil {
			return nil, err
		}
	}
}

// latest reads the run that --resume continues, or nil.
func (r *runner) latest() (*journal.Run, error) {
	if !r.opts.Resume {
		return nil, nil
	}
	j, err := journal.Read(r.opts.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // the first run of this folder
	case err != nil:
		return nil, err
	case len(j.Runs) == 0:
		return nil, nil
	}
	last := j.Runs[len(j.Runs)-1]
	if len(last.Headers) == 0 || last.Headers[0].Time.Before(r.opts.ResumeSince) {
		return nil, nil
	}
	if last.Header.Bench != r.plan.Bench.Name {
		return nil, fmt.Errorf("the latest run in %s is of bench %q, not %q: choose another --out",
			r.opts.Dir, last.Header.Bench, r.plan.Bench.Name)
	}
	return last, nil
}

// planned returns all tasks of a plan.
func planned(p *plan.Plan) map[taskID]bool {
	set := map[taskID]bool{}
	for _, t := range everyTask(p) {
		set[taskID{t.Key, t.Trial}] = true
	}
	return set
}

// everyTask lists the tasks of a plan, then the dropped points of each trial.
func everyTask(p *plan.Plan) (all []plan.Task) {
	for _, g := range p.Groups {
		all = append(all, g.Tasks...)
	}
	for _, t := range p.Dropped {
		for t.Trial = range p.TrialsOf(t.Part) {
			all = append(all, t)
		}
	}
	return all
}

// Stored returns the rows of the planned points only, to be shown without running anything, or all rows if the bench
// accumulates. If rows are missing, failed or were made with other options, the error is an [IncompleteError].
func Stored(p *plan.Plan, j *journal.Journal, last *journal.Run) (*dataset.Dataset, error) {
	stored := *decl.Data(p.Bench, j, last)
	wanted := planned(p)
	if n := last.Header.Trials; p.DefaultTrials && n > 0 {
		// The number of trials is a default, so the stored run decides.
		maps.DeleteFunc(wanted, func(t taskID, _ bool) bool { return t.trial >= n })
	}
	e := newResumeState()
	for _, r := range stored.Runs {
		e.review(r, wanted, false)
	}
	lacks := map[taskID]string{}
	for w := range wanted {
		if !e.done[w] {
			lacks[w] = "missing"
		}
	}
	planned := stored.Rows.Where(func(row *journal.Row) bool { return wanted[taskID{row.TaskKey(), row.Trial}] })
	for _, row := range planned {
		if row.Status.Bad() || row.Status == journal.NotExecuted && !row.Optional {
			lacks[taskID{row.TaskKey(), row.Trial}] = fmt.Sprintf("%s (%s)", row.Status, row.Reason)
		}
	}
	if len(lacks) > 0 {
		return nil, &IncompleteError{Dir: j.Dir(), Of: len(wanted), Options: optionDifferences(p, last),
			Rows:     missingRows(p, lacks),
			Problems: j.Problems}
	}
	if !p.Bench.Accumulate {
		stored.Rows = planned
	}
	return &stored, nil
}

// IncompleteError lists the rows of a plan that a journal lacks.
type IncompleteError struct {
	Dir      string
	Of       int      // number of planned rows
	Rows     []string // missing or failed rows, with the reason
	Options  string   // how the options of the stored rows differ; "" if they do not
	Problems []journal.Problem
}

func (e *IncompleteError) Error() string {
	const shown = 5
	text := fmt.Sprintf("%d of %d rows are missing from %s or failed: %s", len(e.Rows), e.Of, e.Dir,
		strings.Join(e.Rows[:min(shown, len(e.Rows))], "; "))
	if more := len(e.Rows) - shown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	if e.Options != "" {
		text += " (" + e.Options + ")"
	}
	if len(e.Problems) > 0 {
		text += fmt.Sprintf("; %d lines of the journal are damaged, the first is %v", len(e.Problems), e.Problems[0])
	}
	return text
}

// missingRows describes the missing rows in the order of the plan.
func missingRows(p *plan.Plan, lacks map[taskID]string) (out []string) {
	for _, t := range everyTask(p) {
		if why := lacks[taskID{t.Key, t.Trial}]; why != "" {
			name := strings.TrimSpace(fmt.Sprintf("%s %v", t.Part, t.Point))
			if t.Ranks > 0 {
				name += fmt.Sprintf(" %s=%d", bench.RanksAxis, t.Ranks)
			}
			if p.TrialsOf(t.Part) > 1 {
				name += fmt.Sprintf(" trial %d", t.Trial)
			}
			out = append(out, name+": "+why)
		}
	}
	return out
}

// optionDifferences describes how the options of a run's rows differ from the plan's options.
func optionDifferences(p *plan.Plan, last *journal.Run) string {
	if len(last.Rows) == 0 {
		return ""
	}
	var differ []string
	for _, o := range p.Identity() {
		if stored, there := last.Rows[0].Options.Get(o.Name); !there || stored.String() != o.Value.String() {
			differ = append(differ, fmt.Sprintf("--%s %v, now %v", o.Name, stored, o.Value))
		}
	}
	if len(differ) == 0 {
		return ""
	}
	return "the rows there were made with " + strings.Join(differ, "; ")
}

// review decides which planned tasks are done. A task is done if its latest attempt has only good rows,
// or if it failed in one invocation and again in a later one, unless retryFailed is set. If e.final is
// set, every task with a row is done.
func (e *resumeState) review(run *journal.Run, planned map[taskID]bool, retryFailed bool) {
	failedIn := map[taskID]int{} // invocation of the task's first failure
	tainted := map[taskID]int{}  // latest attempt with a failed row, from 1; good rows may follow in it
	for i, row := range run.Rows {
		w := taskID{row.TaskKey(), row.Trial}
		e.attempts[w] = max(e.attempts[w], row.Attempt+1)
		if !planned[w] {
			continue
		}
		delete(e.done, w)
		invocation := invocationOf(run, row.Time)
		if _, before := failedIn[w]; row.Status.Bad() && !before {
			failedIn[w] = invocation
		}
		if row.Status.Bad() {
			tainted[w] = row.Attempt + 1
			e.failed[w] = failureOf([]journal.Row{row})
		}
		if e.final || tainted[w] != row.Attempt+1 || invocation > failedIn[w] && !retryFailed {
			e.done[w] = true
		}
		// A program may print a table of several rows, and nothing marks the last one. If the run was
		// killed, rows may be missing at its end.
		if row.Task != "" && run.CutAfter(i) {
			delete(e.done, w)
		}
	}
	for _, b := range run.Unfinished() { // a new attempt was killed
		delete(e.done, taskID{b.Key, b.Trial})
	}
}

// reviveSkipped makes tasks run that an earlier plan dropped and this plan does not drop, for example
// because the earlier job had another number of ranks.
func (e *resumeState) reviveSkipped(run *journal.Run, p *plan.Plan) {
	skipped := map[taskID]bool{}
	for _, row := range run.Rows {
		skipped[taskID{row.TaskKey(), row.Trial}] = row.Status == journal.Skipped && row.Launch == ""
	}
	for _, g := range p.Groups {
		for _, t := range g.Tasks {
			if w := (taskID{t.Key, t.Trial}); skipped[w] {
				delete(e.done, w)
			}
		}
	}
}

// invocationOf returns the number of the invocation, from 1, that wrote a record at the given time.
func invocationOf(run *journal.Run, at time.Time) int {
	n := 0
	for _, h := range run.Headers {
		if !h.Time.After(at) {
			n++
		}
	}
	return n
}

// lastLaunch returns the highest launch number that has a log folder.
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
