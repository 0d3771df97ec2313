package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

// rank is one process of the agent's current launch.
type rank struct {
	sentProc
	pid            int
	stdout, stderr *capture // stderr is nil when both share stdout
	exit           *Exit
	looks          []culprit.Snapshot // at what it does while the launch is being stopped
}

// openRank prepares the output of a process.
func openRank(p sentProc, limit int64) (*rank, error) {
	r := &rank{sentProc: p}
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

// start forks and executes the process. It must run on a thread that outlives the process.
func (r *rank) start(reaper *reaper, null *os.File, files []*os.File, ended func(*rank, ending)) error {
	path, err := lookPath(r.Argv[0], string(r.Dir), r.Env)
	if err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank, err)
	}
	attr := &syscall.ProcAttr{Dir: string(r.Dir), Env: r.Env, Sys: &syscall.SysProcAttr{
		Setpgid:   true,            // a signal to its own group stays with the rank
		Pdeathsig: syscall.SIGKILL, // the agent cannot be outlived
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
		func(e ending) { ended(r, e) })
	if err != nil {
		// The kernel says "no such file" also for a missing directory or script interpreter.
		return fmt.Errorf("rank %d: starting %s in %s: %w", r.Rank, path, r.Dir, err)
	}
	for _, c := range out {
		c.closeWrite()
		go c.run()
	}
	return nil
}

// abandon frees what a rank that was not started holds.
func (r *rank) abandon() {
	for _, c := range r.captures() {
		c.abandon()
	}
}

// watched reads the values of the named variables out of the running process.
func (r *rank) watched(names []string) EnvOverrides {
	env := environ(r.pid)
	// The kernel tells that a program was executed a moment before it shows its environment. That is never empty: the
	// tag is in it.
	for limit := time.Now().Add(time.Second); env == nil && time.Now().Before(limit); env = environ(r.pid) {
		if p, ok := readProcess(r.pid); !ok || p.zombie {
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

// lookPath finds a program the way a shell with this environment, standing in dir, would.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // relative to dir, where the process is when it executes it
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
