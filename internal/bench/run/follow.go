package run

import (
	"context"
	"fmt"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// followTick is how often a followed run's journal is read.
const followTick = 200 * time.Millisecond

// Follow observes a run of a RUN folder that another process executes until that process ends, and returns the run's
// result. It writes nothing and launches nothing. If the run has ended already, Follow observes nothing.
func Follow(ctx context.Context, dir, id string, observe func(Event)) (Result, error) {
	f, err := journal.Follow(dir)
	if err != nil {
		return Result{}, err
	}
	tick := time.NewTicker(followTick)
	defer tick.Stop()
	var follows *journal.HeldError
	rows, notes := -1, 0 // numbers that have been reported; rows is -1 before the start
	for {
		// Ask for the holder before reading the journal: if there is none, the journal is complete.
		holder, err := journal.HolderOf(dir, id)
		if err != nil {
			return Result{}, err
		}
		if follows == nil {
			follows = holder
		}
		j, _, err := f.Next()
		if err != nil {
			return Result{}, err
		}
		run, err := j.Find(id)
		if err != nil {
			return Result{}, err
		}
		if holder != nil && (rows < 0 || rows > len(run.Rows)) { // fewer rows than before: the file was replaced
			done, planned := dataset.Of(run).Progress()
			defaults := lists.Filter(run.Header.Axes, func(a journal.AxisInfo) bool { return a.AtDefault })
			observe(Event{Started: &Started{Run: id, Dir: dir, Rows: planned, Done: done,
				Launches: run.Header.Launches, Metrics: run.Header.Metrics, Follows: follows,
				Defaults: lists.Map(defaults, func(a journal.AxisInfo) string { return a.Name })}})
			rows, notes = len(run.Rows), len(run.Notes)
		}
		for ; rows >= 0 && rows < len(run.Rows); rows++ {
			observe(Event{Recorded: &run.Rows[rows]})
		}
		for ; rows >= 0 && notes < len(run.Notes); notes++ {
			observe(Event{Note: string(run.Notes[notes].Text)})
		}
		if holder == nil {
			return followed(run, follows)
		}
		select {
		case <-ctx.Done():
			return Result{}, fmt.Errorf("stopped following run %s, which continues: %w", id, ctx.Err())
		case <-tick.C:
		}
	}
}

// followed returns the result of a run that has ended. follows is the process that executed it, if it was followed.
func followed(run *journal.Run, follows *journal.HeldError) (Result, error) {
	id := run.ID()
	switch {
	case run.End == nil && follows != nil:
		return Result{}, fmt.Errorf("run %s is incomplete: process %d on host %s has ended; continue it with --resume",
			id, follows.PID, follows.Host)
	case run.End == nil:
		return Result{}, fmt.Errorf("run %s is incomplete, and no process executes it: continue it with --resume", id)
	}
	res := Result{Run: id, Counts: run.End.Counts, Missing: run.End.Missing,
		Interrupted: run.End.Outcome == "interrupted"}
	if run.End.Outcome == "failed" && res.Counts[journal.Failed]+res.Counts[journal.Timeout] == 0 {
		res.Broken = "the run ended without a reason"
		if n := len(run.Notes); n > 0 {
			res.Broken = string(run.Notes[n-1].Text)
		}
	}
	return res, nil
}
