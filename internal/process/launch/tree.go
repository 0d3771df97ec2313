package launch

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/process/culprit"
)

// process is one line of the kernel's process table. The start time tells it from a later process of the same number.
type process struct {
	pid, parent, session int
	start                uint64
	zombie, halted       bool
}

// id is what stays the same while the process lives.
func (p process) id() process { return process{pid: p.pid, start: p.start} }

// parse reads the fields of /proc/PID/stat from the state on.
func parse(pid int, fields []string) (process, bool) {
	if len(fields) < 20 || len(fields[0]) != 1 {
		return process{}, false
	}
	p := process{pid: pid, zombie: fields[0] == "Z" || fields[0] == "X", halted: fields[0] == "T"}
	var err [3]error
	p.parent, err[0] = strconv.Atoi(fields[1])
	p.session, err[1] = strconv.Atoi(fields[3])
	p.start, err[2] = strconv.ParseUint(fields[19], 10, 64)
	return p, errors.Join(err[:]...) == nil
}

// readProcess looks at a process, if it has not ended.
func readProcess(pid int) (process, bool) {
	return parse(pid, culprit.ReadStat("/proc/"+strconv.Itoa(pid)))
}

// IsStopped reports whether a process stands still (SIGSTOP, or a terminal's job control). One that a debugger holds has
// another state and is left in peace.
func IsStopped(pid int) bool {
	p, _ := readProcess(pid)
	return p.halted
}

// processes reads the whole process table, one process after the other. What forks or ends meanwhile may be missing or
// hang on a parent that is not there, so callers look again until nothing is left.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// family returns the members for which seed holds, and all their descendants.
func family(all []process, seed func(process) bool) []process {
	children := make(map[int][]process)
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	seen := make(map[int]bool)
	var add func(p process)
	add = func(p process) {
		if seen[p.pid] {
			return
		}
		seen[p.pid] = true
		found = append(found, p)
		for _, child := range children[p.pid] {
			add(child)
		}
	}
	for _, p := range all {
		if seed(p) {
			add(p)
		}
	}
	return found
}

// descendants returns every process below pid, without the zombies, which only wait to be reaped.
func descendants(pid int) []process {
	return living(family(processes(), func(p process) bool { return p.parent == pid }))
}

func living(procs []process) []process {
	return slices.DeleteFunc(procs, func(p process) bool { return p.zombie })
}

// signal sends sig to the process, and to no other: between looking and sending, the number may have
// gone to another one. A descriptor cannot, once the start time seen through it is the right one.
func (p process) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	now, ok := readProcess(p.pid)
	if !ok || now.start != p.start {
		return
	}
	if err != nil { // no descriptors left, or a kernel before 5.3
		unix.Kill(p.pid, sig)
		return
	}
	unix.PidfdSendSignal(fd, sig, nil, 0)
}

// killAll stops what find returns until it finds nothing new, then kills it. Stopped processes cannot fork, so even a
// program that forks as fast as it can is caught; the bound is for one that is faster still, and the
// caller comes again.
func killAll(find func() []process) (killed []process) {
	stopped := make(map[process]bool)
	for range 50 {
		var fresh []process
		for _, p := range find() {
			if !stopped[p.id()] {
				stopped[p.id()] = true
				fresh = append(fresh, p)
			}
		}
		if len(fresh) == 0 {
			break
		}
		for _, p := range fresh {
			p.signal(unix.SIGSTOP)
		}
		killed = append(killed, fresh...)
	}
	for _, p := range killed {
		p.signal(unix.SIGKILL)
	}
	return killed
}

// environ returns the environment with which the process was executed; nil when it has ended or is not ours to read.
func environ(pid int) []string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	defer f.Close()
	// In one go: between two reads the process may end, and the rest would be missing.
	for size := 64 << 10; ; size *= 4 {
		data := make([]byte, size)
		n, _ := f.ReadAt(data, 0)
		switch {
		case n == 0:
			return nil
		case n < size:
			return strings.Split(strings.TrimSuffix(string(data[:n]), "\x00"), "\x00")
		}
	}
}

// lookup finds a variable as getenv does: the first entry of the name.
func lookup(env []string, name string) (value string, set bool) {
	for _, entry := range env {
		if value, set = strings.CutPrefix(entry, name+"="); set {
			return value, true
		}
	}
	return "", false
}
