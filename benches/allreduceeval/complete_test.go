package allreduceeval

import (
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// complete are the rows of a run in which everything passed, as the plan has them.
func complete(t *testing.T) []journal.Row {
	t.Helper()
	p := must.Get(plan.Make(Bench(), plan.Request{Backend: hints.HostBackend}))(t)
	var rows []journal.Row
	add := func(task plan.Task, status journal.Status) {
		r := journal.Row{Bench: Name, Part: task.Part, Point: task.Point, NumRanks: &task.Ranks, Backend: hints.HostBackend,
			Status: status, Reason: task.Reason, Options: p.Options}
		if matrix.Find(task.Point.At("algorithm").String()).Hardware != "" && status == journal.OK {
			r.Status, r.Optional, r.Reason = journal.NotExecuted, true, "needs a GPU"
		}
		if task.Part != matrix.Performance {
			rows = append(rows, r)
		}
	}
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			add(task, journal.OK)
		}
	}
	for _, task := range p.Dropped {
		add(task, journal.Skipped)
	}
	return rows
}

func lead(rows []journal.Row) string { return sections(rows)[0].Text }

// "All passed" is said of a complete run, and of no other.
func TestAllPassedIsEarned(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	rows := complete(t)
	if text := lead(rows); !strings.Contains(text,
		"all passed. Every required cell ran: 3564 passed, 0 failed, 864 skipped, 972 not executed") {
		t.Errorf("of a complete run: %s", text)
	}
	spoil := func(change func(rows []journal.Row) []journal.Row) string { return lead(change(slices.Clone(rows))) }
	index := func(rows []journal.Row, status journal.Status) int {
		for i := range rows {
			if rows[i].Part == matrix.Correctness && rows[i].Status == status {
				return i
			}
		}
		t.Fatal("no such row")
		return 0
	}
	for name, c := range map[string]struct {
		change func(rows []journal.Row) []journal.Row
		want   string
	}{
		"a row failed": {func(rows []journal.Row) []journal.Row {
			r := &rows[index(rows, journal.OK)]
			r.Status, r.Reason = journal.Failed, "element 3 is 4"
			r.Details = map[string]string{"cells": "0=ok, 1 element=ok, 8Ki=failed, 8Ki+1=ok, 1Mi-1=ok"}
			return rows
		}, "**wrong results.** 3562 passed, 1 failed"},
		"a row timed out": {func(rows []journal.Row) []journal.Row {
			rows[index(rows, journal.OK)].Status = journal.Timeout
			return rows
		}, "**wrong results.** 3558 passed, 6 failed"},
		"a required row did not run": {func(rows []journal.Row) []journal.Row {
			r := &rows[index(rows, journal.OK)]
			r.Status, r.Reason = journal.NotExecuted, "no memory"
			return rows
		}, "not shown. What ran is right, but required cells did not run: 3558 passed, 0 failed, 864 skipped, 978 not " +
			"executed (6 of them required)"},
		"a row is not there": {func(rows []journal.Row) []journal.Row {
			i := index(rows, journal.OK)
			return append(rows[:i], rows[i+1:]...)
		}, "978 not executed (6 of them required)"},
		"eight ranks were left out": {func(rows []journal.Row) []journal.Row {
			var kept []journal.Row
			for _, r := range rows {
				if *r.NumRanks != 8 {
					kept = append(kept, r)
				}
			}
			return kept
		}, "required cells did not run"},
		"nothing ran": {func([]journal.Row) []journal.Row { return nil }, "no cell of the matrix ran"},
	} {
		if text := spoil(c.change); !strings.Contains(text, c.want) || strings.Contains(text, "all passed") {
			t.Errorf("%s: want %q in\n%s", name, c.want, text)
		}
	}
}
