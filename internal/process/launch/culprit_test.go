package launch

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

// A helper's main function stays on the main thread, whose system call the kernel shows.
func init() { runtime.LockOSThread() }

// pass is the pastime of a rank in TestHungRank.
func pass(mode string) {
	switch mode {
	case "read":
		var pipe [2]int
		unix.Pipe(pipe[:])
		unix.Read(pipe[0], make([]byte, 1))
	case "doze":
		unix.Nanosleep(&unix.Timespec{Sec: int64(2 * hangGuard / time.Second)}, nil)
	case "spin":
		for limit := time.Now().Add(2 * hangGuard); time.Now().Before(limit); {
		}
	}
}

// In every kind of hang the hung rank is blamed, not the ranks that wait for it.
func TestHungRank(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		others, last string
		want         string
	}{
		{"read", "stop", "rank 2 was stopped, ranks 0, 1 were waiting in read"},
		{"read", "doze", "rank 2 was asleep in sleep, ranks 0, 1 were waiting in read"},
		{"spin", "doze", "rank 2 was asleep in sleep, ranks 0, 1 were busy"},
		{"read", "spin", "rank 2 was busy, ranks 0, 1 were waiting in read"},
	} {
		t.Run(c.last+" among "+c.others, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			modes := []string{c.others, c.others, c.last}
			if c.last == "stop" {
				modes[2] = "read"
			}
			spec := Spec{Grace: time.Millisecond}
			for rank, mode := range modes {
				spec.Procs = append(spec.Procs, s.program(rank, mode))
			}
			l := s.launch(spec)
			pids := make([]int, len(modes))
			for rank, mode := range modes {
				pids[rank] = (<-l.Events()).(Started).PID
				eventually(t, mode, func() bool { return inPlace(mode, pids[rank]) })
			}
			if c.last == "stop" {
				unix.Kill(pids[2], unix.SIGSTOP)
			}
			l.Stop(StopRequest{Reason: "planted", Hung: true})
			var ranks []culprit.Rank
			for _, x := range s.wait(l).Exits {
				ranks = append(ranks, culprit.Rank{Rank: x.Rank, Order: x.Rank + 1, Stopped: x.Stopped, Activity: x.Activity})
			}
			if v := culprit.Blame(culprit.Evidence{Ranks: ranks, Late: time.Second}); v.Rank != 2 ||
				v.Reason != "the program did not end within 1s: "+c.want {
				t.Errorf("%+v", v)
			}
		})
	}
}

// inPlace reports whether a rank has reached its final activity.
func inPlace(mode string, pid int) bool {
	look := culprit.TakeSnapshot([]int{pid})
	if len(look) == 0 {
		return false
	}
	if mode == "spin" {
		return look[0].CPU > 100*time.Millisecond
	}
	return look[0].State == 'S' && look[0].Call == map[string]string{"read": "read", "doze": "sleep"}[mode]
}

// Exits are reported in the order in which they happened, even if the agent sees them all at once.
func TestOrderOfEnds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "sleep"), s.program(1, "sleep"), s.program(2, "sleep"),
		s.program(3, "sleep")},
		StopOnFailure: true, Grace: time.Minute})
	var pids []int
	for range 4 {
		pids = append(pids, (<-l.Events()).(Started).PID)
	}
	unix.Kill(s.PID(), unix.SIGSTOP)
	eventually(t, "the agent's stop", func() bool { return IsStopped(s.PID()) })
	order := []int{2, 0, 3, 1}
	for _, rank := range order {
		syscall.Kill(pids[rank], syscall.SIGKILL)
		eventually(t, "its end", func() bool {
			p, ok := proc.Read(hostinfo.Root(), pids[rank])
			threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pids[rank]))
			return ok && p.Ended() && len(threads) == 1 // the other threads have ended too
		})
	}
	unix.Kill(s.PID(), unix.SIGCONT)
	var got []int
	for e := range l.Events() {
		if x, is := e.(Exit); is {
			got = append(got, x.Rank)
			if x.Stopped || x.Signal != syscall.SIGKILL {
				t.Errorf("%v", x)
			}
		}
	}
	if !slices.Equal(got, order) {
		t.Errorf("ends in the order %v, want %v", got, order)
	}
}
