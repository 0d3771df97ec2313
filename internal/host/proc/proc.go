// Package proc reads what the kernel tells about processes in /proc, and signals them. No other package reads about
// other processes. Functions with a root read the file tree of a machine, so that tests can plant one.
package proc

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of processor times in /proc, 1/USER_HZ. It is 10 ms on every platform that Go supports.
const clockTick = 10 * time.Millisecond

// Process is an entry of the process table.
type Process struct {
	ID
	Parent, Session int
	Name            string // of its program
	State           byte   // of its main thread, as ps shows it
	Ticks           uint64 // processor time, in clock ticks
	ChildTicks      uint64 // processor time of the children that it has waited for
}

// ID identifies a process. The start time, in clock ticks since boot, distinguishes it from a later process with the
// same PID.
type ID struct {
	PID   int
	Start uint64
}

// CPU returns the processor time of the process.
func (p Process) CPU() time.Duration { return time.Duration(p.Ticks) * clockTick }

// Age returns the time since the process was started.
func (p Process) Age(root fs.FS) (time.Duration, error) {
	text, err := fs.ReadFile(root, "proc/uptime")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	uptime, err := strconv.ParseFloat(first, 64)
	return time.Duration(uptime*float64(time.Second)) - time.Duration(p.Start)*clockTick, err
}

// Ended reports whether the process is a zombie, which only waits to be reaped.
func (p Process) Ended() bool { return p.State == 'Z' || p.State == 'X' }

// Stopped reports whether the process is stopped by SIGSTOP or a terminal's job control.
func (p Process) Stopped() bool { return p.State == 'T' }

// Held reports whether the process is stopped by a signal or by a debugger.
func (p Process) Held() bool { return p.State == 'T' || p.State == 't' }

// Read reads the entry of a process. It reports false if the process has ended and was reaped.
func Read(root fs.FS, pid int) (Process, bool) {
	text, _ := fs.ReadFile(root, path(pid, "stat"))
	return parse(pid, string(text))
}

func path(pid int, name string) string { return fmt.Sprintf("proc/%d/%s", pid, name) }

// parse parses /proc/PID/stat. The name of the program may contain any characters.
func parse(pid int, stat string) (p Process, ok bool) {
	start, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if start < 0 || end < start {
		return p, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return p, false
	}
	ok = true
	number := func(field int) uint64 {
		n, err := strconv.ParseUint(fields[field], 10, 64)
		ok = ok && err == nil
		return n
	}
	p = Process{ID: ID{pid, number(19)}, Parent: int(number(1)), Session: int(number(3)), Name: stat[start+1 : end],
		State: fields[0][0], Ticks: number(11) + number(12), ChildTicks: number(13) + number(14)}
	return p, ok
}

// All reads the process table, one entry after another, so the result is not a snapshot. Processes that fork or
// end meanwhile may be missing, or their parent may be. Callers that kill repeat the call until nothing is left.
func All(root fs.FS) (all []Process) {
	entries, _ := fs.ReadDir(root, "proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := Read(root, pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// Family returns the processes among all for which seed holds, and all their descendants.
func Family(all []Process, seed func(Process) bool) []Process {
	children := make(map[int][]Process)
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	seen := make(map[int]bool)
	var add func(p Process)
	add = func(p Process) {
		if seen[p.PID] {
			return
		}
		seen[p.PID] = true
		found = append(found, p)
		for _, child := range children[p.PID] {
			add(child)
		}
	}
	for _, p := range all {
		if seed(p) {
			add(p)
		}
	}
	return found
}

// Descends reports whether a process is ancestor or one of its descendants. It reports false for processes that have
// ended or that are not visible from here.
func Descends(root fs.FS, pid, ancestor int) bool {
	const deepest = 100 // generations; a loop of reused process IDs ends
	for range deepest {
		if pid == ancestor {
			return true
		}
		p, ok := Read(root, pid)
		if !ok || p.Parent <= 1 {
			return false
		}
		pid = p.Parent
	}
	return false
}

// Children returns the children of a process. known is false if the kernel does not list them, or if the process has
// ended.
func Children(root fs.FS, pid int) (pids []int, known bool) {
	threads, err := fs.ReadDir(root, path(pid, "task"))
	if err != nil {
		return nil, false
	}
	for _, thread := range threads {
		dir := path(pid, "task/"+thread.Name())
		list, err := fs.ReadFile(root, dir+"/children")
		if err != nil {
			if _, gone := fs.Stat(root, dir); gone != nil {
				continue // the thread has ended meanwhile
			}
			return pids, false
		}
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return pids, false
			}
			pids = append(pids, child)
		}
	}
	return pids, true
}

// FindHeld returns a process among pid and its descendants that is stopped, by a signal or by a debugger. It reports
// false if there is none, or if pid has ended.
func FindHeld(root fs.FS, pid int) (Process, bool) {
	if p, ok := Read(root, pid); ok && p.Held() {
		return p, true
	}
	children, _ := Children(root, pid)
	for _, child := range children {
		if p, ok := FindHeld(root, child); ok {
			return p, true
		}
	}
	return Process{}, false
}

// TreeTicks returns the processor time that a process and its descendants have used, in clock ticks, and the number of
// these processes. The time includes children that have ended and been waited for. ok is false if the kernel does not
// list the children of processes.
func TreeTicks(root fs.FS, pid int) (ticks uint64, processes int, ok bool) {
	p, alive := Read(root, pid)
	children, known := Children(root, pid)
	if !alive || !known {
		return 0, 0, false
	}
	ticks, processes = p.Ticks+p.ChildTicks, 1
	for _, child := range children {
		if below, n, ok := TreeTicks(root, child); ok { // otherwise it has ended meanwhile
			ticks, processes = ticks+below, processes+n
		}
	}
	return ticks, processes, true
}

// TreeDelay is [Delay] added up over a process and its descendants. Threads and processes that have ended are not
// counted.
func TreeDelay(root fs.FS, pid int) (ran, waited time.Duration) {
	ran, waited = Delay(root, pid)
	children, _ := Children(root, pid)
	for _, child := range children {
		r, w := TreeDelay(root, child)
		ran, waited = ran+r, waited+w
	}
	return ran, waited
}

// Delay returns how long the threads of one process have run, and how long they were ready to run and waited for a
// processor, added up over the threads. Both are 0 if the kernel does not count them.
func Delay(root fs.FS, pid int) (ran, waited time.Duration) {
	threads, _ := fs.ReadDir(root, path(pid, "task")) // none if it has ended
	for _, thread := range threads {
		r, w := delayOf(root, path(pid, "task/"+thread.Name()))
		ran, waited = ran+r, waited+w
	}
	return ran, waited
}

func delayOf(root fs.FS, dir string) (ran, waited time.Duration) {
	text, _ := fs.ReadFile(root, dir+"/schedstat")
	_, _ = fmt.Sscan(string(text), (*int64)(&ran), (*int64)(&waited)) // zero for other texts
	return ran, waited
}

// Environ returns the environment with which a process was executed, or nil if it has ended or belongs to another user.
func Environ(pid int) []string {
	f, err := os.Open("/" + path(pid, "environ"))
	if err != nil {
		return nil
	}
	defer f.Close()
	// Read everything with one call. If the process ended between two reads, the result would be incomplete.
	for size := 64 << 10; ; size *= 4 {
		data := make([]byte, size)
		n, _ := f.ReadAt(data, 0)
		switch {
		case n == 0:
			return nil
		case n < size:
			return strings.Split(strings.TrimSuffix(string(data[:n]), "\x00"), "\x00")
		}
	}
}

// InGroup reports whether a process, which may be a zombie, is in a control group with this name or in a group below
// it.
func InGroup(root fs.FS, pid int, name string) bool {
	text, _ := fs.ReadFile(root, path(pid, "cgroup"))
	return strings.Contains(string(text), "/"+name)
}

// Space identifies the numbering of processes that this process sees: the running kernel and the namespace. It is "" if
// that is unknown.
func Space() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, failed := os.Readlink("/proc/self/ns/pid")
	if err != nil || failed != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}

// Signal sends sig to this process and no other. The kernel may reuse a PID between the lookup and the signal, but a
// pidfd always refers to the same process. Signal opens the pidfd first and then checks the start time.
func (id ID) Signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if now, ok := Read(os.DirFS("/"), id.PID); !ok || now.ID != id {
		return
	}
	if err != nil { // no descriptors left, or a kernel before 5.3
		unix.Kill(id.PID, sig)
		return
	}
	unix.PidfdSendSignal(fd, sig, nil, 0)
}
