package hostinfo

import (
	"fmt"
	"io/fs"
	"os"
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

// TreeDelay returns how long the threads of a process and its descendants have run, and how long they
// were ready to run and waited for a processor, in nanoseconds. Threads and processes that have ended
// are not counted. Both are 0 if the kernel does not count them.
func TreeDelay(root fs.FS, pid int) (ran, waited uint64) {
	ran, waited = ThreadDelay(root, pid)
	threads, _ := fs.ReadDir(root, fmt.Sprintf("proc/%d/task", pid)) // none if it has ended
	for _, thread := range threads {
		for _, field := range strings.Fields(line(root, fmt.Sprintf("proc/%d/task/%s/children", pid, thread.Name()))) {
			if child, err := strconv.Atoi(field); err == nil {
				r, w := TreeDelay(root, child)
				ran, waited = ran+r, waited+w
			}
		}
	}
	return ran, waited
}

// ThreadDelay returns how long the threads of one process have run, and how long they have waited for a
// processor, in nanoseconds and added up over the threads.
func ThreadDelay(root fs.FS, pid int) (ran, waited uint64) {
	threads, _ := fs.ReadDir(root, fmt.Sprintf("proc/%d/task", pid)) // none if it has ended
	for _, thread := range threads {
		if f := strings.Fields(line(root, fmt.Sprintf("proc/%d/task/%s/schedstat", pid, thread.Name()))); len(f) == 3 {
			r, _ := strconv.ParseUint(f[0], 10, 64)
			w, _ := strconv.ParseUint(f[1], 10, 64)
			ran, waited = ran+r, waited+w
		}
	}
	return ran, waited
}

// TreeTicks returns the processor time that a process and its descendants have used, in clock
// ticks, and the number of these processes. The time includes children that have ended
// and been waited for. ok is false if the kernel does not list the children of processes.
func TreeTicks(root fs.FS, pid int) (ticks uint64, processes int, ok bool) {
	ticks, ok = processTicks(line(root, fmt.Sprintf("proc/%d/stat", pid)))
	if !ok {
		return 0, 0, false
	}
	processes = 1
	threads, err := fs.ReadDir(root, fmt.Sprintf("proc/%d/task", pid))
	if err != nil {
		return 0, 0, false
	}
	for _, thread := range threads {
		list, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/task/%s/children", pid, thread.Name()))
		if err != nil {
			if _, gone := fs.Stat(root, fmt.Sprintf("proc/%d/task/%s", pid, thread.Name())); gone != nil {
				continue // the thread has ended meanwhile
			}
			return 0, 0, false
		}
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return 0, 0, false
			}
			if below, n, ok := TreeTicks(root, child); ok { // otherwise it has ended meanwhile
				ticks, processes = ticks+below, processes+n
			}
		}
	}
	return ticks, processes, true
}

// StoppedProcess returns a process among pid and its descendants that is stopped, by a signal or by a
// debugger, and the name of its program. ok is false if there is none, or if pid has ended.
func StoppedProcess(root fs.FS, pid int) (found int, name string, ok bool) {
	stat := line(root, fmt.Sprintf("proc/%d/stat", pid))
	// The state T is a stop by a signal, t one by a debugger.
	if f := StatFields(stat); len(f) > 0 && strings.EqualFold(f[0], "T") {
		_, name, _ = strings.Cut(stat[:strings.LastIndexByte(stat, ')')], "(")
		return pid, name, true
	}
	threads, err := fs.ReadDir(root, fmt.Sprintf("proc/%d/task", pid))
	if err != nil {
		return 0, "", false
	}
	for _, thread := range threads {
		for _, field := range strings.Fields(line(root, fmt.Sprintf("proc/%d/task/%s/children", pid, thread.Name()))) {
			if child, err := strconv.Atoi(field); err == nil {
				if found, name, ok = StoppedProcess(root, child); ok {
					return found, name, true
				}
			}
		}
	}
	return 0, "", false
}

// ProcessState returns the state of a process as in /proc/PID/stat: R runs or waits for a processor, S
// and D sleep, T and t are stopped, Z has ended. It is "" if there is no such process.
func ProcessState(root fs.FS, pid int) string {
	if f := StatFields(line(root, fmt.Sprintf("proc/%d/stat", pid))); len(f) > 0 {
		return f[0]
	}
	return ""
}

// StatFields returns the fields of /proc/PID/stat from the state on. The name of the program
// before it may contain any characters. It returns nil for a line without such a name.
func StatFields(line string) []string {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return nil
	}
	return strings.Fields(line[end+1:])
}

// processTicks returns the time of the process and of the children that it has waited for, from
// a line of /proc/PID/stat.
func processTicks(line string) (ticks uint64, ok bool) {
	const first, last = 11, 14 // utime, stime, cutime, cstime; indices in StatFields
	fields := StatFields(line)
	if len(fields) <= last {
		return 0, false
	}
	for _, field := range fields[first : last+1] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, false
		}
		ticks += n
	}
	return ticks, true
}

// ProcessSpace identifies the numbering of processes that this process sees: the running kernel and
// the namespace. It is "" if that is unknown.
func ProcessSpace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, failed := os.Readlink("/proc/self/ns/pid")
	if err != nil || failed != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}
