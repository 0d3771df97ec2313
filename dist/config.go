package dist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// Config identifies the group to join and this rank in it. All fields except Rank, Host, Interface and Exchange must be
// equal on all ranks.
type Config struct {
	Backend string
	Rank    int
	Size    int
	ID      string        // identifies the group among all that exist
	Secret  string        // keeps out other processes that use the ID
	Timeout time.Duration // how long to wait for another rank; 0: one minute
	Tuning  *Tuning       // nil: the built-in table
	// Knobs are choices that only some backends have, such as the protocol of a kernel; results do not depend on them.
	// Knobs that are not named have their defaults.
	Knobs map[string]string

	// StreamFrom is a size in bytes. If the outputs of all ranks together are at least as large, a backend may bypass
	// the CPU caches. 0: the backend decides. Tests set it, to run that code with short calls. Results do not depend on
	// it, and backends without such code ignore it.
	StreamFrom int

	// SharedBytes is the address space, in bytes, that a rank reserves for memory that it shares with the ranks of its
	// host. All ranks must give the same number. 0: the size of the host's memory. Reserving costs only addresses, so
	// set it only where address space is limited. Backends without shared memory ignore it.
	SharedBytes int

	// Exchange lets ranks on several hosts find each other. It sends this rank's data over an authenticated channel and
	// returns the data of all ranks, by rank. It is used only while joining. nil: all ranks are on one host.
	Exchange func(ctx context.Context, mine []byte) ([][]byte, error)
	// Host is the host that this rank counts as being on. Ranks of one host share memory. "": $KERNBENCH_HOST, or else
	// the machine and its network namespace.
	Host string
	// Machine is the file that describes the machine of a simulated backend. "": the backend's default. Other backends
	// ignore it.
	Machine string
	// Arrangement is how the devices of that machine are connected, such as 4x4:torus, or its faults, such as
	// slow-rank=3:2x. It overrides the file.
	Arrangement string
	// Interface is the network interface to other hosts. "": $GLOO_SOCKET_IFNAME, which launchers set, or else any
	// interface that reaches them.
	Interface string
}

// Init joins a group and returns once all its ranks have joined. ctx limits only the joining. If this machine lacks
// what the backend needs, such as GPUs or a library, the error is an [UnavailableError].
func Init(ctx context.Context, c Config) (*Group, error) {
	r, err := backends.Lookup(c.Backend)
	if err := cmp.Or(c.check(), err); err != nil {
		return nil, fmt.Errorf("joining group %q: %w", c.ID, err)
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Host = cmp.Or(c.Host, os.Getenv(hostVar))
	c.Interface = cmp.Or(c.Interface, os.Getenv(jobenv.InterfaceVar))
	c.Tuning, err = c.tableOfHost(ctx)
	if err == nil {
		err = c.checkHosts(os.Environ())
	}
	var e Engine
	if err == nil {
		e, err = r.backend.Join(ctx, c)
	}
	var unavailable *UnavailableError
	var library *dynlib.OpenError
	if !errors.As(err, &unavailable) && errors.As(err, &library) {
		err = &UnavailableError{library}
	}
	if err != nil {
		return nil, fmt.Errorf("joining the group as rank %d of %d: %w", c.Rank, c.Size, err)
	}
	return newGroup(e, c.Backend, c.Tuning), nil
}

// tableOfHost returns the tuning table for this group. If it has entries for certain hosts, the ranks exchange the
// names of their hosts. These entries apply only if all ranks are on the same host, because all ranks must choose the
// same algorithm.
func (c Config) tableOfHost(ctx context.Context) (*Tuning, error) {
	t := c.Tuning
	if t == nil {
		t = tuning.Default()
	}
	group := tuning.Group{Knobs: Describe(c.Backend).KnobValues(c.Knobs)}
	if !t.NamesHosts() {
		return t.For(group), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding this host's entries in the tuning table: %w", err)
	}
	group.Host = cmp.Or(c.Host, name)
	if c.Exchange == nil {
		return t.For(group), nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	all, err := c.Exchange(ctx, []byte(group.Host))
	if err != nil {
		return nil, fmt.Errorf("finding this host's entries in the tuning table: %w", err)
	}
	if slices.ContainsFunc(all, func(other []byte) bool { return string(other) != group.Host }) {
		group.Host = ""
	}
	return t.For(group), nil
}

// checkHosts returns an error if this rank would wait in vain for ranks on other hosts: a launcher has started it, the
// group has more ranks than the launcher has started on this host, and there is no Exchange. Ranks that are goroutines,
// or that the launcher's own library connects, need no Exchange.
func (c Config) checkHosts(environ []string) error {
	d := Describe(c.Backend)
	if c.Exchange != nil || c.Size == 1 || d.InProcess || d.Launcher != nil {
		return nil
	}
	job, err := jobenv.Detect(environ)
	if err != nil || job == nil || job.LocalSize == job.Size || c.Size <= job.LocalSize || c.Rank != job.Rank {
		return nil
	}
	return fmt.Errorf("the ranks are on several hosts (%s started %d of %d here) and cannot find each other: "+
		"set Config.Exchange (programs: dist.FromEnv does; benches: use State.Exchange)", job.Launcher,
		job.LocalSize, job.Size)
}

// check validates the fields. Its error lists all faults.
func (c Config) check() error {
	var faults []error
	if c.Size < 1 {
		faults = append(faults, fmt.Errorf("size is %d, want at least 1", c.Size))
	} else if c.Rank < 0 || c.Rank >= c.Size {
		faults = append(faults, fmt.Errorf("rank is %d, want 0 to %d", c.Rank, c.Size-1))
	}
	if c.ID == "" {
		faults = append(faults, errors.New("no ID: ranks need it to find each other"))
	}
	if c.Timeout < 0 {
		faults = append(faults, fmt.Errorf("timeout is %v, want 0 (the default) or more", c.Timeout))
	}
	return errors.Join(append(faults, Describe(c.Backend).CheckKnobs(c.Backend, c.Knobs))...)
}

// FromEnv reads these environment variables in addition to torchrun's.
const (
	hostVar   = "KERNBENCH_HOST"
	secretVar = "KERNBENCH_DIST_SECRET"
	// portOffset is added to MASTER_PORT, because the store of torchrun or of the program may listen there.
	portOffset = 1
	// minSecret is the minimum length of a secret that is used over a network.
	minSecret = 16
)

// FromEnv returns the Config of a process that kernbench launch, torchrun, mpirun, mpiexec or srun has
// started as one of several ranks, without Backend, Timeout and Tuning. Without a launcher it is the
// Config of a single rank.
//
// Ranks on several hosts meet at MASTER_ADDR, one port above MASTER_PORT. All must have the same secret in
// KERNBENCH_DIST_SECRET. kernbench launch sets all three. With other launchers the user sets the secret; with Open MPI
// and MPICH also MASTER_ADDR and MASTER_PORT, with Slurm MASTER_PORT.
func FromEnv() (Config, error) { return fromEnviron(os.Environ(), os.Getenv) }

func fromEnviron(environ []string, get func(string) string) (Config, error) {
	job, err := jobenv.Detect(environ)
	if err != nil {
		return Config{}, err
	}
	if job == nil || job.Size == 1 {
		return Config{Size: 1, ID: fmt.Sprintf("alone-%d", os.Getpid())}, nil
	}
	addr := cmp.Or(job.MasterAddr, get("MASTER_ADDR"), job.RootHost)
	port := job.MasterPort
	if port == 0 {
		port, _ = strconv.Atoi(get("MASTER_PORT")) // not a number: treated as unset
	}
	c := Config{Rank: job.Rank, Size: job.Size, Secret: get(secretVar),
		ID: fmt.Sprintf("%s %s, %s:%d, attempt %s", job.Launcher, job.ID, addr, port,
			cmp.Or(get("TORCHELASTIC_RESTART_COUNT"), "0"))}
	if job.LocalSize == job.Size {
		return c, nil
	}
	var faults []error
	if addr == "" || port < 1 || port+portOffset > 65535 {
		faults = append(faults, fmt.Errorf("%s's ranks are on several hosts and need an address to meet at: "+
			"set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a port below 65535, for all ranks", job.Launcher))
	}
	if len(c.Secret) < minSecret {
		faults = append(faults, fmt.Errorf("ranks on several hosts need a common secret: "+
			"set %s to at least %d characters, for all ranks", secretVar, minSecret))
	}
	if len(faults) > 0 {
		return Config{}, errors.Join(faults...)
	}
	bootstrap := &tcp.Bootstrap{Endpoint: net.JoinHostPort(addr, strconv.Itoa(port+portOffset)),
		Rank: c.Rank, Size: c.Size, Secret: []byte(c.Secret)}
	c.Exchange = bootstrap.Exchange
	return c, nil
}
