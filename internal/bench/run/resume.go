package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// earlier is what the journal already holds of a run that is resumed.
type earlier struct {
	done  map[work]bool // settled: not to be run again
	tries map[work]int  // the number of the next attempt
	final bool          // a failure settles the work, too
	// failed is how the latest attempt failed, of those that did.
	failed map[work]string
}

func newEarlier() *earlier {
	return &earlier{done: map[work]bool{}, tries: map[work]int{}, failed: map[work]string{}}
}

type work struct {
	key   string
	trial int
}

func (e *earlier) settled(t plan.Task) bool   { return e.done[work{t.Key, t.Trial}] }
func (e *earlier) attempts(t plan.Task) int   { return e.tries[work{t.Key, t.Trial}] }
func (e *earlier) failure(t plan.Task) string { return e.failed[work{t.Key, t.Trial}] }

// earlier finds the run to continue, or starts a new one, and takes hold of it.
func (r *runner) earlier() (*earlier, error) {
	e := newEarlier()
	last, err := r.holdLatest()
	if err != nil {
		return nil, fmt.Errorf("resuming: %w", err)
	}
	if last == nil {
		return e, r.holdNew()
	}
	r.id = last.ID()
	r.launch = lastLaunch(filepath.Join(r.opts.Dir, "logs", r.id))
	r.starts = lists.Map(last.Headers, func(h journal.Header) time.Time { return h.Time })
	wanted := planned(r.plan)
	if r.opts.Source != nil { // it has trials of its own, and a failure is its answer
		keys := map[string]bool{}
		for w := range wanted {
			keys[w.key] = true
		}
		for _, row := range last.Rows {
			if w := (work{row.TaskKey(), row.Trial}); keys[w.key] {
				wanted[w] = true
				e.final = !r.opts.RetryFailed
			}
		}
	}
	e.review(last, wanted, r.opts.RetryFailed)
	for _, row := range last.Latest() {
		if w := (work{row.TaskKey(), row.Trial}); e.done[w] {
			r.counts[row.Status]++
			r.rows = append(r.rows, row)
			if row.Status.Bad() {
				r.givenUp++
			}
		}
	}
	return e, nil
}

// holdNew gives the run an id that nobody else has.
func (r *runner) holdNew() (err error) {
	var held *journal.HeldError
	for {
		r.id = newRunID()
		if r.hold, err = journal.HoldRun(r.opts.Dir, r.id); !errors.As(err, &held) {
			return err
		}
	}
}

// holdLatest takes hold of the folder's latest run; nil is none to continue.
func (r *runner) holdLatest() (*journal.Run, error) {
	for {
		found, err := r.latest()
		if found == nil || err != nil {
			return nil, err
		}
		hold, err := journal.HoldRun(r.opts.Dir, found.ID())
		if _, is := errors.AsType[*journal.HeldError](err); is {
			return nil, fmt.Errorf("%w; follow it with --resume --follow, or stop it, or start a run of its own without --resume", err)
		}
		if err != nil {
			return nil, err
		}
		// What its former holder wrote last is in the journal only now.
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

// latest reads the run that --resume continues.
func (r *runner) latest() (*journal.Run, error) {
	if !r.opts.Resume {
		return nil, nil
	}
	j, err := journal.Read(r.opts.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // nothing to continue: a first run
	case err != nil:
		return nil, err
	case len(j.Runs) == 0:
		return nil, nil
	}
	last := j.Runs[len(j.Runs)-1]
	if last.Header.Bench != r.plan.Bench.Name {
		return nil, fmt.Errorf("the latest run in %s is of bench %q, not %q: choose another --out",
			r.opts.Dir, last.Header.Bench, r.plan.Bench.Name)
	}
	return last, nil
}

// planned is all the work of a plan.
func planned(p *plan.Plan) map[work]bool {
	set := map[work]bool{}
	for _, t := range everyTask(p) {
		set[work{t.Key, t.Trial}] = true
	}
	return set
}

// everyTask lists the tasks of a plan, then the dropped points in each trial.
func everyTask(p *plan.Plan) (all []plan.Task) {
	for _, g := range p.Groups {
		all = append(all, g.Tasks...)
	}
	for _, t := range p.Dropped {
		for t.Trial = range p.Trials {
			all = append(all, t)
		}
	}
	return all
}

// Stored is what a journal holds of the planned work, to be shown without running it:
// the run with the rows of the planned points and no others. Where any of them is
// missing, bad or was made with other options, the error says which.
func Stored(p *plan.Plan, j *journal.Journal, last *journal.Run) (*journal.Run, error) {
	if p.Bench.Accumulate { // then the views, too, show what earlier runs did
		last = j.Accumulated(last)
	}
	wanted := planned(p)
	e := newEarlier()
	e.review(last, wanted, false)
	lacks := map[work]string{}
	for w := range wanted {
		if !e.done[w] {
			lacks[w] = "missing"
		}
	}
	stored := *last
	stored.Rows = nil
	for _, row := range last.Latest() {
		w := work{row.TaskKey(), row.Trial}
		switch {
		case !wanted[w]:
			continue
		case row.Status.Bad(), row.Status == journal.NotExecuted && !row.Optional:
			lacks[w] = fmt.Sprintf("%s (%s)", row.Status, row.Reason)
		}
		stored.Rows = append(stored.Rows, row)
	}
	if len(lacks) > 0 {
		return nil, &IncompleteError{Dir: j.Dir(), Of: len(wanted), Options: otherOptions(p, last), Rows: lackOf(p, lacks),
			Problems: j.Problems}
	}
	if p.Bench.Accumulate {
		return last, nil
	}
	return &stored, nil
}

// IncompleteError says what of a plan a journal does not hold.
type IncompleteError struct {
	Dir      string
	Of       int      // rows that the plan has
	Rows     []string // those that are not there or bad, with the reason
	Options  string   // that the rows were made with others; "" is the same ones
	Problems []journal.Problem
}

func (e *IncompleteError) Error() string {
	const shown = 5
	text := fmt.Sprintf("%d of %d rows are not in %s or not good: %s", len(e.Rows), e.Of, e.Dir,
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

// lackOf words what is lacking, in the order of the plan.
func lackOf(p *plan.Plan, lacks map[work]string) (out []string) {
	for _, t := range everyTask(p) {
		if why := lacks[work{t.Key, t.Trial}]; why != "" {
			name := strings.TrimSpace(fmt.Sprintf("%s %v", t.Part, t.Point))
			if t.Ranks > 0 {
				name += fmt.Sprintf(" %s=%d", bench.RanksAxis, t.Ranks)
			}
			if p.Trials > 1 {
				name += fmt.Sprintf(" trial %d", t.Trial)
			}
			out = append(out, name+": "+why)
		}
	}
	return out
}

// otherOptions says how the options of a run's rows differ from those of the plan.
func otherOptions(p *plan.Plan, last *journal.Run) string {
	if len(last.Rows) == 0 {
		return ""
	}
	var differ []string
	for _, o := range p.Options {
		if stored, there := last.Rows[0].Options.Get(o.Name); !there || stored.String() != o.Value.String() {
			differ = append(differ, fmt.Sprintf("--%s %v, now %v", o.Name, stored, o.Value))
		}
	}
	if len(differ) == 0 {
		return ""
	}
	return "the rows there were made with " + strings.Join(differ, "; ")
}

// review decides what of the planned work a run has settled: what is good, and
// what failed in two invocations, the first one and one that resumed it, unless
// failures are to be tried again however often they were.
func (e *earlier) review(run *journal.Run, planned map[work]bool, retryFailed bool) {
	failedIn := map[work]int{} // the invocation in which it failed first
	tainted := map[work]int{}  // the attempt, from 1, that has a bad row, perhaps before good ones
	for i, row := range run.Rows {
		w := work{row.TaskKey(), row.Trial}
		e.tries[w] = max(e.tries[w], row.Attempt+1)
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
		// A program's table is several rows, and nothing marks the last one: at the
		// end of a run that was killed, some may be missing.
		if row.Task != "" && i == len(run.Rows)-1 && run.End == nil {
			delete(e.done, w)
		}
	}
	for _, b := range run.Unfinished() { // started once more, and then killed
		delete(e.done, work{b.Key, b.Trial})
	}
}

// invocationOf numbers the command that wrote at that time.
func invocationOf(run *journal.Run, at time.Time) int {
	n := 0
	for _, h := range run.Headers {
		if !h.Time.After(at) {
			n++
		}
	}
	return n
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

// followTick is how often a run that is followed is looked at.
const followTick = 200 * time.Millisecond

// follow observes the run that another process is at work on until nobody is, and gives that
// process's result. It writes nothing and launches nothing.
func (r *runner) follow(ctx context.Context, held *journal.HeldError) (Result, error) {
	f, err := journal.Follow(r.opts.Dir)
	if err != nil {
		return Result{}, err
	}
	r.id = held.Run
	tick := time.NewTicker(followTick)
	defer tick.Stop()
	rows, notes := -1, 0 // how many were told of; none before the start
	for {
		// Asked before the journal is read: who has let go of the run has written all of it.
		holder, err := journal.HolderOf(r.opts.Dir, r.id)
		if err != nil {
			return Result{}, err
		}
		j, _, err := f.Next()
		if err != nil {
			return Result{}, err
		}
		run, err := j.Find(r.id)
		if err != nil {
			return Result{}, err
		}
		if rows < 0 || rows > len(run.Rows) { // the second: the file was replaced
			done, planned := run.Progress()
			r.opts.Observe(Event{Started: &Started{Run: r.id, Dir: r.opts.Dir, Rows: planned, Done: done,
				Launches: run.Header.Launches, Follows: held}})
			rows, notes = len(run.Rows), len(run.Notes)
		}
		for ; rows < len(run.Rows); rows++ {
			r.opts.Observe(Event{Recorded: &run.Rows[rows]})
		}
		for ; notes < len(run.Notes); notes++ {
			r.opts.Observe(Event{Note: run.Notes[notes].Text})
		}
		if holder == nil {
			return r.followed(run, held)
		}
		select {
		case <-ctx.Done():
			return Result{}, fmt.Errorf("no longer following run %s, which goes on: %w", r.id, ctx.Err())
		case <-tick.C:
		}
	}
}

// followed is the result of a run that another process has ended.
func (r *runner) followed(run *journal.Run, held *journal.HeldError) (Result, error) {
	if run.End == nil {
		return Result{}, fmt.Errorf("run %s did not come to its end: process %d on host %s is gone; --resume continues it",
			r.id, held.PID, held.Host)
	}
	res := Result{Run: r.id, Counts: run.End.Counts, Missing: run.End.Missing,
		Interrupted: run.End.Outcome == "interrupted"}
	if run.End.Outcome == "failed" && res.Counts[journal.Failed]+res.Counts[journal.Timeout] == 0 {
		res.Broken = "it was given up"
		if n := len(run.Notes); n > 0 {
			res.Broken = run.Notes[n-1].Text
		}
	}
	e, wanted := newEarlier(), planned(r.plan)
	e.review(run, wanted, false)
	if lacks := len(wanted) - len(e.done); lacks > 0 && run.End.Outcome == "complete" && r.opts.Source == nil {
		r.opts.Observe(Event{Note: fmt.Sprintf("the run has come to its end without %d of the %d rows that this command "+
			"is for: --resume runs them",
			lacks, len(wanted))})
	}
	return res, nil
}
