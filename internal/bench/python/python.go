// Package python runs benches that are declared in a Python file. Its embedded module
// kernbench.py has the decorators and answers requests over a socket, one JSON object
// per line, as docs/protocol.md describes; this package is the other end. The
// supervisor asks what a file declares; each worker keeps one interpreter beside it,
// whose calls the ordinary body of the worker times and verifies.
package python

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Module is the Python module, for those who want it beside their benches.
//
//go:embed kernbench.py
var Module string

// The protocol's version, and the variables of both ends.
const (
	protocol  = 1
	socketVar = "KERNBENCH_SOCKET"
	// InterpreterVar names the interpreter; without it, it is python3 of the PATH.
	InterpreterVar = "KERNBENCH_PYTHON"
)

// bootstrap makes the module from its source on descriptor 4, so that nothing needs to
// be installed or written anywhere. Linecache shows its lines in tracebacks.
const bootstrap = `import sys, types, linecache
with open(4, encoding="utf-8") as f: source = f.read()
module = sys.modules["kernbench"] = types.ModuleType("kernbench")
linecache.cache["kernbench.py"] = (len(source), None, source.splitlines(True), "kernbench.py")
exec(compile(source, "kernbench.py", "exec"), module.__dict__)
module._main(sys.argv[1])`

// stackTime is how long an interpreter may take to print its stacks before it is killed.
const stackTime = 300 * time.Millisecond

// program is an interpreter that serves one file.
type program struct {
	cmd     *exec.Cmd
	socket  *os.File
	lines   *bufio.Reader
	ended   chan struct{} // closed when the process is gone
	endedBy string        // how, once it is
}

// interpreter is what runs a file: a path, so that all ranks and a swept PATH agree.
func interpreter(name, file string) ([]string, error) {
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("finding Python: %w (%s names another interpreter)", err, InterpreterVar)
	}
	return []string{path, file}, nil
}

// start starts a script, which is an interpreter and a file.
func start(script []string, output, errors io.Writer) (*program, error) {
	interpreter, file := script[0], script[1]
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket for %s: %w", interpreter, err)
	}
	if err := unix.SetNonblock(ends[0], true); err != nil { // so that closing it ends a read
		return nil, fmt.Errorf("making a socket for %s: %w", interpreter, err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "python"), os.NewFile(uintptr(ends[1]), "kernbench")
	defer theirs.Close()
	source, write, err := os.Pipe()
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("making a pipe for %s: %w", interpreter, err)
	}
	defer source.Close()
	go func() { // fails when the interpreter ends early, which is noticed elsewhere
		io.WriteString(write, Module)
		write.Close()
	}()
	p := &program{socket: ours, lines: bufio.NewReader(ours), ended: make(chan struct{})}
	p.cmd = exec.Command(interpreter, "-c", bootstrap, file)
	p.cmd.Env = append(os.Environ(), socketVar+"=3")
	p.cmd.ExtraFiles = []*os.File{theirs, source}
	p.cmd.Stdout, p.cmd.Stderr = output, errors
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second // children of the bench may hold its output open
	if err := p.cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("starting Python: %w", err)
	}
	go func() {
		p.cmd.Wait()
		p.endedBy = p.cmd.ProcessState.String()
		close(p.ended)
	}()
	return p, nil
}

// reply is what a program answers; which fields are set depends on the request.
type reply struct {
	Error   *failure  `json:"error"`
	Skip    *string   `json:"skip"`
	Barrier *struct{} `json:"barrier"` // no answer yet: the body waits for the other ranks
	hello
	prepared
	Dropped string  `json:"dropped"`
	Wrong   int64   `json:"wrong"`
	Samples []int64 `json:"samples"` // in nanoseconds
}

// failure is an exception: its last line, and the traceback.
type failure struct {
	Reason string `json:"reason"`
	Trace  string `json:"trace"`
}

func (f *failure) Error() string { return f.Reason + "\n" + strings.TrimSpace(f.Trace) }

// ask sends a request and waits for its answer. When the context ends first, the
// interpreter prints its stacks and is killed: it can no longer be in step.
func (p *program) ask(ctx context.Context, verb string, arguments any, barrier func() error) (reply, error) {
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	r, err := p.exchange(map[string]any{verb: arguments})
	for err == nil && r.Barrier != nil && barrier != nil {
		if err = barrier(); err == nil {
			r, err = p.exchange(map[string]any{"barrier": map[string]any{}})
		}
	}
	switch {
	case ctx.Err() != nil:
		return reply{}, context.Cause(ctx)
	case err != nil:
		return reply{}, err
	case r.Error != nil:
		return reply{}, r.Error
	}
	return r, nil
}

func (p *program) exchange(request any) (r reply, err error) {
	line, err := json.Marshal(request)
	if err != nil {
		return r, fmt.Errorf("asking the program: %w", err)
	}
	if _, err := p.socket.Write(append(line, '\n')); err != nil {
		return r, p.gone(err)
	}
	answer, err := p.lines.ReadBytes('\n')
	if err != nil {
		return r, p.gone(err)
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fmt.Errorf("reading the program's answer: %w", err)
	}
	return r, nil
}

// gone says how the program ended, which the end of its socket does not.
func (p *program) gone(err error) error {
	select {
	case <-p.ended:
		return errors.New("the Python process ended: " + p.endedBy)
	case <-time.After(2 * time.Second):
		return fmt.Errorf("the Python process left the connection: %w", err)
	}
}

// kill has the program print the stacks of its threads, and ends it.
func (p *program) kill() {
	p.cmd.Process.Signal(unix.SIGQUIT) // one that has ended already needs neither
	select {
	case <-p.ended:
	case <-time.After(stackTime):
	}
	p.cmd.Process.Kill()
}

// close ends the program in order: it leaves when its socket does.
func (p *program) close() {
	p.socket.Close()
	select {
	case <-p.ended:
	case <-time.After(time.Second):
		p.cmd.Process.Kill()
		<-p.ended
	}
}
