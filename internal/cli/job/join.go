package job

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/node"
	"github.com/kernbench/kernbench/internal/process/rankhost"
)

// ErrInterrupted means that the user ended the job before all ranks had joined.
var ErrInterrupted = errors.New("interrupted before all ranks had joined")

// Lead waits for the other ranks of the job. The returned context also ends when any of them is
// interrupted.
func Lead(ctx context.Context, job *jobenv.Job, cfg rankhost.Config) (context.Context, *run.Joined, error) {
	leader, err := rankhost.Lead(ctx, cfg)
	if err != nil {
		if errors.Is(err, rankhost.ErrInterrupted) || ctx.Err() != nil {
			return ctx, nil, ErrInterrupted
		}
		return ctx, nil, fmt.Errorf("joining the job of %s: %w", job.Launcher, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-leader.Interrupted():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, &run.Joined{Leader: leader, Launcher: job.Launcher, Size: job.Size}, nil
}

// HostConfig returns where the ranks of the job meet. Ranks on one host use a Unix socket and need
// no secret. Otherwise they meet on the host of rank 0, whose address torchrun and srun provide.
func (p Process) HostConfig(job *jobenv.Job) (rankhost.Config, error) {
	host, err := os.Hostname()
	if err != nil {
		return rankhost.Config{}, fmt.Errorf("finding this host's name: %w", err)
	}
	cfg := rankhost.Config{
		Rank: job.Rank, Size: job.Size, LocalRank: job.LocalRank, LocalSize: job.LocalSize,
		AllowOtherBuild: p.AllowOtherBuild,
		Command:         strings.Join(p.Args, " "), Name: host, JoinTimeout: cmp.Or(p.JoinTimeout, node.DefaultJoinTimeout),
		Environ: p.Environ,
	}
	endpoint := p.Endpoint
	if endpoint == "" {
		endpoint = jobenv.Variable(p.Environ, EndpointVar)
	}
	switch {
	case endpoint != "":
		var port string
		if cfg.Host, port, err = node.SplitEndpoint(endpoint); err != nil {
			return cfg, err
		}
		n, err := net.LookupPort("tcp", port)
		if err != nil {
			return cfg, err
		}
		cfg.Ports = []int{n}
	case job.LocalSize == job.Size:
		cfg.Local = fmt.Sprintf("kernbench-join-%d-%s", os.Getuid(), jobName(job))
		return cfg, nil
	case job.RootHost != "":
		ports, err := connection.PortRangeFromEnv(p.Environ)
		if err != nil {
			return cfg, err
		}
		cfg.Host, cfg.Ports = job.RootHost, derivedPorts(job, ports)
	default:
		return cfg, fmt.Errorf("the %d ranks that %s has started are on several hosts, and the host of rank 0 is not "+
			"known: set %s=HOST:PORT, an address of that host, and %s, for all ranks",
			job.Size, job.Launcher, EndpointVar, SecretVar)
	}
	hasSecret := p.SecretFile != "" || jobenv.Variable(p.Environ, SecretVar) != ""
	if own := jobenv.Variable(p.Environ, RankSecretVar); own != "" && !hasSecret {
		cfg.Secret = []byte(own) // set by kernbench launch
		return cfg, nil
	}
	if cfg.Secret, err = p.Secret(); err != nil {
		err = fmt.Errorf("the %d ranks that %s has started are on several hosts: %w", job.Size, job.Launcher, err)
	}
	return cfg, err
}

// Exchange returns an all-gather between the ranks of a job on several hosts that needs no
// supervisor.
func (p Process) Exchange(job *jobenv.Job) (tcp.Exchange, error) {
	cfg, err := p.HostConfig(job)
	if err != nil {
		return nil, err
	}
	if cfg.Local != "" {
		return nil, fmt.Errorf("the %d ranks that %s has started are on one host", job.Size, job.Launcher)
	}
	b := &tcp.Bootstrap{Endpoint: net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Ports[0])), Rank: job.Rank, Size: job.Size,
		Secret: cfg.Secret, SameBuild: !p.AllowOtherBuild}
	return b.Exchange, nil
}

// jobName returns a name that identifies the job on this host and is the same for all its ranks.
func jobName(job *jobenv.Job) string {
	id := fmt.Sprintf("%s %s %s:%d", job.Launcher, job.ID, job.MasterAddr, job.MasterPort)
	if job.ID == "" && job.MasterAddr == "" {
		id += fmt.Sprintf(" %d", launcherPID(job.RankVar))
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(id)))[:16]
}

// launcherPID returns the process that started this rank: the nearest ancestor that does not have
// the rank variable. A shell wrapper around this program has it, so a parent is not enough.
func launcherPID(rankVar string) int {
	pid := os.Getppid()
	for pid > 1 {
		has := func(entry string) bool { return strings.HasPrefix(entry, rankVar+"=") }
		p, ok := proc.Read(hostinfo.Root(), pid)
		if !ok || !slices.ContainsFunc(proc.Environ(pid), has) {
			break
		}
		pid = p.Parent
	}
	return pid
}

// Began returns when the launcher of the job was started on this host.
func Began(job *jobenv.Job) (time.Time, error) {
	p, ok := proc.Read(hostinfo.Root(), launcherPID(job.RankVar))
	if !ok {
		return time.Time{}, errors.New("the launcher of this rank has ended")
	}
	age, err := p.Age(hostinfo.Root())
	return time.Now().Add(-age), err
}

// derivedPorts returns candidates for the port of rank 0 if none is configured; rank 0 takes the
// first free one. They start a little above MASTER_PORT, whose neighbours the job's programs may
// use, and lie within the allowed range if there is one.
func derivedPorts(job *jobenv.Job, within connection.PortRange) (ports []int) {
	const count, gap = 8, 2
	first := job.MasterPort + gap
	switch {
	case within != (connection.PortRange{}) && (first < within.First || first+count > within.Last):
		first = within.First
	case job.MasterPort == 0 || first+count > 65535:
		h := fnv.New32a()
		h.Write([]byte(job.ID))
		first = 20000 + int(h.Sum32()%10000) // below the kernel's ephemeral ports
	}
	for i := range count {
		ports = append(ports, first+i)
	}
	return ports
}
