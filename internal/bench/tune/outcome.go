package tune

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// addRows assigns new rows to the launches that requested them.
func (s *Study) addRows(rows []journal.Row, starts []time.Time) {
	fresh := slices.Clone(rows[min(s.taken, len(rows)):])
	s.taken = len(rows)
	for _, row := range fresh {
		at := taskTrial{row.TaskKey(), row.Trial}
		s.rows[at] = append(s.rows[at], row)
		if row.Status == journal.OK {
			if _, has := row.Metrics[s.goal.Metric]; has {
				s.metricKnown = true
			} else {
				s.metricFault = s.missingMetric(&row)
			}
		}
	}
	times := secondsOf(rows, starts)
	for _, f := range s.parts {
		if f.pending {
			s.observeIfComplete(f, times)
		}
	}
}

// secondsOf returns the duration of each task: the time since the previous row, or since the run
// was started or resumed.
func secondsOf(rows []journal.Row, starts []time.Time) map[taskTrial]float64 {
	marks := slices.Concat(starts, lists.Map(rows, func(r journal.Row) time.Time { return r.Time }))
	slices.SortFunc(marks, time.Time.Compare)
	out := map[taskTrial]float64{}
	for _, r := range rows {
		if i, _ := slices.BinarySearchFunc(marks, r.Time, time.Time.Compare); i > 0 {
			out[taskTrial{r.TaskKey(), r.Trial}] += r.Time.Sub(marks[i-1]).Seconds()
		}
	}
	return out
}

// observeIfComplete gives the race the outcomes of its round, once all are there.
func (s *Study) observeIfComplete(f *subStudy, times map[taskTrial]float64) {
	for _, l := range f.asked {
		for _, t := range f.tasks[l.Setting] {
			if len(s.rows[taskTrial{t.task.Key, l.Round}]) == 0 {
				return
			}
		}
	}
	s.observe(f, times)
	f.pending = false
}

// observe passes the completed launches of the current round to the race.
func (s *Study) observe(f *subStudy, times map[taskTrial]float64) {
	// The default comes first, because it determines the cells that the other settings must have.
	for _, base := range []bool{true, false} {
		for _, l := range f.asked {
			if (l.Setting == f.space.Default) == base {
				if o, complete := s.outcome(f, l, times); complete {
					f.race.Observe(l, o)
				}
			}
		}
	}
}

// outcome combines the rows of a launch to one number. complete is false if a row is still missing.
func (s *Study) outcome(f *subStudy, l Launch, times map[taskTrial]float64) (o Outcome, complete bool) {
	cells := map[string]float64{}
	hasRow := func(t plannedTask) bool { return len(s.rows[taskTrial{t.task.Key, l.Round}]) > 0 }
	if s.metricFault != "" && !s.metricKnown { // ends the study, so one row is enough
		return Outcome{Failed: s.metricFault}, slices.ContainsFunc(f.tasks[l.Setting], hasRow)
	}
	for _, t := range f.tasks[l.Setting] {
		at := taskTrial{t.task.Key, l.Round}
		rows := s.rows[at]
		if len(rows) == 0 {
			return o, false
		}
		o.Seconds += times[at]
		for i := range rows {
			r := &rows[i]
			v, has := r.Metrics[s.goal.Metric]
			switch missing := s.missingOver(r); {
			case r.Status != journal.OK:
				o.Failed = cmp.Or(o.Failed, strings.TrimSpace(fmt.Sprintf("%s: %s", r.Status, firstLine(string(r.Reason)))))
			case missing != "":
				o.Failed = cmp.Or(o.Failed, fmt.Sprintf("the row has no %s to judge over", missing))
			case !has:
				o.Failed = cmp.Or(o.Failed, s.missingMetric(r))
			case !(v > 0) || math.IsInf(v, 0):
				o.Failed = cmp.Or(o.Failed, fmt.Sprintf("%s is %v: a ratio needs finite numbers above 0", s.goal.Metric, v))
			default:
				s.unit = cmp.Or(s.unit, r.Units[s.goal.Metric])
				cells[s.cell(r)] = math.Log(v)
			}
		}
	}
	if o.Failed == "" {
		o.Log, o.Failed = f.mean(cells)
	}
	if s.goal.Maximise {
		o.Log = -o.Log
	}
	return o, true
}

// missingMetric returns a message that the row lacks the metric, with similar names as suggestions.
func (s *Study) missingMetric(r *journal.Row) string {
	return fmt.Sprint("the row has no such metric: ",
		suggest.Unknown("metric", s.goal.Metric, slices.Collect(maps.Keys(r.Metrics))))
}

// missingOver returns a name of --over that the row lacks, or "". Such a name is not detected earlier,
// because the columns of a program's table are known only when a row has them.
func (s *Study) missingOver(r *journal.Row) string {
	name, _ := lists.First(s.goal.Over, func(n string) bool {
		_, has := r.Point.Get(n)
		return !has && (n != bench.RanksAxis || r.NumRanks == nil)
	})
	return name
}

// cell identifies a row within a launch: all coordinates that are not tuned.
func (s *Study) cell(r *journal.Row) string {
	tuned := func(name string) bool {
		return slices.ContainsFunc(s.variables, func(v Variable) bool { return slices.Contains(v.Names, name) })
	}
	var parts []string
	if r.NumRanks != nil && !tuned(bench.RanksAxis) {
		parts = append(parts, fmt.Sprintf("%s=%d", bench.RanksAxis, *r.NumRanks))
	}
	for _, c := range r.Point {
		if !tuned(c.Name) {
			parts = append(parts, c.Name+"="+c.Value.String())
		}
	}
	return strings.Join(parts, " ")
}

// mean returns the mean over the cells. A setting must have the same cells as the default, or as the
// first setting that worked.
func (f *subStudy) mean(cells map[string]float64) (log float64, fault string) {
	if f.cells == nil {
		f.cells = slices.Sorted(maps.Keys(cells))
	}
	for _, name := range f.cells {
		v, has := cells[name]
		if !has {
			return 0, fmt.Sprintf("no row for %s, which others have", name)
		}
		log += v / float64(len(f.cells))
	}
	if len(cells) > len(f.cells) {
		return 0, fmt.Sprintf("%d rows where others have %d", len(cells), len(f.cells))
	}
	return log, ""
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
