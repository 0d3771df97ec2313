// Package mps starts and stops daemons of NVIDIA's Multi-Process Service (MPS), which lets processes
// that share a GPU run kernels at the same time. It also cleans up after processes that were
// killed.
package mps

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// PipeVariable is the environment variable with the folder of the daemon's pipes.
const PipeVariable = "CUDA_MPS_PIPE_DIRECTORY"

// Daemon is an MPS daemon of this process. Its pipes and logs are in a folder that only this user
// can read.
type Daemon struct {
	Pipes string // the value for PipeVariable

	dir     string
	lock    *os.File // dir, locked while this process runs, so that Sweep keeps the folder
	program string
	command *exec.Cmd
	ended   chan error
}

const (
	control     = "nvidia-cuda-mps-control"
	startLimit  = 10 * time.Second
	quitLimit   = 5 * time.Second
	controlFile = "control" // appears in the folder of pipes when the daemon listens
)

// Start starts a daemon and waits until it listens. The kernel kills it when this process ends.
func Start() (*Daemon, error) {
	program, err := exec.LookPath(control)
	if err != nil {
		program = "/usr/local/nvidia/bin/" + control
		if _, missing := os.Stat(program); missing != nil {
			return nil, err
		}
	}
	_ = Sweep() // folders that cannot be removed do no harm
	dir, held, err := newLockedFolder()
	if err != nil {
		return nil, err
	}
	d := &Daemon{dir: dir, lock: held, Pipes: filepath.Join(dir, pipesFolder), program: program,
		ended: make(chan error, 1)}
	for _, sub := range []string{d.Pipes, d.logs()} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, errors.Join(err, d.remove())
		}
	}
	d.command = d.controlCommand("-f") // -f: stay in the foreground, as a child that ends with this process
	d.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.command.Start(); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	go func() { d.ended <- d.command.Wait() }()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(d.Pipes, controlFile)); err == nil {
			return d, nil
		}
		select {
		case err := <-d.ended:
			log, _ := os.ReadFile(filepath.Join(d.logs(), "control.log"))
			return nil, errors.Join(fmt.Errorf("%s ended (%v): %s", control, err, lastLine(string(log))), d.remove())
		default:
		}
		if time.Since(begin) > startLimit {
			return nil, errors.Join(fmt.Errorf("%s did not listen within %v", control, startLimit), d.Stop())
		}
	}
}

const (
	// dirPrefix is the start of the name of a daemon's folder.
	dirPrefix   = "kernbench-mps-"
	pipesFolder = "pipes"
	// processName is the start of the names of daemon and servers in /proc, which have at most 15
	// characters.
	processName = "nvidia-cuda-mps"
)

// newLockedFolder makes a folder and locks it. The kernel releases the lock when this process
// ends, however it ends. If a Sweep removed the folder before it was locked, another one is made.
func newLockedFolder() (dir string, lock *os.File, err error) {
	for {
		if dir, err = os.MkdirTemp("", dirPrefix); err != nil {
			return "", nil, err
		}
		if lock, err = os.Open(dir); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			return "", nil, err
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
			lock.Close()
			return "", nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), os.RemoveAll(dir))
		}
		if _, err := os.Stat(dir); err == nil {
			return dir, lock, nil
		}
		lock.Close()
	}
}

// Sweep removes the folders of processes that were killed, and kills the servers that still
// listen there. A daemon ends with its process, but its servers may survive, because they do
// not stay children of the daemon.
func Sweep() error {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	var faults []error
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			continue
		}
		lock, err := os.Open(dir)
		if err != nil {
			continue // removed by another Sweep
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			killServers(filepath.Join(dir, pipesFolder))
			faults = append(faults, os.RemoveAll(dir))
		}
		lock.Close()
	}
	return errors.Join(faults...)
}

// killServers kills the MPS processes whose pipes are in a folder.
func killServers(pipes string) {
	variable := PipeVariable + "=" + pipes
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		name, _ := os.ReadFile(filepath.Join(proc, "comm"))
		environ, _ := os.ReadFile(filepath.Join(proc, "environ")) // empty for processes of other users
		if !strings.HasPrefix(string(name), processName) ||
			!slices.Contains(strings.Split(string(environ), "\x00"), variable) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func (d *Daemon) logs() string { return filepath.Join(d.dir, "logs") }

func (d *Daemon) controlCommand(args ...string) *exec.Cmd {
	c := exec.Command(d.program, args...)
	c.Env = append(os.Environ(), PipeVariable+"="+d.Pipes, "CUDA_MPS_LOG_DIRECTORY="+d.logs())
	return c
}

// Stop stops the daemon and its servers.
func (d *Daemon) Stop() error {
	quit := d.controlCommand()
	quit.Stdin = strings.NewReader("quit -t 1\n")
	_ = quit.Run() // fails if the daemon has already ended
	select {
	case <-d.ended:
	case <-time.After(quitLimit):
		_ = d.command.Process.Kill()
		<-d.ended
	}
	return d.remove()
}

// remove removes the folder and kills servers that did not stop with the daemon.
func (d *Daemon) remove() error {
	killServers(d.Pipes)
	err := os.RemoveAll(d.dir)
	d.lock.Close()
	return err
}
