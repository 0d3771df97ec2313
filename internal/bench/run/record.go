package run

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// settled is an attempt's rows; if it is tried again, more of its turn follow.
type settled struct {
	rows []journal.Row
	last bool
}

// settle records a task's rows and returns the attempt to repeat, if a failure
// leaves a retry. Rows stand in the journal in the planned order, whichever run
// slot finishes first: what is early waits for its turn.
func (r *runner) settle(a attempt, rows ...journal.Row) (again []attempt, err error) {
	for i := range rows {
		refuseNegative(&rows[i])
	}
	bad := slices.ContainsFunc(rows, func(row journal.Row) bool { return row.Status.Bad() })
	retry := bad && a.budget < r.opts.Retries
	for i := range rows {
		rows[i].Attempt = a.number
		rows[i].Time = time.Now().UTC()
		if a.failed != "" && rows[i].Status == journal.OK {
			rows[i].Warnings = append(rows[i].Warnings, "needed a retry: "+a.failed)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[a.turn] = append(r.held[a.turn], settled{rows, !retry})
	for len(r.held[r.turn]) > 0 {
		if err := r.recordTurn(); err != nil {
			return nil, err
		}
	}
	if retry {
		a.budget++
		a.number++
		a.failed = failureOf(rows)
		return []attempt{a}, nil
	}
	if bad && r.opts.FailFast {
		return nil, errFailFast
	}
	return nil, nil
}

// refuseNegative fails a row whose time, or a sample of it, is below zero: its clock went back, or
// a program subtracted the wrong way round, so that its other times mean nothing either.
func refuseNegative(row *journal.Row) {
	us := min(row.Metrics["time_us"], row.Stats.Get("time_us").Min)
	if row.Status != journal.OK || us >= 0 {
		return
	}
	row.Status, row.Phase, row.Reason = journal.Failed, "check", fmt.Sprintf("time_us is %v: no time is below zero", us)
	row.Metrics, row.Units, row.Stats, row.Samples = map[string]float64{}, map[string]string{}, nil, 0
}

// failureOf words the first failure among the rows of an attempt.
func failureOf(rows []journal.Row) string {
	for _, row := range rows {
		if row.Status.Bad() {
			text := fmt.Sprintf("attempt %d %s", row.Attempt+1,
				map[bool]string{true: "timed out", false: "failed"}[row.Status == journal.Timeout])
			if row.Rank != nil {
				text += fmt.Sprintf(" at rank %d", *row.Rank)
			}
			return text + ": " + row.Reason
		}
	}
	return ""
}

// recordTurn records what is held of the attempt whose turn it is.
func (r *runner) recordTurn() error {
	for _, s := range r.held[r.turn] {
		for _, row := range s.rows {
			row, err := r.record(row)
			if err != nil {
				return err
			}
			if s.last { // what is tried again does not count
				r.counts[row.Status]++
				r.rows = append(r.rows, row)
			}
		}
		if s.last {
			delete(r.held, r.turn)
			r.turn++
			return nil
		}
	}
	delete(r.held, r.turn)
	return nil
}

// recordHeld records what is still held when a run ends early: rows whose
// predecessors will not come.
func (r *runner) recordHeld() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, r.turn = range slices.Sorted(maps.Keys(r.held)) {
		if err := r.recordTurn(); err != nil {
			return err
		}
	}
	return nil
}

// record appends a row, completed, and tells the observer.
func (r *runner) record(row journal.Row) (journal.Row, error) {
	row = row.Clean()
	if err := r.journal.Append(row); err != nil {
		return row, err
	}
	r.opts.Observe(Event{Recorded: &row})
	return row, nil
}

// recordStart records that an attempt starts, and tells the observer.
func (r *runner) recordStart(a attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opts.Observe(Event{Task: &a.task})
	return r.journal.Append(journal.Begin{Run: r.id, Key: a.task.Key, Trial: a.task.Trial, Attempt: a.number,
		Point: a.task.Label(),
		Time:  time.Now().UTC()})
}

func (r *runner) note(text string) error {
	r.opts.Observe(Event{Note: text})
	return r.journal.Append(journal.Note{Run: r.id, Text: text, Time: time.Now().UTC()})
}
