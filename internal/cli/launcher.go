package cli

import (
	"context"
	"fmt"

	"github.com/kernbench/kernbench/internal/jobenv"
	"github.com/kernbench/kernbench/internal/rendezvous"
	"github.com/kernbench/kernbench/internal/run"
)

// launcher resolves --launcher of `run`; nil starts the ranks from here.
//
// A process that is itself one rank of a job would only do the same work as its
// siblings, into the same folder, so that is refused unless it is asked for.
func (a *app) launcher(ctx context.Context, f runFlags) (*run.Launcher, error) {
	switch f.launcher {
	case "local":
		return nil, nil
	case "auto":
		job, err := jobenv.Detect(a.environ)
		if err == nil && job != nil {
			err = fmt.Errorf("this is rank %d of %d that %s has started: start %s once and let it start the ranks, with --launcher %s (--launcher local runs here, in every rank)",
				job.Rank, job.Size, job.Launcher, a.name, startWith(job.Launcher))
		}
		return nil, err
	}
	addr := "127.0.0.1"
	if f.iface != "" {
		var err error
		if addr, err = rendezvous.InterfaceAddr(f.iface, ""); err != nil {
			return nil, err
		}
	}
	return run.NewLauncher(ctx, f.launcher, addr)
}

// startWith is the launcher to name in place of one that cannot be used so.
func startWith(l jobenv.Launcher) jobenv.Launcher {
	if l == jobenv.Torchrun {
		return jobenv.OpenMPI
	}
	return l
}
