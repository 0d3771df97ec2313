package rankhost

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

var (
	// ErrInterrupted means that a signal told this process to end before rank 0 had dismissed it.
	ErrInterrupted = errors.New("interrupted")
	// ErrGivenUp means that not all ranks have joined. Rank 0 reports which ones are missing.
	ErrGivenUp = errors.New("rank 0 has given up waiting for the others")
)

// Follow is called by every rank except rank 0. It starts the processes that rank 0 asks for, and returns nil when rank
// 0 dismisses it.
func Follow(ctx context.Context, cfg Config) error {
	conn, err := cfg.findLeader(ctx)
	if err != nil {
		return err
	}
	reached, _, _ := net.SplitHostPort(conn.RemoteAddr().String()) // "" for a local socket
	own, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	link := connection.NewLink[message](conn)
	h, err := newRankHost(ctx, cfg, link, reached, own)
	if err != nil {
		link.Abort()
		return err
	}
	return h.serve(ctx)
}

// rankHost starts the processes of one rank. Only the goroutine that handles rank 0's messages uses agent and launch.
type rankHost struct {
	cfg    Config
	link   *connection.Link[message]
	agent  *launch.Agent  // replaced if it was killed
	launch *launch.Launch // the latest
	grace  atomic.Int64   // of the latest launch, in nanoseconds
	work   sync.WaitGroup
}

// newRankHost starts the agent and asks rank 0 for admission.
func newRankHost(ctx context.Context, cfg Config, l *connection.Link[message], reached, own string) (*rankHost, error) {
	agent, err := launch.Start(ctx, "")
	if err != nil {
		return nil, err
	}
	l.Send(message{Join: cfg.join(reached, own)})
	return &rankHost{cfg: cfg, link: l, agent: agent}, nil
}

// serve handles rank 0's messages until the end. On return none of its processes is left.
func (h *rankHost) serve(ctx context.Context) (err error) {
	defer h.link.Abort()
	defer h.work.Wait()
	defer func() { err = errors.Join(err, h.agent.Close()) }()
	defer context.AfterFunc(ctx, func() {
		// The signal was meant for the whole job, which rank 0 will end.
		h.link.Send(message{Interrupted: true})
		time.AfterFunc(leaveTimeout+time.Duration(h.grace.Load()), h.link.Abort)
	})()
	limit := silenceLimit
	if h.cfg.self {
		limit = 0 // a process cannot lose itself, however slow it is
	}
	var dismissal error
	err = h.link.Run(limit, func(m message) (more bool) {
		switch {
		case m.Bye:
			return false
		case m.GivenUp:
			dismissal = ErrGivenUp
			return false
		case m.Refused != "":
			dismissal = errors.New(m.Refused)
			return false
		case m.Launch != nil:
			if err := h.start(m.Launch); err != nil {
				h.link.Send(message{Failed: launch.WithLimit(err).Error()})
			}
		case m.Stop != nil && h.launch != nil:
			h.launch.Stop(*m.Stop) // without effect if it has ended
		}
		return true
	})
	switch {
	case err == nil:
		return dismissal
	case ctx.Err() != nil:
		return ErrInterrupted
	}
	return fmt.Errorf("rank %d (host %s) lost rank 0: %s", h.cfg.Rank, h.cfg.Name, connection.DescribeLoss(err))
}

// start starts one process as rank 0 ordered, and forwards its output and events to rank 0 until its end.
func (h *rankHost) start(o *launchOrder) (err error) {
	proc, spec := o.Proc, o.Spec
	proc.Dir, proc.Vars.LocalRank, proc.Vars.LocalWorldSize = string(o.Dir), h.cfg.LocalRank, h.cfg.LocalSize
	for i := range proc.Read {
		proc.Read[i] = func(stream io.Reader) { h.forward(stream, i == 1) }
	}
	spec.Procs, spec.Environ, spec.StoppedLimit = []launch.Proc{proc}, h.cfg.Environ, connection.SilenceLimit
	spec.StopOnFailure = false // rank 0 decides
	h.grace.Store(int64(spec.Grace))
	select {
	case <-h.agent.Done(): // it was killed
		agent, err := launch.Start(context.Background(), "")
		if err != nil {
			return err
		}
		h.agent = agent
	default:
	}
	l, err := h.agent.Launch(context.Background(), spec)
	if err != nil {
		return err
	}
	h.launch = l
	h.work.Go(func() {
		for e := range l.Events() {
			switch e := e.(type) {
			case launch.Started:
				h.link.Send(message{Started: &e})
			case launch.Exit:
				h.link.Send(message{Exited: &e})
			}
		}
		outcome, err := l.Wait()
		l.AwaitOutput() // all output is sent before the result
		if err != nil {
			h.link.Send(message{Failed: launch.WithLimit(err).Error()})
			return
		}
		h.link.Send(message{Done: &outcome})
	})
	return nil
}

// forward sends a stream to rank 0. If rank 0 is slow, forward waits. The process then waits too as soon as its pipe is
// full, but the rank host continues to handle messages.
func (h *rankHost) forward(read io.Reader, ofStderr bool) {
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

// The variables that make a program a guard: the address of its supervisor, the name of that host,
// and the secret.
const (
	guardVar       = "KERNBENCH_GUARD"
	guardHostVar   = "KERNBENCH_GUARD_HOST"
	guardSecretVar = "KERNBENCH_GUARD_SECRET"
)

// LeadGuards returns the leader of guards: rank hosts that a launcher starts for this process, which is not a rank of
// the job itself. There is a guard for each rank of a program. It can report more about its rank than the launcher
// does. The guards find the leader at an address of this host by the variables, with which the launcher must start this
// program. [Leader.Gather] waits for them.
func LeadGuards(ctx context.Context, host string, ports connection.PortRange, ranks int, limit time.Duration,
	allowOtherBuild bool) (leader *Leader, vars map[string]string, err error) {
	listener, err := ports.ListenAt(ctx, host)
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for the ranks: %w", err)
	}
	cfg := guardConfig(host, listener.Addr().(*net.TCPAddr).Port, rand.Text(), ranks, limit)
	cfg.AllowOtherBuild = allowOtherBuild
	if cfg.Name, err = os.Hostname(); err != nil {
		listener.Close()
		return nil, nil, fmt.Errorf("waiting for the ranks: %w", err)
	}
	leader = newLeader(cfg)
	leader.host.Serve(listener, cfg.service())
	return leader, map[string]string{
		guardHostVar:   cfg.Name,
		guardVar:       net.JoinHostPort(host, strconv.Itoa(cfg.Ports[0])),
		guardSecretVar: string(cfg.Secret),
	}, nil
}

func guardConfig(host string, port int, secret string, ranks int, limit time.Duration) Config {
	return Config{Size: ranks, Host: host, Ports: []int{port}, Secret: []byte(secret), Command: "guard",
		JoinTimeout: limit}
}

// guardTimeout is how long a guard looks for its supervisor.
const guardTimeout = time.Minute

// MaybeGuard runs this process as a guard if its environment contains the variables of LeadGuards. It then returns
// true when the guard's work is done.
func MaybeGuard(environ []string) (is bool, err error) {
	env := jobenv.Variables(environ)
	if env[guardVar] == "" {
		return false, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	launch.CatchUserSignals()
	cfg, err := guardConfigFromEnv(env, environ)
	if err == nil {
		err = Follow(ctx, cfg)
	}
	switch {
	case errors.Is(err, ErrGivenUp): // the supervisor reports why
		return true, nil
	case err != nil:
		return true, fmt.Errorf("the guard of rank %d: %w", cfg.Rank, err)
	}
	return true, nil
}

// guardConfigFromEnv reads a guard's configuration from its environment.
func guardConfigFromEnv(env map[string]string, environ []string) (Config, error) {
	addr, err := netip.ParseAddrPort(env[guardVar])
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", guardVar, err)
	}
	job, err := jobenv.Detect(environ)
	switch {
	case err != nil:
		return Config{}, err
	case job == nil: // the only rank
		job = &jobenv.Job{Size: 1, LocalSize: 1}
	}
	cfg := guardConfig(addr.Addr().String(), int(addr.Port()), env[guardSecretVar], job.Size, guardTimeout)
	cfg.Rank, cfg.LocalRank, cfg.LocalSize = job.Rank, job.LocalRank, job.LocalSize
	cfg.Environ = launch.EnvOverrides{guardVar: nil, guardHostVar: nil, guardSecretVar: nil}.Apply(environ)
	if cfg.Name, err = os.Hostname(); err != nil {
		return cfg, err
	}
	return cfg, checkReachable(addr.Addr(), env[guardHostVar], cfg.Name)
}

// checkReachable returns an error if the supervisor listens at an address that this host cannot reach. Otherwise the
// guard would fail only after guardTimeout.
func checkReachable(addr netip.Addr, theirs, ours string) error {
	if addr.IsLoopback() && theirs != ours {
		return fmt.Errorf("started on host %s, but kernbench run on host %s listens only on its loopback "+
			"interface; choose the network with --interface", ours, theirs)
	}
	return nil
}
