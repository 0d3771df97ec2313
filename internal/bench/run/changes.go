package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// inputChanges describes why points that have stored rows are measured again: one line for each set of
// changed inputs, with the number of points. It is empty if no input has changed.
func (r *runner) inputChanges(last *journal.Run, e *resumeState) []string {
	stored := map[string]*journal.Row{}
	axes := map[string][]string{} // planned axes, by part; the output of a program may add others
	seen := map[string]bool{}     // keys, because a study may plan a point twice
	tasks := lists.Filter(everyTask(r.plan), func(t plan.Task) bool {
		first := t.Trial == 0 && !seen[t.Key]
		seen[t.Key] = true
		return first
	})
	for _, t := range tasks {
		if axes[t.Part] == nil {
			axes[t.Part] = axisNames(t.Point)
		}
	}
	for i := range last.Rows {
		row := last.Rows[i]
		if row.Task != "" {
			extra := lists.Filter(axisNames(row.Point), func(name string) bool { return !slices.Contains(axes[row.Part], name) })
			row.Point = row.Point.Without(extra...)
		}
		stored[dataset.Key(&row, dataset.Sharing)] = &last.Rows[i]
	}
	points := map[string]int{}
	for _, t := range tasks {
		row := r.row(t)
		old := stored[dataset.Key(&row, dataset.Sharing)]
		if old == nil || old.Inputs == t.Inputs || e.isDone(t) {
			continue
		}
		then := last.Header.InputsOf(old)
		if then == nil {
			points["the stored rows do not say what produced them"]++
			continue
		}
		points[describeChange(then.Changed(r.plan.Fingerprints[t.Inputs]))]++
	}
	var out []string
	for _, s := range slices.Sorted(maps.Keys(points)) {
		out = append(out, fmt.Sprintf("%s: %s measured again", s, unit.Plural(points[s], "point")+
			map[bool]string{true: " is", false: " are"}[points[s] == 1]))
	}
	return out
}

func axisNames(p point.Point) []string {
	return lists.Map(p, func(c point.Coord) string { return c.Name })
}

// describeChange says that the named inputs have changed.
func describeChange(names []string) string {
	const maxListed = 4
	shown := names[:min(maxListed, len(names))]
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(names) == 1 {
		return text + " has changed"
	}
	return text + " have changed"
}

// checkInputs returns an error that names the inputs that have changed since the run was planned. It
// checks nothing for programs with a setup, because a setup may rebuild the program for its point.
func (r *runner) checkInputs(g *plan.Group, t plan.Task) error {
	if c := g.Part.Command; c != nil && len(c.Setup) > 0 {
		return nil
	}
	names, err := r.plan.Bench.Tracked.Changed()
	if err != nil {
		return fmt.Errorf("an input of the run is gone: %w", err)
	}
	if t.Inputs != "" {
		names = append(names, r.plan.ChangedContents(t)...)
	}
	if len(names) > 0 {
		return fmt.Errorf("%s since the run was planned", describeChange(names))
	}
	return nil
}

// rejectRows marks rows as failed because their inputs have changed during the measurement.
func rejectRows(rows []journal.Row, changed error) {
	for i := range rows {
		if row := &rows[i]; row.Status == journal.OK {
			row.Status, row.Phase = journal.Failed, "check"
			row.Reason = journal.Text(changed.Error()) + ": it is not known which version was measured"
			row.Metrics, row.Units, row.Stats, row.Samples = map[string]float64{}, map[string]string{}, nil, 0
		}
	}
}
