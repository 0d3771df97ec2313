package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// leftError says that processes of a lost agent could not be killed.
type leftError struct{ pids []int }

func (e *leftError) Error() string {
	return fmt.Sprintf("processes %v could not be killed: they belong to another user or hang in the kernel", e.pids)
}

// sweep kills what a dead agent has left, and only that, for the supervisor may have other children. A process is the
// agent's when it is in the agent's control group or session, when its environment carries the tag, or when it descends
// from one of these. Where there is no control group, one that has both changed its session and cleared its environment
// is found only through a parent that still lives. The ones that this process has adopted are reaped,
// there except for a daemon that has ended by itself just before: its zombie has no environment any
// more and could as well be a child that the program has not yet waited for.
func sweep(agentPID int, tag string, group *controlGroup) *leftError {
	self := os.Getpid()
	known := make(map[process]bool) // a zombie has no environment to tell it by
	find := func() []process {
		found := family(processes(), func(p process) bool {
			if p.pid == self || p.pid == agentPID {
				return false
			}
			return group.has(p.pid) || p.session == agentPID || known[p.id()] ||
				!p.zombie && slices.Contains(environ(p.pid), TagVar+"="+tag)
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
			return &leftError{pids: lists.Map(left, func(p process) int { return p.pid })}
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

// controlGroup has an agent and all its descendants, whatever they do to their session, environment and parents: only
// who may write to it can leave it. A nil group has nobody.
type controlGroup struct{ dir string }

// groupName begins the name of every group; staleGroup is how old one is that no starting agent is about to enter.
const (
	groupName  = "kernbench-"
	staleGroup = time.Minute
)

// newGroup makes a group below that of this process. It is nil where that is not possible: without version 2 of control
// groups, or without the right to write there.
func newGroup(tag string) *controlGroup {
	parent := hostinfo.ControlGroup(hostinfo.Root())
	if parent == "" {
		return nil
	}
	// What a run that was killed has left is empty, or it stays.
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

// leaveGroup has the agent leave its group and remove it, which nobody else does when the supervisor was killed.
func leaveGroup() {
	g := controlGroup{hostinfo.ControlGroup(hostinfo.Root())}
	if !strings.HasPrefix(filepath.Base(g.dir), groupName) {
		return
	}
	if os.WriteFile(filepath.Join(filepath.Dir(g.dir), "cgroup.procs"), []byte("0"), 0) == nil { // 0 is the writer
		g.remove()
	}
}

// has reports whether a process, or a zombie, is in the group or in one that was made below it.
func (g *controlGroup) has(pid int) bool {
	if g == nil {
		return false
	}
	own, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return strings.Contains(string(own), "/"+filepath.Base(g.dir))
}

// remove removes the group, if nobody is left in it.
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
		unix.Rmdir(dir) // its files are the kernel's
	}
}
