package run

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// heldRows are the rows of an attempt that wait to be recorded.
type heldRows struct {
	rows []journal.Row
	last bool // the attempt is not retried
}

// finishAttempt records the rows of an attempt and returns the attempt to repeat, if it failed and
// a retry is left. The journal has the rows in planned order, whichever slot finishes first: rows that
// come early are held until it is their turn.
func (r *runner) finishAttempt(a attempt, rows ...journal.Row) (retries []attempt, err error) {
	for i := range rows {
		rejectNegativeTime(&rows[i])
	}
	bad := slices.ContainsFunc(rows, func(row journal.Row) bool { return row.Status.Bad() })
	retry := bad && a.budget < r.opts.Retries
	for i := range rows {
		rows[i].Attempt = a.number
		rows[i].Time = time.Now().UTC()
		if a.failed != "" && rows[i].Status == journal.OK {
			rows[i].Conditions.Add(journal.NewCondition(journal.CodeRetry, nil, a.failed))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heldByTurn[a.turn] = append(r.heldByTurn[a.turn], heldRows{rows, !retry})
	for len(r.heldByTurn[r.recordedTurn]) > 0 {
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

// rejectNegativeTime marks a row with a negative time or sample as failed. Its clock went backwards, or
// a program subtracted in the wrong order, so its other times are meaningless too.
func rejectNegativeTime(row *journal.Row) {
	us := min(row.Metrics["time_us"], row.Stats.Get("time_us").Min)
	if row.Status != journal.OK || us >= 0 {
		return
	}
	row.Status, row.Phase, row.Reason = journal.Failed, "check", journal.Textf("time_us is %v: no time is below zero", us)
	row.Metrics, row.Units, row.Stats, row.Samples = map[string]float64{}, map[string]string{}, nil, 0
}

// failureOf describes the first failure among the rows of an attempt.
func failureOf(rows []journal.Row) string {
	for _, row := range rows {
		if row.Status.Bad() {
			text := fmt.Sprintf("attempt %d %s", row.Attempt+1,
				map[bool]string{true: "timed out", false: "failed"}[row.Status == journal.Timeout])
			if row.Rank != nil {
				text += fmt.Sprintf(" at rank %d", *row.Rank)
			}
			return text + ": " + string(row.Reason)
		}
	}
	return ""
}

// recordTurn records the held rows of the attempt whose turn it is.
func (r *runner) recordTurn() error {
	for _, s := range r.heldByTurn[r.recordedTurn] {
		for _, row := range s.rows {
			row, err := r.record(row)
			if err != nil {
				return err
			}
			if s.last { // retried attempts do not count
				r.counts[row.Status]++
				r.rows = append(r.rows, row)
			}
		}
		if s.last {
			delete(r.heldByTurn, r.recordedTurn)
			r.recordedTurn++
			return nil
		}
	}
	delete(r.heldByTurn, r.recordedTurn)
	return nil
}

// recordHeld records the rows that are still held when a run ends early. The turns before them will not
// come any more.
func (r *runner) recordHeld() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, r.recordedTurn = range slices.Sorted(maps.Keys(r.heldByTurn)) {
		if err := r.recordTurn(); err != nil {
			return err
		}
	}
	return nil
}

// record completes a row, appends it to the journal, and tells the observer.
func (r *runner) record(row journal.Row) (journal.Row, error) {
	row = row.Clean()
	if err := r.journal.Append(row); err != nil {
		return row, err
	}
	r.opts.Observe(Event{Recorded: &row})
	return row, nil
}

// joinOnce joins two errors. It drops the second one if it has the same cause at the same file: on a full
// disk, for example, every later record fails as well.
func joinOnce(err, later error) error {
	if errors.Is(err, journal.ErrReplaced) && errors.Is(later, journal.ErrReplaced) {
		return err
	}
	var first, second *fs.PathError
	if errors.As(err, &first) && errors.As(later, &second) && first.Path == second.Path && first.Err == second.Err {
		return err
	}
	return errors.Join(err, later)
}

// recordStart records the start of an attempt and tells the observer.
func (r *runner) recordStart(a attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opts.Observe(Event{Task: &a.task})
	return r.journal.Append(journal.Begin{Run: r.id, Key: a.task.Key, Trial: a.task.Trial, Attempt: a.number,
		Point: a.task.Label(),
		Time:  time.Now().UTC()})
}

// note shows a note to the observer and records it.
func (r *runner) note(text string) error {
	r.opts.Observe(Event{Note: text})
	return r.journal.Append(journal.Note{Run: r.id, Text: journal.Text(text), Time: time.Now().UTC()})
}

// results collects the ranks' results of one task.
type results struct {
	byRank    []*worker.Event // nil for ranks that have not ended the task
	byArrival []worker.Event
	healthy   bool // all ranks ended the task with the same status, which is no failure
	rowFiles  rowFiles
}

// rowFiles are the parts of a row that are stored outside the journal.
type rowFiles struct {
	samples []byte            // of time_us
	others  map[string][]byte // samples of other metrics
	inside  []byte            // profile of the last call
}

func (s *results) add(e worker.Event) {
	if e.Rank < 0 || e.Rank >= len(s.byRank) || s.byRank[e.Rank] != nil {
		return
	}
	s.byRank[e.Rank] = &e
	s.byArrival = append(s.byArrival, e)
	s.healthy = s.complete() && s.agreed()
}

func (s *results) complete() bool { return len(s.byArrival) == len(s.byRank) }

// firstIncomplete returns the event of the first rank that left the task without a result, and whether
// there is one.
func (s *results) firstIncomplete() (worker.Event, bool) {
	return lists.First(s.byArrival, func(e worker.Event) bool { return e.Done.Status != journal.OK })
}

// anyFailed reports whether a rank has failed.
func (s *results) anyFailed() bool {
	return slices.ContainsFunc(s.byArrival, func(e worker.Event) bool { return e.Done.Status.Bad() })
}

// agreed reports whether all results have the same status and none is a failure.
func (s *results) agreed() bool {
	return !s.anyFailed() && !slices.ContainsFunc(s.byArrival, func(e worker.Event) bool {
		return e.Done.Status != s.byArrival[0].Done.Status
	})
}

func (s *results) firstReason() string {
	if e, left := s.firstIncomplete(); left {
		return fmt.Sprintf("rank %d left the task: %s", e.Rank, e.Done.Reason)
	}
	return "another rank left the task"
}

// files returns the files of the row. It is empty if the task was not completed.
func (s *results) files() rowFiles {
	if s == nil {
		return rowFiles{}
	}
	return s.rowFiles
}

// fill fills in the row from the results: from rank 0 if all ranks agree, else from the rank whose
// failure explains the others.
func (s *results) fill(row *journal.Row) {
	if s.healthy {
		zero := s.byRank[0].Done
		fill(row, zero)
		s.rowFiles = rowFiles{zero.Raw, zero.Raws, zero.Inside}
		for _, e := range s.byRank[1:] {
			for _, c := range e.Done.Conditions {
				if !slices.ContainsFunc(zero.Conditions, c.Equal) { // rank 0 has recorded it already
					row.Conditions.Add(c.OfRank(e.Rank))
				}
			}
		}
		return
	}
	if v := culprit.Blame(culprit.Evidence{Ranks: s.evidence()}); v.Rank >= 0 {
		fill(row, s.byArrival[v.Order-1].Done)
		row.Rank, row.Phase = &v.Rank, v.Phase
		return
	}
	row.Status = journal.Failed
	row.Reason = journal.Text("the ranks disagree: " + s.firstReason() + ", others did not")
	if e, left := s.firstIncomplete(); left {
		row.Rank, row.Phase = &e.Rank, e.Done.Phase
	}
}

// evidence returns what the ranks have reported, in the order of arrival.
func (s *results) evidence() (ranks []culprit.Rank) {
	for i, e := range s.byArrival {
		ranks = append(ranks, culprit.Rank{Rank: e.Rank, Order: i + 1, Failed: e.Done.Status.Bad(), Phase: e.Done.Phase,
			Secondary: e.Secondary, Cause: e.Culprit, Skipped: e.Done.Status == journal.Skipped})
	}
	return ranks
}

// fill copies the outcome of a rank to its row. The stack of a panic, which follows the reason, becomes the output.
func fill(row *journal.Row, o *decl.Outcome) {
	o.Fill(row)
	reason, stack, _ := strings.Cut(o.Reason, "\n")
	row.Reason, row.Output = journal.Text(reason), stack
}
