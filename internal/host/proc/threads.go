package proc

import (
	"bytes"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Thread holds the kernel's information about a thread.
type Thread struct {
	ID      int
	Running bool   // running, or ready to run on the next free core
	Sleeps  uint64 // number of voluntary context switches
	CPU     time.Duration
}

// Threads reads the threads of a process.
func Threads(root fs.FS, pid int) (all []Thread) {
	entries, _ := fs.ReadDir(root, path(pid, "task"))
	for _, e := range entries {
		dir := path(pid, "task/"+e.Name())
		status, _ := fs.ReadFile(root, dir+"/status")
		var t Thread
		t.ID, _ = strconv.Atoi(e.Name())
		t.Sleeps = statusValue(status, "\nvoluntary_ctxt_switches:")
		t.CPU, _ = delayOf(root, dir)
		stat, _ := fs.ReadFile(root, dir+"/stat")
		p, _ := parse(t.ID, string(stat))
		t.Running = p.State == 'R'
		all = append(all, t)
	}
	return all
}

func statusValue(status []byte, name string) uint64 {
	_, rest, _ := bytes.Cut(status, []byte(name))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseUint(strings.TrimSpace(string(line)), 10, 64)
	return n
}

// Call returns the system call in which the main thread of a process waits, or "" if it is unknown. The kernel shows it
// only to processes that may trace that process, for example its parent if tracing is not disabled.
func Call(root fs.FS, pid int) string {
	data, err := fs.ReadFile(root, path(pid, "syscall"))
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 4 || fields[0] == "-1" {
		return ""
	}
	nr, err := strconv.Atoi(fields[0])
	if err != nil { // "running"
		return ""
	}
	name, known := callNames[nr]
	if !known {
		return fmt.Sprintf("system call %d", nr)
	}
	switch { // without descriptors these calls only sleep
	case strings.HasSuffix(name, "poll") && fields[2] == "0x0", strings.Contains(name, "select") && fields[1] == "0x0":
		return CallSleep
	}
	return name
}

// The calls that wait for no other rank, and the call that waits for a child.
const (
	CallSleep = "sleep"
	CallPause = "pause"
	CallWait  = "wait"
)

// callNames names the system calls in which processes wait.
var callNames = map[int]string{
	unix.SYS_NANOSLEEP: CallSleep, unix.SYS_CLOCK_NANOSLEEP: CallSleep, unix.SYS_RT_SIGSUSPEND: CallPause,
	unix.SYS_RT_SIGTIMEDWAIT: "sigwait", unix.SYS_FUTEX: "futex", unix.SYS_WAIT4: CallWait, unix.SYS_WAITID: CallWait,
	unix.SYS_READ: "read", unix.SYS_READV: "read", unix.SYS_RECVFROM: "recv", unix.SYS_RECVMSG: "recv",
	unix.SYS_RECVMMSG: "recv",
	unix.SYS_WRITE:    "write", unix.SYS_WRITEV: "write", unix.SYS_SENDTO: "send", unix.SYS_SENDMSG: "send",
	unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept", unix.SYS_CONNECT: "connect",
	unix.SYS_PPOLL: "poll", unix.SYS_PSELECT6: "select", unix.SYS_EPOLL_PWAIT: "epoll", unix.SYS_FLOCK: "flock",
	unix.SYS_FSYNC: "fsync",
}

func init() {
	if runtime.GOARCH == "amd64" { // newer architectures lack these older calls
		callNames[7], callNames[23], callNames[34], callNames[232] = "poll", "select", CallPause, "epoll"
	}
}
