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
}

// child is a started process whose end is to be told.
type child struct {
	started time.Time
	ended   func(ending)
}

// ending is how a child ended, as the kernel told it.
type ending struct {
	pid    int
	status unix.WaitStatus
	usage  unix.Rusage
	wall   time.Duration
}

func newReaper() *reaper {
	r := &reaper{owned: make(map[int]*child), childless: make(chan struct{}), wake: make(chan struct{}, 1)}
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
	r.owned[pid] = &child{started: begin, ended: ended}
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

func (r *reaper) collect(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var e ending
		pid, err := unix.Wait4(-1, &e.status, unix.WNOHANG, &e.usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c, ok := r.owned[pid]; ok {
			delete(r.owned, pid)
			e.pid, e.wall = pid, now.Sub(c.started)
			c.ended(e)
		}
	}
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
		User: time.Duration(e.usage.Utime.Nano()), Sys: time.Duration(e.usage.Stime.Nano()),
		MaxRSS: e.usage.Maxrss << 10, // the kernel counts in KiB
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
