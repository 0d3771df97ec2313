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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// ErrAgentClosed means that the supervisor has closed the agent.
var ErrAgentClosed = errors.New("the launch agent is closed")

const (
	startLimit = 30 * time.Second
	// reviveLimit is how long an agent may be stopped before it is continued. An agent that is stopped
	// again is killed after connection.SilenceLimit.
	reviveLimit = time.Second
	// closeLimit includes the time that the agent may need to find out that something cannot be
	// killed.
	closeLimit = killLimit + recallLimit + DefaultGrace + 2*time.Second
)

// Agent is the supervisor's view of its agent process. Its methods are safe for concurrent use.
type Agent struct {
	cmd    *exec.Cmd
	conn   *connection.Conn
	tag    string
	group  *controlGroup // of the agent and all its descendants; nil if there is none
	stderr *agentOutput  // the agent's own messages
	logDir string        // for a crash report; see Start
	// oomBefore is the kernel's count of out-of-memory kills at the start.
	oomBefore int64
	// stopped is set if the agent was killed because it was stopped (SIGSTOP).
	stopped    atomic.Bool
	clean      bool          // the agent has reported that it has no children; used by receiveReplies
	finalReply *reply        // of its last launch, delivered once the agent has gone; used by receiveReplies
	ended      chan struct{} // closed when the agent and everything it started are gone
	err        error         // why it ended, or what is left; set before ended is closed

	mu      sync.Mutex
	current *Launch
	nextID  int
	closed  bool
}

// Start starts an agent. ctx bounds only the start. If the agent crashes, its stacks are stored in
// logDir, or in the folder for temporary files if that does not exist. While any agent lives, this process is a
// subreaper, to adopt the orphans of an agent that was killed.
func Start(ctx context.Context, logDir string) (*Agent, error) {
	conn, theirs, err := connection.SocketPair()
	if err != nil {
		return nil, fmt.Errorf("starting the launch agent: %w", err)
	}
	defer theirs.Close()
	a := &Agent{conn: conn, tag: rand.Text(), stderr: new(agentOutput), logDir: logDir, oomBefore: oomKills(),
		ended: make(chan struct{})}
	if err := becomeSubreaper(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("starting the launch agent: %w", err)
	}
	if err := a.spawn(theirs); err != nil {
		leaveSubreaper()
		conn.Close()
		return nil, fmt.Errorf("starting the launch agent: %w", err)
	}
	theirs.Close() // or the end of the agent would not end the connection
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
			WaitDelay:  time.Second,
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

// expectHello waits for the agent's greeting, which shows that the program has called MaybeAgent. The
// socket pair needs no authentication: only the started process has the other end.
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
		return errors.New("its first message is no greeting")
	}
	return nil
}

// PID returns the process ID of the agent.
func (a *Agent) PID() int { return a.cmd.Process.Pid }

// Done returns a channel that is closed when the agent has ended and everything it started is gone.
func (a *Agent) Done() <-chan struct{} { return a.ended }

// Close ends the agent and kills every process of a running launch without grace. The error lists
// processes that could not be killed.
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
		// The agent does not react. Once it is dead, receiveReplies reads end of file and does the
		// cleanup.
		a.cmd.Process.Kill()
		<-a.ended
	}
	if left, is := errors.AsType[*survivorsError](a.err); is {
		return fmt.Errorf("ending the launch agent: %w", left)
	}
	return nil
}

// continueStopped continues an agent that has been stopped (SIGSTOP) for reviveLimit, so that neither
// its launch nor output that it has not forwarded yet is lost. It returns then, or with true when the
// agent ends.
func continueStopped(p *os.Process, ended <-chan struct{}) (over bool) {
	if !awaitStopped(p, ended, reviveLimit) {
		return true
	}
	p.Signal(syscall.SIGCONT)
	return false
}

// KillStopped kills a process that has been stopped (SIGSTOP) for connection.SilenceLimit, and then
// sets stopped. It returns early when the process ends. A stopped process answers no one and
// ignores time limits. The time is counted in polls, because this process may have been stopped as
// well.
func KillStopped(p *os.Process, ended <-chan struct{}, stopped *atomic.Bool) {
	if awaitStopped(p, ended, connection.SilenceLimit) {
		stopped.Store(true)
		p.Kill()
	}
}

// awaitStopped waits until a process has been stopped for longer than limit. It returns false if the
// process ends before.
func awaitStopped(p *os.Process, ended <-chan struct{}, limit time.Duration) bool {
	look := time.NewTicker(pollInterval)
	defer look.Stop()
	for still := time.Duration(0); still <= limit; {
		select {
		case <-look.C:
		case <-ended:
			return false
		}
		if still += pollInterval; !IsStopped(p.Pid) {
			still = 0
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
		if r.Leaving { // deliver it only when the agent has gone: the caller may start the next one at once
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

// cleanUp makes sure that the agent is dead and leaves nothing, and ends its current launch.
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
	cause = a.withDeath(cause, a.oomBefore)
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
		l.end(Outcome{}, cause)
	}
}

// awaitEnd waits for the end of the agent without reaping it. Its PID, which is also its session
// ID, must not be reused until the sweep is over.
func (a *Agent) awaitEnd() {
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if !closed {
		a.cmd.Process.Kill() // it may only have lost its socket
	}
	for unix.Waitid(unix.P_PID, a.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// survivorsError means that processes of a lost agent could not be killed.
type survivorsError struct{ pids []int }

func (e *survivorsError) Error() string {
	return fmt.Sprintf("processes %v could not be killed: they belong to another user or hang in the kernel", e.pids)
}

// sweep kills the processes of a dead agent, and only those, since the supervisor may have other
// children. A process belongs to the agent if it is in the agent's control group or session, if its
// environment carries the tag, or if it descends from such a process. Without a control group, a
// process that has changed its session and cleared its environment is found only through a living
// parent. Adopted zombies are reaped, except for a daemon that has just ended by itself: it has no
// environment left, and could be a child that the program has not waited for yet.
func sweep(agentPID int, tag string, group *controlGroup) *survivorsError {
	self := os.Getpid()
	known := make(map[process]bool) // zombies have no environment to recognise them by
	find := func() []process {
		found := withDescendants(processes(), func(p process) bool {
			if p.pid == self || p.pid == agentPID {
				return false
			}
			return group.has(p.pid) || p.session == agentPID || known[p.id()] ||
				!p.zombie && slices.Contains(readEnviron(p.pid), TagVar+"="+tag)
		})
		for _, p := range found {
			known[p.id()] = true
		}
		return found
	}
	pause := time.Millisecond
	for limit := time.Now().Add(killLimit); ; pause = min(2*pause, 50*time.Millisecond) {
		killAll(func() []process { return living(find()) })
		left := find()
		for _, p := range left {
			if p.zombie && p.parent == self {
				unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return &survivorsError{pids: lists.Map(left, func(p process) int { return p.pid })}
		}
		time.Sleep(pause)
	}
}

// subreaper counts the living agents of this process. When the last one ends, the process returns
// to its previous subreaper state.
var subreaper struct {
	sync.Mutex
	users  int
	before int32
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

// childSubreaper asks the kernel whether this process is a subreaper.
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

// controlGroup contains an agent and all its descendants, whatever they do to their session,
// environment and parents; only processes with write access to it can leave. A nil group is empty.
type controlGroup struct{ dir string }

// groupName is the prefix of every group's name. A group older than staleGroup is not being entered
// by a starting agent any more.
const (
	groupName  = "kernbench-"
	staleGroup = time.Minute
)

// newGroup makes a group below the group of this process. It returns nil if that is not possible:
// without cgroup v2, or without write access.
func newGroup(tag string) *controlGroup {
	parent := hostinfo.ControlGroup(hostinfo.Root())
	if parent == "" {
		return nil
	}
	// Remove groups left by killed runs. Removal fails if a group is not empty.
	stale, _ := filepath.Glob(filepath.Join(parent, groupName+"*"))
	for _, dir := range stale {
		if st, err := os.Stat(dir); err == nil && time.Since(st.ModTime()) > staleGroup {
			(&controlGroup{dir}).remove()
		}
	}
	g := &controlGroup{filepath.Join(parent, groupName+tag)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil
	}
	return g
}

// leaveGroup moves the agent out of its group and removes the group. No one else does so if the
// supervisor was killed.
func leaveGroup() {
	g := controlGroup{hostinfo.ControlGroup(hostinfo.Root())}
	if !strings.HasPrefix(filepath.Base(g.dir), groupName) {
		return
	}
	if os.WriteFile(filepath.Join(filepath.Dir(g.dir), "cgroup.procs"), []byte("0"), 0) == nil { // PID 0 means the writer
		g.remove()
	}
}

// has reports whether a process, or a zombie, is in the group or in a group below it.
func (g *controlGroup) has(pid int) bool {
	if g == nil {
		return false
	}
	own, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return strings.Contains(string(own), "/"+filepath.Base(g.dir))
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
