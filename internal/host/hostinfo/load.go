package hostinfo

import (
	"io/fs"
	"strconv"
	"strings"
)

// Load shows how busy a machine is at one time.
type Load struct {
	Load1 float64 // load average over one minute
	Times Times
	// Stalled is the time since boot, in microseconds, in which some process was ready to run and
	// waited for a processor (pressure-stall information). It is 0 if the kernel does not count it.
	Stalled uint64
}

// Times are clock ticks since boot, summed over all processors. Compare two of them: see Between.
type Times struct {
	User   uint64 // programs, including niced ones and guests
	System uint64 // the kernel, including interrupts
	Idle   uint64 // nothing to do, or waiting for a disk
	Steal  uint64 // needed by this machine while the hypervisor ran others
}

// Snapshot reads the load of the machine with the given file tree. Without /proc it is zero.
func Snapshot(root fs.FS) Load {
	average, _, _ := strings.Cut(line(root, "proc/loadavg"), " ")
	return Load{Load1: number(average), Times: parseTimes(line(root, "proc/stat")),
		Stalled: parseStalled(line(root, "proc/pressure/cpu"))}
}

// parseStalled parses the first line of /proc/pressure/cpu: some avg10=0.00 ... total=123.
func parseStalled(l string) uint64 {
	_, total, _ := strings.Cut(l, "total=")
	us, _ := strconv.ParseUint(strings.TrimSpace(total), 10, 64)
	return us
}

// parseTimes parses the first line of /proc/stat: cpu user nice system idle iowait irq softirq
// steal. The guest times that follow are already part of user. It returns zero for other texts.
func parseTimes(l string) Times {
	fields := strings.Fields(l)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Times{}
	}
	var ticks [8]uint64
	for i := range ticks {
		var err error
		if ticks[i], err = strconv.ParseUint(fields[i+1], 10, 64); err != nil {
			return Times{}
		}
	}
	return Times{
		User:   ticks[0] + ticks[1],
		System: ticks[2] + ticks[5] + ticks[6],
		Idle:   ticks[3] + ticks[4],
		Steal:  ticks[7],
	}
}

// Usage is the use of processor time between two snapshots, as shares of the total.
type Usage struct {
	Busy  float64 // programs and kernel, the measuring program included
	Steal float64 // taken away by the hypervisor
}

// Between returns the usage from a to b. It is zero if a snapshot has no times or no tick passed.
func Between(a, b Load) Usage {
	if a.Times == (Times{}) {
		return Usage{}
	}
	busy := elapsed(a.Times.User, b.Times.User) + elapsed(a.Times.System, b.Times.System)
	steal := elapsed(a.Times.Steal, b.Times.Steal)
	total := busy + steal + elapsed(a.Times.Idle, b.Times.Idle)
	if total == 0 {
		return Usage{}
	}
	return Usage{Busy: busy / total, Steal: steal / total}
}

// elapsed returns the difference of two counters, or 0 if it is negative: the kernel's counter
// of waiting for disks sometimes decreases.
func elapsed(from, to uint64) float64 {
	if to < from {
		return 0
	}
	return float64(to - from)
}

// Foreign returns the share of the host's processor time from a to b that was used by programs
// other than our processes, which used own ticks. Ticks are rounded: 10 for the host, and 2 for each
// process. A difference within that is 0 if it is less than a tenth of the time, and unknown if the time
// was too short to tell.
func Foreign(a, b Load, own uint64, processes int) (share float64, known bool) {
	coarse := 10 + 2*float64(processes)
	busy := elapsed(a.Times.User+a.Times.System, b.Times.User+b.Times.System)
	total := busy + elapsed(a.Times.Idle+a.Times.Steal, b.Times.Idle+b.Times.Steal)
	if a.Times == (Times{}) || busy <= float64(own)+coarse {
		return 0, total >= 10*coarse
	}
	return (busy - float64(own)) / total, true
}
