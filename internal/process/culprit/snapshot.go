package culprit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// Snapshot is one observation of the living processes of a rank. The rank's first process comes
// first.
type Snapshot []Process

// Process holds the kernel's information about a process.
type Process struct {
	PID, Parent int
	State       byte   // of its main thread, as ps shows it
	Call        string // system call in which its main thread waits; "" if unknown
	CPU         time.Duration
	Threads     []Thread
}

// Thread holds the kernel's information about a thread.
type Thread struct {
	ID      int
	Running bool   // running, or ready to run on the next free core
	Sleeps  uint64 // number of voluntary context switches
	CPU     time.Duration
}

// TakeSnapshot observes the processes that have not ended.
func TakeSnapshot(pids []int) Snapshot {
	var look Snapshot
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		fields := ReadStat(dir)
		if len(fields) < 13 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		p := Process{PID: pid, State: fields[0][0], Call: currentCall(dir)}
		p.Parent, _ = strconv.Atoi(fields[1])
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		sys, _ := strconv.ParseInt(fields[12], 10, 64)
		p.CPU = time.Duration(user+sys) * clockTick
		dirs, _ := filepath.Glob(dir + "/task/*")
		for _, dir := range dirs {
			status, _ := os.ReadFile(dir + "/status")
			t := Thread{Sleeps: statusValue(status, "\nvoluntary_ctxt_switches:")}
			t.ID, _ = strconv.Atoi(filepath.Base(dir))
			ran, _ := os.ReadFile(dir + "/schedstat")
			fmt.Sscan(string(ran), (*int64)(&t.CPU))
			state := ReadStat(dir)
			t.Running = len(state) > 0 && state[0] == "R"
			p.Threads = append(p.Threads, t)
		}
		look = append(look, p)
	}
	return look
}

// clockTick is the unit of CPU times in /proc, 1/USER_HZ. It is 10 ms on every platform that Go
// supports.
const clockTick = 10 * time.Millisecond

// ReadStat returns the fields of a /proc folder's stat file from the state on, or none if the
// process has ended.
func ReadStat(dir string) []string {
	data, _ := os.ReadFile(dir + "/stat")
	return hostinfo.StatFields(string(data))
}

func statusValue(status []byte, name string) uint64 {
	_, rest, _ := bytes.Cut(status, []byte(name))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseUint(strings.TrimSpace(string(line)), 10, 64)
	return n
}

// currentCall returns the system call in which the main thread of a process waits. The kernel shows it only to
// processes that may trace that process, for example its parent if tracing is not disabled.
func currentCall(dir string) string {
	data, err := os.ReadFile(dir + "/syscall")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 4 || fields[0] == "-1" {
		return ""
	}
	nr, err := strconv.Atoi(fields[0])
	if err != nil { // "running"
		return ""
	}
	name, known := syscallNames[nr]
	if !known {
		return fmt.Sprintf("system call %d", nr)
	}
	switch { // without descriptors these calls only sleep
	case strings.HasSuffix(name, "poll") && fields[2] == "0x0", strings.Contains(name, "select") && fields[1] == "0x0":
		return "sleep"
	}
	return name
}

// syscallNames names the system calls in which processes wait.
var syscallNames = map[int]string{
	unix.SYS_NANOSLEEP: "sleep", unix.SYS_CLOCK_NANOSLEEP: "sleep", unix.SYS_RT_SIGSUSPEND: "pause",
	unix.SYS_RT_SIGTIMEDWAIT: "sigwait", unix.SYS_FUTEX: "futex", unix.SYS_WAIT4: wait, unix.SYS_WAITID: wait,
	unix.SYS_READ: "read", unix.SYS_READV: "read", unix.SYS_RECVFROM: "recv", unix.SYS_RECVMSG: "recv",
	unix.SYS_RECVMMSG: "recv",
	unix.SYS_WRITE:    "write", unix.SYS_WRITEV: "write", unix.SYS_SENDTO: "send", unix.SYS_SENDMSG: "send",
	unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept", unix.SYS_CONNECT: "connect",
	unix.SYS_PPOLL: "poll", unix.SYS_PSELECT6: "select", unix.SYS_EPOLL_PWAIT: "epoll", unix.SYS_FLOCK: "flock",
	unix.SYS_FSYNC: "fsync",
}

const wait = "wait"

func init() {
	if runtime.GOARCH == "amd64" { // newer architectures lack these older calls
		syscallNames[7], syscallNames[23], syscallNames[34], syscallNames[232] = "poll", "select", "pause", "epoll"
	}
}

// sleepCalls are system calls that no other rank can end.
var sleepCalls = []string{"sleep", "pause"}

// Summarize returns a rank's activity from one or more snapshots, or nil if it had ended. Several
// snapshots separate polling from sleeping, because a polling rank wakes up in between, and polling
// from computing, because a computing rank does not go to sleep, however busy the machine is.
func Summarize(looks []Snapshot) *Activity {
	if len(looks) == 0 || len(looks[len(looks)-1]) == 0 {
		return nil
	}
	last := looks[len(looks)-1]
	var d Activity
	stopped := false
	for _, p := range last {
		d.CPU += p.CPU
		stopped = stopped || p.State == 'T' || p.State == 't'
	}
	worker, kernel, still := last.worker(), true, true
	for _, look := range looks {
		if len(look) == 0 {
			continue
		}
		w := look.worker()
		kernel = kernel && w.State == 'D'
		still = still && w.PID == worker.PID && w.mainSleeps() == worker.mainSleeps()
	}
	switch {
	case stopped:
		d.State = Stopped
	case isBusy(looks):
		d.State = Busy
	case kernel:
		d.State, d.Call = Kernel, worker.Call
	case slices.Contains(sleepCalls, worker.Call) && still:
		d.State, d.Call = Asleep, worker.Call
	default:
		d.State, d.Call = Waiting, worker.Call
	}
	return &d
}

// minBusyTime is the CPU time per sleep above which a thread computes. A polling thread uses less.
const minBusyTime = time.Millisecond

// isBusy reports whether some thread was running in most snapshots and used at least minBusyTime of
// CPU for each time it went to sleep.
func isBusy(looks []Snapshot) bool {
	type seen struct {
		runs        int
		first, last Thread
	}
	threads := map[int]*seen{}
	for _, look := range looks {
		for _, p := range look {
			for _, t := range p.Threads {
				s := threads[t.ID]
				if s == nil {
					s = &seen{first: t}
					threads[t.ID] = s
				}
				s.last = t
				if t.Running {
					s.runs++
				}
			}
		}
	}
	for _, s := range threads {
		slept := s.last.Sleeps - s.first.Sleeps
		if 2*s.runs > len(looks) && s.last.CPU-s.first.CPU >= time.Duration(slept)*minBusyTime {
			return true
		}
	}
	return false
}

func (p Process) mainSleeps() uint64 {
	main, _ := lists.First(p.Threads, func(t Thread) bool { return t.ID == p.PID })
	return main.Sleeps
}

// worker returns the process that does the rank's work, skipping shells that only wait for it.
func (l Snapshot) worker() Process {
	p := l[0]
	for p.Call == wait {
		child := slices.IndexFunc(l, func(c Process) bool { return c.Parent == p.PID })
		if child < 0 {
			break
		}
		p = l[child]
	}
	return p
}
