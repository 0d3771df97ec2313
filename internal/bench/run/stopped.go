package run

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const (
	// stopLook is how often the processes of a launch are looked at. A shorter stop may be missed.
	stopLook = 100 * time.Millisecond
	// lookShare limits the cost: looking takes at most one part in this many of the time.
	lookShare = 200
	// suspendLimit is the difference between the two monotonic clocks, one of which counts while the
	// host sleeps, from which the host counts as suspended.
	suspendLimit = 50 * time.Millisecond
)

// stopWatch notices that a process of a launch, or a child of one, is stopped by a signal or that the
// host sleeps. Such time is part of the measured time.
type stopWatch struct {
	pids    map[int]int                      // of the living ranks
	asleep  time.Duration                    // time that the host had slept before
	stopped map[stoppedProcess]time.Duration // how long processes were seen stopped
	last    time.Time                        // of the previous look
	next    time.Time                        // no look before
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

// reset forgets the stops so far, before a measurement.
func (w *stopWatch) reset() {
	w.stopped, w.asleep, w.last, w.next = map[stoppedProcess]time.Duration{}, hostSleep(), time.Now(), time.Time{}
}

func (w *stopWatch) add(rank, pid int) { w.pids[rank] = pid }

func (w *stopWatch) remove(rank int) { delete(w.pids, rank) }

// look reads the states of every rank's processes. Ranks on other hosts are not seen.
func (w *stopWatch) look() {
	begin := time.Now()
	if begin.Before(w.next) {
		return
	}
	for rank, pid := range w.pids {
		if found, name, ok := hostinfo.StoppedProcess(hostinfo.Root(), pid); ok {
			p := stoppedProcess{rank: rank}
			if found != pid {
				p.child = name
			}
			w.stopped[p] += begin.Sub(w.last)
		}
	}
	w.last, w.next = begin, begin.Add(lookShare*time.Since(begin))
}

// warning describes the stops so far, or returns "".
func (w *stopWatch) warning() string {
	if slept := hostSleep() - w.asleep; slept >= suspendLimit {
		return fmt.Sprintf("%sthe host was suspended for %.1f s during the measurement", journal.StoppedWarning,
			slept.Seconds())
	}
	if len(w.stopped) == 0 {
		return ""
	}
	longest := slices.MaxFunc(slices.Collect(maps.Keys(w.stopped)), func(a, b stoppedProcess) int {
		return cmp.Or(cmp.Compare(w.stopped[a], w.stopped[b]), cmp.Compare(b.rank, a.rank), cmp.Compare(a.child, b.child))
	})
	who := fmt.Sprintf("rank %d", longest.rank)
	if longest.child != "" {
		who = fmt.Sprintf("%s, a child process of %s,", longest.child, who)
	}
	return fmt.Sprintf("%s%s was stopped by a signal for about %.1f s during the measurement", journal.StoppedWarning,
		who, w.stopped[longest].Seconds())
}

// hostSleep returns how long the host has slept since it was started, or 0 if that is unknown.
func hostSleep() time.Duration {
	var with, without unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &with) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &without) != nil {
		return 0
	}
	return time.Duration(with.Nano() - without.Nano())
}
