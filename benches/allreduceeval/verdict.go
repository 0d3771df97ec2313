package allreduceeval

import (
	"context"
	"fmt"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// verdict is what became of a row's cells, the same on every rank but for the
// fault, which is this rank's own.
type verdict struct {
	outcomes []matrix.Outcome
	fault    error // the first of this rank
	others   int   // a rank with a fault, -1 if there is none
	lacking  string
}

// within says where an error was found; no error stays none.
func within(where string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// note records what became of a cell.
func (v *verdict) note(cell string, status journal.Status) {
	v.outcomes = append(v.outcomes, matrix.Outcome{Cell: cell, Status: string(status)})
}

// collect learns what all ranks say of a cell. The fault is this rank's.
func (v *verdict) collect(ctx context.Context, s *bench.State, cell string, fault error) error {
	var wrong int64
	if fault != nil {
		wrong = 1
	}
	all, err := s.Group().Exchange(ctx, []int64{wrong})
	if err != nil {
		return err
	}
	status := journal.OK
	for rank, w := range all {
		if w[0] != 0 {
			status = journal.Failed
			if v.others < 0 {
				v.others = rank
			}
		}
	}
	if v.fault == nil {
		v.fault = fault
	}
	v.note(cell, status)
	return nil
}

// err is the row's end: broken is why the group could not go on.
func (v *verdict) err(broken error) error {
	switch {
	case broken != nil:
		return broken
	case v.fault != nil:
		return v.fault
	case v.others >= 0:
		return fmt.Errorf("rank %d: %w", v.others, decl.ErrElsewhere)
	case v.lacking != "":
		return bench.NotExecuted(true, "%s", v.lacking)
	}
	return nil
}

func (v *verdict) report(s *bench.State, t *trial, took time.Duration) {
	counts := map[string]int{}
	for _, o := range v.outcomes {
		counts[o.Status]++
	}
	s.Detail("cells", matrix.FormatOutcomes(v.outcomes))
	s.Record("cells_passed", float64(counts["ok"]))
	s.Record("cells_failed", float64(counts["failed"]))
	s.Report("cells_missing", float64(counts["not-executed"]), "", "lower")
	s.Report("elements", float64(t.checked), "", "")
	s.Report("wall_ms", float64(took.Microseconds())/1e3, "ms", "")
	s.Report("error_of_bound", 100*t.worst, "%", "lower")
	if t.plain > 0 {
		s.Report("bytes_saved", 100*(1-float64(t.moved)/float64(t.plain)), "%", "higher")
	}
}
