package culprit

import (
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
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
	Threads     []proc.Thread
}

// TakeSnapshot observes the processes that have not ended.
func TakeSnapshot(pids []int) (look Snapshot) {
	root := hostinfo.Root()
	for _, pid := range pids {
		if p, ok := proc.Read(root, pid); ok && !p.Ended() {
			look = append(look, Process{pid, p.Parent, p.State, proc.Call(root, pid), p.CPU(), proc.Threads(root, pid)})
		}
	}
	return look
}

// sleepCalls are system calls that no other rank can end.
var sleepCalls = []string{proc.CallSleep, proc.CallPause}

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
		first, last proc.Thread
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
	main, _ := lists.First(p.Threads, func(t proc.Thread) bool { return t.ID == p.PID })
	return main.Sleeps
}

// worker returns the process that does the rank's work, skipping shells that only wait for it.
func (l Snapshot) worker() Process {
	p := l[0]
	for p.Call == proc.CallWait {
		child := slices.IndexFunc(l, func(c Process) bool { return c.Parent == p.PID })
		if child < 0 {
			break
		}
		p = l[child]
	}
	return p
}
