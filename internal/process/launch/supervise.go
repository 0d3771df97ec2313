package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// ErrAgentClosed means that the supervisor has closed the agent.
var ErrAgentClosed = errors.New("the launch agent is closed")

const (
	startLimit = 30 * time.Second
	// continueLimit is how long an agent may be stopped (SIGSTOP) before the supervisor continues it (SIGCONT). If it
	// is stopped a second time, the supervisor kills it after connection.SilenceLimit.
	continueLimit = time.Second
	// closeLimit is how long Close waits for the agent. It includes the time after which the agent gives up on
	// processes that cannot be killed.
	closeLimit = killLimit + recallLimit + DefaultGrace + 2*time.Second
)

// Agent is the supervisor's view of its agent process. Its methods are safe for concurrent use.
type Agent struct {
	cmd    *exec.Cmd
	conn   *connection.Conn
	tag    string
	group  *controlGroup // of the agent and all its descendants; nil if there is none
	stderr *os.File      // the agent's own messages
	logDir string        // for a crash report; see Start
	// oomBefore is the kernel's count of out-of-memory kills at the start.
	oomBefore int64
	// stopped is set if the agent was killed because it was stopped (SIGSTOP).
	stopped    atomic.Bool
	clean      bool          // the agent has reported that it has no children; only receiveReplies uses it
	finalReply *reply        // of the last launch, delivered once the agent has ended; only receiveReplies uses it
	ended      chan struct{} // closed when the agent and everything it started are gone
	err        error         // why it ended, or what is left; set before ended is closed

	mu      sync.Mutex // guards the fields below
	current *Launch
	nextID  int
	closed  bool
}

// Start starts an agent. ctx limits only the start. If the agent crashes, its crash report is stored in logDir, or in
// the folder for temporary files if logDir does not exist. While any agent is alive, this process is a subreaper: it
// adopts the orphans of an agent that was killed.
func Start(ctx context.Context, logDir string) (*Agent, error) {
	conn, theirs, err := connection.SocketPair()
	if err != nil {
		return nil, fmt.Errorf("starting the launch agent: %w", err)
	}
	defer theirs.Close()
	a := &Agent{conn: conn, tag: rand.Text(), logDir: logDir, oomBefore: oomKills(), ended: make(chan struct{})}
	fd, err := unix.MemfdCreate("kernbench-agent", unix.MFD_CLOEXEC)
	if err == nil {
		a.stderr = os.NewFile(uintptr(fd), "the agent's messages")
		if err = becomeSubreaper(); err == nil {
			if err = a.spawn(theirs); err != nil {
				leaveSubreaper()
			}
		}
	}
	if err != nil {
		a.stderr.Close()
		conn.Close()
		return nil, fmt.Errorf("starting the launch agent: %w", err)
	}
	theirs.Close() // with an open copy, the end of the agent would not close the connection
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := expectHello(ctx, conn); err != nil {
		a.cleanUp(err)
		return nil, fmt.Errorf("starting the launch agent, a helper process of this program: %w", a.err)
	}
	go a.receiveReplies()
	go func() {
		if !continueStopped(a.cmd.Process, a.ended) {
			KillStopped(a.cmd.Process, a.ended, &a.stopped) // after the kill, receiveReplies cleans up
		}
	}()
	return a, nil
}

// spawn starts the agent's process, in a control group if possible.
func (a *Agent) spawn(socket *os.File) (err error) {
	a.group = newGroup(a.tag)
	for {
		a.cmd = &exec.Cmd{
			Path:       "/proc/self/exe", // the running program, even if its file has been replaced
			Args:       []string{"kernbench-agent"},
			Env:        append(os.Environ(), agentVar+"=1"),
			Stderr:     a.stderr,
			ExtraFiles: []*os.File{socket},
			SysProcAttr: &syscall.SysProcAttr{
				Setsid:    true,            // the supervisor decides what a Ctrl-C at the terminal means
				Pdeathsig: syscall.SIGCONT, // a stopped agent must be continued to notice the end of the supervisor
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
		a.group.remove() // not allowed to enter the group, or the kernel is too old
		a.group = nil
	}
}

// expectHello waits for the agent's greeting, which shows that the started program has called MaybeAgent. No
// authentication is needed, because only the started process has the other end of the socket pair.
func expectHello(ctx context.Context, conn *connection.Conn) error {
	interrupt := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) })
	defer interrupt()
	var r reply
	err := conn.Receive(&r)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for its greeting: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("waiting for its greeting: %w", err)
	case !r.Hello:
		return errors.New("its first message is not a greeting")
	}
	return nil
}

// PID returns the process ID of the agent.
func (a *Agent) PID() int { return a.cmd.Process.Pid }

// Done returns a channel that is closed when the agent has ended and everything it started is gone.
func (a *Agent) Done() <-chan struct{} { return a.ended }

// Close ends the agent. It kills the processes of a running launch at once, without SIGTERM (except for the launchers
// of Spec.RemoteLauncher). The error lists processes that could not be killed.
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
		// The agent does not respond. Once it is dead, receiveReplies reads end of file and cleans up.
		a.cmd.Process.Kill()
		<-a.ended
	}
	if left, is := errors.AsType[*survivorsError](a.err); is {
		return fmt.Errorf("ending the launch agent: %w", left)
	}
	return nil
}

// continueStopped waits until the agent has been stopped (SIGSTOP) for continueLimit, and continues it. Its launch and
// the output that it has not read yet are thus not lost. It returns true if the agent ended before.
func continueStopped(p *os.Process, ended <-chan struct{}) (hasEnded bool) {
	if !awaitStopped(p, ended, continueLimit) {
		return true
	}
	p.Signal(syscall.SIGCONT)
	return false
}

// KillStopped waits until a process has been stopped (SIGSTOP) for connection.SilenceLimit, sets stopped and kills it.
// It returns early when the process ends. Nothing else would end a stopped process, because it does not check its own
// time limits. The time is counted in polls and not read from the clock, because this process may have been stopped as
// well.
func KillStopped(p *os.Process, ended <-chan struct{}, stopped *atomic.Bool) {
	if awaitStopped(p, ended, connection.SilenceLimit) {
		stopped.Store(true)
		p.Kill()
	}
}

// awaitStopped waits until a process has been stopped for longer than limit. It returns false if the process ends
// first.
func awaitStopped(p *os.Process, ended <-chan struct{}, limit time.Duration) bool {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for stoppedFor := time.Duration(0); stoppedFor <= limit; {
		select {
		case <-ticker.C:
		case <-ended:
			return false
		}
		if stoppedFor += pollInterval; !IsStopped(p.Pid) {
			stoppedFor = 0
		}
	}
	return true
}

// receiveReplies handles the agent's replies until the agent ends.
func (a *Agent) receiveReplies() {
	for {
		var r reply
		if err := a.conn.Receive(&r); err != nil {
			a.cleanUp(err)
			return
		}
		a.clean = a.clean || r.Bye
		if r.Leaving { // deliver it when the agent has ended, because the caller may then start the next one at once
			a.finalReply = &r
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

// cleanUp makes sure that the agent is dead, kills what it has left behind, and ends its current launch.
func (a *Agent) cleanUp(cause error) {
	a.mu.Lock()
	switch {
	case a.closed:
		cause = ErrAgentClosed
	case a.stopped.Load():
		cause = fmt.Errorf("%w: it had been stopped for %v", ErrAgentLost, connection.SilenceLimit)
	case a.clean:
		cause = fmt.Errorf("%w: it was told to end", ErrAgentLost)
	case connection.IsDisconnect(cause):
		cause = ErrAgentLost
	default:
		cause = fmt.Errorf("%w: %v", ErrAgentLost, cause)
	}
	a.mu.Unlock()
	a.awaitEnd()
	var left *survivorsError
	if !a.clean {
		left = sweep(a.cmd.Process.Pid, a.tag, a.group)
	}
	a.cmd.Wait()
	a.group.remove()
	leaveSubreaper()
	a.conn.Close()
	cause = a.explainDeath(cause, a.oomBefore)
	a.stderr.Close()
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
	case a.finalReply != nil:
		l.handle(*a.finalReply)
	default:
		l.recall()
		l.End(Outcome{}, cause)
	}
}

// awaitEnd waits for the end of the agent without reaping it. Its PID, which is also its session
// ID, must not be reused until the sweep is over.
func (a *Agent) awaitEnd() {
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if !closed {
		a.cmd.Process.Kill() // only its socket may be broken
	}
	for unix.Waitid(unix.P_PID, a.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// survivorsError means that processes of a lost agent could not be killed.
type survivorsError struct{ pids []int }

func (e *survivorsError) Error() string {
	return fmt.Sprintf("processes %v could not be killed: they belong to another user or hang in the kernel", e.pids)
}

// sweep kills the processes of a dead agent. It must not kill other children of the supervisor. A process belongs to
// the agent if it is in the agent's control group or session, if its environment has the tag, or if it descends from
// such a process. Without a control group, a process that has changed its session and cleared its environment is found
// only through a living parent.
//
// sweep also reaps the zombies that it recognizes. It does not recognize a daemon that has just ended by itself,
// because a zombie has no environment. Such a zombie could be a child for which the program itself is going to wait.
func sweep(agentPID int, tag string, group *controlGroup) *survivorsError {
	self := os.Getpid()
	known := make(map[proc.ID]bool) // found before; a zombie has no environment by which to find it again
	find := func() []proc.Process {
		found := proc.Family(proc.All(hostinfo.Root()), func(p proc.Process) bool {
			if p.PID == self || p.PID == agentPID {
				return false
			}
			return group.has(p.PID) || p.Session == agentPID || known[p.ID] ||
				!p.Ended() && slices.Contains(proc.Environ(p.PID), TagVar+"="+tag)
		})
		for _, p := range found {
			known[p.ID] = true
		}
		return found
	}
	pause := time.Millisecond
	for limit := time.Now().Add(killLimit); ; pause = min(2*pause, 50*time.Millisecond) {
		killAll(func() []proc.Process { return withoutZombies(find()) })
		left := find()
		for _, p := range left {
			if p.Ended() && p.Parent == self {
				unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return &survivorsError{pids: lists.Map(left, func(p proc.Process) int { return p.PID })}
		}
		time.Sleep(pause)
	}
}

// subreaper counts the living agents of this process. When the last one ends, the previous state is restored: the
// program may be a subreaper for reasons of its own.
var subreaper struct {
	sync.Mutex
	users  int   // living agents
	before int32 // the state to restore, 0 or 1
}

func becomeSubreaper() error {
	subreaper.Lock()
	defer subreaper.Unlock()
	if subreaper.users == 0 {
		before, err := childSubreaper()
		if err == nil {
			err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		}
		if err != nil {
			return fmt.Errorf("becoming a subreaper: %w", err)
		}
		subreaper.before = before
	}
	subreaper.users++
	return nil
}

// childSubreaper returns 1 if this process is a subreaper, otherwise 0.
func childSubreaper() (is int32, err error) {
	err = unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0)
	return is, err
}

func leaveSubreaper() {
	subreaper.Lock()
	defer subreaper.Unlock()
	if subreaper.users--; subreaper.users == 0 {
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(subreaper.before), 0, 0, 0)
	}
}

// controlGroup is a cgroup with an agent and all its descendants. Descendants stay in it even if they change their
// session, their environment or their parent. Only a process with write access to the group can leave. A nil group is
// empty.
type controlGroup struct{ dir string }

// groupPrefix is the prefix of every group's name. An empty group that is older than staleGroup is left over from a
// killed run; a younger one may belong to an agent that is just starting.
const (
	groupPrefix = "kernbench-"
	staleGroup  = time.Minute
)

// newGroup creates a group below the group of this process. It returns nil without cgroup v2 or without write access.
func newGroup(tag string) *controlGroup {
	parent := hostinfo.ControlGroup(hostinfo.Root())
	if parent == "" {
		return nil
	}
	// Remove groups left by killed runs. Removal fails if a group is not empty.
	stale, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"*"))
	for _, dir := range stale {
		if st, err := os.Stat(dir); err == nil && time.Since(st.ModTime()) > staleGroup {
			(&controlGroup{dir}).remove()
		}
	}
	g := &controlGroup{filepath.Join(parent, groupPrefix+tag)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil
	}
	return g
}

// leaveGroup moves the agent out of its group and removes the group. The supervisor cannot do this if it was killed.
func leaveGroup() {
	g := controlGroup{hostinfo.ControlGroup(hostinfo.Root())}
	if !strings.HasPrefix(filepath.Base(g.dir), groupPrefix) {
		return
	}
	if os.WriteFile(filepath.Join(filepath.Dir(g.dir), "cgroup.procs"), []byte("0"), 0) == nil { // PID 0 means the writer
		g.remove()
	}
}

// has reports whether a process, which may be a zombie, is in the group or in a group below it.
func (g *controlGroup) has(pid int) bool {
	return g != nil && proc.InGroup(hostinfo.Root(), pid, filepath.Base(g.dir))
}

// remove removes the group if it is empty.
func (g *controlGroup) remove() {
	if g == nil {
		return
	}
	var dirs []string
	filepath.WalkDir(g.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		unix.Rmdir(dir) // the kernel removes the files
	}
}
