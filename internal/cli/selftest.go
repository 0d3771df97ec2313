package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/cli/selftest"
	"github.com/kernbench/kernbench/internal/host/doctor"
)

func (a *app) selftestCommand() *cobra.Command {
	var backend, launcher string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Check this installation: backends, kernels, files and processes",
		Long: `Runs the conformance suite of every available backend, with real processes if the
backend has them, compares the kernels with reference implementations on this
processor, and tests what a run relies on: shared memory, sockets, worker processes, and
a journal whose times are computed again. It takes less than a minute, measures nothing
and leaves nothing behind.

Checks that do not apply, for example because a library is not installed, are skipped
with a reason. With --backend only that backend is checked, with up to four ranks, and
it must be available. Libraries whose ranks spin while waiting get no more ranks than
cores. --launcher chooses what starts the ranks, and thereby which MPI is checked.`,
		Example: fmt.Sprintf("  %[1]s selftest\n  %[1]s selftest --backend cpu\n  %[1]s selftest --backend mpi --launcher "+
			"mpiexec.mpich\n  %[1]s selftest --json > selftest.json", a.name),
		Annotations: cleansUp(codes{exitGood: "nothing failed", exitFailed: "a check failed"}),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if launcher != "" && backend == "" {
				return usage(errors.New("--launcher needs --backend: it applies to one backend"))
			}
			return a.selftest(cmd.Context(), selftest.Options{Backend: backend, Launcher: launcher, Environ: a.environ}, asJSON)
		},
	}
	request.Choice(cmd.Flags(), &backend, "backend", "backend", "check only this backend", dist.Backends(nil))
	cmd.Flags().StringVar(&launcher, "launcher", "",
		"what starts the ranks of --backend: a `COMMAND` such as mpirun or mpiexec.mpich")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of all results")
	return cmd
}

// selftest runs a self-test and prints its results.
func (a *app) selftest(ctx context.Context, o selftest.Options, asJSON bool) error {
	results, counts := []selftest.Result{}, map[selftest.Status]int{}
	o.Report = func(r selftest.Result) {
		counts[r.Status]++
		results = append(results, r)
		if !asJSON {
			a.stdout.Printf("%-7s  %-9s  %s: %s (%.1f s)\n", r.Status, r.Area, r.Name,
				strings.ReplaceAll(r.Detail, "\n", "; "), r.Seconds)
		}
	}
	err := selftest.Run(ctx, o)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, fmt.Errorf("interrupted after %d checks", len(results))}
	case asJSON:
		err = printJSON(a.stdout.Writer(), results)
	default:
		err = a.stdout.Printf("%d passed, %d failed, %d skipped\n", counts[selftest.Passed],
			counts[selftest.Failed], counts[selftest.Skipped])
	}
	if err == nil && counts[selftest.Failed] > 0 {
		return exit(exitFailed)
	}
	return err
}

// findingsTable returns the findings as a table. Details that do not fit the width (0: no limit) continue on the next
// lines.
func findingsTable(findings []doctor.Finding, width int) *texttab.Table {
	t := &texttab.Table{Columns: []texttab.Column{{Title: "area"}, {Title: "what"}, {Title: "here"}, {Title: "details"}}}
	for _, f := range findings {
		t.Add(f.Area, f.Name, string(f.State), "")
	}
	const least, gaps = 24, 6
	if first := t.Widths()[:3]; width > 0 {
		width = max(least, width-first[0]-first[1]-first[2]-gaps)
	}
	t.Lines = nil
	for _, f := range findings {
		lines := strings.Split(texttab.Wrap(strings.Fields(f.Detail), width, ""), "\n")
		t.Add(f.Area, f.Name, string(f.State), lines[0])
		for _, more := range lines[1:] {
			t.Add("", "", "", more)
		}
	}
	return t
}

func (a *app) doctorCommand() *cobra.Command {
	format := machineFormats[0]
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show which libraries, launchers, instructions, limits and networks this machine has",
		Long: `Lists what backends and peers can use on this machine: C libraries that can be
opened, launchers of ranks, instruction sets of the processor, limits of this process
(cores, memory, shared memory, locked memory, open files), and network interfaces with
the default one.

The default configuration needs none of the optional ones.`,
		Example:     fmt.Sprintf("  %[1]s doctor\n  %[1]s doctor --format json", a.name),
		Annotations: cleansUp(nil),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := doctor.Examine(doctor.Local(cmd.Context()))
			if format == "json" {
				return printJSON(a.stdout.Writer(), findings)
			}
			return findingsTable(findings, a.width).Write(a.stdout.Writer(), 0)
		},
	}
	request.Choice(cmd.Flags(), &format, "format", "format", "what to print", machineFormats)
	return cmd
}
