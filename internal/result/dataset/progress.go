package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
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
		if lost := d.Lost(); lost > 0 {
			rows := len(d.latest)
			return fmt.Sprintf("%d of %d rows: the other lines of the journal are damaged or missing", rows, rows+lost)
		}
		return ""
	}
	done, planned := d.Progress()
	if done >= planned {
		return ""
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

// Lost returns the number of rows of a complete run that were recorded and cannot be read, because their lines are
// damaged or missing.
func (d *Dataset) Lost() int {
	run := d.Run()
	if run == nil || run.End == nil || run.End.Outcome != "complete" {
		return 0
	}
	return max(0, lists.Sum(slices.Collect(maps.Values(run.End.Counts)))-len(d.latest))
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
