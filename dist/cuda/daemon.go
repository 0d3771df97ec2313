package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// daemon is an MPS daemon of this process's own, with its pipes and logs in a
// folder that nobody else can enter.
type daemon struct {
	dir, pipes string
	program    string
	command    *exec.Cmd
	ended      chan error
}

const (
	control     = "nvidia-cuda-mps-control"
	startLimit  = 10 * time.Second
	quitLimit   = 5 * time.Second
	controlFile = "control" // in the folder of pipes, once the daemon listens
)

func startDaemon() (*daemon, error) {
	program, err := exec.LookPath(control)
	if err != nil {
		program = "/usr/local/nvidia/bin/" + control
		if _, missing := os.Stat(program); missing != nil {
			return nil, err
		}
	}
	removeStale()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, pipes: filepath.Join(dir, "pipes"), program: program, ended: make(chan error, 1)}
	for _, sub := range []string{"pipes", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
	}
	d.command = d.controlCommand("-f") // stays in the foreground: a child that ends with this process
	d.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.command.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go func() { d.ended <- d.command.Wait() }()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(d.pipes, controlFile)); err == nil {
			return d, nil
		}
		select {
		case err := <-d.ended:
			log, _ := os.ReadFile(filepath.Join(dir, "logs", "control.log"))
			os.RemoveAll(dir)
			return nil, fmt.Errorf("%s ended (%v): %s", control, err, lastLine(string(log)))
		default:
		}
		if time.Since(begin) > startLimit {
			return nil, errors.Join(fmt.Errorf("%s did not listen within %v", control, startLimit), d.stop())
		}
	}
}

// dirPrefix begins the name of a daemon's folder; the number of its process follows.
const dirPrefix = "kernbench-mps-"

// removeStale removes the folders of processes that were killed.
func removeStale() {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range found {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(text)
		info, gone := os.Lstat(dir)
		if err != nil || gone != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		if own, ok := info.Sys().(*syscall.Stat_t); ok && int(own.Uid) == os.Getuid() && info.IsDir() {
			os.RemoveAll(dir)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func (d *daemon) controlCommand(args ...string) *exec.Cmd {
	c := exec.Command(d.program, args...)
	c.Env = append(os.Environ(), pipeVariable+"="+d.pipes, "CUDA_MPS_LOG_DIRECTORY="+filepath.Join(d.dir, "logs"))
	return c
}

// stop ends the daemon and its servers, which are not its children for long.
func (d *daemon) stop() error {
	quit := d.controlCommand()
	quit.Stdin = strings.NewReader("quit -t 1\n")
	_ = quit.Run() // what is gone already cannot be asked
	select {
	case <-d.ended:
	case <-time.After(quitLimit):
		_ = d.command.Process.Kill()
		<-d.ended
	}
	return os.RemoveAll(d.dir)
}
