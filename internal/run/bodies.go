package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/agree"
	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/hostinfo"
	"github.com/kernbench/kernbench/internal/journal"
	"github.com/kernbench/kernbench/internal/launch"
	"github.com/kernbench/kernbench/internal/plan"
	"github.com/kernbench/kernbench/internal/point"
	"github.com/kernbench/kernbench/internal/worker"
)

const (
	// startLimit bounds how long the workers may take to connect.
	startLimit = 60 * time.Second
	// stragglerLimit is how long the other ranks may take to end a task that
	// one rank has left; then they are woken, and after as long again killed.
	stragglerLimit = 3 * time.Second
	// quitLimit is how long workers may take to end when asked.
	quitLimit = 2 * time.Second
)

// crew is a launch of workers: one process per rank, connected.
type crew struct {
	r      *runner
	group  *plan.Group
	hub    *worker.Hub
	launch *launch.Launch
	logs   string // folder name as in the rows
	path   string
	ranks  []rankState
	events <-chan launch.Event
	tick   *time.Ticker
}

type rankState struct {
	joined, ready bool
	phase         string
	waiting       bool
	heard         time.Time
	env           map[string]*string
	exit          *launch.Exit
}

// trouble is why a launch cannot go on.
type trouble struct {
	status journal.Status
	rank   *int
	phase  string
	reason string
	dump   bool // the workers hang: their stacks are worth having
}

// bodies starts the workers of a group and runs tasks until all are settled or
// the launch is broken. It returns the attempts still to be made.
func (r *runner) bodies(ctx context.Context, g *plan.Group, todo []attempt) ([]attempt, error) {
	c, tr, err := r.assemble(ctx, g)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if tr != nil {
		// No worker could even start: the same would befall every task.
		for i, a := range todo {
			if i == 0 {
				c.end(tr)
			}
			row := r.row(a.task)
			c.blame(&row, tr)
			if _, err := r.settle(attempt{task: a.task, number: a.number, budget: r.opts.Retries}, row); err != nil {
				return nil, err
			}
		}
		return nil, ctx.Err()
	}
	for i, a := range todo {
		if err := r.begin(a); err != nil {
			return nil, err
		}
		before, _ := hostinfo.Snapshot(hostinfo.Root())
		res, tr := c.perform(ctx, i, a.task)
		if ctx.Err() != nil {
			c.end(&trouble{reason: "interrupted"})
			return nil, ctx.Err()
		}
		after, _ := hostinfo.Snapshot(hostinfo.Root())
		row := r.row(a.task)
		row.Launch, row.Load = c.logs, loadOf(before, after)
		broken := tr != nil || !res.healthy
		if broken {
			if tr == nil {
				tr = &trouble{reason: "a rank failed"}
				res.fill(&row)
				c.end(tr)
				row.Output = c.lastOutput(row.Rank)
			} else {
				row.Output = c.lastOutput(tr.rank) // before the dump of a hung worker buries it
				c.end(tr)
				c.blame(&row, tr)
			}
		} else {
			res.fill(&row)
			c.warnCrowded(&row)
			if err := r.keepRaw(&row, res.raw); err != nil {
				return nil, err
			}
		}
		again, err := r.settle(a, row)
		if err != nil {
			return nil, err
		}
		if broken || len(again) > 0 {
			return append(again, todo[i+1:]...), nil
		}
	}
	return nil, nil
}

// assemble starts the processes and waits until all are ready.
func (r *runner) assemble(ctx context.Context, g *plan.Group) (*crew, *trouble, error) {
	c := &crew{r: r, group: g, ranks: make([]rankState, g.Ranks), tick: time.NewTicker(time.Second)}
	var err error
	if c.logs, c.path, err = r.logDir(); err != nil {
		return nil, nil, err
	}
	if c.hub, err = worker.Listen(); err != nil {
		return nil, nil, err
	}
	var files []*os.File
	if g.Ranks > 1 {
		shm, err := agree.NewShm(g.Ranks)
		if err != nil {
			return nil, nil, err
		}
		defer shm.Close()
		files = append(files, shm)
	}
	extra := c.hub.Vars(g.Ranks > 1)
	procs, err := r.processes(g, c.path, []string{"/proc/self/exe"}, "", extra)
	if err != nil {
		return nil, nil, err
	}
	for i := range procs {
		procs[i].ExtraFiles = files
	}
	c.launch, err = r.agent.Launch(ctx, launch.Spec{Procs: procs})
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return c, &trouble{status: journal.Failed, phase: "start", reason: err.Error()}, nil
	}
	c.events = c.launch.Events()
	return c, c.muster(ctx), nil
}

// muster waits for every worker to connect, gives it the job and checks the
// environment it saw.
func (c *crew) muster(ctx context.Context) *trouble {
	r, g := c.r, c.group
	watch := make([]string, len(g.Env))
	for i, e := range g.Env {
		watch[i] = e.Name
	}
	job := worker.Job{Bench: r.plan.Bench.Name, Part: g.Part.Name, Size: g.Ranks, Backend: r.plan.Backend,
		Seed: r.plan.Seed, Watch: watch, Measure: g.Part.Measure}
	deadline := time.NewTimer(startLimit)
	defer deadline.Stop()
	for ready := 0; ready < g.Ranks; {
		select {
		case <-ctx.Done():
			return &trouble{reason: "interrupted"}
		case <-deadline.C:
			rank := c.firstMissing(func(s rankState) bool { return s.ready })
			return &trouble{status: journal.Timeout, rank: &rank, phase: "start", dump: true,
				reason: fmt.Sprintf("rank %d did not report within %v of its start", rank, startLimit)}
		case e := <-c.hub.Events():
			if tr := c.hear(e); tr != nil {
				return tr
			}
			switch {
			case e.Joined:
				if e.Rank < 0 || e.Rank >= g.Ranks {
					return &trouble{status: journal.Failed, phase: "start", reason: fmt.Sprintf("a worker says it is rank %d of %d", e.Rank, g.Ranks)}
				}
				if err := c.hub.Job(e.Rank, job); err != nil {
					return &trouble{status: journal.Failed, rank: &e.Rank, phase: "start", reason: err.Error()}
				}
			case e.Ready:
				if e.Error != "" {
					return &trouble{status: journal.Failed, rank: &e.Rank, phase: "start", reason: e.Error}
				}
				if err := envSeen(g.Env, e.Env); err != nil {
					return &trouble{status: journal.Failed, rank: &e.Rank, phase: "start", reason: err.Error()}
				}
				ready++
			}
		case e := <-c.events:
			if tr := c.watch(e); tr != nil {
				return tr
			}
		}
	}
	return nil
}

// hear notes what a worker said about itself.
func (c *crew) hear(e worker.Event) *trouble {
	if e.Rank < 0 || e.Rank >= len(c.ranks) {
		return nil
	}
	s := &c.ranks[e.Rank]
	s.heard = time.Now()
	switch {
	case e.Joined:
		s.joined = true
	case e.Ready:
		s.ready, s.env = true, e.Env
	case e.Beat:
		s.phase, s.waiting = e.Phase, e.Waiting
	}
	return nil
}

// watch notes what happened to a process. A worker that ends before it was
// asked to is trouble.
func (c *crew) watch(e launch.Event) *trouble {
	x, ok := e.(launch.Exit)
	if !ok {
		if e == nil { // the launch is over, with or without a word
			c.events = nil
			if i := c.firstMissing(func(s rankState) bool { return s.exit == nil }); i >= 0 {
				return c.died(c.ranks[i].exit)
			}
			return &trouble{status: journal.Failed, reason: "the launch agent died and took the workers with it"}
		}
		return nil
	}
	if x.Rank >= 0 && x.Rank < len(c.ranks) {
		c.ranks[x.Rank].exit = &x
	}
	return c.died(&x)
}

func (c *crew) died(x *launch.Exit) *trouble {
	rank := x.Rank
	return &trouble{status: journal.Failed, rank: &rank, phase: c.ranks[rank].phase, reason: "the worker ended: " + x.String()}
}

// perform has all ranks run one task and waits for their answers.
func (c *crew) perform(ctx context.Context, index int, t plan.Task) (*results, *trouble) {
	values := append(append(point.Point{}, t.Point...), c.r.plan.Options...)
	kinds := make([]point.Kind, len(values))
	for i, v := range values {
		kinds[i] = v.Value.Kind()
	}
	now := time.Now()
	for rank := range c.ranks {
		c.ranks[rank].heard = now
		c.hub.Task(rank, worker.Task{Index: index, Point: values, Kinds: kinds, Trial: t.Trial})
	}
	limit := c.r.opts.Timeout
	if limit == 0 {
		limit = plan.Timeout(c.group.Part)
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	res := &results{byRank: make([]*worker.Event, len(c.ranks))}
	var straggle <-chan time.Time
	woken := false
	for !res.complete() {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-deadline.C:
			rank := c.culprit(res)
			s := c.ranks[rank]
			return nil, &trouble{status: journal.Timeout, rank: &rank, phase: s.phase, dump: true,
				reason: fmt.Sprintf("rank %d did not finish within %v (phase: %s)", rank, limit, s.phase)}
		case <-straggle:
			if woken {
				return res, nil // the failure is known; the others will be killed
			}
			woken = true
			for rank, e := range res.byRank {
				if e == nil {
					c.hub.Abort(rank, res.firstReason())
				}
			}
			straggle = time.After(stragglerLimit)
		case e := <-c.hub.Events():
			c.hear(e)
			if e.Done != nil && e.Index == index {
				res.add(e)
				if straggle == nil && e.Done.Status != journal.OK {
					straggle = time.After(stragglerLimit)
				}
			}
		case e := <-c.events:
			if tr := c.watch(e); tr != nil {
				return nil, tr
			}
		case now := <-c.tick.C:
			for rank, s := range c.ranks {
				if now.Sub(s.heard) > worker.Dead {
					return nil, &trouble{status: journal.Failed, rank: &rank, phase: s.phase,
						reason: fmt.Sprintf("rank %d lost its heartbeat: nothing heard for %v (stopped, or starved of CPU)", rank, worker.Dead)}
				}
			}
		}
	}
	return res, nil
}

// culprit is the rank to name for a hang: one that is not done and not merely
// waiting for others.
func (c *crew) culprit(res *results) int {
	waiting := -1
	for rank, e := range res.byRank {
		if e != nil {
			continue
		}
		if !c.ranks[rank].waiting {
			return rank
		}
		if waiting < 0 {
			waiting = rank
		}
	}
	return max(waiting, 0)
}

func (c *crew) firstMissing(has func(rankState) bool) int {
	for i, s := range c.ranks {
		if !has(s) {
			return i
		}
	}
	return -1
}

// blame makes a row of trouble.
func (c *crew) blame(row *journal.Row, tr *trouble) {
	row.Status, row.Rank, row.Phase, row.Reason = tr.status, tr.rank, tr.phase, tr.reason
	row.Launch = c.logs
	if row.Output == "" || !tr.dump {
		if out := c.lastOutput(tr.rank); out != "" {
			row.Output = out
		}
	}
}

// end stops what still runs and waits until nothing is left.
func (c *crew) end(tr *trouble) {
	if c.launch == nil {
		return
	}
	c.launch.Stop(tr.reason, tr.dump)
	c.launch.Wait()
}

// close ends the launch in order: the workers are asked first.
func (c *crew) close() {
	c.tick.Stop()
	if c.launch != nil {
		for rank := range c.ranks {
			c.hub.Quit(rank)
		}
		ended := make(chan struct{})
		go func() { c.launch.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(quitLimit):
			c.launch.Stop("the workers did not end when asked", false)
			<-ended
		}
	}
	c.hub.Close()
}

func (c *crew) lastOutput(rank *int) string {
	if rank == nil {
		return ""
	}
	return lastOutput(c.path, *rank)
}

func (c *crew) warnCrowded(row *journal.Row) {
	if cores := c.r.host.CPU.Usable; float64(c.group.Ranks) > cores && cores > 0 {
		row.Warnings = append(row.Warnings, fmt.Sprintf("%d ranks share %g cores", c.group.Ranks, cores))
	}
}

// results collects the ranks' answers to one task.
type results struct {
	byRank  []*worker.Event
	order   []worker.Event
	healthy bool
	raw     []byte
}

func (s *results) add(e worker.Event) {
	if e.Rank < 0 || e.Rank >= len(s.byRank) || s.byRank[e.Rank] != nil {
		return
	}
	s.byRank[e.Rank] = &e
	s.order = append(s.order, e)
	s.healthy = s.complete() && s.agreed()
}

func (s *results) complete() bool { return len(s.order) == len(s.byRank) }

// agreed reports whether all ranks came to the same good end.
func (s *results) agreed() bool {
	for _, e := range s.order {
		if e.Done.Status != s.order[0].Done.Status || e.Done.Status.Bad() {
			return false
		}
	}
	return true
}

func (s *results) firstReason() string {
	for _, e := range s.order {
		if e.Done.Status != journal.OK {
			return fmt.Sprintf("rank %d left the task: %s", e.Rank, e.Done.Reason)
		}
	}
	return "another rank left the task"
}

// fill makes the row from the answers.
func (s *results) fill(row *journal.Row) {
	if s.healthy {
		zero := s.byRank[0].Done
		fillOutcome(row, zero)
		s.raw = zero.Raw
		for _, e := range s.byRank[1:] {
			for _, w := range e.Done.Warnings {
				if !slices.Contains(zero.Warnings, w) { // what all ranks say is said once
					row.Warnings = append(row.Warnings, fmt.Sprintf("rank %d: %s", e.Rank, w))
				}
			}
		}
		row.Warnings = unique(row.Warnings)
		return
	}
	if culprit := s.primary(); culprit != nil {
		fillOutcome(row, culprit.Done)
		row.Rank, row.Phase = &culprit.Rank, culprit.Done.Phase
		return
	}
	row.Status = journal.Failed
	row.Reason = "the ranks disagree: " + s.firstReason() + ", others did not"
	for _, e := range s.order {
		if e.Done.Status != journal.OK {
			row.Rank, row.Phase = &e.Rank, e.Done.Phase
			return
		}
	}
}

// primary is the failure that explains the others.
func (s *results) primary() *worker.Event {
	var follower *worker.Event
	for i := range s.order {
		e := &s.order[i]
		if !e.Done.Status.Bad() {
			continue
		}
		if !e.Secondary {
			return e
		}
		if follower == nil {
			follower = e
		}
	}
	for i := range s.order {
		if s.order[i].Done.Status == journal.Skipped {
			return nil // a skip on one rank made the others fail
		}
	}
	return follower
}

func fillOutcome(row *journal.Row, o *decl.Outcome) {
	row.Status, row.Reason, row.Kind = o.Status, o.Reason, o.Kind
	row.Clock, row.Cadence, row.Cache = o.Clock, o.Cadence, o.Cache
	row.Samples, row.Batch = o.Samples, o.Batch
	row.Stats, row.Limits, row.Skew, row.Slowest = o.Stats, o.Limits, o.Skew, o.Slowest
	row.Warnings = append(row.Warnings, o.Warnings...)
	for name, v := range o.Metrics {
		row.Metrics[name] = v
	}
	for _, m := range o.Infos {
		if m.Unit != "" {
			row.Units[m.Name] = m.Unit
		}
	}
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

func (r *runner) keepRaw(row *journal.Row, raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	name := fmt.Sprintf("%s-%s-%d.kbs", r.id, row.Key, row.Trial)
	if err := journal.WriteRaw(r.opts.Dir, name, raw); err != nil {
		return err
	}
	row.Raw = name
	return nil
}

func loadOf(a, b hostinfo.Load) *journal.Load {
	u := hostinfo.Between(a, b)
	return &journal.Load{Before: a.Load1, After: b.Load1, Busy: u.Busy, Steal: u.Steal}
}

func unique(texts []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, t := range texts {
		if !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// lastOutput is the end of what a rank printed, its errors before the rest.
func lastOutput(dir string, rank int) string {
	const most = 2000
	for _, ext := range []string{"err", "out"} {
		f, err := os.Open(filepath.Join(dir, fmt.Sprintf("rank%d.%s", rank, ext)))
		if errors.Is(err, os.ErrNotExist) || err != nil {
			continue
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil || st.Size() == 0 {
			continue
		}
		buf := make([]byte, min(st.Size(), most))
		if _, err := f.ReadAt(buf, st.Size()-int64(len(buf))); err == nil {
			return toValidText(buf)
		}
	}
	return ""
}
