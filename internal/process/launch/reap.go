package launch

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reaper collects every child of this process: those it started and the orphans that the kernel hands over. It is the
// only one in the process that waits, so "no child" from the kernel means that the whole tree is gone.
type reaper struct {
	mu        sync.Mutex
	owned     map[int]*child
	childless chan struct{} // closed while there is no child
	wake      chan struct{}
	ends      int // an epoll descriptor, which has the started ones in the order in which they end; -1: there is none
}

// child is a started process whose end is to be told.
type child struct {
	started time.Time
	ended   func(ending)
	pidfd   int // -1: the kernel has none
}

// ending is how a child ended, as the kernel told it.
type ending struct {
	pid    int
	status unix.WaitStatus
	at     time.Time // when it was noticed, which is the same for all that are noticed together
	wall   time.Duration
}

func newReaper() *reaper {
	r := &reaper{owned: make(map[int]*child), childless: make(chan struct{}), wake: make(chan struct{}, 1)}
	r.ends, _ = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	close(r.childless)
	return r
}

// idle returns a channel that is closed as soon as there is no child.
func (r *reaper) idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.childless
}

// start forks under the lock, so that a child that ends at once is not collected before its owner is known. ended is
// called with the lock held and must not wait.
func (r *reaper) start(fork func() (pid int, err error), ended func(ending)) (int, error) {
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
		default: // it has not yet gone to sleep
		}
	default:
	}
	return pid, nil
}

// run collects children until the process ends.
func (r *reaper) run() {
	for {
		// Only looked at here and taken under the lock: until then the number cannot go to another process.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			r.collect(time.Now())
		case unix.ECHILD:
			r.rest()
		}
	}
}

// watch has the end of a child join the queue of ends.
func (r *reaper) watch(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1 // a kernel before 5.3, or no descriptors left: its place in the order is not exact
	}
	_ = unix.EpollCtl(r.ends, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(pid)})
	return fd
}

// collect takes the children that have ended: first those that were started, in the order of their ends. When several
// have ended, wait itself would give them in the order of their starts.
func (r *reaper) collect(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(r.ends, events, 0)
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

// take collects one child, or any, and reports whether it had ended.
func (r *reaper) take(pid int, now time.Time) bool {
	var e ending
	var err error
	for {
		if e.pid, err = unix.Wait4(pid, &e.status, unix.WNOHANG, nil); err != unix.EINTR {
			break
		}
	}
	if err != nil || e.pid <= 0 {
		return false
	}
	if c, ok := r.owned[e.pid]; ok {
		delete(r.owned, e.pid)
		if c.pidfd >= 0 {
			unix.Close(c.pidfd)
		}
		e.at, e.wall = now, now.Sub(c.started)
		c.ended(e)
	}
	return true
}

// rest tells that there is no child and sleeps until there is one.
func (r *reaper) rest() {
	r.mu.Lock()
	if len(r.owned) == 0 { // else one was started since the kernel was asked
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

// exit translates an ending.
func (e ending) exit(rank int) Exit {
	x := Exit{
		Rank: rank, PID: e.pid, Code: e.status.ExitStatus(), Core: e.status.CoreDump(), Wall: e.wall,
	}
	if e.status.Signaled() {
		x.Signal = syscall.Signal(e.status.Signal())
	}
	return x
}

// oomKills returns how often the kernel has killed for want of memory since it started, on the whole host and for
// memory-limited groups; 0 when it does not tell.
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
