package cli

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
)

// verify recomputes the stored times of a run from their samples, and counts the damaged lines of the
// journal, which load has already listed. It returns an error if anything is wrong.
func (a *app) verify(j *journal.Journal, r *journal.Run) error {
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
