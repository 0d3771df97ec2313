// Package mps starts and ends MPS daemons, by which processes that share an NVIDIA GPU
// run their kernels at the same time, and removes what those of killed processes leave.
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

// PipeVariable tells the driver where the daemon is.
const PipeVariable = "CUDA_MPS_PIPE_DIRECTORY"

// Daemon is an MPS daemon of this process's own, with its pipes and logs in a
// folder that nobody else can enter.
type Daemon struct {
	Pipes string // the folder that PipeVariable names

	dir     string
	held    *os.File // dir, locked: as long as this process lives, nobody takes it for left behind
	program string
	command *exec.Cmd
	ended   chan error
}

const (
	control     = "nvidia-cuda-mps-control"
	startLimit  = 10 * time.Second
	quitLimit   = 5 * time.Second
	controlFile = "control" // in the folder of pipes, once the daemon listens
)

// Start starts a daemon, which ends with this process at the latest.
func Start() (*Daemon, error) {
	program, err := exec.LookPath(control)
	if err != nil {
		program = "/usr/local/nvidia/bin/" + control
		if _, missing := os.Stat(program); missing != nil {
			return nil, err
		}
	}
	_ = Sweep() // what cannot be removed is in nobody's way
	dir, held, err := newFolder()
	if err != nil {
		return nil, err
	}
	d := &Daemon{dir: dir, held: held, Pipes: filepath.Join(dir, pipesFolder), program: program,
		ended: make(chan error, 1)}
	for _, sub := range []string{d.Pipes, d.logs()} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, errors.Join(err, d.remove())
		}
	}
	d.command = d.controlCommand("-f") // stays in the foreground: a child that ends with this process
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
	// dirPrefix begins the name of a daemon's folder.
	dirPrefix   = "kernbench-mps-"
	pipesFolder = "pipes"
	// processName begins what the kernel calls daemon and servers, in 15 letters.
	processName = "nvidia-cuda-mps"
)

// newFolder makes a folder that is this process's: it is locked until the process ends,
// however it does. Who sweeps may have been quicker than the lock; then there is another.
func newFolder() (dir string, held *os.File, err error) {
	for {
		if dir, err = os.MkdirTemp("", dirPrefix); err != nil {
			return "", nil, err
		}
		if held, err = os.Open(dir); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			return "", nil, err
		}
		if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
			held.Close()
			return "", nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), os.RemoveAll(dir))
		}
		if _, err := os.Stat(dir); err == nil {
			return dir, held, nil
		}
		held.Close()
	}
}

// Sweep removes what processes have left that were killed, or ended with their
// supervisor: their folders, and servers that still listen there. A daemon ends with its
// process, but its servers are not its children for long.
func Sweep() error {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	var faults []error
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			continue
		}
		held, err := os.Open(dir)
		if err != nil {
			continue // swept by another
		}
		if unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			endServers(filepath.Join(dir, pipesFolder))
			faults = append(faults, os.RemoveAll(dir))
		}
		held.Close()
	}
	return errors.Join(faults...)
}

// endServers kills the MPS processes whose pipes are in a folder.
func endServers(pipes string) {
	variable := PipeVariable + "=" + pipes
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		name, _ := os.ReadFile(filepath.Join(proc, "comm"))
		environ, _ := os.ReadFile(filepath.Join(proc, "environ")) // nothing of other users' processes
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

// Stop ends the daemon and its servers.
func (d *Daemon) Stop() error {
	quit := d.controlCommand()
	quit.Stdin = strings.NewReader("quit -t 1\n")
	_ = quit.Run() // what is gone already cannot be asked
	select {
	case <-d.ended:
	case <-time.After(quitLimit):
		_ = d.command.Process.Kill()
		<-d.ended
	}
	return d.remove()
}

// remove removes the folder, and servers that did not heed the daemon.
func (d *Daemon) remove() error {
	endServers(d.Pipes)
	err := os.RemoveAll(d.dir)
	d.held.Close()
	return err
}
