package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Progress returns the numbers of finished and of planned points of the run, counting each trial. planned is 0 if it
// is unknown.
func (d *Dataset) Progress() (done, planned int) {
	begun := map[string]bool{}
	for _, b := range d.Run().Begun {
		begun[b.Key] = true
	}
	ended := map[pointTrial]bool{}
	for _, r := range d.current { // the plan is for the current build
		if r.Status != journal.Skipped || begun[r.TaskKey()] { // points dropped from the plan are not counted in planned
			ended[pointTrial{r.TaskKey(), r.Trial}] = true
		}
	}
	h := &d.Run().Header
	return len(ended), cmp.Or(h.Tasks, h.Points*max(h.Trials, 1))
}

// Incomplete describes which part of its run the journal has: "6 of 18 points: the run was interrupted" for an
// unfinished run, or how many rows are left of a finished run whose lines are damaged. It is "" if the run is
// complete or the plan is unknown.
func (d *Dataset) Incomplete() string {
	run := d.Run()
	if run == nil {
		return ""
	}
	h, end := &run.Header, run.End
	if end != nil && end.Outcome == "complete" {
		if rows, want := len(d.latest), counted(run); want > rows {
			return fmt.Sprintf("%d of %d rows: the other lines of the journal are damaged or missing", rows, want)
		}
		return broken(run)
	}
	done, planned := d.Progress()
	if done >= planned {
		return broken(run)
	}
	what, why := "points", "the run has not ended"
	if h.Trials > 1 {
		what = fmt.Sprintf("points in %d trials", h.Trials)
	}
	if h.Tasks > 0 {
		what = fmt.Sprintf("points in up to %d trials", h.Trials)
	}
	switch {
	case end != nil && end.Outcome == "interrupted":
		why = "the run was interrupted"
	case end != nil:
		why = "the run was aborted"
	}
	return fmt.Sprintf("%d of %d %s: %s", done, planned, what, why)
}

// broken describes the breaks of the chain of rows, or returns "".
func broken(run *journal.Run) string {
	if run.Breaks == 0 {
		return ""
	}
	return "rows of the journal are missing or were added: their chain is broken in " + unit.Plural(run.Breaks, "place")
}

// counted returns the number of rows that the end of a complete run counts.
func counted(run *journal.Run) int { return lists.Sum(slices.Collect(maps.Values(run.End.Counts))) }

// Lost returns the number of rows that were recorded and cannot be read, because their lines are damaged or missing.
// Where the chain of rows is broken, at least one row is missing or was added. How many are missing is known only
// for a complete run.
func (d *Dataset) Lost() int {
	run := d.Run()
	switch {
	case run == nil:
		return 0
	case run.End == nil || run.End.Outcome != "complete":
		return run.Breaks
	}
	return max(run.Breaks, counted(run)-len(d.latest))
}

// Counts returns the number of rows by status.
func (s Set) Counts() map[journal.Status]int {
	counts := map[journal.Status]int{}
	for _, r := range s {
		counts[r.Status]++
	}
	return counts
}

// Missing counts the required rows that were not executed.
func (s Set) Missing() int {
	return len(s.Where(func(r *journal.Row) bool { return r.Status == journal.NotExecuted && !r.Optional }))
}
