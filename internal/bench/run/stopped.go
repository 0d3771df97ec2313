package run

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const (
	// stopLook is how often the processes of a program are looked at. A shorter stop may be missed.
	stopLook = 100 * time.Millisecond
	// suspendLimit is the difference between the two monotonic clocks, one of which counts while the
	// host sleeps, from which the host counts as suspended.
	suspendLimit = 50 * time.Millisecond
)

// stopWatch notices that a process of a launch is stopped by a signal or that the host sleeps. Such
// time is part of the program's run time, and of its own clock too.
type stopWatch struct {
	pids    map[int]int   // of the living ranks
	asleep  time.Duration // time that the host had slept before the launch
	stopped map[int]int   // by rank, the looks that found it stopped
}

func newStopWatch() stopWatch {
	return stopWatch{pids: map[int]int{}, stopped: map[int]int{}, asleep: hostSleep()}
}

func (w *stopWatch) add(rank, pid int) { w.pids[rank] = pid }

func (w *stopWatch) remove(rank int) { delete(w.pids, rank) }

// look reads the state of every rank's process.
func (w *stopWatch) look() {
	for rank, pid := range w.pids {
		data, err := fs.ReadFile(hostinfo.Root(), fmt.Sprintf("proc/%d/stat", pid))
		if err != nil {
			continue // it has ended, or runs on another host
		}
		// T is stopped by a signal, t by a debugger.
		if f := hostinfo.StatFields(string(data)); len(f) > 0 && strings.EqualFold(f[0], "T") {
			w.stopped[rank]++
		}
	}
}

// warning describes the stops so far, or returns "".
func (w *stopWatch) warning() string {
	if slept := hostSleep() - w.asleep; slept >= suspendLimit {
		return fmt.Sprintf("%sthe host was suspended for %.1f s during the measurement", journal.StoppedWarning,
			slept.Seconds())
	}
	worst := -1
	for rank, looks := range w.stopped {
		if worst < 0 || looks > w.stopped[worst] || looks == w.stopped[worst] && rank < worst {
			worst = rank
		}
	}
	if worst < 0 {
		return ""
	}
	return fmt.Sprintf("%srank %d was stopped by a signal for about %.1f s during the measurement", journal.StoppedWarning,
		worst, (time.Duration(w.stopped[worst]) * stopLook).Seconds())
}

// hostSleep returns how long the host has slept since it was started, or 0 if that is unknown.
func hostSleep() time.Duration {
	var with, without unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &with) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &without) != nil {
		return 0
	}
	return time.Duration(with.Nano() - without.Nano())
}
