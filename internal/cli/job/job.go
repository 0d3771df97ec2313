// Package job finds and joins the job that this process is a rank of, and resolves the launcher
// that starts ranks if there is no such job. It reads the environment and the flags; package
// rankhost does the communication.
package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/node"
)

// EndpointVar holds the HOST:PORT where the ranks of a job on several hosts meet. It is needed if
// the launcher does not provide an address.
const EndpointVar = "KERNBENCH_RDZV"

// SecretVar holds the secret of the rendezvous, as an alternative to a file. Variables with SECRET
// in their name are never recorded, and ranks do not inherit it.
const SecretVar = "KERNBENCH_RDZV_SECRET"

// RankSecretVar holds the secret that ranks of a job on several hosts get instead: it is derived
// from the rendezvous secret and valid for one job only. Ranks authenticate each other with it.
const RankSecretVar = "KERNBENCH_DIST_SECRET"

// Process describes this process: its command line and its flags about the job.
type Process struct {
	Name       string
	Args       []string
	Environ    []string
	Endpoint   string // --rdzv-endpoint
	SecretFile string // --rdzv-secret-file
	// AllowOtherBuild is --allow-other-build.
	AllowOtherBuild bool
	JoinTimeout     time.Duration // --join-timeout; 0 for the default
}

// Find returns the job that this process is a rank of, if --launcher means to join it. It returns nil if
// the process starts its own ranks.
func (p Process) Find(launcher string) (*jobenv.Job, error) {
	if launcher != "auto" && launcher != "join" {
		return nil, nil
	}
	job, err := jobenv.Detect(p.Environ)
	if job != nil && job.Size == 1 && job.Launcher == jobenv.Srun && launcher != "join" {
		return nil, err // an interactive Slurm shell has the same variables as a job of one rank
	}
	if err == nil && job == nil && launcher == "join" {
		err = errors.New("--launcher join: this process is not a rank that torchrun, mpirun, mpiexec, srun or " + p.Name +
			" launch has started")
	}
	return job, err
}

// Follower reports whether this is a `run` as a rank other than 0 of a job. Rank 0 prints errors for
// all ranks.
func Follower(args, environ []string) bool {
	if len(args) == 0 || args[0] != "run" {
		return false
	}
	job, err := jobenv.Detect(environ)
	return err == nil && job != nil && job.Rank > 0
}

// Secret reads the secret of the rendezvous from a file or variable. There is no flag for it,
// because all users of a host can read command lines.
func (p Process) Secret() ([]byte, error) {
	where := SecretVar
	secret := []byte(jobenv.Variable(p.Environ, SecretVar))
	switch {
	case p.SecretFile != "":
		where = p.SecretFile
		info, err := os.Stat(p.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("reading the secret: %w", err)
		}
		if info.Mode()&0o077 != 0 {
			return nil, fmt.Errorf("reading the secret: other users can read or change %s: chmod 600 it, and make a new one",
				p.SecretFile)
		}
		if secret, err = infile.Read(p.SecretFile, infile.Config); err != nil {
			return nil, fmt.Errorf("reading the secret: %w", err)
		}
	case len(secret) == 0:
		return nil, fmt.Errorf("several nodes need a shared secret: --rdzv-secret-file FILE, or the variable %s", SecretVar)
	}
	if secret = bytes.TrimSpace(secret); len(secret) < node.MinSecret {
		return nil, fmt.Errorf("the secret in %s has %d characters: it needs at least %d", where, len(secret),
			node.MinSecret)
	}
	return secret, nil
}

// Launcher resolves --launcher and --interface of a `run` that joins no job. It returns nil if this
// program starts the ranks itself.
func Launcher(ctx context.Context, command, iface, backend string) (*run.Launcher, error) {
	needs := dist.Describe(backend).Launcher
	switch {
	case command == "auto" && needs != nil:
		command = needs.Command
		if _, err := exec.LookPath(command); err != nil {
			return nil, fmt.Errorf("backend %s: %w: its ranks need %s's own launcher (%s); name one with --launcher", backend,
				err, needs.Kind, needs.Install)
		}
	case command == "local" && needs != nil:
		return nil, fmt.Errorf("backend %s: its ranks cannot be started by this program: leave --launcher local out", backend)
	case command == "auto", command == "local":
		return nil, nil
	}
	addr := "127.0.0.1"
	if iface != "" {
		var err error
		if addr, err = node.InterfaceAddr(iface, ""); err != nil {
			return nil, err
		}
	}
	via, err := run.NewLauncher(ctx, command, addr)
	if err == nil {
		via.Interface = iface
	}
	return via, err
}

// IsMPI reports whether a launcher starts MPI jobs.
func IsMPI(l jobenv.Launcher) bool { return l == jobenv.OpenMPI || l == jobenv.Hydra }

// CanJoin returns an error if a bench cannot run on the ranks of a job.
func CanJoin(b *bench.Bench, backend string, job *jobenv.Job) error {
	if needs := dist.Describe(backend).Launcher; needs != nil && job.Launcher == jobenv.Torchrun {
		return fmt.Errorf("bench %s: the ranks of backend %s are started by an %s launcher, not by %s: use %s in its place",
			b.Name, backend, needs.Kind, job.Launcher, needs.Command)
	}
	for _, p := range b.Parts {
		// The program would not find the launcher's job, and would run as n jobs of one rank each.
		if p.Command != nil && !p.Command.OwnRanks && IsMPI(job.Launcher) && job.Size > 1 {
			return fmt.Errorf("bench %s: its program can join %[2]s's job only once, not at every point: start kernbench "+
				"outside the job, with --launcher %[2]s", b.Name, job.Launcher)
		}
	}
	return nil
}

// FromPET sets flags that are missing from the command line from torchrun's variables: PET_NNODES
// for --nnodes, and so on.
func FromPET(fl *pflag.FlagSet, environ []string) (err error) {
	values := jobenv.Variables(environ)
	fl.VisitAll(func(f *pflag.Flag) {
		name := "PET_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := values[name]
		if value == "" || f.Changed || err != nil {
			return
		}
		if e := fl.Set(f.Name, value); e != nil {
			err = fmt.Errorf("the variable %s: %w", name, e)
		}
	})
	return err
}

// Nodes parses --nnodes: a number, or torchrun's range N:N. A range of different numbers is refused: the number of
// ranks is part of a row, so a job does not change its size.
func Nodes(text string) (int, error) {
	low, high, ranged := strings.Cut(text, ":")
	least, err := strconv.Atoi(low)
	most := least
	if ranged && err == nil {
		most, err = strconv.Atoi(high)
	}
	switch {
	case err != nil || least < 1 || most < least:
		return 0, fmt.Errorf("--nnodes %s: want a whole number of at least 1, such as 4", text)
	case least < most:
		return 0, fmt.Errorf("--nnodes %s: a job has a fixed number of nodes here, because every row records its number of "+
			"ranks: give %d or %d; if a node is lost, the job ends, names it, and `run --resume` continues in the next job",
			text, least, most)
	}
	return least, nil
}

// ProcsPerNode parses --nproc-per-node: a number, cpu, gpu or auto.
func ProcsPerNode(text string, cores int, gpus func() int) (int, error) {
	switch text {
	case "cpu":
		return cores, nil
	case "gpu":
		if n := gpus(); n > 0 {
			return n, nil
		}
		return 0, fmt.Errorf("--nproc-per-node gpu: no GPU was found (kernbench doctor says why)")
	case "auto":
		if n := gpus(); n > 0 {
			return n, nil
		}
		return cores, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("--nproc-per-node %s: want a whole number of at least 1, auto, gpu or cpu", text)
	}
	return n, nil
}

// Program returns the command of a rank by torchrun's rules: a module (-m) or a Python file runs
// under python3, anything else runs directly.
func Program(args []string, module, noPython bool) ([]string, error) {
	python := []string{"python3", "-u"}
	switch {
	case module && noPython:
		return nil, fmt.Errorf("-m names a Python module: leave out one of -m and --no-python")
	case module:
		return append(append(python, "-m"), args...), nil
	case !noPython && strings.HasSuffix(args[0], ".py"):
		return append(python, args...), nil
	}
	return args, nil
}

// JoinTimeout returns the join timeout of torchrun's --rdzv-conf, or 0 if there is none.
func JoinTimeout(conf string) (join time.Duration, err error) {
	for part := range strings.SplitSeq(conf, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case part == "":
		case !ok:
			return 0, fmt.Errorf("--rdzv-conf %q: want KEY=VALUE,KEY=VALUE", conf)
		case name == "join_timeout", name == "timeout":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || !(seconds > 0) || seconds > 1e9 {
				return 0, fmt.Errorf("--rdzv-conf %s=%s: want a number of seconds", name, value)
			}
			join = time.Duration(seconds * float64(time.Second))
		}
	}
	return join, nil
}
