package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// Launch is a running launch.
type Launch struct {
	agent  *Agent
	id     int
	spec   Spec
	events chan Event
	begun  chan error // how the start went; one value

	stopping sync.Once
	exits    map[int]Exit // by rank; the listener's own, as what follows is until done is closed
	done     chan struct{}
	ending   atomic.Bool // the agent ends it of its own accord
	outcome  Outcome
	err      error
}

// Launch starts the processes and returns when all of them run their programs; when one cannot be started, none is left
// and the error names it. The end of ctx stops the launch, during its whole life. One launch at a time.
func (a *Agent) Launch(ctx context.Context, spec Spec) (*Launch, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	procs, files, err := a.encode(spec.Procs)
	if err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	spec.Grace = cmp.Or(spec.Grace, DefaultGrace)
	spec.LogLimit = cmp.Or(spec.LogLimit, DefaultLogLimit)
	spec.settle = cmp.Or(spec.settle, settleTime)
	n := len(procs)
	l := &Launch{
		// Room for every Started and Exit: the listener never waits for the caller.
		agent: a, spec: spec, events: make(chan Event, 2*n),
		begun: make(chan error, 1), exits: make(map[int]Exit, n), done: make(chan struct{}),
	}
	if err := a.admit(l); err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	deaf := l.passOn() // before anything runs: what it causes must not be missed
	for chunk := range slices.Chunk(files, connection.MaxFiles) {
		if err = errors.Join(err, a.conn.Send(request{Files: len(chunk)}, chunk...)); err != nil {
			break
		}
	}
	if err == nil {
		err = a.conn.Send(request{Launch: &launchRequest{l.id, procs, spec.settle, spec}})
	}
	if err != nil {
		// Half a request is with the agent, if it lives at all. It is of no more use, and listen cleans up after it.
		a.cmd.Process.Kill()
		deaf()
		if begun := <-l.begun; connection.IsDisconnect(err) {
			err = begun // which says why nobody reads
		} else {
			err = errors.Join(err, begun)
		}
		return nil, fmt.Errorf("launching: %w", err)
	}
	release := context.AfterFunc(ctx, func() { l.Stop(context.Cause(ctx).Error(), false) })
	if err := <-l.begun; err != nil {
		release()
		deaf()
		return nil, fmt.Errorf("launching: %w", err)
	}
	go func() { <-l.done; release(); deaf() }()
	return l, nil
}

// admit makes l the current launch.
func (a *Agent) admit(l *Launch) error {
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

// Events gives what happens, in order: every Started first, then the Exits. It is closed at the end of the
// launch. It need not be read.
func (l *Launch) Events() <-chan Event { return l.events }

// Stop ends the launch: SIGTERM to every process and descendant, and SIGKILL to what is left after Spec.Grace. With
// dump the ranks first get SIGQUIT, and as much time again, so that a Go program leaves its
// goroutines' stacks in its log. Stop does not wait, and only the first call counts; reason goes into
// the Outcome.
func (l *Launch) Stop(reason string, dump bool) { l.StopAs(StopRequest{Reason: reason, Dump: dump}) }

// StopHung is Stop for a launch that has hung: the agent takes the time, about half a second, to find
// out what each rank is at, see [Exit].
func (l *Launch) StopHung(reason string) { l.StopAs(StopRequest{Reason: reason, Hung: true}) }

// StopAs is Stop or StopHung, as the request says; the launch is this one.
func (l *Launch) StopAs(r StopRequest) {
	r.ID = l.id
	l.stopping.Do(func() {
		// An agent that cannot be told is dead or dying, and its launch ends without being asked.
		_ = l.agent.conn.Send(request{Stop: &r})
	})
}

// passOn sends the launch the signals of Spec.PassOn that this process gets, until the end of it.
func (l *Launch) passOn() (end func()) {
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

// UserSignals are those that mean something only to a program that asks for them, as Slurm's --signal=USR1@60 does.
var UserSignals = []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2}

// CatchUserSignals keeps this process from being killed by a signal that is meant for the programs of a launch. Caught,
// not ignored: what is ignored would be ignored by the ranks too.
func CatchUserSignals() {
	for _, sig := range UserSignals {
		signal.Notify(make(chan os.Signal, 1), sig)
	}
}

// Wait returns when the launch has ended and nothing of it is left. That ranks failed, or that the agent was closed
// meanwhile, is no error. With ErrLost, or ErrClosed for an agent that did not answer any more, the
// outcome holds only the exits that were known.
func (l *Launch) Wait() (Outcome, error) {
	<-l.done
	return l.outcome, l.err
}

// Ending reports whether the agent is dead, dying or about to be killed, or ends the launch of its own accord. What the
// processes suffer from then on follows from that, and [Launch.Wait] has the reason.
func (l *Launch) Ending() bool {
	select {
	case <-l.agent.ended:
		return true
	default:
	}
	p, ok := readProcess(l.agent.PID())
	return l.ending.Load() || l.agent.stopped.Load() || !ok || p.zombie
}

// handle takes one reply of the agent; the listener calls it.
func (l *Launch) handle(r reply) {
	switch {
	case r.Refused != "":
		l.begun <- errors.New(r.Refused)
	case r.Launched != nil:
		for _, s := range r.Launched {
			l.events <- s
		}
		l.begun <- nil
	case r.Exited != nil:
		l.exits[r.Exited.Rank] = *r.Exited
		l.events <- *r.Exited
	case r.Ending:
		l.ending.Store(true)
	case r.Done != nil:
		l.end(*r.Done, nil)
	}
}

// end makes the outcome known. A lost agent has sent none, so the exits it had told of are put in.
func (l *Launch) end(outcome Outcome, err error) {
	if err != nil {
		for _, p := range l.spec.Procs {
			if e, ok := l.exits[p.Rank]; ok {
				outcome.Exits = append(outcome.Exits, e)
			}
		}
	}
	l.outcome, l.err = outcome, err
	select {
	case l.begun <- err: // it was lost before it began
	default:
	}
	close(l.events)
	close(l.done)
}

// recall does what a lost agent cannot do any more: its launchers were killed by the kernel.
func (l *Launch) recall() {
	if len(l.spec.RecallCommand) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recallLimit)
	defer cancel()
	_ = exec.CommandContext(ctx, l.spec.RecallCommand[0], l.spec.RecallCommand[1:]...).Run() // it has nobody to tell
}
