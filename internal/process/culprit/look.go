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

// Snapshot is one look at the living processes of a rank, its first process at the head.
type Snapshot []Process

// Process is what the kernel told of a process.
type Process struct {
	PID, Parent int
	State       byte   // of its main thread, as ps shows it
	Call        string // the system call in which its main thread waits; empty when not known
	CPU         time.Duration
	Threads     []Thread
}

// Thread is what the kernel told of a thread.
type Thread struct {
	ID      int
	Running bool   // or could, if there were a core for it
	Sleeps  uint64 // how often it has gone to sleep
	CPU     time.Duration
}

// TakeSnapshot looks at processes. Those that have ended are left out.
func TakeSnapshot(pids []int) Snapshot {
	var look Snapshot
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		fields := ReadStat(dir)
		if len(fields) < 13 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		p := Process{PID: pid, State: fields[0][0], Call: call(dir)}
		p.Parent, _ = strconv.Atoi(fields[1])
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		sys, _ := strconv.ParseInt(fields[12], 10, 64)
		p.CPU = time.Duration(user+sys) * tick
		dirs, _ := filepath.Glob(dir + "/task/*")
		for _, dir := range dirs {
			status, _ := os.ReadFile(dir + "/status")
			t := Thread{Sleeps: number(status, "\nvoluntary_ctxt_switches:")}
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

// tick is the unit of CPU times in /proc, USER_HZ, on every platform that Go runs on.
const tick = 10 * time.Millisecond

// ReadStat is the fields of the stat file of a folder of /proc from the state on; none of a process that has ended.
func ReadStat(dir string) []string {
	data, _ := os.ReadFile(dir + "/stat")
	return hostinfo.StatFields(string(data))
}

func number(status []byte, name string) uint64 {
	_, rest, _ := bytes.Cut(status, []byte(name))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseUint(strings.TrimSpace(string(line)), 10, 64)
	return n
}

// call is the system call in which the main thread of a process waits. The kernel tells it to those who may trace the
// process, as a parent may unless tracing is forbidden altogether.
func call(dir string) string {
	data, err := os.ReadFile(dir + "/syscall")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 4 || fields[0] == "-1" {
		return ""
	}
	nr, err := strconv.Atoi(fields[0])
	if err != nil { // "running"
		return ""
	}
	name, known := calls[nr]
	if !known {
		return fmt.Sprintf("system call %d", nr)
	}
	switch { // without descriptors they only sleep
	case strings.HasSuffix(name, "poll") && fields[2] == "0x0", strings.Contains(name, "select") && fields[1] == "0x0":
		return "sleep"
	}
	return name
}

// calls names the system calls in which processes wait.
var calls = map[int]string{
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
	if runtime.GOARCH == "amd64" { // newer architectures have only the calls above
		calls[7], calls[23], calls[34], calls[232] = "poll", "select", "pause", "epoll"
	}
}

// sleeps are the calls that no other rank ends.
var sleeps = []string{"sleep", "pause"}

// Summarize is what a rank was at, from one look or several; nil when it had ended. In several looks, one that polls differs
// from one that sleeps: it wakes up in between; and from one that computes, however busy the machine
// is: it goes to sleep in between.
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
		still = still && w.PID == worker.PID && w.slept() == worker.slept()
	}
	switch {
	case stopped:
		d.State = Stopped
	case busy(looks):
		d.State = Busy
	case kernel:
		d.State, d.Call = Kernel, worker.Call
	case slices.Contains(sleeps, worker.Call) && still:
		d.State, d.Call = Asleep, worker.Call
	default:
		d.State, d.Call = Waiting, worker.Call
	}
	return &d
}

// busySpell is how long a thread that computes does so at a time; one that polls needs less.
const busySpell = time.Millisecond

// busy reports whether a thread ran in most looks and went to sleep between them for other reasons than to wait.
func busy(looks []Snapshot) bool {
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
		if 2*s.runs > len(looks) && s.last.CPU-s.first.CPU >= time.Duration(slept)*busySpell {
			return true
		}
	}
	return false
}

func (p Process) slept() uint64 {
	main, _ := lists.First(p.Threads, func(t Thread) bool { return t.ID == p.PID })
	return main.Sleeps
}

// worker is the process that does a rank's work: not a shell that only waits for it.
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
