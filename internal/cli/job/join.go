package job

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/process/rendezvous"
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
		Command:         strings.Join(p.Args, " "), JoinTimeout: rendezvous.DefaultJoinTimeout, Name: host,
		Environ: p.Environ,
	}
	endpoint := p.Endpoint
	if endpoint == "" {
		endpoint = jobenv.Variable(p.Environ, EndpointVar)
	}
	switch {
	case endpoint != "":
		var port string
		if cfg.Host, port, err = rendezvous.SplitEndpoint(endpoint); err != nil {
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
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !strings.Contains("\x00"+string(environ), "\x00"+rankVar+"=") {
			break
		}
		fields := culprit.ReadStat(fmt.Sprintf("/proc/%d", pid))
		if len(fields) < 2 {
			break
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			break
		}
	}
	return pid
}

// Began returns when the launcher of the job was started on this host.
func Began(job *jobenv.Job) (time.Time, error) {
	fields := culprit.ReadStat(fmt.Sprintf("/proc/%d", launcherPID(job.RankVar)))
	const started, ticksPerSecond = 19, 100 // index in the fields; the kernel's unit for user space
	if len(fields) <= started {
		return time.Time{}, errors.New("the launcher of this rank has ended")
	}
	ticks, err := strconv.ParseFloat(fields[started], 64)
	if err != nil {
		return time.Time{}, err
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	uptime, err := strconv.ParseFloat(first, 64)
	age := uptime - ticks/ticksPerSecond
	return time.Now().Add(-time.Duration(age * float64(time.Second))), err
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
