package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// match pairs the rows of two runs by point: OLD's points in their order, then
// those that are only in NEW.
func match(old, new Run, opts Options) ([]rowset.Matched, error) {
	var known []string
	if len(opts.Ignore) > 0 {
		known = rowset.CoordNames(slices.Concat(old.Rows, new.Rows))
	}
	for _, name := range opts.Ignore {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("nothing to ignore: %w", suggest.Unknown("coordinate of these runs", name, known))
		}
	}
	points := rowset.Match(func(r *journal.Row) string { return rowset.Key(r, opts.Ignore...) }, rowset.All(old.Rows),
		rowset.All(new.Rows))
	if len(opts.Ignore) == 0 {
		return points, nil
	}
	// Two points that only an ignored coordinate tells apart would pass for
	// trials of one.
	for _, m := range points {
		for i, run := range []Run{old, new} {
			if whole := rowset.GroupBy(m[i], func(r *journal.Row) string { return rowset.Key(r) }); len(whole) > 1 {
				return nil, fmt.Errorf("ignoring %s makes several points of run %s alike, among them %s; ignore only what has "+
					"one value in each run",
					strings.Join(opts.Ignore, ", "), run.ID(), rowset.Label(whole[1].Rows[0]))
			}
		}
	}
	return points, nil
}

// side condenses the rows of one run; nil when there are none.
func side(rows []*journal.Row, metric string) *Side {
	if len(rows) == 0 {
		return nil
	}
	s := &Side{}
	for _, r := range rows {
		if r.Status != journal.OK {
			s.NotOK++
			s.Status, s.Reason = r.Status, r.Reason
		}
	}
	good := withMetric(rows, metric)
	for _, r := range good {
		s.Samples += r.Samples
	}
	values := lists.Map(journal.Counting(good), func(r *journal.Row) float64 { return r.Metrics[metric] })
	s.Trials = len(good)
	if s.NotOK < len(rows) {
		s.Status = journal.OK
	}
	if len(values) > 0 {
		s.Value = stats.Median(values)
	}
	return s
}

// withMetric are the rows that are ok and have the metric.
func withMetric(rows []*journal.Row, metric string) []*journal.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r *journal.Row) bool {
		_, ok := r.Metrics[metric]
		return r.Status != journal.OK || !ok
	})
}
