package launch

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
)

// IsStopped reports whether a process is stopped by SIGSTOP or a terminal's job control. A process
// held by a debugger has another state and is not reported.
func IsStopped(pid int) bool {
	p, _ := proc.Read(hostinfo.Root(), pid)
	return p.Stopped()
}

// descendants returns every process below pid, except zombies.
func descendants(pid int) []proc.Process {
	return withoutZombies(proc.Family(proc.All(hostinfo.Root()), func(p proc.Process) bool { return p.Parent == pid }))
}

func withoutZombies(procs []proc.Process) []proc.Process {
	return slices.DeleteFunc(procs, proc.Process.Ended)
}

// killAll stops (SIGSTOP) the processes that find returns until find returns no new ones, and then kills all of them.
// Stopped processes cannot fork, so this also catches a program that forks as fast as it can. After 50 rounds, killAll
// kills those found so far, and the caller calls it again.
func killAll(find func() []proc.Process) (killed []proc.Process) {
	stopped := make(map[proc.ID]bool)
	for range 50 {
		var fresh []proc.Process
		for _, p := range find() {
			if !stopped[p.ID] {
				stopped[p.ID] = true
				fresh = append(fresh, p)
			}
		}
		if len(fresh) == 0 {
			break
		}
		for _, p := range fresh {
			p.Signal(unix.SIGSTOP)
		}
		killed = append(killed, fresh...)
	}
	for _, p := range killed {
		p.Signal(unix.SIGKILL)
	}
	return killed
}

// lookup returns a variable like getenv: if a name occurs several times, the first entry counts.
func lookup(env []string, name string) (value string, set bool) {
	for _, entry := range env {
		if value, set = strings.CutPrefix(entry, name+"="); set {
			return value, true
		}
	}
	return "", false
}

// reaper waits for every child of this process: the ones it started and the orphans it adopts. Nothing else in the
// agent may wait for children. ECHILD therefore means that all descendants are gone.
type reaper struct {
	mu        sync.Mutex     // guards owned, childless and orphanTime
	owned     map[int]*child // started children that have not been collected, by PID
	childless chan struct{}  // closed while there is no child
	wake      chan struct{}  // receives a value when a child is started while run sleeps
	// exitQueue is an epoll descriptor with the pidfds of the started children. It reports them in the order in which
	// they end, which wait4 does not. -1 if it could not be created.
	exitQueue int
	// orphanTime is the processor time of the orphans collected since the last call of takeOrphanTime.
	orphanTime time.Duration
}

// child is a process that this process has started, unlike an adopted orphan.
type child struct {
	started time.Time
	ended   func(childExit) // called when the child has been collected
	pidfd   int             // -1 if the kernel has none
}

// childExit is the kernel's report on the end of a child.
type childExit struct {
	pid       int
	status    unix.WaitStatus
	noticedAt time.Time // when it was noticed; equal for exits noticed together
	wall      time.Duration
	cpu       time.Duration
}

func newReaper() *reaper {
	r := &reaper{owned: make(map[int]*child), childless: make(chan struct{}), wake: make(chan struct{}, 1)}
	r.exitQueue, _ = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	close(r.childless)
	return r
}

// idle returns a channel that is closed as soon as there is no child.
func (r *reaper) idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.childless
}

// start forks with the lock held. Otherwise run could collect a child that ends at once before it is registered.
// ended is called with the lock held and must not block.
func (r *reaper) start(fork func() (pid int, err error), ended func(childExit)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begin := time.Now()
	pid, err := fork()
	if err != nil {
		return 0, err
	}
	r.owned[pid] = &child{started: begin, ended: ended, pidfd: r.watch(pid)}
	select {
	case <-r.childless:
		r.childless = make(chan struct{})
		select {
		case r.wake <- struct{}{}:
		default: // the reaper is not asleep yet
		}
	default:
	}
	return pid, nil
}

// run collects children until the process ends.
func (r *reaper) run() {
	for {
		// WNOWAIT leaves the child a zombie, so that its PID cannot be reused until collect has the lock.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			r.collect(time.Now())
		case unix.ECHILD:
			r.awaitChild()
		}
	}
}

// watch adds a child to the exit queue and returns its pidfd.
func (r *reaper) watch(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1 // a kernel before 5.3, or no descriptors left: the order is not exact
	}
	_ = unix.EpollCtl(r.exitQueue, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(pid)})
	return fd
}

// collect takes all children that have ended: first the started ones, in the order in which they ended, then orphans.
// wait4 alone would return them in the order in which they started, but callers need to know which rank failed first.
func (r *reaper) collect(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(r.exitQueue, events, 0)
		if err != nil && err != unix.EINTR || err == nil && n == 0 {
			break
		}
		for _, e := range events[:max(n, 0)] {
			r.take(int(e.Fd), now)
		}
	}
	for r.take(-1, now) {
	}
}

// take collects the child with this PID, or any child if pid is -1. It reports whether one had ended.
func (r *reaper) take(pid int, now time.Time) bool {
	var e childExit
	var used unix.Rusage
	var err error
	for {
		if e.pid, err = unix.Wait4(pid, &e.status, unix.WNOHANG, &used); err != unix.EINTR {
			break
		}
	}
	if err != nil || e.pid <= 0 {
		return false
	}
	e.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	c, ok := r.owned[e.pid]
	if !ok {
		r.orphanTime += e.cpu
		return true
	}
	delete(r.owned, e.pid)
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
	}
	e.noticedAt, e.wall = now, now.Sub(c.started)
	c.ended(e)
	return true
}

// takeOrphanTime returns the processor time of the orphans since the last call.
func (r *reaper) takeOrphanTime() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	spent := r.orphanTime
	r.orphanTime = 0
	return spent
}

// outcome describes a launch that has ended. The kernel does not tell which rank an orphan descended from, so the
// processor time of all orphans is charged to the first rank.
func (c *launchLoop) outcome(begin time.Time) Outcome {
	out := Outcome{Reason: c.reason, Leftovers: len(c.leftovers), Survivors: c.survivors}
	for _, r := range c.ranks {
		exit := r.exit
		if exit == nil {
			continue // a survivor
		}
		exit.Stdout = r.stdout.finish(drainLimit)
		if r.stderr != nil {
			exit.Stderr = r.stderr.finish(drainLimit)
		}
		out.Exits = append(out.Exits, *exit)
	}
	if orphans := c.reaper.takeOrphanTime(); len(out.Exits) > 0 {
		out.Exits[0].CPU += orphans
	}
	out.Wall = time.Since(begin)
	return out
}

// awaitChild closes childless and sleeps until start has started a child.
func (r *reaper) awaitChild() {
	r.mu.Lock()
	if len(r.owned) == 0 { // otherwise a child was started after the kernel had reported ECHILD
		select {
		case <-r.childless:
		default:
			close(r.childless)
		}
	}
	none := len(r.owned) == 0
	r.mu.Unlock()
	if none {
		<-r.wake
	}
}

// toExit converts the report to an Exit.
func (e childExit) toExit(rank int) Exit {
	x := Exit{
		Rank: rank, PID: e.pid, Code: e.status.ExitStatus(), Core: e.status.CoreDump(), Wall: e.wall,
		CPU: e.cpu,
	}
	if e.status.Signaled() {
		x.Signal = syscall.Signal(e.status.Signal())
	}
	return x
}

// oomKills returns the number of out-of-memory kills on this host since boot, including those in control groups. It
// returns 0 if the kernel does not report it.
func oomKills() int64 {
	data, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	return parseOOMKills(string(data))
}

func parseOOMKills(vmstat string) int64 {
	_, rest, _ := strings.Cut(vmstat, "\noom_kill ")
	number, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n
}
