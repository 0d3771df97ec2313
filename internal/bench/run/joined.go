package run

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Joined is a job that another launcher has started, and that this process leads
// as its rank 0: workers and programs are started by the hosts of its ranks.
type Joined struct {
	Leader   *rankhost.Leader
	Launcher jobenv.Launcher
	Size     int
	// Native: the backend joins the launcher's own job by its variables, which every
	// rank can do only once. So there is one launch.
	Native bool
}

// launched is a launch under way, wherever its processes are.
type launched interface {
	Events() <-chan launch.Event
	Stop(launch.StopRequest)
	Ending() bool
	Wait() (launch.Outcome, error)
}

// processSpec is what the processes of a launch have in common.
type processSpec struct {
	logs          string
	argv          []string
	dir           string
	extra         map[string]string // variables besides the planned ones
	files         []*os.File
	watch         []string
	stopOnFailure bool
	passOn        []syscall.Signal
}

// joined reports whether the group's processes are the ranks of a joined job.
func (r *runner) joined(g *plan.Group) bool {
	return r.opts.Joined != nil && g.Ranks > 0 && r.plan.Processes(g) == r.opts.Joined.Size
}

// start launches a group's processes: here, through a launcher, or by the rank
// hosts of a job.
func (s *runSlot) start(ctx context.Context, g *plan.Group, p processSpec) (launched, error) {
	if s.joined(g) {
		return underway(s.startJoined(ctx, g, p))
	}
	if s.opts.Launcher != nil && g.Ranks > 0 && g.Part.Command != nil {
		return underway(s.startGuarded(ctx, g, p))
	}
	procs, err := s.processes(g, p)
	if err != nil {
		return nil, err
	}
	return underway(s.agent.Launch(ctx, launch.Spec{
		Procs: procs, ReportEnv: p.watch, StopOnFailure: p.stopOnFailure, Grace: s.opts.Grace, ForwardSignals: p.passOn,
		RemoteLauncher: s.opts.Launcher != nil, RecallCommand: s.opts.Launcher.recall(),
	}))
}

// underway is a launch unless it failed: a nil pointer to one would be a launch too.
func underway[L launched](l L, err error) (launched, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (s *runSlot) startJoined(ctx context.Context, g *plan.Group, p processSpec) (*rankhost.Launch, error) {
	job := s.opts.Joined
	port, err := s.opts.Ports.FreePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	proc := rankhost.Proc{Argv: p.argv, Dir: []byte(p.dir), Env: variables(g, p.extra), Native: job.Native,
		Vars: launch.RankVars{WorldSize: g.Ranks, MasterAddr: job.Leader.Addr(), MasterPort: port},
		// On one host, a process of the same user can open what this one has open.
		Files: lists.Map(p.files, func(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) })}
	return job.Leader.Launch(ctx, p.hosted(g.Ranks, s.opts.Grace, proc))
}

// hosted is a process of this kind at the rank host of each rank.
func (p processSpec) hosted(ranks int, grace time.Duration, proc rankhost.Proc) rankhost.Spec {
	spec := rankhost.Spec{ReportEnv: p.watch, StopOnFailure: p.stopOnFailure, Grace: grace, ForwardSignals: p.passOn}
	for rank := range ranks {
		proc.Vars.Rank = rank
		proc.Stdout, proc.Stderr = logFiles(p.logs, rank)
		spec.Procs = append(spec.Procs, proc)
	}
	return spec
}

// brokenError says why a job cannot go on. What is not done stays so.
type brokenError struct{ reason string }

func (e *brokenError) Error() string { return e.reason }

// cannotGoOn is why the rest of a group cannot be run in a job: it has lost a
// rank, or its ranks would have to join the launcher's job a second time.
func (s *runSlot) cannotGoOn(b *backlog) error {
	job := s.opts.Joined
	if job == nil {
		return nil
	}
	if lost := job.Leader.Lost(); lost != nil {
		return &brokenError{lost.Error()}
	}
	if job.Native && s.native == b.group {
		return &brokenError{fmt.Sprintf("the ranks that %s has started cannot be replaced", job.Launcher)}
	}
	return nil
}

// skipRejoin skips a group whose ranks would have to join the launcher's job once
// more, and reports whether it was one.
func (s *runSlot) skipRejoin(b *backlog) (bool, error) {
	job := s.opts.Joined
	if job == nil || !job.Native || s.native == nil || s.native == b.group || b.group.Part.Command != nil {
		return false, nil
	}
	for _, a := range b.take(b.left()) {
		row := s.row(a.task)
		row.Status = journal.Skipped
		row.Reason = fmt.Sprintf("needs respawn: backend %s joins the job of %s once, with one environment; start "+
			"kernbench alone, with --launcher %s, for the others",
			s.plan.Backend, job.Launcher, job.Launcher)
		if _, err := s.settle(a, row); err != nil {
			return true, err
		}
	}
	return true, nil
}

// lost says which rank host is gone, nil for a launch without rank hosts.
func (r *runner) lost(g *plan.Group) *rankhost.LostError {
	if !r.joined(g) {
		return nil
	}
	return r.opts.Joined.Leader.Lost()
}

// lostRank is the failure of a rank host whose loss has ended the launch.
func (w *workerGroup) lostRank() *failure {
	lost := w.slot.lost(w.group)
	if lost == nil {
		return nil
	}
	return &failure{status: journal.Failed, rank: &lost.Rank, phase: w.ranks[lost.Rank].phase, reason: lost.Error()}
}

// Within a job, an interrupt often comes from a launcher that kills a second
// later: the search for its cause, and the wait for what runs, take less.
const (
	interruptLimit = 500 * time.Millisecond
	endingLimit    = 300 * time.Millisecond
)

// interruptFollows tells whether the end of a process is part of the end of the whole job:
// a batch system sends its signal to all processes of a job, and which of them obeys
// first is chance.
func (r *runner) interruptFollows(ctx context.Context, g *plan.Group, e launch.Event) bool {
	x, exit := e.(launch.Exit)
	if !r.joined(g) || e != nil && !exit || exit && !x.Stopped && !endedByRequest(x.Signal) {
		return false
	}
	select {
	case <-ctx.Done():
		return true
	case <-time.After(interruptLimit):
		return false
	}
}

// endedByRequest tells the signals that ask a process to end.
func endedByRequest(sig syscall.Signal) bool {
	return sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGHUP
}

// await waits for the launch's end, at most for the limit if there is one. In a
// job that is ending it does not wait long: the rank hosts kill what is left as
// soon as this process is gone. How the launch ended does not matter any more:
// the row has its cause already, or needs none.
func (w *workerGroup) await(limit time.Duration) (ended bool) {
	if limit == 0 && !w.ending() {
		w.launch.Wait()
		return true
	}
	if w.ending() {
		limit = endingLimit
	}
	end := make(chan struct{})
	go func() { w.launch.Wait(); close(end) }()
	select {
	case <-end:
		return true
	case <-time.After(limit):
		return false
	}
}

// interruptCause looks for the cause of an interrupt within a job: a launcher that
// sees a rank die ends all the others, this one included. Only when every rank
// host has reported the end of its process was it nothing but the interrupt: the
// loss of one may be reported last.
func (w *workerGroup) interruptCause() *failure {
	if !w.slot.joined(w.group) {
		return nil
	}
	limit := time.After(interruptLimit)
	stopped := false // by the interrupt
	for {
		select {
		case e := <-w.events:
			x, is := e.(launch.Exit)
			stopped = stopped || is && x.Stopped
			switch {
			case stopped && e == nil:
				return w.lostRank()
			case is && (x.Stopped || endedByRequest(x.Signal)):
				stopped = true
				if f := w.lostRank(); f != nil {
					return f
				}
			default:
				if f := w.processEvent(e); f != nil || e == nil {
					return f
				}
			}
		case e := <-w.hub.Events():
			w.note(e)
		case <-limit:
			return w.lostRank()
		}
	}
}
