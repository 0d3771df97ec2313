package dist

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// The variables that a group's Config may come from besides torchrun's.
const (
	hostVar      = "KERNBENCH_HOST"
	interfaceVar = "GLOO_SOCKET_IFNAME"
	secretVar    = "KERNBENCH_DIST_SECRET"
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
	if job == nil {
		return Config{Size: 1, ID: fmt.Sprintf("alone-%d", os.Getpid())}, nil
	}
	addr := cmp.Or(job.MasterAddr, get("MASTER_ADDR"), job.RootHost)
	port := job.MasterPort
	if port == 0 {
		port, _ = strconv.Atoi(get("MASTER_PORT")) // what is no number is as good as unset
	}
	c := Config{Rank: job.Rank, Size: job.Size, Secret: get(secretVar),
		ID: fmt.Sprintf("%s %s, %s:%d, attempt %s", job.Launcher, job.ID, addr, port, cmp.Or(get("TORCHELASTIC_RESTART_COUNT"), "0"))}
	if job.LocalSize == job.Size {
		return c, nil
	}
	var faults []error
	if addr == "" || port < 1 || port+portOffset > 65535 {
		faults = append(faults, fmt.Errorf("%s's ranks are on several hosts and need a place to meet: set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a port below 65535, for all ranks", job.Launcher))
	}
	if len(c.Secret) < minSecret {
		faults = append(faults, fmt.Errorf("ranks on several hosts need a common secret: set %s to at least %d characters, for all ranks", secretVar, minSecret))
	}
	if len(faults) > 0 {
		return Config{}, errors.Join(faults...)
	}
	bootstrap := &tcp.Bootstrap{Endpoint: net.JoinHostPort(addr, strconv.Itoa(port+portOffset)), Rank: c.Rank, Size: c.Size, Secret: []byte(c.Secret)}
	c.Exchange = bootstrap.Exchange
	return c, nil
}
