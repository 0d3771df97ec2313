package rankhost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
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
	conn, err := cfg.find(ctx)
	if err != nil {
		return err
	}
	reached, _, _ := net.SplitHostPort(conn.RemoteAddr().String()) // none of a local socket
	own, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	link := connection.NewLink[message](conn)
	h, err := newRankHost(ctx, cfg, link, reached, own)
	if err != nil {
		link.Abort()
		return err
	}
	return h.serve(ctx)
}

// rankHost starts the processes of one rank.
type rankHost struct {
	cfg   Config
	link  *connection.Link[message]
	agent *launch.Agent

	mu     sync.Mutex
	launch *launch.Launch
	id     int                 // of the launch, begun or not
	grace  time.Duration       // its
	early  *launch.StopRequest // came before it had begun
	work   sync.WaitGroup
}

// newRankHost starts the agent and asks rank 0 for admission.
func newRankHost(ctx context.Context, cfg Config, l *connection.Link[message], reached, own string) (*rankHost, error) {
	agent, err := launch.Start(ctx)
	if err != nil {
		return nil, err
	}
	l.Send(message{Join: cfg.join(reached, own)})
	return &rankHost{cfg: cfg, link: l, agent: agent}, nil
}

// serve does what it is told until the end. On return nothing that it has
// started is left.
func (h *rankHost) serve(ctx context.Context) (err error) {
	defer h.link.Abort()
	defer h.work.Wait()
	defer func() { err = errors.Join(err, h.closeAgent()) }()
	defer context.AfterFunc(ctx, func() {
		// Whoever sent the signal meant the job. Rank 0 ends it, in order.
		h.link.Send(message{Interrupted: true})
		h.mu.Lock()
		defer h.mu.Unlock()
		time.AfterFunc(leaveLimit+h.grace, h.link.Abort)
	})()
	limit := connection.SilenceLimit
	if h.cfg.own {
		limit = 0 // a process does not wait in vain for itself, however slow it is
	}
	var told error
	err = h.link.Run(limit, func(m message) (more bool) {
		switch {
		case m.Bye:
			return false
		case m.GivenUp:
			told = ErrGivenUp
			return false
		case m.Refused != "":
			told = errors.New(m.Refused)
			return false
		case m.Launch != nil:
			h.mu.Lock()
			h.id, h.grace = m.Launch.ID, m.Launch.Grace
			h.mu.Unlock()
			h.work.Go(func() { h.start(m.Launch) })
		case m.Stop != nil:
			h.stop(m.Stop)
		}
		return true
	})
	switch {
	case err == nil:
		return told
	case ctx.Err() != nil:
		return ErrInterrupted
	}
	return fmt.Errorf("rank %d lost rank 0: %s", h.cfg.Rank, connection.DescribeLoss(err))
}

func (h *rankHost) closeAgent() error {
	h.mu.Lock()
	agent := h.agent
	h.mu.Unlock()
	return agent.Close()
}

func (h *rankHost) stop(s *launch.StopRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.ID != h.id: // it has ended
	case h.launch == nil:
		h.early = s
	default:
		h.launch.Stop(*s)
	}
}

// start runs one process from its beginning to its end and tells rank 0 of both.
func (h *rankHost) start(o *start) {
	outcome, err := h.run(o)
	h.mu.Lock()
	h.launch, h.early, h.id, h.grace = nil, nil, 0, 0
	h.mu.Unlock()
	if err != nil {
		h.link.Send(message{Failed: err.Error()})
		return
	}
	h.link.Send(message{Done: outcome})
}

func (h *rankHost) run(o *start) (*launch.Outcome, error) {
	proc := launch.Proc{Rank: h.cfg.Rank, Argv: o.Argv, Dir: string(o.Dir)}
	for _, path := range o.Files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("opening a file of rank 0: %w", err)
		}
		defer f.Close()
		proc.ExtraFiles = append(proc.ExtraFiles, f)
	}
	o.Vars.LocalRank, o.Vars.LocalWorldSize = h.cfg.LocalRank, h.cfg.LocalSize
	if o.Native {
		proc.Env, proc.ExtraFiles = native(h.cfg.Environ, o.withRank(), proc.ExtraFiles)
	} else {
		proc.Env = launch.Environ(h.cfg.Environ, o.Env, &o.Vars)
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
		pumps.Go(func() { h.pump(read, s.err) })
	}
	l, err := h.begin(launch.Spec{Procs: []launch.Proc{proc}, ReportEnv: o.ReportEnv, Grace: o.Grace, ForwardSignals: o.ForwardSignals,
		StoppedLimit: connection.SilenceLimit})
	if err != nil {
		return nil, err
	}
	closeAll(&ends) // the agent has opened them for itself
	for e := range l.Events() {
		switch e := e.(type) {
		case launch.Started:
			h.link.Send(message{Started: &e})
		case launch.Exit:
			h.link.Send(message{Exited: &e})
		}
	}
	outcome, err := l.Wait()
	return &outcome, err
}

// withRank are the variables to set, with those of the rank that are not among them.
func (o *start) withRank() launch.EnvOverrides {
	set := launch.EnvOverrides{}
	for name, value := range o.Vars.Values() {
		set[name] = &value
	}
	maps.Copy(set, o.Env)
	return set
}

// begin launches, with a new agent if the last one was killed.
func (h *rankHost) begin(spec launch.Spec) (l *launch.Launch, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.agent.Done():
		if h.agent, err = launch.Start(context.Background()); err != nil {
			return nil, err
		}
	default:
	}
	if l, err = h.agent.Launch(context.Background(), spec); err != nil {
		return nil, err
	}
	if h.launch = l; h.early != nil {
		l.Stop(*h.early)
	}
	return l, nil
}

func closeAll(files *[]*os.File) {
	for _, f := range *files {
		f.Close()
	}
	*files = nil
}

// pump carries a stream to rank 0. It waits while rank 0 is slow, and then so
// does the process's output, but nothing else.
func (h *rankHost) pump(read *os.File, ofStderr bool) {
	defer read.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := read.Read(buf)
		if n > 0 {
			h.link.Throttle()
			h.link.Send(message{Output: &output{Err: ofStderr, Data: buf[:n]}})
		}
		if err != nil {
			return
		}
	}
}

// native is the environment of a process that joins the launcher's own job. A
// descriptor that the launcher has left open for it moves.
func native(environ []string, set launch.EnvOverrides, files []*os.File) ([]string, []*os.File) {
	const pmi = "PMI_FD" // Hydra's, by which MPICH finds it
	fd, err := strconv.Atoi(jobenv.Variable(environ, pmi))
	if _, replaced := set[pmi]; err == nil && !replaced {
		moved := strconv.Itoa(3 + len(files))
		set[pmi] = &moved
		files = append(files, os.NewFile(uintptr(fd), "the launcher's descriptor"))
	}
	return set.Apply(environ), files
}
