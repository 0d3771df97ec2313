package rankhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/process/launch"
)

var (
	// ErrInterrupted says that this process was told to end before rank 0 was done.
	ErrInterrupted = errors.New("interrupted")
	// ErrGivenUp says that not all ranks came; which, rank 0 says.
	ErrGivenUp = errors.New("rank 0 has given up waiting for the others")
)

// Follow is the part of every rank but 0: it starts what rank 0 says, until rank
// 0 says goodbye, which is the good end.
func Follow(ctx context.Context, cfg Config) error {
	l, err := cfg.meet(ctx)
	if err != nil {
		return err
	}
	p, err := newPlace(ctx, cfg, l)
	if err != nil {
		l.Abort()
		return err
	}
	return p.serve(ctx)
}

// place is where processes of one rank are started.
type place struct {
	cfg   Config
	link  *link
	agent *launch.Agent

	mu     sync.Mutex
	launch *launch.Launch
	id     int   // of the launch, begun or not
	early  *stop // came before it had begun
	work   sync.WaitGroup
}

// newPlace starts the agent and asks for admission.
func newPlace(ctx context.Context, cfg Config, l *link) (*place, error) {
	agent, err := launch.Start(ctx)
	if err != nil {
		return nil, err
	}
	l.Send(message{Join: &join{Rank: cfg.Rank, Size: cfg.Size, Host: cfg.Name, PID: os.Getpid(), Command: cfg.Command}})
	return &place{cfg: cfg, link: l, agent: agent}, nil
}

// serve does what it is told until the end. On return nothing that it has
// started is left.
func (p *place) serve(ctx context.Context) error {
	defer p.link.Abort()
	defer p.work.Wait()
	defer func() {
		p.mu.Lock()
		agent := p.agent
		p.mu.Unlock()
		agent.Close()
	}()
	heard := make(chan message)
	over := make(chan struct{})
	defer close(over)
	broken := make(chan error, 1)
	go func() {
		for {
			m, err := p.link.Receive()
			if err != nil {
				broken <- err
				return
			}
			select {
			case heard <- m:
			case <-over:
				return
			}
		}
	}()
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	silent := time.Duration(0)
	interrupted := ctx.Done()
	var leave <-chan time.Time
	for {
		select {
		case m := <-heard:
			silent = 0
			switch {
			case m.Bye:
				return nil
			case m.GivenUp:
				return ErrGivenUp
			case m.Refused != "":
				return errors.New(m.Refused)
			case m.Launch != nil:
				p.mu.Lock()
				p.id = m.Launch.ID
				p.mu.Unlock()
				p.work.Go(func() { p.start(m.Launch) })
			case m.Stop != nil:
				p.stop(m.Stop)
			}
		case err := <-broken:
			if ctx.Err() != nil {
				return ErrInterrupted
			}
			return fmt.Errorf("rank %d lost rank 0: %s", p.cfg.Rank, describe(err))
		case <-beat.C:
			p.link.Send(message{Beat: true})
			if silent += beatTime; silent > Heartbeat {
				return fmt.Errorf("rank %d lost rank 0: nothing was heard of it for %v (stopped, or the network is cut)", p.cfg.Rank, Heartbeat)
			}
		case <-interrupted:
			// Whoever sent the signal meant the job. Rank 0 ends it, in order.
			interrupted = nil
			p.link.Send(message{Interrupted: true})
			leave = time.After(leaveLimit)
		case <-leave:
			return ErrInterrupted
		}
	}
}

func (p *place) stop(s *stop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.ID != p.id: // it has ended
	case p.launch == nil:
		p.early = s
	default:
		p.launch.Stop(s.Reason, s.Dump)
	}
}

// start runs one process from its beginning to its end and tells rank 0 of both.
func (p *place) start(o *order) {
	outcome, err := p.run(o)
	p.mu.Lock()
	p.launch, p.early, p.id = nil, nil, 0
	p.mu.Unlock()
	if err != nil {
		p.link.Send(message{Failed: err.Error()})
		return
	}
	p.link.Send(message{Done: outcome})
}

func (p *place) run(o *order) (*launch.Outcome, error) {
	proc := launch.Proc{Rank: p.cfg.Rank, Argv: texts(o.Argv), Dir: string(o.Dir)}
	for _, path := range o.Files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("opening a file of rank 0: %w", err)
		}
		defer f.Close()
		proc.ExtraFiles = append(proc.ExtraFiles, f)
	}
	set := make(map[string]*string, len(o.Set))
	for _, s := range o.Set {
		set[s.Name] = nil
		if !s.Unset {
			value := string(s.Value)
			set[s.Name] = &value
		}
	}
	if o.Native {
		proc.Env, proc.ExtraFiles = native(p.cfg.Environ, set, proc.ExtraFiles)
	} else {
		o.Vars.LocalRank, o.Vars.LocalWorldSize = p.cfg.LocalRank, p.cfg.LocalSize
		proc.Env = launch.Environ(p.cfg.Environ, set, &o.Vars)
	}
	var pumps sync.WaitGroup
	defer pumps.Wait() // all output comes before the end
	var ends []*os.File
	defer closeAll(&ends)
	for _, s := range []struct {
		err  bool
		path *string
	}{{false, &proc.Stdout}, {true, &proc.Stderr}} {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("making a pipe for the output: %w", err)
		}
		ends = append(ends, write)
		*s.path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), write.Fd())
		pumps.Go(func() { p.pump(read, s.err) })
	}
	l, err := p.begin(launch.Spec{Procs: []launch.Proc{proc}, WatchEnv: o.Watch, StoppedLimit: Heartbeat})
	if err != nil {
		return nil, err
	}
	closeAll(&ends) // the agent has opened them for itself
	for e := range l.Events() {
		switch e := e.(type) {
		case launch.Started:
			p.link.Send(message{Started: seen(e)})
		case launch.Exit:
			p.link.Send(message{Exited: &e})
		}
	}
	outcome, err := l.Wait()
	return &outcome, err
}

// begin launches, with a new agent if the last one was killed.
func (p *place) begin(spec launch.Spec) (l *launch.Launch, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.agent.Done():
		if p.agent, err = launch.Start(context.Background()); err != nil {
			return nil, err
		}
	default:
	}
	if l, err = p.agent.Launch(context.Background(), spec); err != nil {
		return nil, err
	}
	if p.launch = l; p.early != nil {
		l.Stop(p.early.Reason, p.early.Dump)
	}
	return l, nil
}

func closeAll(files *[]*os.File) {
	for _, f := range *files {
		f.Close()
	}
	*files = nil
}

func seen(e launch.Started) *started {
	s := &started{PID: e.PID, Ran: e.Env == nil, Env: map[string][]byte{}}
	for name, value := range e.Env {
		if value != nil {
			s.Env[name] = []byte(*value)
		}
	}
	return s
}

// pump carries a stream to rank 0. It waits while rank 0 is slow, and then so
// does the process's output, but nothing else.
func (p *place) pump(read *os.File, ofStderr bool) {
	defer read.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := read.Read(buf)
		if n > 0 {
			p.link.Await()
			p.link.Send(message{Output: &output{Err: ofStderr, Data: buf[:n]}})
		}
		if err != nil {
			return
		}
	}
}

// native is the environment of a process that joins the launcher's own job. A
// descriptor that the launcher has left open for it moves.
func native(environ []string, set map[string]*string, files []*os.File) ([]string, []*os.File) {
	const pmi = "PMI_FD" // Hydra's, by which MPICH finds it
	env := make([]string, 0, len(environ)+len(set))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if _, replaced := set[name]; replaced {
			continue
		}
		if fd, err := strconv.Atoi(value); name == pmi && err == nil {
			entry = fmt.Sprintf("%s=%d", pmi, 3+len(files))
			files = append(files, os.NewFile(uintptr(fd), "the launcher's descriptor"))
		}
		env = append(env, entry)
	}
	for name, value := range set {
		if value != nil {
			env = append(env, name+"="+*value)
		}
	}
	return env, files
}

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
