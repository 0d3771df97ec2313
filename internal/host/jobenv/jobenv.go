// Package jobenv recognises, from environment variables alone, that a process
// is one rank of a job that another launcher has started, and which. It is pure:
// it is given the environment and starts, joins or changes nothing.
package jobenv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Launcher is the program that started the job, by the name of its command.
type Launcher string

const (
	Torchrun Launcher = "torchrun"
	OpenMPI  Launcher = "mpirun"  // Open MPI
	Hydra    Launcher = "mpiexec" // MPICH and its relatives
	Srun     Launcher = "srun"    // Slurm
)

// Job is what a launcher told this process about its job.
type Job struct {
	Launcher             Launcher
	ID                   string // the launcher's name for the job, "" if it has none
	Rank, Size           int
	LocalRank, LocalSize int
	// Master is host:port where ranks are told to meet, which only torchrun says.
	MasterAddr string
	MasterPort int
	RootHost   string // where rank 0 is, which only torchrun and srun say
	RankVar    string // the variable that holds the rank
}

// convention is how one launcher tells a process its rank. All the names must be
// set: some of them are also set for a shell that is not a rank.
type convention struct {
	launcher                         Launcher
	rank, size, localRank, localSize string
	id                               string // may be missing
	also                             []string
}

// conventions, the innermost first: torchrun is often started by srun or mpirun,
// and mpirun within an srun step, and then the inner one's ranks count.
var conventions = []convention{
	{launcher: Torchrun, rank: "RANK", size: "WORLD_SIZE", localRank: "LOCAL_RANK", localSize: "LOCAL_WORLD_SIZE",
		id: "TORCHELASTIC_RUN_ID", also: []string{"MASTER_ADDR", "MASTER_PORT"}},
	{launcher: OpenMPI, rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE",
		localRank: "OMPI_COMM_WORLD_LOCAL_RANK",
		localSize: "OMPI_COMM_WORLD_LOCAL_SIZE", id: "PMIX_NAMESPACE"},
	{launcher: Hydra, rank: "PMI_RANK", size: "PMI_SIZE", localRank: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS"},
	// The STEP variables exist only within srun; SLURM_NTASKS is set for a batch
	// script as well, which is not a rank.
	{launcher: Srun, rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS", localRank: "SLURM_LOCALID", id: "SLURM_JOB_ID",
		also: []string{"SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE"}},
}

// Detect finds the job this process belongs to, nil when there is none: no
// launcher's set of variables is complete. One of several ranks goes before one of a
// single rank, wherever that is. A complete set that
// contradicts itself is an error, because guessing would start the wrong program n times.
func Detect(environ []string) (*Job, error) {
	env := Variables(environ)
	var alone *Job
	for _, c := range conventions {
		if !c.complete(env) {
			continue
		}
		j, err := c.read(env)
		if err != nil {
			return nil, fmt.Errorf("the variables of %s: %w", c.launcher, err)
		}
		if j.Size > 1 {
			return j, nil
		}
		if alone == nil {
			alone = j
		}
	}
	return alone, nil
}

func (c convention) complete(env map[string]string) bool {
	names := append([]string{c.rank, c.size, c.localRank}, c.also...)
	if c.localSize != "" {
		names = append(names, c.localSize)
	}
	return !slices.ContainsFunc(names, func(name string) bool { return env[name] == "" })
}

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

// firstHost is the first name in a list such as rack[02-05,9]n[1-3],other: the
// host of task 0, unless tasks were distributed by a file.
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
		name.WriteString(inside[:max(strings.IndexAny(inside+",", ",-"), 0)])
		list = rest
	}
}

// slurmLocalSize reads how many tasks run on this node from a list such as
// 4(x2),3: four on each of two nodes, three on the next.
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
