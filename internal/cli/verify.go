package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify RUN",
		Short: "Check the journal of a run: every checksum, and every number against its stored samples",
		Long: "Checks the checksum of every line of the journal, and computes the times of the run again from\ntheir " +
			"stored samples.\n\n" + runHelp,
		Annotations: exitsWith(codes{exitGood: "no damage found", exitFailed: "something is wrong"}),
		Example:     fmt.Sprintf("  %[1]s verify out/memory", a.name),
		Args:        oneRun,
		RunE:        a.onRun(a.verify),
	}
}

func (a *app) samplesCommand() *cobra.Command {
	format := export.SampleFormats()[0]
	var only []string
	cmd := &cobra.Command{
		Use:   "samples RUN",
		Short: "Write every raw sample of a run",
		Long: "Writes every sample that is stored for the rows of a run. 'kernbench docs journal-schema' describes\nthe " +
			"formats.\n\n" + runHelp,
		Example: fmt.Sprintf("  %[1]s samples out/memory > samples.csv\n"+
			"  %[1]s samples out/memory --format npy > samples.npy", a.name),
		Args: oneRun,
		RunE: a.onRun(func(j *journal.Journal, r *journal.Run, args []string) error {
			rows, err := selected(a.viewOf(args[0], j, r).Rows, only)
			if err != nil {
				return usage(err)
			}
			return usage(export.WriteSamples(a.streams[0], format, j.Dir(), rows)) // a binary array must not be escaped
		}),
	}
	request.Choice(cmd.Flags(), &format, "format", "format", "what to write", export.SampleFormats())
	cmd.Flags().StringArrayVar(&only, "only", nil, onlyHelp)
	return cmd
}

// verify recomputes the stored times of a run from their samples, and counts the damaged lines of the
// journal, which load has already listed. It returns an error if anything is wrong.
func (a *app) verify(j *journal.Journal, r *journal.Run, _ []string) error {
	recomputed, wrong := 0, len(j.Problems)
	rows, verifier := dataset.Latest(r), export.NewVerifier(j.Dir())
	for _, row := range rows {
		done, err := verifier.Verify(row)
		if err != nil {
			wrong++
			text := fmt.Sprintf("run %s: %s, trial %d: %v", r.ID(), dataset.Label(row), row.Trial, err)
			a.stderr.Printf("%s: %s: %s\n", a.name, j.Path, text)
		} else if done {
			recomputed++
		}
	}
	a.stdout.Printf("%s: %s of run %s, %d recomputed from their samples", j.Path, unit.Plural(len(rows), "row"),
		r.ID(), recomputed)
	if wrong > 0 {
		a.stdout.Printf("; %s\n", unit.Plural(wrong, "problem"))
		return exit(exitFailed)
	}
	a.stdout.Printf("; no damage found\n")
	return nil
}
