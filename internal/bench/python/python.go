// Package python runs benches that are declared in a Python file, or by any other program that
// speaks the protocol of docs/protocol.md: requests over a socket, one JSON object per line. The
// embedded package kernbench has the decorators and answers the requests; this package sends
// them. The supervisor asks a file for its declarations. Each worker keeps one program running and
// times and verifies its calls in an ordinary body.
package python

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// The protocol's version, and its environment variables.
const (
	protocol  = 1
	socketVar = "KERNBENCH_SOCKET"
	// InterpreterVar names the interpreter. The default is python3 from the PATH.
	InterpreterVar = "KERNBENCH_PYTHON"
)

// stackTime is the time for a program to print its stacks before it is killed.
const stackTime = 300 * time.Millisecond

// program is an interpreter that serves one file, or a program that serves itself.
type program struct {
	kind    string    // "python" or "program"
	cmd     *exec.Cmd // nil for a program that was running already
	socket  *os.File
	lines   *bufio.Reader
	ended   chan struct{} // closed when the process has ended
	endedBy string        // exit status or signal; valid once ended is closed
	stopped atomic.Bool   // it was killed because it had been stopped (SIGSTOP)
	killing sync.Once
}

// script returns the interpreter and the file. The interpreter is an absolute path, so that all
// ranks use the same one even if PATH is swept. It is empty for a program.
func script(path, interpreter string) ([]string, error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !isPython(path) {
		return []string{"", file}, nil
	}
	found, err := findInterpreter(interpreter)
	if err != nil {
		return nil, err
	}
	return []string{found, file}, nil
}

// findInterpreter returns the path of an interpreter, by default of python3.
func findInterpreter(name string) (string, error) {
	found, err := exec.LookPath(cmp.Or(name, "python3"))
	if err != nil {
		return "", fmt.Errorf("finding Python: %w (%s names another interpreter)", err, InterpreterVar)
	}
	return found, nil
}

// start starts a script with the given environment.
func start(script, environ []string, output, errors io.Writer) (*program, error) {
	interpreter, file := script[0], script[1]
	if isSocket(file) {
		return dial(file)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket for %s: %w", file, err)
	}
	nonblock := unix.SetNonblock(ends[0], true) // lets Close interrupt a read
	ours, theirs := os.NewFile(uintptr(ends[0]), "python"), os.NewFile(uintptr(ends[1]), "kernbench")
	defer theirs.Close()
	if nonblock != nil {
		ours.Close()
		return nil, fmt.Errorf("making a socket for %s: %w", file, nonblock)
	}
	p := &program{kind: "program", socket: ours, lines: bufio.NewReader(ours), ended: make(chan struct{})}
	p.cmd = exec.Command(file)
	p.cmd.ExtraFiles = []*os.File{theirs}
	if interpreter != "" {
		archive, err := archive()
		if err != nil {
			ours.Close()
			return nil, err
		}
		p.kind = "python"
		p.cmd = exec.Command(interpreter, "-c", bootstrap+serve, file)
		p.cmd.ExtraFiles = []*os.File{theirs, archive} // descriptors 3 and 4
	}
	p.cmd.Env = append(slices.Clip(environ), socketVar+"=3")
	p.cmd.Stdout, p.cmd.Stderr = output, errors
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second // children of the bench may keep its output open
	if err := p.cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("starting %s: %w", p.cmd.Path, err)
	}
	go func() {
		p.cmd.Wait()
		p.endedBy = p.cmd.ProcessState.String()
		if p.stopped.Load() {
			p.endedBy = fmt.Sprintf("it had been stopped for %v", connection.SilenceLimit)
		}
		close(p.ended)
	}()
	go launch.KillStopped(p.cmd.Process, p.ended, &p.stopped) // the same rule as for workers
	return p, nil
}

// reply is the answer of a program. The request determines which fields are set.
type reply struct {
	Error   *failure  `json:"error"`
	Skip    *string   `json:"skip"`
	Barrier *struct{} `json:"barrier"` // not the answer yet: the body waits for the other ranks
	Time    bool      `json:"time"`    // not the answer yet: the body has a call timed now
	hello
	prepared
	Dropped string  `json:"dropped"`
	Wrong   *int64  `json:"wrong"`
	Samples []int64 `json:"samples"` // in nanoseconds
	Warning string  `json:"warning"` // about the samples so far
}

// failure is an exception: its last line, and the traceback.
type failure struct {
	Reason string `json:"reason"`
	Trace  string `json:"trace"`
}

// Multiline marks the error for texttab.Failure: it has a traceback.
func (f *failure) Multiline() {}

func (f *failure) Error() string { return f.Reason + "\n" + strings.TrimRight(f.Trace, "\n") }

func (p *program) String() string {
	if p.kind == "python" {
		return "the Python process"
	}
	return "the program"
}

// greet sends the first request and returns the program's declarations.
func (p *program) greet(ctx context.Context, arguments any) (hello, error) {
	r, err := p.ask(ctx, "hello", arguments, nil)
	if err == nil && r.Source == "" && p.running() {
		err = errors.New("hello: a running program must answer with a source")
	}
	if err == nil && r.Source == "" {
		if r.Source, err = point.HashFile(p.cmd.Path); err != nil {
			err = fmt.Errorf("hashing the program: %w", err)
		}
	}
	return r.hello, err
}

// ask sends a request and waits for its answer. While a body runs, the program may ask first: for a
// barrier, or to time a call now; inside returns the answer. If the context ends first, the program prints its
// stacks and is killed, because requests and answers would be out of step.
func (p *program) ask(ctx context.Context, verb string, arguments any, inside func(reply) (any, error)) (reply, error) {
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	r, err := p.exchange(map[string]any{verb: arguments})
	for err == nil && (r.Barrier != nil || r.Time) && inside != nil {
		var answer any
		if answer, err = inside(r); err == nil {
			r, err = p.exchange(answer)
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
	answer, err := p.readLine()
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fmt.Errorf("reading the program's answer: %w", err)
	}
	return r, nil
}

// maxAnswer is the length of the longest answer, in bytes. An answer has the samples of a call, or all declarations.
const maxAnswer = 64 << 20

// readLine reads one answer.
func (p *program) readLine() (line []byte, err error) {
	for err = bufio.ErrBufferFull; err == bufio.ErrBufferFull; {
		var part []byte
		part, err = p.lines.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxAnswer {
			return nil, fmt.Errorf("reading the program's answer: the line has more than %s bytes", unit.FormatBytes(maxAnswer))
		}
	}
	if err != nil {
		return nil, p.gone(err)
	}
	return line, nil
}

// gone returns an error that describes how the program ended, after its socket was closed.
func (p *program) gone(err error) error {
	if p.running() {
		return fmt.Errorf("the running program closed the connection: %w", err)
	}
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended: %s", p, p.endedBy)
	case <-time.After(2 * time.Second):
		return fmt.Errorf("%s closed the connection: %w", p, err)
	}
}

// kill lets the program print the stacks of its threads (SIGQUIT), and kills it.
func (p *program) kill() {
	if p.running() {
		p.socket.Close()
		return
	}
	p.killing.Do(func() {
		p.cmd.Process.Signal(unix.SIGQUIT) // an error means that it has ended already
		select {
		case <-p.ended:
		case <-time.After(stackTime):
		}
		p.cmd.Process.Kill()
	})
}

// close ends the program by closing its socket, and kills it if it does not exit in time.
func (p *program) close() {
	p.socket.Close()
	if p.running() {
		return
	}
	select {
	case <-p.ended:
	case <-time.After(time.Second):
		p.cmd.Process.Kill()
		<-p.ended
	}
}
