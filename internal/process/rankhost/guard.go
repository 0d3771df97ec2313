package rankhost

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// The variables that make a program a guard: where its supervisor is, on which host, and their secret.
const (
	guardVar       = "KERNBENCH_GUARD"
	guardHostVar   = "KERNBENCH_GUARD_HOST"
	guardSecretVar = "KERNBENCH_GUARD_SECRET"
)

// Guards are rank hosts that a launcher is about to start for this process, which is no rank of the job itself: one
// beside each rank of a program, so that more is known of it than the launcher tells.
type Guards struct {
	cfg      Config
	listener net.Listener
}

// ListenGuards waits for guards of so many ranks at an address of this host.
func ListenGuards(ctx context.Context, host string, ports connection.PortRange, ranks int, limit time.Duration) (*Guards,
	error) {
	l, err := ports.ListenAt(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("waiting for the ranks: %w", err)
	}
	g := &Guards{guardConfig(host, l.Addr().(*net.TCPAddr).Port, rand.Text(), ranks, limit), l}
	if g.cfg.Name, err = os.Hostname(); err != nil {
		l.Close()
		return nil, fmt.Errorf("waiting for the ranks: %w", err)
	}
	return g, nil
}

func guardConfig(host string, port int, secret string, ranks int, limit time.Duration) Config {
	return Config{Size: ranks, Host: host, Ports: []int{port}, Secret: []byte(secret), Command: "guard",
		JoinTimeout: limit}
}

// Vars are the variables that make this program, started by the launcher, a guard.
func (g *Guards) Vars() map[string]string {
	return map[string]string{
		guardHostVar:   g.cfg.Name,
		guardVar:       net.JoinHostPort(g.cfg.Host, strconv.Itoa(g.cfg.Ports[0])),
		guardSecretVar: string(g.cfg.Secret),
	}
}

// Gather waits for all guards.
func (g *Guards) Gather(ctx context.Context) (*Leader, error) {
	l := newLeader(g.cfg)
	l.host.Serve(g.listener, g.cfg.service())
	return l.gather(ctx)
}

// Close ends the wait for guards.
func (g *Guards) Close() { g.listener.Close() }

// guardLimit is how long a guard looks for its supervisor, who waits for it.
const guardLimit = time.Minute

// MaybeGuard makes this process a guard if its environment says so, and then returns only when its work is over.
func MaybeGuard(environ []string) (is bool, err error) {
	env := jobenv.Variables(environ)
	if env[guardVar] == "" {
		return false, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	launch.CatchUserSignals()
	cfg, err := guardOf(env, environ)
	if err == nil {
		err = Follow(ctx, cfg)
	}
	switch {
	case errors.Is(err, ErrGivenUp): // the supervisor says why
		return true, nil
	case err != nil:
		return true, fmt.Errorf("the guard of rank %d: %w", cfg.Rank, err)
	}
	return true, nil
}

// guardOf is what a guard finds in its environment.
func guardOf(env map[string]string, environ []string) (Config, error) {
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
	cfg := guardConfig(addr.Addr().String(), int(addr.Port()), env[guardSecretVar], job.Size, guardLimit)
	cfg.Rank, cfg.LocalRank, cfg.LocalSize, cfg.Environ = job.Rank, job.LocalRank, job.LocalSize, environ
	if cfg.Name, err = os.Hostname(); err != nil {
		return cfg, err
	}
	return cfg, reachable(addr.Addr(), env[guardHostVar], cfg.Name)
}

// reachable says at once what a minute of vain attempts would not: that the supervisor, on its host, waits where this
// host cannot reach it.
func reachable(addr netip.Addr, theirs, ours string) error {
	if addr.IsLoopback() && theirs != ours {
		return fmt.Errorf("started on host %s, but kernbench run listens on the loopback of %s only; name its network: "+
			"--interface", ours, theirs)
	}
	return nil
}

// RemoveGuardVars removes the variables of guards from the environment of the programs they start.
func RemoveGuardVars(set map[string]*string) {
	set[guardVar], set[guardHostVar], set[guardSecretVar] = nil, nil, nil
}
