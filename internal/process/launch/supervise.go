package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// ErrAgentClosed says that the agent was closed by the supervisor.
var ErrAgentClosed = errors.New("the launch agent is closed")

const (
	startLimit = 30 * time.Second
	// closeLimit leaves the agent the time it may need to find out that something cannot be killed.
	closeLimit = killLimit + recallLimit + DefaultGrace + 2*time.Second
)

// Agent is the supervisor's view of its agent process. Its methods may be called from any goroutine.
type Agent struct {
	cmd    *exec.Cmd
	conn   *connection.Conn
	tag    string
	group  *controlGroup // that it is in with all its descendants; nil: there is none
	stderr *tail         // what the agent itself had to say
	// stopped says that it was killed because it stood still.
	stopped atomic.Bool
	tidy    bool          // it has said that nothing of it is left; the listener's own
	last    *reply        // of its last launch, which is over when the agent has gone; the listener's own
	ended   chan struct{} // closed when the agent and everything it had started are gone
	err     error         // why it ended, or what is left; set before ended is closed

	mu      sync.Mutex
	current *Launch
	nextID  int
	closed  bool
}

// Start starts an agent; ctx bounds the start only. While any agent lives, this process is a subreaper: it adopts the
// orphans of an agent that was killed.
func Start(ctx context.Context) (*Agent, error) {
	conn, theirs, err := connection.SocketPair()
	if err != nil {
		return nil, fmt.Errorf("starting the launch agent: %w", err)
	}
	defer theirs.Close()
	token := rand.Text()
	a := &Agent{conn: conn, tag: rand.Text(), stderr: new(tail), ended: make(chan struct{})}
	if err := becomeSubreaper(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("starting the launch agent: %w", err)
	}
	if err := a.spawn(token, theirs); err != nil {
		leaveSubreaper()
		conn.Close()
		return nil, fmt.Errorf("starting the launch agent: %w", err)
	}
	theirs.Close() // else the end of the agent would not end the connection
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := expectHello(ctx, conn, token); err != nil {
		a.cleanUp(err)
		return nil, fmt.Errorf("starting the launch agent (does the program's main call launch.MaybeAgent first?): %w", a.err)
	}
	go a.listen()
	go KillStopped(a.cmd.Process, a.ended, &a.stopped) // and the listener does the rest
	return a, nil
}

// spawn starts the agent's process, in a control group if that can be.
func (a *Agent) spawn(token string, socket *os.File) (err error) {
	a.group = newGroup(a.tag)
	for {
		a.cmd = &exec.Cmd{
			Path:       "/proc/self/exe", // the running program, even when its file has been replaced since
			Args:       []string{"kernbench-agent"},
			Env:        append(os.Environ(), agentVar+"="+token),
			Stderr:     a.stderr,
			ExtraFiles: []*os.File{socket},
			WaitDelay:  time.Second,
			SysProcAttr: &syscall.SysProcAttr{
				Setsid:    true,            // a Ctrl-C at the terminal is for the supervisor to judge
				Pdeathsig: syscall.SIGCONT, // one that stands still when the supervisor dies would not see the end of file
			},
		}
		if a.group == nil {
			return a.cmd.Start()
		}
		dir, err := os.Open(a.group.dir)
		if err == nil {
			a.cmd.SysProcAttr.UseCgroupFD, a.cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
			err = a.cmd.Start()
			dir.Close()
		}
		if err == nil {
			return nil
		}
		a.group.remove() // one may make a group, but not enter it, or the kernel is too old
		a.group = nil
	}
}

// expectHello waits for the peer to prove that it is the process started for this purpose.
func expectHello(ctx context.Context, conn *connection.Conn, token string) error {
	interrupt := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) })
	defer interrupt()
	var r reply
	err := conn.Receive(&r)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for its greeting: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("waiting for its greeting: %w", err)
	case r.Hello == nil || r.Hello.Token != token:
		return errors.New("its greeting does not carry the token of this run")
	}
	return nil
}

// PID is the process number of the agent.
func (a *Agent) PID() int { return a.cmd.Process.Pid }

// Done is closed when the agent has ended and everything it had started is gone.
func (a *Agent) Done() <-chan struct{} { return a.ended }

// Close ends the agent and with it, without grace, every process of a launch that still runs. The
// error says what could not be killed.
func (a *Agent) Close() error { return a.close(closeLimit) }

func (a *Agent) close(limit time.Duration) error {
	a.mu.Lock()
	first := !a.closed
	a.closed = true
	a.mu.Unlock()
	if first {
		a.conn.CloseWrite() // the agent reads end of file
	}
	select {
	case <-a.ended:
	case <-time.After(limit):
		// It does not react: with it dead, the listener sees the end of file and does the agent's work.
		a.cmd.Process.Kill()
		<-a.ended
	}
	if left, is := errors.AsType[*leftError](a.err); is {
		return fmt.Errorf("closing the launch agent: %w", left)
	}
	return nil
}

// KillStopped kills a process that somebody has stopped (SIGSTOP), unless it ends before, and says so in stopped: it
// answers nobody, and obeys no time-out any more. The time is counted in looks, because this process may have been
// stopped with it.
func KillStopped(p *os.Process, ended <-chan struct{}, stopped *atomic.Bool) {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for still := time.Duration(0); still <= connection.SilenceLimit; {
		select {
		case <-look.C:
		case <-ended:
			return
		}
		if still += lookTime; !IsStopped(p.Pid) {
			still = 0
		}
	}
	stopped.Store(true)
	p.Kill()
}

// listen hands the agent's replies on until it ends.
func (a *Agent) listen() {
	for {
		var r reply
		if err := a.conn.Receive(&r); err != nil {
			a.cleanUp(err)
			return
		}
		a.tidy = a.tidy || r.Bye
		if r.Leaving { // who hears of the end of the launch may start the next one
			a.last = &r
			continue
		}
		a.mu.Lock()
		l := a.current
		if r.Done != nil || r.Refused != "" {
			a.current = nil
		}
		a.mu.Unlock()
		if l != nil {
			l.handle(r)
		}
	}
}

// cleanUp makes sure that the agent is dead and leaves nothing, and ends the launch it was at.
func (a *Agent) cleanUp(cause error) {
	a.mu.Lock()
	switch {
	case a.closed:
		cause = ErrAgentClosed
	case a.stopped.Load():
		cause = fmt.Errorf("%w: it had been stopped for %v", ErrAgentLost, connection.SilenceLimit)
	case a.tidy:
		cause = fmt.Errorf("%w: it was told to end", ErrAgentLost)
	case connection.IsDisconnect(cause):
		cause = ErrAgentLost
	default:
		cause = fmt.Errorf("%w: %v", ErrAgentLost, cause)
	}
	a.mu.Unlock()
	a.awaitEnd()
	var left *leftError
	if !a.tidy {
		left = sweep(a.cmd.Process.Pid, a.tag, a.group)
	}
	a.cmd.Wait()
	a.group.remove()
	leaveSubreaper()
	a.conn.Close()
	if said := a.stderr.bytes(); len(said) > 0 {
		cause = fmt.Errorf("%w; it wrote: %s", cause, said)
	}
	if left != nil {
		cause = errors.Join(cause, left)
	}
	a.mu.Lock()
	a.err = cause
	l := a.current
	a.current = nil
	close(a.ended)
	a.mu.Unlock()
	switch {
	case l == nil:
	case a.last != nil:
		l.handle(*a.last)
	default:
		l.recall()
		l.end(Outcome{}, cause)
	}
}

// awaitEnd waits for the end of the agent without taking it from the process table, so that its number, which is also
// that of its session, cannot go to anything else until the sweep is over.
func (a *Agent) awaitEnd() {
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if !closed {
		a.cmd.Process.Kill() // perhaps it has only lost its socket
	}
	for unix.Waitid(unix.P_PID, a.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}
