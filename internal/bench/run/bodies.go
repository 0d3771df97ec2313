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
	"github.com/kernbench/kernbench/internal/bench/remeasure"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// stragglerLimit is how long the other ranks may take to end a task that one
// rank has left; then they are woken, and after as long again killed.
const stragglerLimit = 3 * time.Second

// bodies starts the workers of a group and runs tasks until none is left or the
// launch is broken.
func (s *runSlot) bodies(ctx context.Context, b *backlog) error {
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
	for {
		next := b.take(1)
		if len(next) == 0 {
			return nil
		}
		again, healthy, err := s.body(ctx, w, next[0])
		if err != nil {
			return err
		}
		b.putBack(again)
		if !healthy || len(again) > 0 {
			return nil
		}
	}
}

// body has the workers make one attempt, and records its row. What is disturbed they
// measure again. Workers that are not healthy afterwards have been stopped.
func (s *runSlot) body(ctx context.Context, w *workerGroup, a attempt) (again []attempt, healthy bool, err error) {
	if err := s.recordStart(a); err != nil {
		return nil, false, err
	}
	var raw []files
	var f *failure
	rows, err := s.measure(s.timeout(w.group), func() ([]journal.Row, error) {
		row, beside, failed, err := s.bodyOnce(ctx, w, a.task)
		raw, f = append(raw, beside), failed
		return []journal.Row{row}, err
	}, func(kept int, rows []journal.Row) error { return s.keepFiles(&rows[0], raw[kept]) })
	if rows == nil {
		return nil, false, err
	}
	again, settleErr := s.settle(a, rows...)
	if err = cmp.Or(settleErr, err); err == nil && f != nil && s.opts.Joined != nil && ctx.Err() != nil {
		err = &brokenError{f.reason}
	}
	return again, f == nil, err
}

// measure has a point measured, and again while it is disturbed and there is time, and
// gives the rows that count. Measurements that were made before an error stay; without
// any there are no rows.
func (s *runSlot) measure(limit time.Duration, once func() ([]journal.Row, error),
	keep func(kept int, rows []journal.Row) error) (rows []journal.Row, err error) {
	start := time.Now()
	var all [][]journal.Row
	for {
		began, look := time.Now(), s.watch.Start()
		measured, err := once()
		if err != nil {
			if len(all) == 0 {
				return nil, err
			}
			return s.kept(all, keep, err)
		}
		load := look.End()
		for i := range measured {
			measured[i].Load = load
			measured[i].Judge()
		}
		took := time.Since(began)
		s.again.Spend(len(all), took)
		all = append(all, measured)
		if !remeasure.Disturbed(measured) || !s.again.Allows(len(all), took, limit-time.Since(start)) {
			return s.kept(all, keep, nil)
		}
	}
}

// kept is what counts of all measurements of a point.
func (s *runSlot) kept(all [][]journal.Row, keep func(kept int, rows []journal.Row) error, err error) ([]journal.Row,
	error) {
	at, rows := remeasure.Keep(all)
	return rows, cmp.Or(keep(at, rows), err)
}

// bodyOnce has the workers run a task, and makes a row of what they say.
func (s *runSlot) bodyOnce(ctx context.Context, w *workerGroup, t plan.Task) (row journal.Row, beside files,
	f *failure, err error) {
	res, f := w.runTask(ctx, t)
	if ctx.Err() != nil && (f == nil || s.opts.Joined == nil) {
		w.stop(&failure{reason: "interrupted"})
		return row, files{}, nil, ctx.Err()
	}
	row = s.row(t)
	row.Launch = w.logs
	switch {
	case f != nil:
		row.Output = w.lastOutput(f.rank) // before the stacks of a hung worker follow it
		w.stop(f)
		w.fail(&row, f)
	case !res.healthy:
		f = &failure{reason: "a rank failed"}
		res.fill(&row)
		w.stop(f)
		row.Output = joinLines(row.Output, w.lastOutput(row.Rank))
	default:
		res.fill(&row)
		w.warnCrowded(&row)
	}
	return row, res.files(), f, nil
}

// startFailed records a launch that broke before it was ready. The first time it
// may have been an accident, and costs the point it was for; a group that
// cannot start again and again would do so for every point.
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
		if len(lost) > 1 {
			a.budget = s.opts.Retries
		}
		more, err := s.settle(a, row)
		if err != nil {
			return err
		}
		again = append(again, more...)
	}
	b.putBack(again)
	return nil
}

// runTask has all ranks run one task and waits for their results.
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
	var straggle <-chan time.Time
	woken := false
	for !res.complete() {
		select {
		case <-ctx.Done():
			return nil, w.interruptCause()
		case <-deadline.C:
			if _, left := res.left(); left {
				return res, nil // the others may well hang, but only since
			}
			rank := w.culprit(res)
			return nil, w.unlessDoomed(&failure{status: journal.Timeout, rank: &rank, phase: w.ranks[rank].phase, dump: true,
				reason: fmt.Sprintf("not finished within %v", limit)})
		case <-straggle:
			if woken {
				return res, nil // the failure is known; the others will be killed
			}
			straggle = time.After(stragglerLimit)
			woken = w.wakeStragglers(res)
		case e := <-w.hub.Events():
			w.note(e)
			if f := w.lost(e); f != nil {
				return nil, f
			}
			if e.Done == nil || e.Index != index {
				continue
			}
			res.add(e)
			if straggle == nil && e.Done.Status != journal.OK {
				straggle = time.After(stragglerLimit)
			}
		case e := <-w.events:
			if w.slot.interruptFollows(ctx, w.group, e) {
				return nil, w.interruptCause()
			}
			if f := w.processEvent(e); f != nil {
				return nil, f
			}
		case <-w.tick.C:
			if f := w.checkHeartbeats(); f != nil {
				return nil, w.unlessDoomed(f)
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

// wakeStragglers aborts the ranks that have not ended a task that another has
// left, and reports whether it did: a rank may yet find out that it skips too.
func (w *workerGroup) wakeStragglers(res *results) bool {
	if !res.bad() && w.working(res) >= 0 {
		return false
	}
	for rank, e := range res.byRank {
		if e == nil {
			w.hub.Abort(min(rank, w.procs-1), res.firstReason()) // one that cannot be told is gone
		}
	}
	return true
}

// checkHeartbeats counts a tick of silence for every rank.
func (w *workerGroup) checkHeartbeats() *failure {
	for rank := range w.ranks {
		s := &w.ranks[rank]
		if s.silent++; time.Duration(s.silent)*tickTime > connection.SilenceLimit {
			return &failure{status: journal.Failed, rank: &rank, phase: s.phase,
				reason: fmt.Sprintf("lost heartbeat: nothing heard for %v (stopped, or starved of CPU)",
					connection.SilenceLimit)}
		}
	}
	return nil
}

// working is the first rank that is not done and not merely waiting for others, -1 if there is none.
func (w *workerGroup) working(res *results) int {
	for rank, e := range res.byRank {
		if e == nil && !w.ranks[rank].waiting {
			return rank
		}
	}
	return -1
}

// culprit is the rank to name for a hang: one that works, or else the first that is not done.
func (w *workerGroup) culprit(res *results) int {
	if rank := w.working(res); rank >= 0 {
		return rank
	}
	return max(slices.Index(res.byRank, nil), 0)
}

// fail makes a row of a failure.
func (w *workerGroup) fail(row *journal.Row, f *failure) {
	row.Status, row.Rank, row.Phase, row.Reason = f.status, f.rank, f.phase, f.reason
	row.Launch = w.logs
	scripted := w.slot.plan.Bench.Script != nil
	if scripted && f.dump { // its stacks are short, unlike those of all goroutines
		row.Output = joinLines(row.Output, w.lastOutput(f.rank))
	} else if row.Output == "" || !f.dump {
		if out := w.lastOutput(f.rank); out != "" {
			row.Output = out
		}
	}
}

func (w *workerGroup) lastOutput(rank *int) string {
	switch {
	case w.via != nil, w.oneProcess():
		return lastOutput(w.path, 0) // all ranks' output comes from one process
	case rank == nil:
		return ""
	}
	return lastOutput(w.path, *rank)
}

func (w *workerGroup) warnCrowded(row *journal.Row) {
	cores, ranks := w.slot.host.CPU.Usable, w.group.Ranks
	if w.slot.joined(w.group) {
		if text := w.slot.opts.Joined.Leader.Oversubscribed(); text != "" {
			row.Warnings = append(row.Warnings, text)
		}
		return
	}
	here := w.via == nil && !w.slot.plan.Shape.Simulated
	if here && cores > 0 && float64(ranks) > cores {
		row.Warnings = append(row.Warnings, fmt.Sprintf("%d ranks share %g cores", ranks, cores))
	}
}

// joinLines puts two texts under each other.
func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimRight(a, "\n") + "\n" + b
}

// envSeen compares what a rank saw with what was planned.
func envSeen(planned point.Env, seen map[string]*string) error {
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
			return fmt.Errorf("the worker saw %s=%s where %s was planned", e.Name, have, want)
		}
	}
	return nil
}

// keepFiles stores what belongs to a row and is too large for the journal.
func (r *runner) keepFiles(row *journal.Row, f files) error {
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
