package run

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// stragglerLimit is how long the other ranks may take to end a task after one rank has left it. Then
// they are aborted, and after the same time again they are killed.
const stragglerLimit = 3 * time.Second

// runBodies starts the workers of a group and runs tasks until none is left or the launch cannot
// continue. The caller starts new workers for tasks that are left.
func (s *runSlot) runBodies(ctx context.Context, b *backlog) error {
	w, f, err := s.startWorkers(ctx, b.group)
	if err != nil {
		return err
	}
	defer w.close()
	if f != nil {
		w.stop(f)
		if err := ctx.Err(); err != nil {
			return err
		}
		return s.startFailed(w, f, b)
	}
	s.failedStarts = 0
	if err := s.checkInputs(b.group, plan.Task{}); err != nil { // the workers have loaded their files by now
		w.stop(&failure{reason: err.Error()})
		return &jobError{err.Error()}
	}
	for {
		next := b.take(1)
		if len(next) == 0 {
			return nil
		}
		retries, healthy, err := s.runBody(ctx, w, next[0])
		if err != nil {
			return err
		}
		b.putBack(retries)
		if !healthy || len(retries) > 0 {
			return nil
		}
	}
}

// runBody lets the workers make one attempt and records its row. Disturbed points are measured
// again. retries has the attempt to repeat, if any. If healthy is false, the workers have been stopped.
func (s *runSlot) runBody(ctx context.Context, w *workerGroup, a attempt) (retries []attempt, healthy bool, err error) {
	if err := s.recordStart(a); err != nil {
		return nil, false, err
	}
	var files []rowFiles // of each measurement
	var f *failure
	rows, err := s.measure(w.group, s.timeout(w.group), func() ([]journal.Row, error) {
		row, own, failed, err := s.bodyOnce(ctx, w, a.task)
		files, f = append(files, own), failed
		return []journal.Row{row}, err
	}, func(kept int, rows []journal.Row) error { return s.keepFiles(&rows[0], files[kept]) })
	if rows == nil {
		return nil, false, err
	}
	retries, recordErr := s.finishAttempt(a, rows...)
	if err = cmp.Or(recordErr, err); err == nil && f != nil && s.opts.Joined != nil && ctx.Err() != nil {
		err = &jobError{f.reason}
	}
	return retries, f == nil, err
}

// measure measures a point by calling once, and repeats this while the point is disturbed and time is
// left. It returns the rows of the least disturbed measurement, after passing them to keep. If once
// returns an error, the earlier measurements are used; without any, rows is nil.
func (s *runSlot) measure(g *plan.Group, limit time.Duration, once func() ([]journal.Row, error),
	keep func(kept int, rows []journal.Row) error) (rows []journal.Row, err error) {
	start := time.Now()
	var all [][]journal.Row
	for {
		began, sample := time.Now(), s.watch.start()
		measured, err := once()
		load, seen := sample.end()
		if err != nil {
			if len(all) == 0 {
				return nil, err
			}
			return s.chooseRows(all, keep, err)
		}
		for i := range measured {
			measured[i].Load = load
			journal.Judge(&measured[i], append(s.crowded(g), seen...)...)
		}
		took := time.Since(began)
		s.budget.spend(len(all), took)
		all = append(all, measured)
		if !anyDisturbed(measured) || !s.budget.allows(len(all), took, limit-time.Since(start)) {
			return s.chooseRows(all, keep, nil)
		}
	}
}

// chooseRows returns the rows of the least disturbed measurement of a point and passes them to keep.
// err is the error that ended the measurements.
func (s *runSlot) chooseRows(all [][]journal.Row, keep func(kept int, rows []journal.Row) error,
	err error) ([]journal.Row, error) {
	at, rows := keepLeastDisturbed(all)
	return rows, cmp.Or(keep(at, rows), err)
}

// bodyOnce lets the workers run a task and returns its row, the files of the row and, if the workers
// were stopped, the failure. The error is for faults of the harness and for interrupts.
func (s *runSlot) bodyOnce(ctx context.Context, w *workerGroup, t plan.Task) (row journal.Row, files rowFiles,
	f *failure, err error) {
	res, f := w.runTask(ctx, t)
	if ctx.Err() != nil && (f == nil || s.opts.Joined == nil) {
		w.stop(&failure{reason: "interrupted"})
		return row, rowFiles{}, nil, ctx.Err()
	}
	row = s.row(t)
	row.Launch = w.logs
	switch {
	case f != nil:
		row.Output = w.lastOutput(f.rank) // read it before stop makes a hung worker print its stacks
		w.stop(f)
		w.fail(&row, f)
	case !res.healthy:
		f = &failure{reason: "a rank failed"}
		res.fill(&row)
		w.stop(f)
		row.Output = joinLines(row.Output, w.lastOutput(row.Rank))
	default:
		res.fill(&row)
		if row.Status == journal.OK && !s.plan.Simulated {
			row.Conditions.Add(slices.Concat(w.stops.conditions(), w.starved.conditions())...)
		}
	}
	w.nameHost(&row, f)
	return row, res.files(), f, nil
}

// nameHost completes the reason of a failed rank. If the rank was on another host, it adds the name of
// the host. On this host, it adds the resource limit that the rank has hit, if any.
func (w *workerGroup) nameHost(row *journal.Row, f *failure) {
	if row.Status == journal.OK || row.Rank == nil || *row.Rank < 0 || *row.Rank >= len(w.ranks) {
		return
	}
	host := w.ranks[*row.Rank].host
	switch {
	case host == "":
		row.Reason = journal.Text(culprit.OwnLimits().AddTo(string(row.Reason)))
	case f == nil || !f.placed:
		row.Reason = journal.Textf("on host %s: %s", host, row.Reason)
	}
}

// startFailed records a launch that failed before its workers were ready. The first failure may be
// an accident, so it fails only one point. If the group repeatedly fails to start, all its points fail.
func (s *runSlot) startFailed(w *workerGroup, f *failure, b *backlog) error {
	s.failedStarts++
	many := 1
	if s.failedStarts > max(1, s.opts.Retries) {
		many = math.MaxInt
	}
	var again []attempt
	lost := b.take(many)
	for _, a := range lost {
		row := s.row(a.task)
		w.fail(&row, f)
		w.nameHost(&row, f)
		if len(lost) > 1 {
			a.budget = s.opts.Retries
		}
		more, err := s.finishAttempt(a, row)
		if err != nil {
			return err
		}
		again = append(again, more...)
	}
	b.putBack(again)
	return nil
}

// runTask lets all ranks run one task and waits for their results.
func (w *workerGroup) runTask(ctx context.Context, t plan.Task) (*results, *failure) {
	w.tasks++
	index := w.tasks
	if f := w.sendTask(index, t); f != nil {
		return nil, f
	}
	limit := w.slot.timeout(w.group)
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	res := &results{byRank: make([]*worker.Event, len(w.ranks))}
	var straggle <-chan time.Time // set when the first rank has left the task
	woken := false                // the other ranks have been aborted
	w.stops.reset()
	w.starved = starvation{}
	poll := time.NewTicker(stopPollInterval)
	defer poll.Stop()
	for !res.complete() {
		select {
		case <-poll.C:
			w.stops.poll()
		case <-ctx.Done():
			return nil, w.interruptCause()
		case <-deadline.C:
			if _, left := res.firstIncomplete(); left {
				return res, nil // the other ranks wait for the one that left, so they are not the cause
			}
			v := culprit.Blame(culprit.Evidence{Ranks: w.unfinished(res), Late: limit})
			return nil, w.preferLaunchFailure(&failure{status: statusOf[v.Kind], rank: &v.Rank, phase: v.Phase,
				reason: v.Reason})
		case <-straggle:
			if woken {
				return res, nil // the failure is known; the other ranks will be killed
			}
			straggle = time.After(stragglerLimit)
			woken = w.wakeStragglers(res)
		case e := <-w.hub.Events():
			w.updateRank(e)
			if e.Done == nil || e.Index != index {
				continue
			}
			res.add(e)
			if straggle == nil && e.Done.Status != journal.OK {
				straggle = time.After(stragglerLimit)
			}
		case e := <-w.events:
			if w.slot.partOfInterrupt(ctx, w.group, e) {
				return nil, w.interruptCause()
			}
			if f := w.processEvent(e); f != nil {
				return nil, f
			}
		case <-w.tick.C:
			if f := w.checkHeartbeats(); f != nil {
				return nil, w.preferLaunchFailure(f)
			}
		}
	}
	return res, nil
}

func (w *workerGroup) sendTask(index int, t plan.Task) *failure {
	task := worker.Task{Index: index, Trial: t.Trial, Point: slices.Concat(t.Point, w.slot.plan.Options),
		Limit: w.slot.timeout(w.group)}
	task.Kinds = lists.Map(task.Point, func(c point.Coord) point.Kind { return c.Value.Kind() })
	for rank := range w.ranks {
		w.ranks[rank].silent = 0
	}
	for rank := range w.procs {
		if err := w.hub.Task(rank, task); unsendable(err) {
			return &failure{status: journal.Failed, rank: &rank, phase: "start", reason: err.Error()}
		}
	}
	return nil
}

// wakeStragglers aborts the ranks that still run a task after another rank has left it, and reports
// whether it did. If no rank has failed, it waits for ranks that are working: they may still skip the
// task as well.
func (w *workerGroup) wakeStragglers(res *results) bool {
	left := w.unfinished(res)
	if !res.anyFailed() && slices.ContainsFunc(left, func(r culprit.Rank) bool { return !r.Waiting }) {
		return false
	}
	for _, r := range left {
		// An error means that the rank is gone, so there is nothing to wake.
		w.hub.Abort(min(r.Rank, w.procs-1), res.firstReason())
	}
	return true
}

// unfinished returns what is known about the ranks that have not ended the task.
func (w *workerGroup) unfinished(res *results) (ranks []culprit.Rank) {
	for rank, e := range res.byRank {
		if s := w.ranks[rank]; e == nil {
			ranks = append(ranks, culprit.Rank{Rank: rank, Phase: s.phase, Waiting: s.waiting})
		}
	}
	return ranks
}

// fail fills in a row for a failure.
func (w *workerGroup) fail(row *journal.Row, f *failure) {
	row.Status, row.Rank, row.Phase, row.Reason = f.status, f.rank, f.phase, journal.Text(f.reason)
	row.Launch = w.logs
	out, hung := w.lastOutput(f.rank), f.status == journal.Timeout // which makes the workers print their stacks
	switch scripted := w.slot.plan.Bench.Script != nil; {
	case scripted && hung: // Python's stacks are short; a dump of all goroutines would hide the output
		row.Output = joinLines(row.Output, out)
	case out != "" && (row.Output == "" || !hung):
		row.Output = out
	}
}

// lastOutput returns the end of the output of a rank, or "" if no rank is known.
func (w *workerGroup) lastOutput(rank *int) string {
	switch {
	case w.oneProcess():
		return lastOutput(w.path, 0) // it has the output of all ranks
	case rank == nil:
		return ""
	}
	return lastOutput(w.path, *rank)
}

// crowded returns the conditions that a host has more ranks than cores. Such ranks wait for each other's cores, whoever
// starts them.
func (r *runner) crowded(g *plan.Group) (found []journal.Condition) {
	cores := r.host.CPU.Usable
	switch {
	case r.joined(g):
		for _, host := range r.opts.Joined.Leader.Oversubscribed() {
			found = append(found, journal.NewCondition(journal.CodeCrowded, journal.Named{"ranks": float64(host.Ranks),
				"cores": float64(host.Cores)}, host.Name))
		}
	case r.opts.Launcher == nil && !r.plan.Simulated && cores > 0 && float64(g.Ranks) > cores:
		found = append(found, journal.NewCondition(journal.CodeCrowded, journal.Named{"ranks": float64(g.Ranks),
			"cores": cores}))
	}
	return found
}

// joinLines joins two texts with a line break.
func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimRight(a, "\n") + "\n" + b
}

// checkEnv compares the environment that a rank saw with the planned one.
func checkEnv(planned point.Env, seen map[string]*string) error {
	for _, e := range planned {
		have, want := "(unset)", e.Text()
		v, reported := seen[e.Name]
		if !reported {
			return fmt.Errorf("the worker did not report %s", e.Name)
		}
		if v != nil {
			have = *v
		}
		if (v != nil) != e.Set || have != want {
			return fmt.Errorf("the worker has %s=%s, but %s was planned", e.Name, have, want)
		}
	}
	return nil
}

// keepFiles stores the parts of a row that are too large for the journal.
func (r *runner) keepFiles(row *journal.Row, f rowFiles) error {
	name := fmt.Sprintf("%s-%s-%d", r.id, row.Key, row.Trial)
	if len(f.samples) > 0 {
		row.Raw = name + ".kbs"
		if err := journal.WriteRaw(r.opts.Dir, row.Raw, f.samples); err != nil {
			return err
		}
	}
	for metric, samples := range f.others {
		if row.Raws == nil {
			row.Raws = map[string]string{}
		}
		row.Raws[metric] = fmt.Sprintf("%s-%s.kbs", name, metric)
		if err := journal.WriteRaw(r.opts.Dir, row.Raws[metric], samples); err != nil {
			return err
		}
	}
	if len(f.inside) == 0 {
		return nil
	}
	row.Inside = name + ".json.gz"
	return journal.WriteInside(r.opts.Dir, row.Inside, f.inside)
}
