// Package jobenv detects from environment variables whether this process is a rank of a job that
// torchrun, mpirun, mpiexec or srun started, and which rank. It only interprets the given
// environment.
package jobenv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Launcher is the name of the command that started the job.
type Launcher string

const (
	Torchrun Launcher = "torchrun"
	OpenMPI  Launcher = "mpirun"  // Open MPI
	Hydra    Launcher = "mpiexec" // MPICH and its derivatives
	Srun     Launcher = "srun"    // Slurm
)

// Job is the information of a launcher about the job of this process.
type Job struct {
	Launcher             Launcher
	ID                   string // of the job, "" if the launcher sets none
	Rank, Size           int
	LocalRank, LocalSize int
	// MasterAddr and MasterPort are where the ranks rendezvous. Only torchrun sets them.
	MasterAddr string
	MasterPort int
	RootHost   string // host of rank 0; only torchrun and srun set it
	Restarts   int    // how often the ranks were started again; only torchrun sets it
	RankVar    string // name of the variable with the rank
}

// convention lists the variables of a launcher. All but id must be set, because some of them are
// also set for a shell that is not a rank.
type convention struct {
	launcher                         Launcher
	rank, size, localRank, localSize string
	id                               string // optional
	also                             []string
}

// conventions lists inner launchers first: torchrun is often started by srun or mpirun, and mpirun
// within an srun step. The ranks of the inner launcher count.
var conventions = []convention{
	{launcher: Torchrun, rank: "RANK", size: "WORLD_SIZE", localRank: "LOCAL_RANK", localSize: "LOCAL_WORLD_SIZE",
		id: "TORCHELASTIC_RUN_ID", also: []string{"MASTER_ADDR", "MASTER_PORT"}},
	{launcher: OpenMPI, rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE",
		localRank: "OMPI_COMM_WORLD_LOCAL_RANK",
		localSize: "OMPI_COMM_WORLD_LOCAL_SIZE", id: "PMIX_NAMESPACE"},
	{launcher: Hydra, rank: "PMI_RANK", size: "PMI_SIZE", localRank: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS"},
	// The STEP variables exist only within srun. SLURM_NTASKS is also set for a batch script,
	// which is not a rank.
	{launcher: Srun, rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS", localRank: "SLURM_LOCALID", id: "SLURM_JOB_ID",
		also: []string{"SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE"}},
}

// Detect returns the job of this process, or nil if no launcher's set of variables is complete.
// Jobs of several ranks take precedence over jobs of a single rank. A complete but
// inconsistent set is an error, because a wrong guess would run the whole benchmark once per
// rank.
func Detect(environ []string) (*Job, error) {
	env := Variables(environ)
	var single *Job
	for _, c := range conventions {
		if !c.complete(env) {
			continue
		}
		j, err := c.read(env)
		if err != nil {
			return nil, fmt.Errorf("reading the variables of %s: %w", c.launcher, err)
		}
		if j.Size > 1 {
			return j, nil
		}
		if single == nil {
			single = j
		}
	}
	return single, nil
}

func (c convention) complete(env map[string]string) bool {
	names := append([]string{c.rank, c.size, c.localRank}, c.also...)
	if c.localSize != "" {
		names = append(names, c.localSize)
	}
	return !slices.ContainsFunc(names, func(name string) bool { return env[name] == "" })
}

// read returns the job that the variables of one launcher describe, or nil if one of the required
// variables is missing.
func (c convention) read(env map[string]string) (*Job, error) {
	j := &Job{Launcher: c.launcher, ID: env[c.id], RankVar: c.rank}
	for _, v := range []struct {
		name string
		into *int
	}{{c.rank, &j.Rank}, {c.size, &j.Size}, {c.localRank, &j.LocalRank}, {c.localSize, &j.LocalSize}} {
		if v.name == "" {
			continue
		}
		n, err := strconv.Atoi(env[v.name])
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s=%q is not a count", v.name, env[v.name])
		}
		*v.into = n
	}
	switch c.launcher {
	case Torchrun:
		port, err := strconv.ParseUint(env["MASTER_PORT"], 10, 16)
		if err != nil {
			return nil, fmt.Errorf("MASTER_PORT=%q is not a port", env["MASTER_PORT"])
		}
		j.MasterAddr, j.MasterPort, j.RootHost = env["MASTER_ADDR"], int(port), env["MASTER_ADDR"]
		j.Restarts, _ = strconv.Atoi(env["TORCHELASTIC_RESTART_COUNT"]) // optional
	case Srun:
		n, err := slurmLocalSize(env["SLURM_STEP_TASKS_PER_NODE"], env["SLURM_NODEID"])
		if err != nil {
			return nil, err
		}
		j.LocalSize, j.RootHost = n, firstHost(env["SLURM_STEP_NODELIST"])
		if step := env["SLURM_STEP_ID"]; step != "" {
			j.ID += "." + step
		}
	}
	if j.Rank >= j.Size || j.LocalRank >= j.LocalSize || j.LocalSize > j.Size {
		return nil, fmt.Errorf("inconsistent: rank %d of %d, local rank %d of %d", j.Rank, j.Size, j.LocalRank, j.LocalSize)
	}
	return j, nil
}

// firstHost returns the first name in a list such as rack[02-05,9]n[1-3],other. That is the host
// of task 0, unless the user distributed tasks by a file.
func firstHost(list string) string {
	var name strings.Builder
	for {
		plain := strings.IndexAny(list, "[,")
		if plain < 0 {
			return name.String() + list
		}
		name.WriteString(list[:plain])
		if list[plain] == ',' {
			return name.String()
		}
		inside, rest, _ := strings.Cut(list[plain+1:], "]")
		name.WriteString(inside[:strings.IndexAny(inside+",", ",-[")])
		list = rest
	}
}

// slurmLocalSize returns the number of tasks on a node from a list such as 4(x2),3, which means
// four tasks on each of two nodes and three on the next.
func slurmLocalSize(list, node string) (int, error) {
	left, err := strconv.Atoi(node)
	if err != nil || left < 0 {
		return 0, fmt.Errorf("SLURM_NODEID=%q is not a count", node)
	}
	for part := range strings.SplitSeq(list, ",") {
		tasks, times, repeated := strings.Cut(part, "(x")
		nodes := 1
		if repeated {
			if nodes, err = strconv.Atoi(strings.TrimSuffix(times, ")")); err != nil || nodes < 1 ||
				!strings.HasSuffix(times, ")") {
				return 0, fmt.Errorf("SLURM_STEP_TASKS_PER_NODE=%q is not a list such as 4(x2),3", list)
			}
		}
		n, err := strconv.Atoi(tasks)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("SLURM_STEP_TASKS_PER_NODE=%q is not a list such as 4(x2),3", list)
		}
		if left < nodes {
			return n, nil
		}
		left -= nodes
	}
	return 0, fmt.Errorf("SLURM_STEP_TASKS_PER_NODE=%q has no node %s", list, node)
}

// InterfaceVar is the variable with the network interface for the connections between ranks. It
// is the one that gloo reads.
const InterfaceVar = "GLOO_SOCKET_IFNAME"

// PortsVar is the variable with the range of ports, A-B, that processes of a job may listen on
// for other hosts.
const PortsVar = "KERNBENCH_PORT_RANGE"

// SocketVars returns the variables that make the ranks of a job and their libraries use the
// given network interface and ports. "" leaves the choice to them.
func SocketVars(iface, ports string) map[string]string {
	set := map[string]string{}
	if iface != "" {
		set["NCCL_SOCKET_IFNAME"] = "=" + iface // without = NCCL would match the name as a prefix
		set[InterfaceVar] = iface
	}
	if ports != "" {
		set[PortsVar] = ports
	}
	return set
}

// Variable returns the value of a variable in an environment ("NAME=value" each), or "".
func Variable(environ []string, name string) string { return Variables(environ)[name] }

// Variables returns the values of an environment by name. If a name occurs twice, the last entry
// counts, as in os/exec.
func Variables(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}
