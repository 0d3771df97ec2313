package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

// rank is one process of the agent's current launch.
type rank struct {
	procRequest
	pid            int
	stdout, stderr *capture // stderr is nil if both share stdout
	exit           *Exit
	snapshots      []culprit.Snapshot // taken while the launch is being stopped
}

// openRank opens the pipes and log files of a process that is about to be started.
func openRank(p procRequest, limit int64) (*rank, error) {
	r := &rank{procRequest: p}
	var err error
	if r.stdout, err = newCapture(string(p.Stdout), limit); err != nil {
		return nil, fmt.Errorf("rank %d: stdout: %w", p.Rank, err)
	}
	if len(p.Stdout) > 0 && string(p.Stdout) == string(p.Stderr) {
		return r, nil
	}
	if r.stderr, err = newCapture(string(p.Stderr), limit); err != nil {
		r.stdout.abandon()
		return nil, fmt.Errorf("rank %d: stderr: %w", p.Rank, err)
	}
	return r, nil
}

func (r *rank) captures() []*capture {
	if r.stderr == nil {
		return []*capture{r.stdout}
	}
	return []*capture{r.stdout, r.stderr}
}

// start forks and executes the process. It must be called on a thread that outlives the process, as explained in serve.
func (r *rank) start(reaper *reaper, null *os.File, files []*os.File, ended func(*rank, childExit)) error {
	path, err := LookPath(r.Argv[0], string(r.Dir), r.Env)
	if err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank, err)
	}
	attr := &syscall.ProcAttr{Dir: string(r.Dir), Env: r.Env, Sys: &syscall.SysProcAttr{
		Setpgid:   true,            // signals to its own group stay within the rank
		Pdeathsig: syscall.SIGKILL, // no rank outlives the agent
	}}
	out := r.captures()
	attr.Files = []uintptr{null.Fd(), uintptr(out[0].write), uintptr(out[len(out)-1].write)}
	for _, i := range r.Files {
		if i < 0 || i >= len(files) {
			return fmt.Errorf("rank %d: file %d of %d was not sent", r.Rank, i, len(files))
		}
		attr.Files = append(attr.Files, files[i].Fd())
	}
	restore, err := cores.BindThread(r.CPUs...)
	if err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank, err)
	}
	defer restore()
	r.pid, err = reaper.start(
		func() (int, error) { return syscall.ForkExec(path, r.Argv, attr) },
		func(e childExit) { ended(r, e) })
	if err != nil {
		// ENOENT may also mean a missing directory or script interpreter.
		return fmt.Errorf("rank %d: starting %s in %s: %w", r.Rank, path, r.Dir, err)
	}
	for _, c := range out {
		c.closeWrite()
		go c.run()
	}
	return nil
}

// abandon closes the files of a rank that was not started.
func (r *rank) abandon() {
	for _, c := range r.captures() {
		c.abandon()
	}
}

// readBackEnv reads the values of the named variables from the running process.
func (r *rank) readBackEnv(names []string) EnvOverrides {
	env := proc.Environ(r.pid)
	// The kernel reports the exec slightly before it shows the new environment. The new environment is never empty,
	// because it contains the tag, so retry while it is empty.
	for limit := time.Now().Add(time.Second); env == nil && time.Now().Before(limit); env = proc.Environ(r.pid) {
		if p, ok := proc.Read(hostinfo.Root(), r.pid); !ok || p.Ended() {
			return nil
		}
		time.Sleep(50 * time.Microsecond)
	}
	if env == nil {
		return nil
	}
	values := make(EnvOverrides, len(names))
	for _, name := range names {
		values[name] = nil
		if value, set := lookup(env, name); set {
			values[name] = &value
		}
	}
	return values
}

// LookPath finds a program as a shell with this environment and working directory would.
func LookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // relative to dir, the working directory at exec
	}
	path, _ := lookup(env, "PATH")
	var denied error
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		candidate := filepath.Join(folder, name)
		info, err := os.Stat(candidate)
		switch {
		case err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			return candidate, nil
		case err == nil && denied == nil:
			denied = fmt.Errorf("%s is not an executable file", candidate)
		case err != nil && !errors.Is(err, fs.ErrNotExist) && denied == nil:
			denied = err
		}
	}
	if denied != nil {
		return "", fmt.Errorf("looking for %s in PATH=%s: %w", name, path, denied)
	}
	return "", fmt.Errorf("looking for %s in PATH=%s: not found", name, path)
}

// capture copies one output stream from a pipe to a log file. It continues to read even if the file cannot be written,
// so that the program never blocks on a full pipe.
type capture struct {
	read      *os.File
	write     int // the process's end; -1 once closed here
	log       *os.File
	limit     int64
	done      chan struct{}
	bytesRead atomic.Int64 // bytes read so far

	stream Stream // only run may use it until done is closed
}

// newCapture opens the pipe, and the log unless path is empty.
func newCapture(path string, limit int64) (*capture, error) {
	c := &capture{write: -1, limit: limit, done: make(chan struct{})}
	if path != "" {
		var err error
		// Append, so that a retry of a point does not overwrite the first attempt's output.
		flags := os.O_WRONLY | os.O_APPEND | os.O_CREATE
		if !strings.HasPrefix(path, "/proc/") { // paths in /proc are descriptors of the supervisor; follow no other link
			flags |= unix.O_NOFOLLOW
		}
		c.log, err = os.OpenFile(path, flags, 0o644)
		if err != nil {
			return nil, fmt.Errorf("opening the log: %w", err)
		}
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		c.abandon()
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	// Only the agent's end is non-blocking. Few programs handle EAGAIN, so a program with a non-blocking stdout could
	// lose output.
	unix.SetNonblock(fds[0], true)
	c.read, c.write = os.NewFile(uintptr(fds[0]), "output pipe"), fds[1]
	return c, nil
}

// closeWrite closes the agent's copy of the write end, so that the pipe ends when the program's last copy is closed.
func (c *capture) closeWrite() {
	if c.write >= 0 {
		unix.Close(c.write)
		c.write = -1
	}
}

// abandon closes the files of a capture that was never run.
func (c *capture) abandon() {
	c.closeWrite()
	if c.read != nil {
		c.read.Close()
	}
	if c.log != nil {
		c.log.Close()
	}
}

// run reads until the last writer has closed the pipe.
func (c *capture) run() {
	defer close(c.done)
	defer c.read.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := c.read.Read(buf)
		if n > 0 {
			c.store(buf[:n])
			c.bytesRead.Add(int64(n))
		}
		if err != nil {
			break // end of file, or the deadline set by finish
		}
	}
	c.closeLog()
}

func (c *capture) store(p []byte) {
	logged := c.stream.Bytes - c.stream.Dropped
	c.stream.Bytes += int64(len(p))
	n := 0
	if c.log != nil && c.stream.LogError == "" && c.stream.Dropped == 0 {
		var err error
		if n, err = c.log.Write(p[:min(int64(len(p)), c.limit-logged)]); err != nil {
			c.stream.LogError = err.Error()
		}
	}
	if c.log != nil {
		c.stream.Dropped += int64(len(p) - n)
	}
}

func (c *capture) closeLog() {
	if c.log == nil {
		return
	}
	if c.stream.Dropped > 0 && c.stream.LogError == "" {
		_, err := fmt.Fprintf(c.log, "\n[kernbench: %d more bytes were dropped here, the limit is %d bytes]\n",
			c.stream.Dropped, c.limit)
		if err != nil {
			c.stream.LogError = err.Error()
		}
	}
	if err := c.log.Close(); err != nil && c.stream.LogError == "" {
		c.stream.LogError = err.Error()
	}
}

// finish returns the complete stream. It is called when all descendants have ended, so run only has to read what is
// left in the pipe. But an unrelated process may hold the pipe open. finish therefore gives up when nothing arrives for
// idleLimit, or when more arrives than a pipe can hold. It counts the time in polls, so that a slow machine does not
// lose the end of a stream.
func (c *capture) finish(idleLimit time.Duration) Stream {
	const interval = 20 * time.Millisecond
	seen := c.bytesRead.Load()
	maxTotal := seen + maxPipe
	for idle := time.Duration(0); idle < idleLimit && seen <= maxTotal; idle += interval {
		select {
		case <-c.done:
			return c.stream
		case <-time.After(interval):
		}
		if now := c.bytesRead.Load(); now != seen {
			seen, idle = now, 0
		}
	}
	c.read.SetReadDeadline(time.Now())
	<-c.done
	return c.stream
}

// maxPipe is the largest pipe buffer that the kernel grants to ordinary users.
const maxPipe = 1 << 20
