package launch

import (
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leftError says that processes of a lost agent could not be killed.
type leftError struct{ pids []int }

func (e *leftError) Error() string {
	return fmt.Sprintf("processes %v could not be killed: they belong to another user or hang in the kernel", e.pids)
}

// sweep kills what a dead agent has left, and only that, for the supervisor may have other children. A process is the
// agent's when it is in the agent's session, when its environment carries the tag, or when it descends from one of these;
// one that has both changed its session and cleared its environment is found only through a parent that still lives. The
// ones that this process has adopted are reaped, except for a daemon that has ended by itself just before: its zombie has
// no environment any more and could as well be a child that the program has not yet waited for.
func sweep(agentPID int, tag string) *leftError {
	self := os.Getpid()
	known := make(map[process]bool) // a zombie has no environment to tell it by
	find := func() []process {
		found := family(processes(), func(p process) bool {
			if p.pid == self || p.pid == agentPID {
				return false
			}
			return p.session == agentPID || known[p.id()] || !p.zombie && string(lookup(environ(p.pid), TagVar)) == tag
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
			var e leftError
			for _, p := range left {
				e.pids = append(e.pids, p.pid)
			}
			return &e
		}
		time.Sleep(pause)
	}
}

// subreaper counts the living agents of this process; with the last one it returns to what it was before.
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
