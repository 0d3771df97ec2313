package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// crew is a launch of workers: one process per rank, connected.
type crew struct {
	r      *lane
	group  *plan.Group
	hub    *worker.Hub
	launch started
	via    *Launcher // what started the ranks; nil when this process did
	logs   string    // folder name as in the rows
	path   string
	ranks  []rankState
	procs  int // worker processes: one per rank, or one that has them all
	events <-chan launch.Event
	tick   *time.Ticker
	hurry  func() bool // the job that this is part of is being ended
}

type rankState struct {
	joined, ready bool
	phase         string
	waiting       bool
	closed        bool // its connection has ended, so it has said its last word
	silent        int  // ticks since it was last heard
	exit          *launch.Exit
}

// tickTime is how often the crew looks at its heartbeats. Silence is counted in
// ticks and not by the clock: a supervisor that was itself stopped for a while
// finds one tick waiting, not a dead worker.
const tickTime = time.Second

// lastWords is how long to wait for what a worker said before it died.
const lastWords = time.Second

// trouble is why a launch cannot go on.
type trouble struct {
	status journal.Status
	rank   *int
	phase  string
	reason string
	dump   bool // the workers hang: their stacks are worth having
}

// assemble starts the processes and waits until all are ready. Trouble comes
// with a crew that must still be closed, an error without.
func (r *lane) assemble(ctx context.Context, g *plan.Group) (*crew, *trouble, error) {
	logs, path, err := r.logDir()
	if err != nil {
		return nil, nil, err
	}
	via := r.opts.Launcher
	count := r.plan.Processes(g)
	var files []*os.File
	addr := "" // where ranks on other hosts reach this one
	switch {
	case via != nil:
		addr = via.addr
	case r.joined(g):
		addr = r.opts.Joined.Leader.Addr()
	}
	if count > 1 && addr == "" {
		shm, err := syncgroup.NewShm(g.Ranks)
		if err != nil {
			return nil, nil, err
		}
		defer shm.Close()
		files = append(files, shm)
	}
	self, err := via.self()
	if err != nil {
		return nil, nil, err
	}
	listen := worker.Listen
	if addr != "" {
		listen = func() (*worker.Hub, error) { return worker.ListenTCP(addr, g.Ranks) }
	}
	hub, err := listen()
	if err != nil {
		return nil, nil, err
	}
	c := &crew{r: r, group: g, hub: hub, via: via, logs: logs, path: path, ranks: make([]rankState, g.Ranks), procs: count, tick: time.NewTicker(tickTime),
		hurry: func() bool { return ctx.Err() != nil && r.joined(g) }}
	for i := range c.ranks {
		c.ranks[i].phase = "start"
	}
	c.launch, err = r.start(ctx, g, spawn{logs: path, argv: self, extra: hub.Vars(count > 1), files: files})
	if err != nil {
		tr := &trouble{status: journal.Failed, phase: "start", reason: err.Error()}
		var lost *rankhost.LostError
		if errors.As(err, &lost) {
			tr.rank = &lost.Rank
		}
		return c, tr, nil
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
	job := worker.Job{Bench: r.plan.Bench.Name, Part: g.Part.Name, Size: g.Ranks, InProcess: r.plan.Shape.InProcess, Backend: r.plan.Backend,
		Session: rand.Text(), Seed: r.plan.Seed, Watch: watch, Measure: g.Part.Measure}
	deadline := time.NewTimer(startLimit)
	defer deadline.Stop()
	for ready := 0; ready < c.procs; {
		select {
		case <-ctx.Done():
			return &trouble{reason: "interrupted"}
		case <-deadline.C:
			rank := c.firstMissing(func(s rankState) bool { return s.ready })
			return &trouble{status: journal.Timeout, rank: &rank, phase: "start", dump: true,
				reason: fmt.Sprintf("the worker did not report within %v of its start", startLimit)}
		case e := <-c.hub.Events():
			c.hear(e)
			if tr := c.lost(e); tr != nil {
				return tr
			}
			switch {
			case e.Joined:
				if e.Rank < 0 || e.Rank >= g.Ranks {
					return &trouble{status: journal.Failed, phase: "start", reason: fmt.Sprintf("a worker says it is rank %d of %d", e.Rank, g.Ranks)}
				}
				c.hub.Job(e.Rank, job) // a worker that cannot be told has died, which is heard of
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
func (c *crew) hear(e worker.Event) {
	if e.Rank < 0 || e.Rank >= len(c.ranks) {
		return
	}
	s := &c.ranks[e.Rank]
	s.silent = 0
	switch {
	case e.Joined:
		s.joined = true
	case e.Ready:
		s.ready = true
	case e.Beat:
		s.phase, s.waiting = e.Phase, e.Waiting
	case e.Closed:
		s.closed = true
	}
}

// hearOut waits for what a dead worker said to the end: in which phase it died
// may still be on its way.
func (c *crew) hearOut(rank int) {
	limit := time.After(lastWords)
	for s := &c.ranks[rank]; s.joined && !s.closed; {
		select {
		case e := <-c.hub.Events():
			c.hear(e)
		case <-limit:
			return
		}
	}
}

// watch notes what happened to a process. A worker that ends before it was
// asked to is trouble.
func (c *crew) watch(e launch.Event) *trouble {
	x, ok := e.(launch.Exit)
	if !ok {
		if e == nil { // the launch is over, with or without a word
			c.events = nil
			if tr := c.lostPlace(); tr != nil {
				return tr
			}
			if c.via != nil {
				return &trouble{status: journal.Failed, phase: c.ranks[0].phase, reason: "the launch agent died and took " + c.via.Name() + " with it"}
			}
			if i := c.firstMissing(func(s rankState) bool { return s.exit == nil }); i >= 0 {
				return c.died(c.ranks[i].exit)
			}
			return &trouble{status: journal.Failed, phase: c.ranks[0].phase, reason: "the launch agent died and took the workers with it"}
		}
		return nil
	}
	if c.via != nil {
		return c.launcherDied(&x)
	}
	if x.Stopped { // not by this crew: a place was lost, and took the others with it
		if tr := c.lostPlace(); tr != nil {
			return tr
		}
	}
	if x.Rank >= 0 && x.Rank < len(c.ranks) {
		c.ranks[x.Rank].exit = &x
	}
	return c.died(&x)
}

func (c *crew) died(x *launch.Exit) *trouble {
	rank := x.Rank
	c.hearOut(rank)
	tr := &trouble{status: journal.Failed, rank: &rank, phase: c.ranks[rank].phase, reason: "the worker ended with " + x.How()}
	if c.together() { // who of them it was, nobody can tell
		tr.rank, tr.reason = nil, fmt.Sprintf("the process of all %d ranks ended with %s", len(c.ranks), x.How())
	}
	return tr
}

// together tells whether one process has several ranks.
func (c *crew) together() bool { return c.via == nil && c.procs == 1 && len(c.ranks) > 1 }

// perform has all ranks run one task and waits for their answers.
func (c *crew) perform(ctx context.Context, index int, t plan.Task) (*results, *trouble) {
	values := append(append(point.Point{}, t.Point...), c.r.plan.Options...)
	kinds := make([]point.Kind, len(values))
	for i, v := range values {
		kinds[i] = v.Value.Kind()
	}
	for rank := range c.ranks {
		c.ranks[rank].silent = 0
	}
	for rank := range c.procs {
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
			return nil, c.deathbed()
		case <-deadline.C:
			if res.left() {
				return res, nil // the others may well hang, but only since
			}
			rank := c.culprit(res)
			s := c.ranks[rank]
			return nil, &trouble{status: journal.Timeout, rank: &rank, phase: s.phase, dump: true,
				reason: fmt.Sprintf("not finished within %v", limit)}
		case <-straggle:
			if woken {
				return res, nil // the failure is known; the others will be killed
			}
			if straggle = time.After(stragglerLimit); !res.bad() && !c.allWait(res) {
				continue // a rank that has yet to find out that it skips too
			}
			woken = true
			for rank, e := range res.byRank {
				if e == nil {
					c.hub.Abort(min(rank, c.procs-1), res.firstReason())
				}
			}
		case e := <-c.hub.Events():
			c.hear(e)
			if tr := c.lost(e); tr != nil {
				return nil, tr
			}
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
		case <-c.tick.C:
			for rank := range c.ranks {
				s := &c.ranks[rank]
				if s.silent++; time.Duration(s.silent)*tickTime > worker.Dead {
					return nil, &trouble{status: journal.Failed, rank: &rank, phase: s.phase,
						reason: fmt.Sprintf("lost heartbeat: nothing heard for %v (stopped, or starved of CPU)", worker.Dead)}
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

// allWait reports whether every rank that is not done waits for the others.
func (c *crew) allWait(res *results) bool {
	for rank, e := range res.byRank {
		if e == nil && !c.ranks[rank].waiting {
			return false
		}
	}
	return true
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
	c.launch.Stop(tr.reason, tr.dump && c.via == nil) // a launcher would only dump itself
	c.await(0)
}

// close ends the launch in order: the workers are asked first.
func (c *crew) close() {
	c.tick.Stop()
	if c.launch != nil {
		for rank := range c.procs {
			c.hub.Quit(rank)
		}
		if !c.await(quitLimit) {
			c.launch.Stop("the workers did not end when asked", false)
			c.await(0)
		}
	}
	c.hub.Close()
}

func (c *crew) lastOutput(rank *int) string {
	switch {
	case c.via != nil, c.together():
		return lastOutput(c.path, 0) // all ranks' output comes from one process
	case rank == nil:
		return ""
	}
	return lastOutput(c.path, *rank)
}

func (c *crew) warnCrowded(row *journal.Row) {
	if cores := c.r.host.CPU.Usable; c.via == nil && c.r.opts.Joined == nil && !c.r.plan.Shape.Simulated && float64(c.group.Ranks) > cores && cores > 0 {
		row.Warnings = append(row.Warnings, fmt.Sprintf("%d ranks share %g cores", c.group.Ranks, cores))
	}
}
