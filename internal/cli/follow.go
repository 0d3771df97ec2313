package cli

import (
	"context"
	"errors"

	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/cli/terminal"
)

// follow shows the rows of a run of another process until it ends, then what the other flags ask for.
func (a *app) follow(ctx context.Context, name string, f showFlags) error {
	j, r, err := a.load(name)
	if err != nil {
		return err
	}
	progress := terminal.NewProgress(a.stderr.Writer(), a.streams[1], r.Header.Bench, r.Header.Backend, a.isTerm, false)
	res, err := run.Follow(ctx, j.Dir(), r.ID(), progress.Observe)
	progress.Close()
	switch {
	case errors.Is(err, context.Canceled): // the other process continues
		return &exitError{exitInterrupted, err}
	case err != nil:
		return err
	}
	if err := a.showRun(name, f); err != nil {
		return err
	}
	return exit(a.conclude(res, j.Dir()))
}
