package hostinfo

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Load is how busy the whole machine was at one time. Times only mean
// something as differences: see Between.
type Load struct {
	Load1  float64 `json:"load1"` // averages over 1, 5 and 15 minutes
	Load5  float64 `json:"load5"`
	Load15 float64 `json:"load15"`
	Times  Times   `json:"times"`
}

// Times are clock ticks summed over all processors since boot.
type Times struct {
	User   uint64 `json:"user"`   // programs, including niced ones and guests
	System uint64 `json:"system"` // the kernel, including interrupts
	Idle   uint64 `json:"idle"`   // nothing to do, or waiting for a disk
	Steal  uint64 `json:"steal"`  // wanted by this machine, given by the hypervisor to others
}

// Snapshot reads the load of the machine whose files are under root.
func Snapshot(root fs.FS) (Load, error) {
	averages := strings.Fields(line(root, "proc/loadavg"))
	if len(averages) < 3 {
		return Load{}, fmt.Errorf("reading the load: /proc/loadavg has fewer than three averages")
	}
	var load Load
	for i, field := range []*float64{&load.Load1, &load.Load5, &load.Load15} {
		value, err := strconv.ParseFloat(averages[i], 64)
		if err != nil {
			return Load{}, fmt.Errorf("reading the load: /proc/loadavg: %w", err)
		}
		*field = value
	}
	times, err := parseTimes(line(root, "proc/stat"))
	if err != nil {
		return Load{}, fmt.Errorf("reading the load: /proc/stat: %w", err)
	}
	load.Times = times
	return load, nil
}

// parseTimes reads the line of all processors together: cpu user nice system
// idle iowait irq softirq steal. The guest times that follow are within user.
func parseTimes(l string) (Times, error) {
	fields := strings.Fields(l)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Times{}, fmt.Errorf("%q is not a line of cpu and eight times", l)
	}
	var ticks [8]uint64
	for i := range ticks {
		value, err := strconv.ParseUint(fields[i+1], 10, 64)
		if err != nil {
			return Times{}, err
		}
		ticks[i] = value
	}
	return Times{
		User:   ticks[0] + ticks[1],
		System: ticks[2] + ticks[5] + ticks[6],
		Idle:   ticks[3] + ticks[4],
		Steal:  ticks[7],
	}, nil
}

// Usage is how the machine's processor time was spent between two snapshots,
// in shares of 1.
type Usage struct {
	Busy  float64 `json:"busy"`  // programs and kernel, the measuring program included
	Steal float64 `json:"steal"` // taken away by the hypervisor
}

// Between gives the usage from a to b; zero when no tick passed.
func Between(a, b Load) Usage {
	busy := elapsed(a.Times.User, b.Times.User) + elapsed(a.Times.System, b.Times.System)
	steal := elapsed(a.Times.Steal, b.Times.Steal)
	total := busy + steal + elapsed(a.Times.Idle, b.Times.Idle)
	if total == 0 {
		return Usage{}
	}
	return Usage{Busy: busy / total, Steal: steal / total}
}

// elapsed guards against counters that step back, which the kernel's time of
// waiting for disks is known to do.
func elapsed(from, to uint64) float64 {
	if to < from {
		return 0
	}
	return float64(to - from)
}

// Foreign is the share of the host's processor time from a to b that others used than
// so many processes, which used own ticks. What ticks are too coarse to tell is none: they are
// counted twice, and each process's own are rounded.
func Foreign(a, b Load, own uint64, processes int) float64 {
	const coarse = 10
	busy := elapsed(a.Times.User+a.Times.System, b.Times.User+b.Times.System)
	total := busy + elapsed(a.Times.Idle+a.Times.Steal, b.Times.Idle+b.Times.Steal)
	if busy <= float64(own)+coarse+2*float64(processes) {
		return 0
	}
	return (busy - float64(own)) / total
}
