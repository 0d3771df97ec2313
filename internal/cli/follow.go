package cli

import (
	"context"
	"errors"

	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/cli/terminal"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
)

// follow shows the rows of a run of another process until it ends, then its table.
func (a *app) follow(ctx context.Context, dir string, r *journal.Run, format string) error {
	progress := terminal.NewProgress(a.stderr.Writer(), a.streams[1], r.Header.Bench, r.Header.Backend, a.isTerm, false)
	res, err := run.Follow(ctx, dir, r.ID(), progress.Observe)
	progress.Close()
	switch {
	case errors.Is(err, context.Canceled): // the other process continues
		return &exitError{exitInterrupted, err}
	case err != nil:
		return err
	}
	j, last, err := a.load(dir + "@" + r.ID())
	if err != nil {
		return err
	}
	d := a.bench(last.Header.Bench).View(j, last)
	if err := a.printRows(d, d.Rows, format, export.Options{Width: a.width}); err != nil {
		return err
	}
	return exit(a.conclude(res, dir))
}
