package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// results collects the ranks' answers to one task.
type results struct {
	byRank  []*worker.Event
	order   []worker.Event
	healthy bool
	raw     files
}

// files are what a row has beside the journal: its samples, those of other metrics, and what
// was seen inside its last call.
type files struct {
	samples []byte
	others  map[string][]byte
	inside  []byte
}

func (s *results) add(e worker.Event) {
	if e.Rank < 0 || e.Rank >= len(s.byRank) || s.byRank[e.Rank] != nil {
		return
	}
	s.byRank[e.Rank] = &e
	s.order = append(s.order, e)
	s.healthy = s.complete() && s.agreed()
}

func (s *results) complete() bool { return len(s.order) == len(s.byRank) }

// left is the first rank that has ended the task without a result, if any has.
func (s *results) left() (worker.Event, bool) {
	return lists.First(s.order, func(e worker.Event) bool { return e.Done.Status != journal.OK })
}

// bad reports whether a rank has failed.
func (s *results) bad() bool {
	return slices.ContainsFunc(s.order, func(e worker.Event) bool { return e.Done.Status.Bad() })
}

// agreed reports whether all ranks came to the same good end.
func (s *results) agreed() bool {
	return !s.bad() && !slices.ContainsFunc(s.order, func(e worker.Event) bool {
		return e.Done.Status != s.order[0].Done.Status
	})
}

func (s *results) firstReason() string {
	if e, left := s.left(); left {
		return fmt.Sprintf("rank %d left the task: %s", e.Rank, e.Done.Reason)
	}
	return "another rank left the task"
}

// files are those of the row, where the task was done.
func (s *results) files() files {
	if s == nil {
		return files{}
	}
	return s.raw
}

// fill makes the row from the answers.
func (s *results) fill(row *journal.Row) {
	if s.healthy {
		zero := s.byRank[0].Done
		fillOutcome(row, zero)
		s.raw = files{zero.Raw, zero.Raws, zero.Inside}
		for _, e := range s.byRank[1:] {
			for _, w := range e.Done.Warnings {
				if !slices.Contains(zero.Warnings, w) { // what all ranks say is said once
					row.Warnings = append(row.Warnings, fmt.Sprintf("rank %d: %s", e.Rank, w))
				}
			}
		}
		row.Warnings = lists.Distinct(row.Warnings)
		return
	}
	if culprit := s.primary(); culprit != nil {
		fillOutcome(row, culprit.Done)
		row.Rank, row.Phase = &culprit.Rank, culprit.Done.Phase
		if culprit.Secondary && culprit.Culprit != nil { // who was lost could not say so itself
			row.Rank = culprit.Culprit
		}
		return
	}
	row.Status = journal.Failed
	row.Reason = "the ranks disagree: " + s.firstReason() + ", others did not"
	if e, left := s.left(); left {
		row.Rank, row.Phase = &e.Rank, e.Done.Phase
	}
}

// primary is the failure that explains the others.
func (s *results) primary() *worker.Event {
	var follower *worker.Event
	for i := range s.order {
		e := &s.order[i]
		if !e.Done.Status.Bad() {
			continue
		}
		if !e.Secondary {
			return e
		}
		if follower == nil {
			follower = e
		}
	}
	if slices.ContainsFunc(s.order, func(e worker.Event) bool { return e.Done.Status == journal.Skipped }) {
		return nil // a skip on one rank made the others fail
	}
	return follower
}

func fillOutcome(row *journal.Row, o *bench.Outcome) {
	row.Status, row.Kind, row.Optional = o.Status, o.Kind, o.Optional
	row.Reason, row.Output, _ = strings.Cut(o.Reason, "\n") // a panic goes on with its stack
	row.Clock, row.Cadence, row.Cache = o.Clock, o.Cadence, o.Cache
	row.Samples, row.Batch = o.Samples, o.Batch
	row.Stats, row.Limits, row.Skew, row.Slowest = journal.NewObject(o.Stats), o.Limits, o.Skew, o.Slowest
	row.Details, row.Sampling = o.Details, o.Sampling
	row.Warnings = append(row.Warnings, o.Warnings...)
	maps.Copy(row.Metrics, o.Metrics)
	for _, m := range o.Infos {
		if m.Unit != "" {
			row.Units[m.Name] = m.Unit
		}
	}
}
