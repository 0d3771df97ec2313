package run

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// workerGroup is the connected workers of one launch: one process per rank, or
// one process that has them all.
type workerGroup struct {
	slot   *runSlot
	group  *plan.Group
	hub    *worker.Hub
	launch launched  // nil when nothing could be started
	via    *Launcher // what started the ranks; nil when this process did
	logs   string    // folder name as in the rows
	path   string
	ranks  []rankState
	procs  int // worker processes
	tasks  int // sent so far
	events <-chan launch.Event
	tick   *time.Ticker
	ending func() bool // the job that this launch is part of is being ended
	forget func() bool // the interrupt
}

type rankState struct {
	joined, ready bool
	phase         string
	waiting       bool
	closed        bool // its connection has ended: nothing more will come
	silent        int  // ticks since the last message
}

const (
	// startLimit bounds how long the workers may take to connect.
	startLimit = 60 * time.Second
	// quitLimit is how long workers may take to end when asked.
	quitLimit = 2 * time.Second
	// cancelLimit is how long bodies may take to end when their context does.
	cancelLimit = time.Second
	// drainLimit is how long to wait for the messages that a worker sent before
	// it died.
	drainLimit = time.Second
	// tickTime is how often heartbeats are checked. Silence is counted in ticks
	// and not by the clock: a supervisor that was itself stopped for a while
	// finds one tick waiting, not a dead worker.
	tickTime = time.Second
)

// failure is why a launch cannot go on.
type failure struct {
	status journal.Status
	rank   *int
	phase  string
	reason string
	dump   bool // the workers hang: their stacks are worth having
}

// startWorkers starts a group's processes and waits until all are ready. A
// failure comes with a worker group that must still be closed, an error without.
func (s *runSlot) startWorkers(ctx context.Context, g *plan.Group) (*workerGroup, *failure, error) {
	logs, path, err := s.logDir()
	if err != nil {
		return nil, nil, err
	}
	via := s.opts.Launcher
	self, err := via.self()
	if err != nil {
		return nil, nil, err
	}
	count := s.plan.Processes(g)
	addr := s.address(g)
	var files []*os.File
	if count > 1 && addr == "" {
		shm, err := syncgroup.NewShm(g.Ranks)
		if err != nil {
			return nil, nil, err
		}
		defer shm.Close() // the children have their own descriptors
		files = append(files, shm)
	}
	hub, err := s.listen(addr, g.Ranks)
	if err != nil {
		return nil, nil, err
	}
	w := &workerGroup{
		slot: s, group: g, hub: hub, via: via, logs: logs, path: path,
		ranks: make([]rankState, s.plan.BodyRanks(g)), procs: count, tick: time.NewTicker(tickTime),
		ending: func() bool { return ctx.Err() != nil && s.joined(g) },
	}
	for i := range w.ranks {
		w.ranks[i].phase = "start"
	}
	// An interrupt reaches the bodies before their processes get a signal.
	launchCtx, stopLaunch := context.WithCancelCause(context.WithoutCancel(ctx))
	w.forget = context.AfterFunc(ctx, func() {
		w.cancelBodies("interrupted")
		stopLaunch(context.Cause(ctx))
	})
	extra := hub.Vars(count > 1)
	if via != nil {
		var planned map[string]string
		planned, err = worker.PlannedVars(variables(g, nil))
		maps.Copy(extra, planned)
	}
	if err == nil {
		w.launch, err = s.start(launchCtx, g, processSpec{logs: path, argv: self, extra: extra, files: files})
	}
	if err != nil {
		f := &failure{status: journal.Failed, phase: "start", reason: err.Error()}
		if lost, is := errors.AsType[*rankhost.LostError](err); is {
			f.rank = &lost.Rank
		}
		return w, f, nil
	}
	w.events = w.launch.Events()
	return w, w.waitReady(ctx), nil
}

// address is where ranks on other hosts reach this one, empty when all are here.
func (r *runner) address(g *plan.Group) string {
	switch {
	case r.opts.Launcher != nil:
		return r.opts.Launcher.addr
	case r.joined(g):
		return r.opts.Joined.Leader.Addr()
	}
	return ""
}

func (r *runner) listen(addr string, ranks int) (*worker.Hub, error) {
	if addr == "" {
		return worker.Listen()
	}
	return worker.ListenTCP(addr, r.opts.Ports, ranks)
}

// waitReady waits for every worker to connect, gives it the job and checks the
// environment it saw.
func (w *workerGroup) waitReady(ctx context.Context) *failure {
	job := w.job()
	limit := startLimit
	if len(job.Script) > 0 {
		limit += python.ImportLimit
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for ready := 0; ready < w.procs; {
		select {
		case <-ctx.Done():
			return &failure{reason: "interrupted"}
		case <-deadline.C:
			rank := slices.IndexFunc(w.ranks, func(s rankState) bool { return !s.ready })
			return w.unlessDoomed(&failure{status: journal.Timeout, rank: &rank, phase: "start", dump: true,
				reason: fmt.Sprintf("the worker did not report within %v of its start", limit)})
		case e := <-w.hub.Events():
			w.note(e)
			if f := w.lost(e); f != nil {
				return f
			}
			if f := w.welcome(e, job); f != nil {
				return f
			}
			if e.Ready {
				ready++
			}
		case e := <-w.events:
			if f := w.processEvent(e); f != nil {
				return f
			}
		}
	}
	return nil
}

func (w *workerGroup) job() worker.Job {
	p := w.slot.plan
	return worker.Job{Bench: p.Bench.Name, Part: w.group.Part.Name, Script: p.Bench.Script, Size: w.group.Ranks,
		InProcess: p.Shape.InProcess, Virtual: p.Shape.Virtual, Backend: p.Backend, Session: rand.Text(), Seed: p.Seed,
		Watch: envNames(w.group.Env), Measure: w.group.Part.Measure, Inputs: p.Files()}
}

// welcome gives a worker that has joined its job, and checks what one that is
// ready has seen.
func (w *workerGroup) welcome(e worker.Event, job worker.Job) *failure {
	failed := func(rank *int, reason string) *failure {
		return &failure{status: journal.Failed, rank: rank, phase: "start", reason: reason}
	}
	switch {
	case e.Joined && (e.Rank < 0 || e.Rank >= w.group.Ranks):
		return failed(nil, fmt.Sprintf("a worker claims to be rank %d of %d", e.Rank, w.group.Ranks))
	case e.Joined:
		if err := w.hub.Job(e.Rank, job); unsendable(err) {
			return failed(&e.Rank, err.Error())
		}
	case e.Ready && e.Error != "":
		return failed(&e.Rank, e.Error)
	case e.Ready:
		if err := envSeen(w.group.Env, e.Env); err != nil {
			return failed(&e.Rank, err.Error())
		}
	}
	return nil
}

// unsendable reports whether a message could not be encoded: an infinite limit,
// say. Any other error of a message means that its worker is gone, which is known
// from the end of its process or connection, with a better reason.
func unsendable(err error) bool {
	var value *json.UnsupportedValueError
	var marshaler *json.MarshalerError
	return errors.As(err, &value) || errors.As(err, &marshaler)
}

// note keeps what a worker said about itself.
func (w *workerGroup) note(e worker.Event) {
	if e.Rank < 0 || e.Rank >= len(w.ranks) {
		return
	}
	s := &w.ranks[e.Rank]
	s.silent = 0
	switch {
	case e.Joined:
		s.joined = true
	case e.Ready:
		s.ready = true
	case e.Heartbeat:
		s.phase, s.waiting = e.Phase, e.Waiting
	case e.Closed:
		s.closed = true
	}
}

// drain reads what a dead worker sent to the end: the phase in which it died may
// still be on its way.
func (w *workerGroup) drain(rank int) {
	limit := time.After(drainLimit)
	for s := &w.ranks[rank]; s.joined && !s.closed; {
		select {
		case e := <-w.hub.Events():
			w.note(e)
		case <-limit:
			return
		}
	}
}

// processEvent takes what happened to a process. A worker that ends before it
// was asked to is a failure; so is the end of the launch itself, a nil event.
func (w *workerGroup) processEvent(e launch.Event) *failure {
	if e == nil {
		w.events = nil
		return w.launchEnded()
	}
	x, ok := e.(launch.Exit)
	switch {
	case !ok:
		return nil
	case x.Stopped: // not by this group, and the others with it
		return w.launchEnded()
	case w.via != nil:
		return w.launcherDied(&x)
	}
	return w.died(&x)
}

// launchEnded tells why a launch ended although its workers were not asked to. Whoever
// ended it has said why before; a worker that had ended by itself comes first.
func (w *workerGroup) launchEnded() *failure {
	if f := w.lostRank(); f != nil {
		return f
	}
	out, err := w.launch.Wait()
	for _, x := range out.Exits {
		if w.via == nil && !x.Stopped {
			return w.died(&x)
		}
	}
	if f := w.lostRank(); f != nil {
		return f
	}
	f := &failure{status: journal.Failed, phase: w.ranks[0].phase, reason: "the workers were ended: " + out.Reason}
	if err != nil {
		f.reason = err.Error() + "; the workers ended with it"
	}
	return f
}

// unlessDoomed is a failure that was concluded from silence, unless there is a better
// reason for that: what kills the workers may take a while to be known, and to be over.
func (w *workerGroup) unlessDoomed(f *failure) *failure {
	if w.launch == nil || !w.launch.Ending() {
		return f
	}
	return w.launchEnded()
}

func (w *workerGroup) died(x *launch.Exit) *failure {
	rank := x.Rank
	w.drain(rank)
	f := &failure{status: journal.Failed, rank: &rank, phase: w.ranks[rank].phase,
		reason: "the worker ended with " + x.How()}
	if w.oneProcess() { // which of its ranks caused it cannot be known
		f.rank, f.reason = nil, fmt.Sprintf("the process of all %d ranks ended with %s", len(w.ranks), x.How())
	}
	return f
}

// oneProcess reports whether one process has several ranks.
func (w *workerGroup) oneProcess() bool { return w.via == nil && w.procs == 1 && len(w.ranks) > 1 }

// stop ends what still runs and waits until nothing is left.
func (w *workerGroup) stop(f *failure) {
	if w.launch == nil {
		return
	}
	ended := w.cancelBodies(f.reason)
	// A launcher would only dump its own stacks.
	w.launch.Stop(launch.StopRequest{Reason: f.reason, Dump: f.dump && !ended && w.via == nil})
	w.await(0)
}

// cancelBodies ends the contexts of the bodies and gives them the time to clean up, if
// there is any: a launcher that ends a job gives none. It reports whether all have ended.
func (w *workerGroup) cancelBodies(reason string) bool {
	if w.slot.joined(w.group) {
		return w.hub.Cancel(reason, 0)
	}
	return w.hub.Cancel(reason, cancelLimit)
}

// close ends the launch in order: the workers are asked first.
func (w *workerGroup) close() {
	w.tick.Stop()
	w.forget()
	if w.launch != nil {
		for rank := range w.procs {
			w.hub.Quit(rank) // one that cannot be asked has ended, or is stopped below
		}
		if !w.await(quitLimit) {
			w.launch.Stop(launch.StopRequest{Reason: "the workers did not end when asked"})
			w.await(0)
		}
	}
	w.hub.Close() // all rows are recorded; a socket that does not close changes none
}
