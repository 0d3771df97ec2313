package allreduceeval

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// complete are the rows of a run in which everything passed, as the plan has them.
func complete(t *testing.T) []journal.Row {
	t.Helper()
	p, err := plan.Make(Bench(), plan.Request{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	var rows []journal.Row
	add := func(task plan.Task, status journal.Status) {
		r := journal.Row{Bench: Name, Part: task.Part, Point: task.Point, NumRanks: &task.Ranks, Backend: "cpu", Status: status, Reason: task.Reason, Options: p.Options}
		if v, _ := task.Point.Get("algorithm"); needs[v.String()] != "" && status == journal.OK {
			r.Status, r.Optional, r.Reason = journal.NotExecuted, true, "needs a GPU"
		}
		if task.Part != performancePart {
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
	rows := complete(t)
	if text := lead(rows); !strings.Contains(text, "all passed. Every required cell ran: 2430 passed, 0 failed, 630 skipped, 540 not executed") {
		t.Errorf("of a complete run: %s", text)
	}
	spoil := func(change func(rows []journal.Row) []journal.Row) string { return lead(change(complete(t))) }
	index := func(rows []journal.Row, status journal.Status) int {
		for i := range rows {
			if rows[i].Part == correctnessPart && rows[i].Status == status {
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
		}, "**wrong results.** 2429 passed, 1 failed"},
		"a row timed out": {func(rows []journal.Row) []journal.Row {
			rows[index(rows, journal.OK)].Status = journal.Timeout
			return rows
		}, "**wrong results.** 2425 passed, 5 failed"},
		"a required row did not run": {func(rows []journal.Row) []journal.Row {
			r := &rows[index(rows, journal.OK)]
			r.Status, r.Reason = journal.NotExecuted, "no memory"
			return rows
		}, "not shown. What ran is right, but required cells did not run: 2425 passed, 0 failed, 630 skipped, 545 not executed (5 of them required)"},
		"a row is not there": {func(rows []journal.Row) []journal.Row {
			i := index(rows, journal.OK)
			return append(rows[:i], rows[i+1:]...)
		}, "545 not executed (5 of them required)"},
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

// The grid shows the four outcomes apart.
func TestGridCells(t *testing.T) {
	at := point.Point{}
	ok, bad := cell{at: at, status: journal.OK, needed: true}, cell{at: at, status: journal.Failed, reason: "element 3", needed: true}
	none, skip := cell{at: at, status: journal.NotExecuted, reason: "no GPU"}, cell{at: at, status: journal.Skipped, reason: "senseless"}
	must := none
	must.needed = true
	for _, c := range []struct {
		cells  []cell
		status journal.Status
		text   string
	}{
		{[]cell{ok, ok}, journal.OK, "2"}, {[]cell{ok, bad}, journal.Failed, "1 of 2"}, {[]cell{none}, journal.NotExecuted, "not run"},
		{[]cell{skip}, journal.Skipped, "skipped"}, {[]cell{ok, must}, journal.NotExecuted, "1 of 2"}, {[]cell{ok, skip}, journal.OK, "1"}, {nil, "", ""},
	} {
		if got := gridCell(c.cells); got.Status != c.status || got.Text != c.text {
			t.Errorf("%v: %+v, want %s %q", c.cells, got, c.status, c.text)
		}
	}
	if got := gridCell([]cell{none, bad}); !strings.Contains(got.Note, "element 3") {
		t.Errorf("the note is %q, not the failure", got.Note)
	}
}

// Cells are written and read again.
func TestOutcomesRoundTrip(t *testing.T) {
	list := []outcome{{"0", "ok"}, {"8Ki+1", "failed"}, {"1 element", "not-executed"}}
	got := parseOutcomes(formatOutcomes(list))
	if len(got) != 3 || got[1] != list[1] || got[2] != list[2] {
		t.Errorf("%v", got)
	}
	if parseOutcomes("") != nil {
		t.Error("nothing is read from nothing")
	}
}

// Sizes are as the profiles promise.
func TestSizes(t *testing.T) {
	quick, _ := sizesOf(quickSizes)
	var names []string
	for _, s := range quick {
		names = append(names, s.String())
	}
	if got := strings.Join(names, " "); got != "0 1 element 8Ki 8Ki+1 1Mi-1" {
		t.Errorf("quick: %s", got)
	}
	full, _ := sizesOf(fullSizes)
	if last := full[len(full)-1]; len(full) != 2+14*4 || last.String() != "64Mi+24" || last.count(2) != 32<<20+24 {
		t.Errorf("full: %d sizes, the last %v", len(full), last)
	}
	if _, err := sizesOf("quik"); err == nil || !strings.Contains(err.Error(), "quick") {
		t.Errorf("an unknown set: %v", err)
	}
}
