package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/cli/selftest"
)

func (a *app) selftestCommand() *cobra.Command {
	var backend string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Check this installation: schedules, backends, kernels, files and processes",
		Long: `Proves the schedules of every collective algorithm, runs the conformance suite
of every backend that is here, with real processes where the backend has them,
compares the kernels with references on this processor, and tries what every run
relies on: journal, figures, shared memory, sockets, worker processes. It takes
less than a minute, measures nothing and leaves nothing behind.

What does not apply here, such as a library that is not installed, is skipped and
says why; with --backend that backend alone is checked, and must be here.

Exit status: 0 nothing failed, 1 a check failed, 2 wrong usage, 130 interrupted.`,
		Example: fmt.Sprintf("  %[1]s selftest\n  %[1]s selftest --backend cpu\n  %[1]s selftest --json > selftest.json", a.name),
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if backend != "" && !slices.Contains(dist.Backends(), backend) {
				return usage(suggest.Unknown("backend", backend, dist.Backends()))
			}
			results, counts := []selftest.Result{}, map[selftest.Status]int{}
			err := selftest.Run(cmd.Context(), selftest.Options{Backend: backend, Environ: a.environ, Report: func(r selftest.Result) {
				counts[r.Status]++
				results = append(results, r)
				if !asJSON {
					fmt.Fprintf(a.stdout, "%-7s  %-9s  %s: %s (%.1f s)\n", r.Status, r.Area, r.Name, strings.ReplaceAll(r.Detail, "\n", "; "), r.Seconds)
				}
			}})
			switch {
			case err != nil:
				return err
			case cmd.Context().Err() != nil:
				return &exitError{exitInterrupted, fmt.Errorf("interrupted after %d checks", len(results))}
			case asJSON:
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				err = enc.Encode(results)
			default:
				_, err = fmt.Fprintf(a.stdout, "%d passed, %d failed, %d skipped\n", counts[selftest.Passed], counts[selftest.Failed], counts[selftest.Skipped])
			}
			if err == nil && counts[selftest.Failed] > 0 {
				return &exitError{code: exitFailed}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&backend, "backend", "", "check only this backend: "+strings.Join(dist.Backends(), ", "))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of all results")
	return cmd
}
