package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// workerGroup is the connected workers of one launch: one process per rank, or one process with all
// ranks.
type workerGroup struct {
	slot                  *runSlot
	group                 *plan.Group
	hub                   *worker.Hub
	launch                launched // nil if nothing could be started
	logs                  string   // log folder as named in the rows
	path                  string   // absolute path of the log folder
	ranks                 []rankState
	procs                 int // number of worker processes
	tasks                 int // number of tasks sent so far
	events                <-chan launch.Event
	tick                  *time.Ticker
	stops                 stopWatch   // stops of the processes on this host
	starved               starvation  // longest starvation in the current task
	ending                func() bool // reports whether the job that contains this launch is being ended
	stopWatchingInterrupt func() bool
}

// rankState is what the supervisor knows about a rank from its messages.
type rankState struct {
	joined, ready bool
	phase         string
	waiting       bool                // it only waits for other ranks
	closed        bool                // its connection has ended: no more messages will come
	host          string              // host of its worker; "" if that is this host
	silent        int                 // ticks since the last message
	quiet         connection.Evidence // state of its process and connection when the silence began
}

const (
	// StartLimit is the default limit of the time until all workers have connected.
	StartLimit = 60 * time.Second
	// quitLimit is how long workers may take to exit when asked.
	quitLimit = 2 * time.Second
	// cancelLimit is how long bodies may take to return when their context is cancelled.
	cancelLimit = time.Second
	// drainLimit is how long to wait for messages that a worker sent before it died.
	drainLimit = time.Second
	// tickTime is how often heartbeats are checked. Silence is counted in ticks, not by the clock: a
	// supervisor that was stopped for a while finds one tick waiting instead of a dead worker.
	tickTime = time.Second
)

// failure is the reason why a launch cannot continue.
type failure struct {
	status journal.Status
	rank   *int
	phase  string
	reason string
	placed bool // reason names the host of the rank
}

// startWorkers starts a group's processes and waits until all are ready. If it returns a failure, the
// caller must still close the worker group. If it returns an error, there is no worker group.
func (s *runSlot) startWorkers(ctx context.Context, g *plan.Group) (*workerGroup, *failure, error) {
	logs, path, err := s.logDir()
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
		slot: s, group: g, hub: hub, logs: logs, path: path,
		ranks: make([]rankState, s.plan.BodyRanks(g)), procs: count, tick: time.NewTicker(tickTime),
		stops:  newStopWatch(),
		ending: func() bool { return ctx.Err() != nil && s.joined(g) },
	}
	for i := range w.ranks {
		w.ranks[i].phase = "start"
	}
	// On an interrupt, cancel the bodies first, so that they can clean up before their processes get a
	// signal.
	launchCtx, stopLaunch := context.WithCancelCause(context.WithoutCancel(ctx))
	w.stopWatchingInterrupt = context.AfterFunc(ctx, func() {
		w.cancelBodies("interrupted")
		stopLaunch(context.Cause(ctx))
	})
	// The running program, even when its file has been replaced since.
	w.launch, err = s.start(launchCtx, g, processSpec{logs: path, argv: []string{"/proc/self/exe"},
		extra: hub.Vars(count > 1), files: files})
	if err != nil {
		f := &failure{status: journal.Failed, phase: "start", reason: err.Error()}
		if lost, is := errors.AsType[*rankhost.LostError](err); is && lost.Rank != rankhost.NoRank {
			f.rank = &lost.Rank
		}
		if _, late := errors.AsType[*rankhost.MissingError](err); late {
			f.status = journal.Timeout
		}
		return w, f, nil
	}
	w.events = w.launch.Events()
	return w, w.waitReady(ctx), nil
}

// address returns the address at which ranks on other hosts reach this host, or "" if all ranks are on
// this host.
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

// waitReady waits for every worker to connect, sends it the job, and checks the environment it saw.
func (w *workerGroup) waitReady(ctx context.Context) *failure {
	job := w.job()
	limit := cmp.Or(w.slot.opts.JoinTimeout, StartLimit)
	if len(job.Script) > 0 {
		limit += job.ImportLimit
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for ready := 0; ready < w.procs; {
		select {
		case <-ctx.Done():
			return &failure{reason: "interrupted"}
		case <-deadline.C:
			return w.preferLaunchFailure(w.startTimeout(limit))
		case e := <-w.hub.Events():
			w.updateRank(e)
			if f := w.handleJoin(e, job); f != nil {
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

// startTimeout returns the failure for ranks that have not reported in time.
func (w *workerGroup) startTimeout(limit time.Duration) *failure {
	var late []culprit.Rank
	for rank, s := range w.ranks {
		if !s.ready {
			late = append(late, culprit.Rank{Rank: rank, Phase: s.phase, Waiting: s.waiting})
		}
	}
	v := culprit.Blame(culprit.Evidence{Ranks: late, Late: limit})
	return &failure{status: statusOf[v.Kind], rank: &v.Rank, phase: "start",
		reason: fmt.Sprintf("the worker did not report within %v of its start", limit)}
}

// importLimit returns the time limit for the import of a Python file in a worker. It is longer if there
// are more ranks than cores, because all ranks import at the same time.
func importLimit(limit time.Duration, ranks int) time.Duration {
	rounds := (ranks + runtime.NumCPU() - 1) / runtime.NumCPU()
	return cmp.Or(limit, python.ImportLimit) * time.Duration(max(1, rounds))
}

func (w *workerGroup) job() worker.Job {
	p := w.slot.plan
	return worker.Job{Bench: p.Bench.Name, Part: w.group.Part.Name, Script: p.Bench.Script,
		ImportLimit: importLimit(w.slot.opts.ImportLimit, w.group.Ranks), Size: w.group.Ranks,
		InProcess: p.InProcess, Virtual: p.Virtual, Backend: p.Backend, Session: rand.Text(), Seed: p.Seed,
		Watch: envNames(w.group.Env), Measure: w.group.Part.Measure, Inputs: p.Files()}
}

// handleJoin sends the job to a worker that has joined, and checks the environment of one that is
// ready.
func (w *workerGroup) handleJoin(e worker.Event, job worker.Job) *failure {
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
		if err := checkEnv(w.group.Env, e.Env); err != nil {
			return failed(&e.Rank, err.Error())
		}
	}
	return nil
}

// unsendable reports whether a message could not be encoded, for example because of an infinite
// limit. Any other error of a send means that the worker is gone, and is ignored: the end of its process
// or connection gives a better reason.
func unsendable(err error) bool {
	var value *json.UnsupportedValueError
	var marshaler *json.MarshalerError
	return errors.As(err, &value) || errors.As(err, &marshaler)
}

// updateRank records a worker's report about itself.
func (w *workerGroup) updateRank(e worker.Event) {
	if e.Rank < 0 || e.Rank >= len(w.ranks) {
		return
	}
	s := &w.ranks[e.Rank]
	s.silent = 0
	switch {
	case e.Joined:
		s.joined, s.host = true, e.Host
		if e.PID > 0 {
			w.stops.add(e.Rank, e.PID)
		}
	case e.Ready:
		s.ready = true
	case e.Heartbeat:
		s.phase, s.waiting = e.Phase, e.Waiting
	case e.Closed:
		s.closed = true
	}
}

// drain reads the remaining messages of a dead worker, because the message with the phase in which it
// died may still be on its way.
func (w *workerGroup) drain(rank int) {
	limit := time.After(drainLimit)
	for s := &w.ranks[rank]; s.joined && !s.closed; {
		select {
		case e := <-w.hub.Events():
			w.updateRank(e)
		case <-limit:
			return
		}
	}
}

// processEvent handles an event of a process. It returns a failure if a worker has ended without being
// asked to, or if the launch itself has ended (a nil event).
func (w *workerGroup) processEvent(e launch.Event) *failure {
	if e == nil {
		w.events = nil
		return w.launchEnded()
	}
	x, ok := e.(launch.Exit)
	switch {
	case !ok:
		return nil
	case x.Stopped: // not by this process, and together with all other processes of the launch
		return w.launchEnded()
	}
	// A launcher that ends signals all its ranks.
	for limit := time.Now().Add(interruptLimit); w.slot.guarded(w.group) && isEndSignal(x.Signal) && !w.launch.Ending() &&
		time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	return w.preferLaunchFailure(w.workerDied(&x))
}

// launchEnded returns why a launch ended although its workers were not asked to exit: a rank was lost,
// a worker ended by itself before, or the launch was stopped with a reason.
func (w *workerGroup) launchEnded() *failure {
	if f := w.lostRank(); f != nil {
		return f
	}
	out, err := w.launch.Wait()
	ranks := lists.Map(out.Exits, func(x launch.Exit) culprit.Rank {
		return culprit.Rank{Rank: x.Rank, Failed: !x.Stopped, Stopped: x.Stopped, Signal: x.Signal}
	})
	v := culprit.Blame(culprit.Evidence{Ranks: ranks})
	if x, is := lists.First(out.Exits, func(x launch.Exit) bool { return x.Rank == v.Rank }); is {
		return w.workerDied(&x)
	}
	if f := w.lostRank(); f != nil {
		return f
	}
	f := w.lossFailure(cmp.Or(err, errors.New("the workers were ended: "+out.Reason)))
	if err != nil && f.rank == nil {
		f.reason += "; the workers ended with it"
	}
	return f
}

// lossFailure returns the failure for a launch that was lost. It names a rank if its loss was the cause.
func (w *workerGroup) lossFailure(err error) *failure {
	f := &failure{status: journal.Failed, phase: w.ranks[0].phase, reason: err.Error()}
	if rank, reason := w.slot.blameLoss(w.group, err, w.path); rank != nil {
		f.rank, f.phase, f.reason, f.placed = rank, w.ranks[*rank].phase, reason, reason == err.Error()
	}
	return f
}

// preferLaunchFailure returns f, a failure that was concluded from silence. If the launch itself is
// ending, it returns the cause of that instead, because it explains the silence.
func (w *workerGroup) preferLaunchFailure(f *failure) *failure {
	if w.launch == nil || !w.launch.Ending() {
		return f
	}
	return w.launchEnded()
}

func (w *workerGroup) workerDied(x *launch.Exit) *failure {
	rank := x.Rank
	w.drain(rank)
	f := &failure{status: journal.Failed, rank: &rank, phase: w.ranks[rank].phase,
		reason: "the worker ended with " + w.describeEnd(x)}
	if w.oneProcess() { // it is unknown which rank caused it
		f.rank, f.reason = nil, fmt.Sprintf("the process of all %d ranks ended with %s", len(w.ranks), w.describeEnd(x))
	}
	return f
}

// describeEnd describes how a worker ended. It adds the cause that the crash report states, and the
// resource limit that the report points to. The stacks stay in the log.
func (w *workerGroup) describeEnd(x *launch.Exit) string {
	stderr := toValidText(tailOf(w.path, logName(x.Rank, "err")))
	how := x.How()
	if crash := culprit.Crash(stderr); crash != "" && x.Signal == 0 {
		how += fmt.Sprintf(": %s (stacks in logs/%s/rank%d.err)", crash, w.logs, x.Rank)
	}
	if limit := culprit.OwnLimits().Explain(stderr); limit != "" {
		how += "; " + limit
	}
	return how
}

// oneProcess reports whether one process has several ranks.
func (w *workerGroup) oneProcess() bool { return w.procs == 1 && len(w.ranks) > 1 }

// stop ends the processes that still run and waits until nothing is left.
func (w *workerGroup) stop(f *failure) {
	if w.launch == nil {
		return
	}
	ended := w.cancelBodies(f.reason)
	w.launch.Stop(launch.StopRequest{Reason: f.reason, Dump: f.status == journal.Timeout && !ended})
	w.awaitEnd(0)
}

// cancelBodies cancels the contexts of the bodies, gives them time to clean up, and reports whether all
// have returned. In a joined job it does not wait, because the launcher kills this process soon.
func (w *workerGroup) cancelBodies(reason string) bool {
	if w.slot.joined(w.group) {
		return w.hub.Cancel(reason, 0)
	}
	return w.hub.Cancel(reason, cancelLimit)
}

// close asks the workers to exit, and ends the launch if they do not.
func (w *workerGroup) close() {
	w.tick.Stop()
	w.stopWatchingInterrupt()
	if w.launch != nil {
		for rank := range w.procs {
			w.hub.Quit(rank) // an unreachable worker has exited, or is stopped below
		}
		if !w.awaitEnd(quitLimit) {
			w.launch.Stop(launch.StopRequest{Reason: "the workers did not exit when asked to"})
			w.awaitEnd(0)
		}
	}
	w.hub.Close() // an error does not matter, because all rows are recorded
}
