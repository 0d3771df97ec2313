package hostinfo

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// TreeTicks is the processor time that a process and all its descendants have used, those
// that have ended and been waited for included, in the clock ticks of [Times]; and how
// many processes they are. It is not ok where the kernel does not list a process's
// children.
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
				continue // the thread has ended since
			}
			return 0, 0, false
		}
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return 0, 0, false
			}
			if below, n, ok := TreeTicks(root, child); ok { // else it has ended since
				ticks, processes = ticks+below, processes+n
			}
		}
	}
	return ticks, processes, true
}

// StatFields are the fields of a line of /proc/PID/stat from the state on. The name before
// it may hold anything.
func StatFields(line string) []string {
	return strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
}

// processTicks reads a line of /proc/PID/stat: the times of the process and of the
// children that it has waited for.
func processTicks(line string) (ticks uint64, ok bool) {
	const first, last = 11, 14 // utime, stime, cutime, cstime, counted after the name
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
