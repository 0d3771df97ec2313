package cli

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/rendezvous"
)

// mpiBackend is the backend whose ranks an MPI launcher must have started.
const mpiBackend = "mpi"

// launcher resolves --launcher of a `run` that joins no job; nil starts the
// ranks from here.
func (a *app) launcher(ctx context.Context, f runFlags, backend string) (*run.Launcher, error) {
	command := f.launcher
	switch {
	case command == "auto" && backend == mpiBackend:
		command = "mpirun"
		if _, err := exec.LookPath(command); err != nil {
			return nil, fmt.Errorf("backend %s: %w: its ranks are started by MPI's own launcher (Debian: openmpi-bin, or mpich), or name one with --launcher", backend, err)
		}
	case command == "local" && backend == mpiBackend:
		return nil, fmt.Errorf("backend %s: its ranks cannot be started by this program: leave --launcher local out", backend)
	case command == "auto", command == "local":
		return nil, nil
	}
	if err := program(command); err != nil {
		return nil, err
	}
	addr := "127.0.0.1"
	if f.iface != "" {
		var err error
		if addr, err = rendezvous.InterfaceAddr(f.iface, ""); err != nil {
			return nil, err
		}
	}
	return run.NewLauncher(ctx, command, addr)
}

func isMPI(l jobenv.Launcher) bool { return l == jobenv.OpenMPI || l == jobenv.Hydra }

// canJoin tells why a bench cannot run at the ranks of a job.
func canJoin(b *bench.Bench, backend string, place *jobenv.Job) error {
	if backend == mpiBackend && place.Launcher == jobenv.Torchrun {
		return fmt.Errorf("bench %s: the ranks of backend %s are started by an MPI launcher, not by %s: use mpirun in its place", b.Name, backend, place.Launcher)
	}
	for _, p := range b.Parts {
		// It would find no trace of the launcher's job, and run as n jobs of one rank.
		if p.Command != nil && !p.Command.OwnRanks && isMPI(place.Launcher) {
			return fmt.Errorf("bench %s: its program could be a rank of %[2]s's job only once, not at every point: start kernbench alone, with --launcher %[2]s", b.Name, place.Launcher)
		}
	}
	return nil
}

// follower tells whether this is a rank of a job whose rank 0 speaks for it.
func (a *app) follower() bool {
	if len(a.args) == 0 || a.args[0] != "run" {
		return false
	}
	job, err := jobenv.Detect(a.environ)
	return err == nil && job != nil && job.Rank > 0
}
