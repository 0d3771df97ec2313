package culprit

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// goSignal matches the first line of the report with which a Go program ends after a signal. Its
// exit code is then 2.
var goSignal = regexp.MustCompile(`(?m)^(SIG[A-Z0-9]+): `)

// Crash returns the cause that a Go program's crash report states, without the stacks that follow
// it: "signal 6 (aborted)", or the line of the panic or fatal error. It returns "" if the text has
// no such report.
func Crash(text string) string {
	if !strings.Contains(text, ": ") { // most lines, and much faster than the expressions below
		return ""
	}
	if m := goSignal.FindStringSubmatch(text); m != nil {
		if sig := unix.SignalNum(m[1]); sig != 0 {
			return DescribeSignal(sig)
		}
	}
	return shorten(goCrash.FindString(text))
}

// DescribeSignal returns the number and the name of a signal, such as "signal 9 (killed)".
func DescribeSignal(sig syscall.Signal) string { return fmt.Sprintf("signal %d (%v)", int(sig), sig) }

// Limits are the resource limits of a process, which its children inherit. math.MaxUint64 means that there is no limit.
type Limits struct {
	Files, Processes, AddressSpace, FileSize uint64 // of the process
	GroupProcesses, GroupMemory              uint64 // of its control group
}

// OwnLimits returns the limits of this process.
func OwnLimits() Limits {
	of := func(resource int) uint64 {
		var l unix.Rlimit
		if unix.Getrlimit(resource, &l) != nil {
			return math.MaxUint64
		}
		return l.Cur
	}
	l := Limits{Files: of(unix.RLIMIT_NOFILE), Processes: of(unix.RLIMIT_NPROC), AddressSpace: of(unix.RLIMIT_AS),
		FileSize: of(unix.RLIMIT_FSIZE), GroupProcesses: groupLimit(hostinfo.ProcessLimit),
		GroupMemory: groupLimit(hostinfo.MemoryLimit)}
	if os.Geteuid() == 0 { // root may have any number of processes
		l.Processes = math.MaxUint64
	}
	return l
}

// groupLimit returns a limit of this process's control groups. Version 1 has a number near 2^63 for no
// limit of memory.
func groupLimit(of func(fs.FS) int64) uint64 {
	if n := of(hostinfo.Root()); n > 0 && n < 1<<62 {
		return uint64(n)
	}
	return math.MaxUint64
}

var (
	noFiles     = regexp.MustCompile(`(?i)too many open files`)
	noProcesses = regexp.MustCompile(`(?i)newosproc|pthread_create failed|failed to create new OS thread|` +
		`resource temporarily unavailable|can't start new thread`)
	noMemory = regexp.MustCompile(`(?i)cannot allocate memory|\bout of memory\b|failed to reserve page summary memory|` +
		`\bMemoryError\b|std::bad_alloc`)
	noFileSize = regexp.MustCompile(`(?i)file too large|SIGXFSZ|file size limit exceeded`)
	gpuMemory  = regexp.MustCompile(`(?i)\b(CUDA|HIP|GPU)\b.*\bout of memory\b`) // no limit of the host
)

// Explain returns a text about the limits to which an error message or the last output of a process points: their
// values and how to raise them. It returns "" if there are none.
func (l Limits) Explain(text string) string {
	text = gpuMemory.ReplaceAllString(text, "")
	var hit []string
	note := func(limit uint64, format string, value any) {
		if limit < math.MaxUint64>>1 { // some systems have a huge number for no limit
			hit = append(hit, fmt.Sprintf(format, value))
		}
	}
	processes := noProcesses.MatchString(text)
	if noFiles.MatchString(text) {
		note(l.Files, "a process may open %d files (ulimit -n)", l.Files)
	}
	if noFileSize.MatchString(text) {
		note(l.FileSize, "a process may write files of %s, shared memory included (ulimit -f)",
			unit.FormatBytes(int64(min(l.FileSize, math.MaxInt64))))
	}
	if processes {
		note(l.Processes, "a user may have %d processes and threads (ulimit -u)", l.Processes)
		note(l.GroupProcesses, "the control group may have %d processes and threads (pids.max)", l.GroupProcesses)
	}
	if processes || noMemory.MatchString(text) { // a new thread needs address space for its stack
		note(l.AddressSpace, "a process may use %s of address space (ulimit -v)", unit.FormatBytes(int64(l.AddressSpace)))
	}
	if noMemory.MatchString(text) {
		note(l.GroupMemory, "the control group may use %s of memory (memory.max)", unit.FormatBytes(int64(l.GroupMemory)))
	}
	return strings.Join(hit, ", ")
}

// neededThreads is the number of threads that a command starts while it runs, in addition to the threads that exist
// when main begins. The processes of a launch are not included.
const neededThreads = 5

// CheckThreads returns an error if the limits leave too little room for a command. Go's runtime cannot report that
// it failed to start a thread: it ends the program with a dump of its registers and stacks.
func (l Limits) CheckThreads() error {
	check := func(limit uint64, used int64, noun, source string) error {
		if limit >= math.MaxInt64 || used == 0 || used+neededThreads <= int64(limit) {
			return nil
		}
		return fmt.Errorf("%s may have %d processes and threads (%s), and has %d: kernbench needs at least %d more, and "+
			"several for every rank", noun, limit, source, used, neededThreads)
	}
	used := hostinfo.ProcessesUsed(hostinfo.Root())
	if err := check(l.GroupProcesses, used, "the control group", "pids.max"); err != nil {
		return err
	}
	if l.Processes > fewProcesses {
		return nil // counting the threads would take longer than most commands
	}
	return check(l.Processes, threadsOf(os.Geteuid()), "this user", "ulimit -u")
}

// fewProcesses is a limit that may be reached on an ordinary machine.
const fewProcesses = 1000

// threadsOf returns the number of threads of a user's processes.
func threadsOf(user int) (n int64) {
	tasks, _ := filepath.Glob("/proc/[0-9]*/task/*") // threads of other users are listed too
	for _, task := range tasks {
		if info, err := os.Stat(task); err == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(user) {
			n++
		}
	}
	return n
}

// AddTo appends the text of Explain to a message, unless the message already contains it.
func (l Limits) AddTo(text string) string {
	if limit := l.Explain(text); limit != "" && !strings.Contains(text, limit) {
		return text + ": " + limit
	}
	return text
}
