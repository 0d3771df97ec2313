// Package launch starts the processes of one launch on this host, watches them, keeps their output and makes
// sure that no descendant of theirs is left behind. It does not depend on benches, journals or measurements. The
// caller decides when a launch has hung and what a failed rank means.
//
// Two processes share the work. The supervisor is the program that calls [Start]. The agent is the same binary,
// started again. It is a subreaper, so even a daemon that forked twice and changed its session becomes its child.
// When the kernel tells the agent that it has no children (ECHILD), nothing is left. The two communicate over a
// socket pair, which has no name in the file system and no address that another process could connect to.
//
//   - If the supervisor dies, the agent reads end of file, kills its tree and exits. It first asks
//     launchers (mpirun, srun) to end the processes they started on other hosts.
//   - If the agent dies, the kernel kills the ranks (SIGKILL). The supervisor kills all other processes that it
//     adopts or finds in the agent's control group. The launch ends with [ErrAgentLost].
//   - If the agent is stopped (SIGSTOP), the supervisor notices and kills it. If the supervisor dies
//     first, the kernel continues the agent.
//
// One agent runs a sequence of launches, one at a time. Every main function that may call Start
// must call [MaybeAgent] first.
package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

// ErrAgentLost means that the agent ended before the launch did. All processes of the launch have been killed, and
// the caller may start a new agent.
var ErrAgentLost = errors.New("the launch agent died")

const (
	// DefaultGrace is the time between SIGTERM and SIGKILL. It also limits the wait for stack dumps and, once the
	// supervisor is gone, every other wait.
	DefaultGrace = 2 * time.Second
	// DefaultLogLimit is the number of bytes of one stream that are kept in its log file.
	DefaultLogLimit = 256 << 20
)

// Proc is one process of a launch, on this host or at the host of a rank. Its JSON has what such a host needs to know.
type Proc struct {
	Rank int         // unique in the launch; identifies the process in events
	Argv ByteStrings // Argv[0] without a slash is looked up in the PATH of the process
	// Env and Vars are applied to Spec.Environ; see [Environ]. A program without Vars starts its own ranks.
	Env  EnvOverrides
	Vars *RankVars
	// Native keeps the launcher's variables and the descriptor that they name, for a library that joins the launcher's
	// job through them. It can do so only once.
	Native bool
	Dir    string   `json:"-"` // working directory; "" for the supervisor's own
	Files  []string // paths of files that become descriptors 3, 4, ...
	// Stdout and Stderr are log files that the agent creates or appends to. If empty, the output is dropped. If they are
	// equal, the process gets one pipe for both streams, which keeps the lines
	// in the order in which they were written.
	Stdout, Stderr string `json:"-"`
	// Read, where it is set, gets stdout or stderr instead of a log file, until no process has the stream open any more.
	// See [Launch.AwaitOutput].
	Read [2]func(io.Reader) `json:"-"`
	CPUs []int              `json:"-"` // CPU affinity; empty to inherit it
}

// Spec describes one launch.
type Spec struct {
	Procs         []Proc        `json:"-"` // by rank
	Environ       []string      `json:"-"` // base of the environments; see Proc.Env
	ReportEnv     ByteStrings   // variables to read back from each started process
	Grace         time.Duration // 0 for DefaultGrace
	LogLimit      int64         // bytes kept per stream; 0 for DefaultLogLimit
	StopOnFailure bool          // stop the others when one process fails
	// ForwardSignals are passed on to the ranks when this process receives them, for example the signal by which
	// a batch system announces the end of a job. Descendants of the ranks do not get them, because the default
	// action of most signals is to kill.
	ForwardSignals []syscall.Signal
	// StoppedLimit, if not 0, is how long the supervisor may be stopped (SIGSTOP) before the agent ends the
	// launch. By then, peers that depend on the supervisor consider it dead.
	StoppedLimit time.Duration
	// RemoteLauncher means that the processes are launchers, such as mpirun, with processes on other hosts. Only
	// the launchers can end these, so the agent sends them SIGTERM and waits before it kills them, even if the
	// supervisor is gone. RecallCommand, if not empty, ends the remote processes of a launcher that was killed or
	// did not end within Grace.
	RemoteLauncher bool
	RecallCommand  ByteStrings

	settle time.Duration // 0 for settleTime; tests on busy machines need more
}

// Event is a Started or an Exit.
type Event interface{ event() }

// Started means that a process runs its program.
type Started struct {
	Rank, PID int
	// Env holds the value of each variable of Spec.ReportEnv in the environment of the process, as
	// the kernel shows it; nil for an unset variable. The whole map is nil if the process ended
	// before it could be read.
	Env EnvOverrides
}

// Exit describes how a process ended. The event is sent at once, without the streams. These are complete only in the
// [Outcome], because descendants of the process may still write to them.
type Exit struct {
	Rank, PID int
	Code      int            // exit code; -1 when ended by a signal
	Signal    syscall.Signal // 0 if it was not ended by a signal
	Core      bool
	// OOM is a guess: the process was killed, not by this package, while the kernel's count of
	// out-of-memory kills rose.
	OOM            bool
	Stopped        bool              // ended after the launch was told to stop
	Activity       *culprit.Activity // what it was doing when the launch was stopped; nil if it had ended before
	Wall           time.Duration
	CPU            time.Duration // processor time of it and its descendants; complete in an Outcome only
	Stdout, Stderr Stream
}

// Stream describes a complete output stream. If stdout and stderr share a pipe, the output of both is in Stdout.
type Stream struct {
	Bytes    int64  // written by the process and its descendants
	Dropped  int64  // missing from the log file, because of the limit or an error
	LogError string // why the log file could not be written; "" if it could
}

// Outcome is the end of a launch. Every process has exited and no descendant is left, except for
// Survivors.
type Outcome struct {
	Exits     []Exit // by rank; after ErrAgentLost, only those known by then
	Reason    string // why the launch was stopped; "" if it ended by itself
	Leftovers int    // number of descendants that outlived every rank and were killed
	Survivors []int  // PIDs that could not be killed; the agent then refuses further launches
	Wall      time.Duration
}

func (Started) event() {}
func (Exit) event()    {}

// Failed reports whether the process ended with a non-zero code or by a signal.
func (e Exit) Failed() bool { return e.Code != 0 || e.Signal != 0 }

func (e Exit) String() string { return fmt.Sprintf("rank %d: %s", e.Rank, e.How()) }

// How describes how the process ended, such as "exit code 1".
func (e Exit) How() string {
	how := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != 0 {
		how = fmt.Sprintf("signal %d (%v)", int(e.Signal), e.Signal)
	}
	if e.Core {
		how += ", core dumped"
	}
	if e.OOM {
		how += ", probably out of memory"
	}
	if e.Stopped {
		how += ", after the launch was stopped"
	}
	return how
}

// Failed returns the first process in Spec order that failed before the launch was told to stop, or
// nil.
func (o Outcome) Failed() *Exit {
	for i := range o.Exits {
		if e := &o.Exits[i]; e.Failed() && !e.Stopped {
			return e
		}
	}
	return nil
}

// Progress is what is known about a running launch, wherever its processes are. One goroutine reports; it never blocks.
type Progress struct {
	events  chan Event
	started chan error // one value: nil once all processes run
	ended   chan struct{}
	exits   map[int]Exit // by rank; only the reporting goroutine may use it
	outcome Outcome      // like err, set before ended is closed
	err     error
}

// NewProgress returns the progress of a launch of n processes.
func NewProgress(n int) *Progress {
	return &Progress{events: make(chan Event, 2*n), started: make(chan error, 1), ended: make(chan struct{}),
		exits: make(map[int]Exit, n)}
}

// Report adds an event.
func (p *Progress) Report(e Event) {
	if x, is := e.(Exit); is {
		p.exits[x.Rank] = x
	}
	p.events <- e
}

// ReportStart says that all processes run, or why they do not. Only the first call counts.
func (p *Progress) ReportStart(err error) {
	select {
	case p.started <- err:
	default:
	}
}

// End ends the launch. Where the outcome has no report of its own about an exit, it gets the one that was reported
// before.
func (p *Progress) End(outcome Outcome, err error) {
	for rank, e := range p.exits {
		i := slices.IndexFunc(outcome.Exits, func(x Exit) bool { return x.Rank == rank })
		if i < 0 {
			outcome.Exits = append(outcome.Exits, e)
			continue
		}
		outcome.Exits[i].Stopped = e.Stopped
	}
	slices.SortFunc(outcome.Exits, func(a, b Exit) int { return cmp.Compare(a.Rank, b.Rank) })
	p.outcome, p.err = outcome, err
	p.ReportStart(err) // lost before all processes ran
	close(p.events)
	close(p.ended)
}

// AwaitStart returns when all processes run, or the reason why they do not. stop is called when ctx ends before the
// launch does, and release after the launch.
func (p *Progress) AwaitStart(ctx context.Context, stop func(StopRequest), release func()) error {
	unhook := context.AfterFunc(ctx, func() { stop(StopRequest{Reason: context.Cause(ctx).Error()}) })
	err := <-p.started
	if err != nil {
		unhook()
		release()
		return fmt.Errorf("launching: %w", WithLimit(err))
	}
	go func() { <-p.ended; unhook(); release() }()
	return nil
}

// Events delivers events, in order for each rank. The channel is closed at the end of the launch. Callers may ignore
// it.
func (p *Progress) Events() <-chan Event { return p.events }

// Wait returns when the launch has ended and none of its processes is left. A failed rank is not an error. After
// ErrAgentLost, or ErrAgentClosed for an agent that did not respond, the outcome has only the exits known by then.
func (p *Progress) Wait() (Outcome, error) {
	<-p.ended
	return p.outcome, p.err
}

// Launch is a running launch.
type Launch struct {
	*Progress
	agent    *Agent
	id       int
	spec     Spec
	readers  *sync.WaitGroup
	stopping sync.Once
	ending   atomic.Bool // the agent is ending the launch without a request to do so
}

// Launch starts the processes and returns when all of them run their programs. If one cannot be started, Launch kills
// the others and returns an error that names it. When ctx ends, even later, the launch is stopped. An agent runs one
// launch at a time.
func (a *Agent) Launch(ctx context.Context, spec Spec) (*Launch, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	spec.Procs = slices.Clone(spec.Procs)
	readers := new(sync.WaitGroup)
	closePipes, err := pipeOutput(spec.Procs, readers)
	defer closePipes() // the agent has opened them itself by then
	if err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	procs, files, err := a.encode(spec)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	spec.Grace = cmp.Or(spec.Grace, DefaultGrace)
	spec.LogLimit = cmp.Or(spec.LogLimit, DefaultLogLimit)
	spec.settle = cmp.Or(spec.settle, settleTime)
	l := &Launch{Progress: NewProgress(len(procs)), agent: a, spec: spec, readers: readers}
	if err := a.setCurrent(l); err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	stopForwarding := l.forwardSignals() // before the first process runs, so that no signal is missed
	for chunk := range slices.Chunk(files, connection.MaxFiles) {
		if err = errors.Join(err, a.conn.Send(request{Files: len(chunk)}, chunk...)); err != nil {
			break
		}
	}
	if err == nil {
		err = a.conn.Send(request{Launch: &launchRequest{l.id, procs, spec.settle, spec}})
	}
	if err != nil {
		// If the agent is alive, it has received half a request and cannot be used any more. receiveReplies
		// cleans up after it.
		a.cmd.Process.Kill()
		stopForwarding()
		if begun := <-l.started; connection.IsDisconnect(err) {
			err = begun // the reason why the agent no longer reads
		} else {
			err = errors.Join(err, begun)
		}
		return nil, fmt.Errorf("launching: %w", err)
	}
	if err := l.AwaitStart(ctx, l.Stop, stopForwarding); err != nil {
		return nil, err
	}
	return l, nil
}

// pipeOutput makes a pipe for each stream that is read by this program, sets the name under which the agent opens it
// for writing, and starts the readers. A stream ends when closeWrites was called and the agent has closed it.
func pipeOutput(procs []Proc, readers *sync.WaitGroup) (closeWrites func(), err error) {
	var reads, writes []*os.File
	var start []func(io.Reader)
	for i := range procs {
		for stream, path := range []*string{&procs[i].Stdout, &procs[i].Stderr} {
			if procs[i].Read[stream] == nil {
				continue
			}
			read, write, failed := os.Pipe()
			if failed != nil {
				err = fmt.Errorf("making a pipe for the output of rank %d: %w", procs[i].Rank, failed)
				continue
			}
			*path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), write.Fd())
			reads, writes, start = append(reads, read), append(writes, write), append(start, procs[i].Read[stream])
		}
	}
	for i, read := range reads {
		readers.Go(func() {
			defer read.Close()
			start[i](read)
		})
	}
	return func() {
		for _, f := range writes {
			f.Close()
		}
	}, err
}

// AwaitOutput waits until the functions of Proc.Read have returned. After [Launch.Wait], no more output comes.
func (l *Launch) AwaitOutput() { l.readers.Wait() }

// setCurrent makes l the current launch.
func (a *Agent) setCurrent(l *Launch) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.ended:
		return a.err
	default:
	}
	if a.closed {
		return ErrAgentClosed
	}
	if a.current != nil {
		return errors.New("another launch of this agent is still running; wait for it first")
	}
	a.nextID++
	l.id = a.nextID
	a.current = l
	return nil
}

// Stop ends the launch. It sends SIGTERM to every process and descendant, and SIGKILL to the ones that are left after
// Spec.Grace. Stop does not wait. Only the first call has an effect.
func (l *Launch) Stop(r StopRequest) {
	r.ID = l.id
	l.stopping.Do(func() {
		// If sending fails, the agent is dead or dying, and its launch ends anyway.
		_ = l.agent.conn.Send(request{Stop: &r})
	})
}

// forwardSignals passes the signals of Spec.ForwardSignals on to the launch until end is called.
func (l *Launch) forwardSignals() (end func()) {
	got := make(chan os.Signal, 4)
	for _, sig := range l.spec.ForwardSignals {
		signal.Notify(got, sig)
	}
	go func() {
		for sig := range got {
			_ = l.agent.conn.Send(request{Signal: &signalRequest{ID: l.id, Signal: sig.(syscall.Signal)}}) // as in Stop
		}
	}()
	return func() { signal.Stop(got); close(got) }
}

// UserSignals are signals that only the user's programs give a meaning to. Slurm can send one as a warning before the
// time limit of a job (--signal=USR1@60).
var UserSignals = []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2}

// CatchUserSignals prevents UserSignals from killing this process. They are meant for the programs of a launch. They
// are caught and not ignored, because child processes would inherit an ignored signal.
func CatchUserSignals() {
	for _, sig := range UserSignals {
		signal.Notify(make(chan os.Signal, 1), sig)
	}
}

// Ending reports whether the agent is dead, dying or about to be killed, or is ending the launch without a request.
// Later failures of the processes are consequences of that. [Launch.Wait] returns the reason.
func (l *Launch) Ending() bool {
	select {
	case <-l.agent.ended:
		return true
	default:
	}
	p, ok := proc.Read(hostinfo.Root(), l.agent.PID())
	return l.ending.Load() || l.agent.stopped.Load() || !ok || p.Ended()
}

// handle applies one reply of the agent to the launch. Only receiveReplies calls it.
func (l *Launch) handle(r reply) {
	switch {
	case r.Refused != "":
		l.ReportStart(errors.New(r.Refused))
	case r.Launched != nil:
		for _, s := range r.Launched {
			l.Report(s)
		}
		l.ReportStart(nil)
	case r.Exited != nil:
		l.Report(*r.Exited)
	case r.Ending:
		l.ending.Store(true)
	case r.Done != nil:
		l.End(*r.Done, nil)
	}
}

// recall runs RecallCommand on behalf of a lost agent. The kernel has killed the agent's launchers, so their remote
// processes may still run.
func (l *Launch) recall() {
	if len(l.spec.RecallCommand) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recallLimit)
	defer cancel()
	_ = exec.CommandContext(ctx, l.spec.RecallCommand[0], l.spec.RecallCommand[1:]...).Run() // best effort
}
