package run

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const (
	// stopPollInterval is the time between two polls of the states of a launch's processes. Shorter
	// stops may be missed.
	stopPollInterval = 100 * time.Millisecond
	// pollShare limits the cost of polling to 1/pollShare of the time.
	pollShare = 200
	// suspendLimit is the shortest suspension of the host that is reported.
	suspendLimit = 50 * time.Millisecond
)

// stopWatch detects that a process of a launch, or a child of one, is stopped by a signal, or that the
// host is suspended. Such time is part of the measured time, so the row gets a condition.
type stopWatch struct {
	pids    map[int]int                      // processes of the living ranks, by rank
	asleep  time.Duration                    // value of hostSleep at the last reset
	stopped map[stoppedProcess]time.Duration // how long processes have been stopped
	last    time.Time                        // time of the previous poll
	next    time.Time                        // earliest time of the next poll
}

// stoppedProcess is a rank, or a child of a rank with its name.
type stoppedProcess struct {
	rank  int
	child string
}

func newStopWatch() stopWatch {
	w := stopWatch{pids: map[int]int{}}
	w.reset()
	return w
}

// reset forgets earlier stops. It is called before each measurement.
func (w *stopWatch) reset() {
	w.stopped, w.asleep, w.last, w.next = map[stoppedProcess]time.Duration{}, hostSleep(), time.Now(), time.Time{}
}

func (w *stopWatch) add(rank, pid int) { w.pids[rank] = pid }

func (w *stopWatch) remove(rank int) { delete(w.pids, rank) }

// poll reads the states of the processes of every rank on this host.
func (w *stopWatch) poll() {
	begin := time.Now()
	if begin.Before(w.next) {
		return
	}
	for rank, pid := range w.pids {
		if found, ok := proc.FindHeld(hostinfo.Root(), pid); ok {
			p := stoppedProcess{rank: rank}
			if found.PID != pid {
				p.child = found.Name
			}
			w.stopped[p] += begin.Sub(w.last)
		}
	}
	w.last, w.next = begin, begin.Add(pollShare*time.Since(begin))
}

// conditions returns the condition of the row: a suspension of the host, else the process that was stopped longest.
func (w *stopWatch) conditions() []journal.Condition {
	if slept := hostSleep() - w.asleep; slept >= suspendLimit {
		return []journal.Condition{journal.NewCondition(journal.CodeSuspended, journal.Named{"seconds": slept.Seconds()})}
	}
	if len(w.stopped) == 0 {
		return nil
	}
	longest := slices.MaxFunc(slices.Collect(maps.Keys(w.stopped)), func(a, b stoppedProcess) int {
		return cmp.Or(cmp.Compare(w.stopped[a], w.stopped[b]), cmp.Compare(b.rank, a.rank), cmp.Compare(a.child, b.child))
	})
	c := journal.NewCondition(journal.CodeStopped, journal.Named{"seconds": w.stopped[longest].Seconds()},
		longest.child)
	return []journal.Condition{c.OfRank(longest.rank)}
}

// hostSleep returns for how long the host has been suspended since it was started, or 0 if that is
// unknown. CLOCK_BOOTTIME counts while the host is suspended, CLOCK_MONOTONIC does not.
func hostSleep() time.Duration {
	var with, without unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &with) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &without) != nil {
		return 0
	}
	return time.Duration(with.Nano() - without.Nano())
}
