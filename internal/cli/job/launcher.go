package job

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/rendezvous"
)

// Launcher resolves --launcher and --interface of a `run` that joins no job; nil
// starts the ranks from here.
func Launcher(ctx context.Context, command, iface, backend string) (*run.Launcher, error) {
	needs := dist.Describe(backend).Launcher
	switch {
	case command == "auto" && needs != nil:
		command = needs.Command
		if _, err := exec.LookPath(command); err != nil {
			return nil, fmt.Errorf("backend %s: %w: its ranks are started by %s's own launcher (%s), or name one with --launcher",
				backend, err, needs.Kind, needs.Install)
		}
	case command == "local" && needs != nil:
		return nil, fmt.Errorf("backend %s: its ranks cannot be started by this program: leave --launcher local out", backend)
	case command == "auto", command == "local":
		return nil, nil
	}
	if err := program(command); err != nil {
		return nil, err
	}
	addr := "127.0.0.1"
	if iface != "" {
		var err error
		if addr, err = rendezvous.InterfaceAddr(iface, ""); err != nil {
			return nil, err
		}
	}
	via, err := run.NewLauncher(ctx, command, addr)
	if err == nil {
		via.Interface = iface
	}
	return via, err
}

// IsMPI tells whether a launcher starts the ranks of an MPI job.
func IsMPI(l jobenv.Launcher) bool { return l == jobenv.OpenMPI || l == jobenv.Hydra }

// CanJoin tells why a bench cannot run at the ranks of a job.
func CanJoin(b *bench.Bench, backend string, job *jobenv.Job) error {
	if needs := dist.Describe(backend).Launcher; needs != nil && job.Launcher == jobenv.Torchrun {
		return fmt.Errorf("bench %s: the ranks of backend %s are started by an %s launcher, not by %s: use %s in its place",
			b.Name, backend, needs.Kind, job.Launcher, needs.Command)
	}
	for _, p := range b.Parts {
		// It would find no trace of the launcher's job, and run as n jobs of one rank.
		if p.Command != nil && !p.Command.OwnRanks && IsMPI(job.Launcher) && job.Size > 1 {
			return fmt.Errorf("bench %s: its program could be a rank of %[2]s's job only once, not at every point: start "+
				"kernbench alone, with --launcher %[2]s", b.Name, job.Launcher)
		}
	}
	return nil
}

// program demands that a launcher's command line starts with a program that is
// here.
func program(command string) error {
	words := strings.Fields(command)
	if len(words) == 0 {
		return errors.New("--launcher is empty: leave it out, or give auto, local, join, mpirun, mpiexec or srun")
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return fmt.Errorf("--launcher %s: no such program here: want auto, local, join, or mpirun, mpiexec or srun with "+
			"flags of its own", words[0])
	}
	return nil
}
