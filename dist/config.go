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
	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// Config says which group to join and as whom. All but Rank, Host, Interface and
// Exchange must be equal on all ranks.
type Config struct {
	Backend string
	Rank    int
	Size    int
	ID      string        // names the group among those alive
	Secret  string        // keeps out other processes that use the ID
	Timeout time.Duration // how long to wait for another rank; 0: DefaultTimeout
	Tuning  *Tuning       // nil: the built-in table
	// Knobs are choices of the backend's own: see [Description]. Those that are not named
	// have their defaults.
	Knobs map[string]string

	// StreamFrom is the size in bytes, of all ranks' outputs together, from which a
	// backend takes the ways of calls that are far larger than the caches; 0: its own
	// choice. It is for those who check these ways with short calls; results do not
	// depend on it, and a backend that has no such ways ignores it.
	StreamFrom int

	// Exchange is how ranks on several hosts find each other: it gives every rank
	// what all ranks gave, by rank, over an authenticated channel. It
	// is used while joining only. nil: all ranks are on one host.
	Exchange func(ctx context.Context, mine []byte) ([][]byte, error)
	// Host is the host this rank counts as being on. Ranks of one host share
	// memory. "": $KERNBENCH_HOST, or else the machine and its network namespace.
	Host string
	// Machine is the file that describes the machine of a simulated backend. "": the
	// backend's own choice; backends that have no such file ignore it.
	Machine string
	// Arrangement is how the devices of such a machine are connected, such as 4x4:torus,
	// whatever its file says. "": as the file says.
	Arrangement string
	// Interface is the network interface to other hosts. "": $GLOO_SOCKET_IFNAME,
	// which launchers set, or else whichever reaches them.
	Interface string
}

// Init joins a group and returns once all its ranks have. Ending ctx ends the
// waiting, not the group.
func Init(ctx context.Context, c Config) (*Group, error) {
	b, err := backendNamed(c.Backend)
	if err := cmp.Or(c.check(), err); err != nil {
		return nil, fmt.Errorf("joining group %q: %w", c.ID, err)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	if c.Tuning == nil {
		c.Tuning = DefaultTuning()
	}
	c.Host = cmp.Or(c.Host, os.Getenv(hostVar))
	c.Interface = cmp.Or(c.Interface, os.Getenv(jobenv.InterfaceVar))
	c.Tuning, err = c.settleTuning(ctx)
	if err == nil {
		err = c.checkHosts(os.Environ())
	}
	var e Engine
	if err == nil {
		e, err = b.Join(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("joining group %q as rank %d of %d: %w", c.ID, c.Rank, c.Size, err)
	}
	g := newGroup(e, c.Backend, c.Tuning.OnDevice("", 0, KnobValues(c.Backend, c.Knobs)))
	g.machine, g.arrangement = c.Machine, c.Arrangement
	return g, nil
}

// settleTuning finds out which entries of the table are for this group's host. The
// ranks ask each other, because all must choose alike.
func (c Config) settleTuning(ctx context.Context) (*Tuning, error) {
	if !c.Tuning.namesHosts() {
		return c.Tuning, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding the host's entries in the tuning table: %w", err)
	}
	host := cmp.Or(c.Host, name)
	if c.Exchange == nil {
		return c.Tuning.On(host), nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	all, err := c.Exchange(ctx, []byte(host))
	if err != nil {
		return nil, fmt.Errorf("finding the host's entries in the tuning table: %w", err)
	}
	if slices.ContainsFunc(all, func(other []byte) bool { return string(other) != host }) {
		host = ""
	}
	return c.Tuning.On(host), nil
}

// checkHosts refuses ranks that would look in vain for those on other hosts: a rank of a
// launcher's job, under its number there, of a group that has more ranks than the job has
// on this host. Ranks that are goroutines, or that the launcher's own library brings
// together, need no exchange.
func (c Config) checkHosts(environ []string) error {
	d := Describe(c.Backend)
	if c.Exchange != nil || c.Size == 1 || d.InProcess || d.Launcher != nil {
		return nil
	}
	job, err := jobenv.Detect(environ)
	if err != nil || job == nil || job.LocalSize == job.Size || c.Size <= job.LocalSize || c.Rank != job.Rank {
		return nil
	}
	return fmt.Errorf("its ranks are on several hosts (%s has %d of %d here) and cannot find each other: "+
		"set Config.Exchange, which dist.FromEnv does in a program, and which is State.Exchange in a bench", job.Launcher,
		job.LocalSize, job.Size)
}

// check names all faults at once.
func (c Config) check() error {
	var faults []error
	if c.Size < 1 {
		faults = append(faults, fmt.Errorf("size is %d, want at least 1", c.Size))
	} else if c.Rank < 0 || c.Rank >= c.Size {
		faults = append(faults, fmt.Errorf("rank is %d, want 0 to %d", c.Rank, c.Size-1))
	}
	if c.ID == "" {
		faults = append(faults, errors.New("no ID: ranks find each other by it"))
	}
	if c.Timeout < 0 {
		faults = append(faults, fmt.Errorf("timeout is %v, want 0 (the default) or more", c.Timeout))
	}
	return errors.Join(append(faults, CheckKnobs(c.Backend, c.Knobs))...)
}

// The variables that a group's Config may come from besides torchrun's.
const (
	hostVar   = "KERNBENCH_HOST"
	secretVar = "KERNBENCH_DIST_SECRET"
	// portOffset keeps clear of MASTER_PORT itself, where torchrun's own store or
	// the program's may listen.
	portOffset = 1
	// minSecret is the least length of a secret that goes over a network.
	minSecret = 16
)

// FromEnv gives the Config of a process that kernbench launch, torchrun, mpirun,
// mpiexec or srun has started as one of several ranks. Backend, Timeout and
// Tuning are left to the caller; without a launcher it is that of a single rank.
//
// Ranks on several hosts meet at MASTER_ADDR, one port above MASTER_PORT, and
// must all have the same secret in KERNBENCH_DIST_SECRET, which kernbench launch
// sets and the users of other launchers do. Open MPI and MPICH also leave
// MASTER_ADDR, and Slurm MASTER_PORT, to them.
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
		port, _ = strconv.Atoi(get("MASTER_PORT")) // no number: as if unset
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
