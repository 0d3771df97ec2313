// Package node runs one node's part of a job that spans several: it starts the
// node's ranks when the rendezvous says so, brings their output to the console
// and into logs, tells the rendezvous what becomes of them, and ends them when
// anything anywhere fails. Where nodes meet and what failed first is package
// rendezvous's matter, how processes are started and killed package launch's.
package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rendezvous"
)

const (
	// DefaultGrace is what a rank gets between SIGTERM and SIGKILL, as from torchrun: the
	// time to write a checkpoint.
	DefaultGrace = 30 * time.Second
	// outputLimit is how long a failed rank's output may still be on its way.
	outputLimit = 700 * time.Millisecond
	// drainLimit is how long a console may stand still at the end; one that is slow
	// gets the time it needs.
	drainLimit = 5 * time.Second
	// lookTime is how often the ranks' states are looked at.
	lookTime = 500 * time.Millisecond
)

// Spec is what this node runs.
type Spec struct {
	Argv        []string
	Environ     []string // what the ranks' environment is made from
	ID          string   // of the job
	Role        string   // torchrun's, of the ranks
	Procs       int      // ranks on this node
	MaxRestarts int
	Threads     int // per rank; 0 leaves it to the program
	Bind        cores.Bind
	Cores       []int             // to bind to
	Interface   string            // network interface for the ranks' libraries; empty leaves it to them
	Ports       string            // that ranks may listen on, A-B; empty for any
	MasterAddr  string            // empty is the first node's
	MasterPort  int               // 0 is a free one
	Heartbeat   time.Duration     // a rank that is stopped for longer has failed
	Grace       time.Duration     // between SIGTERM and SIGKILL
	RankSecret  map[string]string // by variable: what the ranks get to know each other by
	Logs        Logs
	Stdout      io.Writer
	Stderr      io.Writer
	// Warn is told what is odd but no failure.
	Warn func(text string)
	// Restarting is told why another round begins.
	Restarting func(round int, why rendezvous.Failure)
}

// Run takes part in the job until it ends on all nodes. The failure is what
// ended it, nil when every rank everywhere ended well. An error means that it
// never began, or that this node cannot go on.
func Run(ctx context.Context, agent *launch.Agent, m *rendezvous.Member, spec Spec) (*rendezvous.Failure, error) {
	n := &node{spec: spec, agent: agent, member: m, console: &console{out: [2]io.Writer{spec.Stdout, spec.Stderr}}}
	for attempt := 0; ; attempt++ {
		if err := m.Ready(attempt); err != nil {
			return nil, err
		}
		round, verdict, err := n.await(ctx)
		if err != nil {
			return nil, err
		}
		if round != nil {
			verdict = n.run(ctx, round)
		}
		switch {
		case verdict == nil:
			return nil, nil
		case !verdict.Restart:
			return &verdict.Failure, nil
		}
		spec.Restarting(attempt+1, verdict.Failure)
	}
}

type node struct {
	spec    Spec
	agent   *launch.Agent
	member  *rendezvous.Member
	console *console

	// Of the current round.
	attempt int
	taps    map[int][]*tap // by rank
	pids    map[int]int
	stopped map[int]time.Duration // how long a rank has been seen stopped
	ended   int                   // ranks that ended well
	failed  *rendezvous.Failure   // the first failure here
	looked  time.Time             // when it was last looked at the ranks
	still   time.Duration         // how long this process itself stood still, if it did
	reports sync.WaitGroup
}

// await waits for the next round to begin.
func (n *node) await(ctx context.Context) (*rendezvous.Round, *rendezvous.Verdict, error) {
	for {
		select {
		case e := <-n.member.Events():
			switch {
			case e.Start != nil:
				return e.Start, nil, nil
			case e.Stop != nil: // another node gave up between two rounds
				return nil, e.Stop, nil
			case e.Refused != "":
				return nil, nil, fmt.Errorf("joining: %s", e.Refused)
			case e.Lost != "":
				return nil, nil, fmt.Errorf("joining: the rendezvous was lost: %s", e.Lost)
			}
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// run is one round on this node. On return nothing of it is left.
func (n *node) run(ctx context.Context, round *rendezvous.Round) *rendezvous.Verdict {
	n.attempt, n.pids, n.stopped, n.ended, n.failed = round.Attempt, map[int]int{}, map[int]time.Duration{}, 0, nil
	n.looked, n.still = time.Now(), 0
	if twice := round.SharedHosts(); twice != "" && round.Node == 0 && round.Attempt == 0 {
		n.spec.Warn(twice + ": their ranks share its cores")
	}
	l, err := n.start(ctx, round)
	if err != nil {
		n.report(rendezvous.Failure{Rank: rendezvous.NoRank, Cause: "could not start its ranks: " + err.Error(), Code: 1})
	}
	verdict := n.follow(ctx, round, l)
	if l != nil {
		if verdict != nil {
			l.Stop(launch.StopRequest{Reason: verdict.Failure.String()})
		}
		l.Wait()
	}
	n.reports.Wait() // a late one must not fall into the next round
	drain(slices.Concat(slices.Collect(maps.Values(n.taps))...))
	return verdict
}

// start launches the ranks. The context is not the launch's: an interrupt has
// to be everybody's before it ends anything.
func (n *node) start(ctx context.Context, round *rendezvous.Round) (*launch.Launch, error) {
	procs, err := n.processes(round)
	var l *launch.Launch
	if err == nil {
		spec := launch.Spec{Procs: procs, Grace: n.spec.Grace, LogLimit: 1 << 62, ForwardSignals: launch.UserSignals}
		if len(round.Hosts) > 1 {
			// The other nodes give up one that is silent, and its ranks must end with the
			// rest, but not before them: their end must not pass for the cause. Alone on a
			// node, a stopped launcher is somebody's Ctrl-Z.
			spec.StoppedLimit = 2 * n.spec.Heartbeat
		}
		l, err = n.agent.Launch(context.WithoutCancel(ctx), spec)
	}
	for _, taps := range n.taps {
		for _, t := range taps {
			t.handedOver()
		}
	}
	return l, err
}

// follow watches the ranks and the group until one of them ends the round; nil
// is the good end.
func (n *node) follow(ctx context.Context, round *rendezvous.Round, l *launch.Launch) *rendezvous.Verdict {
	var events <-chan launch.Event
	if l != nil {
		events = l.Events()
	}
	look := time.NewTicker(lookTime)
	defer look.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case e := <-n.member.Events():
			switch {
			case e.Stop != nil:
				return e.Stop
			case e.Finished:
				return nil
			case e.Lost != "":
				return n.cutOff(round, round.Coordinator, "was lost: "+e.Lost)
			case e.Refused != "":
				return n.cutOff(round, round.Node, e.Refused)
			}
		case e, open := <-events:
			if !open {
				events = nil
				switch out, err := l.Wait(); {
				case err != nil:
					n.report(rendezvous.Failure{Rank: rendezvous.NoRank, Cause: "lost its ranks: " + err.Error(), Code: 1})
				case out.Reason != "":
					n.report(rendezvous.Failure{Rank: rendezvous.NoRank, Cause: "ended its ranks: " + out.Reason, Code: 1})
				}
				continue
			}
			n.note(round, e)
		case <-look.C:
			n.still = max(n.still, time.Since(n.looked))
			n.looked = time.Now()
			n.lookForStopped()
		case <-interrupted:
			interrupted = nil
			n.report(rendezvous.Failure{Rank: rendezvous.NoRank, PID: os.Getpid(), Cause: "was interrupted",
				Code: rendezvous.InterruptedCode})
		}
	}
}

// cutOff is the verdict of a node that nobody gives one to: what failed here
// first, or else the cause of being alone, which is at the node given. A launcher that
// was stopped for long has been given up by the others.
func (n *node) cutOff(round *rendezvous.Round, at int, cause string) *rendezvous.Verdict {
	f := rendezvous.Failure{Node: at, Rank: rendezvous.NoRank, Cause: cause, Code: 1}
	if still := max(n.still, time.Since(n.looked)); still > n.spec.Heartbeat {
		f = rendezvous.LauncherStopped(os.Getpid(), still)
		f.Node, f.Host = round.Node, round.Hosts[round.Node]
		return &rendezvous.Verdict{Failure: f}
	}
	if f.Node != round.Node {
		f.Note = fmt.Sprintf("node %d (host %s) has lost the rendezvous with it", round.Node, round.Hosts[round.Node])
	}
	switch {
	case n.failed == nil:
	case n.failed.Abrupt():
		f = *n.failed
		f.Node = round.Node
		f.Output = lastOutput(n.taps[f.Rank])
	default: // ranks that talk to the lost node end by themselves
		f.Note = strings.TrimPrefix(fmt.Sprintf("%s, rank %d %s", f.Note, n.failed.Rank, n.failed.Cause), ", ")
	}
	f.Host = round.Hosts[f.Node]
	return &rendezvous.Verdict{Failure: f}
}

// note takes what happened to a rank.
func (n *node) note(round *rendezvous.Round, e launch.Event) {
	switch e := e.(type) {
	case launch.Started:
		n.pids[e.Rank] = e.PID
	case launch.Exit:
		delete(n.pids, e.Rank)
		switch {
		case e.Stopped: // by the agent, which says why at the end
		case e.Failed():
			f := rendezvous.Failure{Rank: e.Rank, PID: e.PID, Cause: "ended with " + e.How(), Signal: e.Signal, Code: e.Code}
			if e.Signal != 0 {
				f.Code = 128 + int(e.Signal) // as a shell would say
			}
			n.report(f)
		default:
			if n.ended++; n.ended == n.spec.Procs {
				n.member.Done(round.Attempt)
			}
		}
	}
}

// report tells the rendezvous of a failure here, and then the rank's last output, for
// which the verdict waits.
func (n *node) report(f rendezvous.Failure) {
	if n.failed == nil {
		n.failed = &f
	}
	attempt, taps, told := n.attempt, n.taps[f.Rank], f
	told.More = len(taps) > 0
	n.member.Failed(attempt, told)
	if !told.More {
		return
	}
	n.reports.Go(func() {
		awaitEnd(taps, outputLimit)
		told.Output, told.More = lastOutput(taps), false
		n.member.Failed(attempt, told)
	})
}

// awaitEnd waits for the end of the streams, but not for ever: an unrelated
// process may hold one, or nobody reads the console.
func awaitEnd(taps []*tap, limit time.Duration) {
	patience := time.After(limit)
	for _, t := range taps {
		select {
		case <-t.ended:
		case <-patience:
			return
		}
	}
}

// drain waits for what is still on its way to the console and into the logs, as
// long as anything moves. Time is counted in looks, so that a launcher that does
// not get to run gives nothing up.
func drain(taps []*tap) {
	const look = 100 * time.Millisecond
	seen := make([]int64, len(taps))
	for still := time.Duration(0); still < drainLimit; still += look {
		awaitEnd(taps, look)
		open := false
		for i, t := range taps {
			if lines := t.passed.Load(); lines != seen[i] {
				seen[i], still = lines, 0
			}
			select {
			case <-t.ended:
			default:
				open = true
			}
		}
		if !open {
			return
		}
	}
}

// lastOutput is what a rank said last: its errors, if it wrote any.
func lastOutput(taps []*tap) (text string) {
	for _, t := range taps {
		text = cmp.Or(t.lines(), text)
	}
	return text
}

// lookForStopped finds ranks that stand still. Time is counted in looks, so that
// a launcher that was itself stopped does not blame its ranks.
func (n *node) lookForStopped() {
	for rank, pid := range n.pids {
		if !launch.IsStopped(pid) {
			delete(n.stopped, rank)
			continue
		}
		if n.stopped[rank] += lookTime; n.stopped[rank] > n.spec.Heartbeat {
			delete(n.pids, rank)
			n.report(rendezvous.Failure{Rank: rank, PID: pid, Code: 1,
				Cause: fmt.Sprintf("has been stopped for %v (SIGSTOP, or a terminal's job control)", n.spec.Heartbeat)})
		}
	}
}
