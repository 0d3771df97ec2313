package dataset

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestLatestAgainstReference compares the latest rows of random attempts at a few points with a simple search.
func TestLatestAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOf(rapid.Custom(func(t *rapid.T) journal.Row {
			return journal.Row{Key: fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "key")),
				Trial: rapid.IntRange(0, 1).Draw(t, "trial"), Status: journal.OK}
		})).Draw(t, "rows")
		var want, got []int // Attempt identifies each row by its position
		for i := range rows {
			rows[i].Attempt = i
			same := func(o journal.Row) bool { return o.Key == rows[i].Key && o.Trial == rows[i].Trial }
			if slices.IndexFunc(rows, same) == i {
				last := i
				for k := range rows {
					if same(rows[k]) {
						last = k
					}
				}
				want = append(want, last)
			}
		}
		latest := Latest(&journal.Run{Rows: rows})
		for _, r := range latest {
			got = append(got, r.Attempt)
		}
		if diff := cmp.Diff(want, got); diff != "" || latest.Counts()[journal.OK] != len(want) {
			t.Fatalf("latest: %s, counts %v", diff, latest.Counts())
		}
	})
}

// TestPointOfSeveralRows repeats a point that gives several rows. No row of the earlier
// attempt may count, even if its key does not occur again.
func TestPointOfSeveralRows(t *testing.T) {
	row := func(key, task string, attempt int, status journal.Status) journal.Row {
		return journal.Row{Run: "r", Key: key, Task: task, Attempt: attempt, Status: status}
	}
	begin := func(attempt int) journal.Begin { return journal.Begin{Run: "r", Key: "task", Attempt: attempt} }
	tests := []struct {
		name       string
		recs       []any
		want       []string // keys of the latest rows
		unfinished int
	}{
		{"one attempt", []any{begin(0), row("a", "task", 0, journal.OK), row("b", "task", 0, journal.OK)}, []string{"a", "b"}, 0},
		{"without begin", []any{row("a", "task", 0, journal.OK), row("b", "task", 0, journal.OK)}, []string{"a", "b"}, 0},
		{"failed, then good", []any{begin(0), row("task", "", 0, journal.Failed), begin(1), row("a", "task", 1, journal.OK),
			row("b", "task", 1, journal.OK)}, []string{"a", "b"}, 0},
		{"good, then failed", []any{begin(0), row("a", "task", 0, journal.OK), row("b", "task", 0, journal.OK), begin(1),
			row("task", "", 1, journal.Failed)}, []string{"task"}, 0},
		{"fewer rows", []any{row("a", "task", 0, journal.OK), row("b", "task", 0, journal.OK), row("b", "task", 1, journal.OK)}, []string{"b"}, 0},
		{"crashed again", []any{begin(0), row("a", "task", 0, journal.OK), begin(1)}, []string{"a"}, 1},
		{"good, then skipped", []any{row("a", "task", 0, journal.OK), row("b", "task", 0, journal.OK), row("task", "", 1, journal.Skipped)},
			[]string{"a", "b"}, 0},
		{"good, then not executed by another run", []any{row("a", "task", 0, journal.OK), row("task", "", 0, journal.NotExecuted)},
			[]string{"a"}, 0},
		{"good, then skipped under its key",
			[]any{row("a", "task", 0, journal.OK), row("b", "task", 0, journal.OK), row("a", "task", 0,
				journal.Skipped)}, []string{"a", "b"}, 0},
		{"one of several skipped", []any{row("a", "task", 0, journal.OK), row("b", "task", 0, journal.Skipped)}, []string{"a", "b"}, 0},
		{"failed, then skipped", []any{row("a", "task", 0, journal.Failed), row("task", "", 1, journal.Skipped)}, []string{"task"}, 0},
		{"place kept", []any{row("task", "", 0, journal.Failed), row("other", "", 0, journal.OK), row("a", "task", 1, journal.OK)},
			[]string{"a", "other"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := recorded(t, tt.recs...).Runs[0]
			var keys []string
			for _, r := range Latest(run) {
				keys = append(keys, r.Key)
			}
			if diff := cmp.Diff(tt.want, keys); diff != "" {
				t.Error(diff)
			}
			if got := len(run.Unfinished()); got != tt.unfinished {
				t.Errorf("%d unfinished, want %d", got, tt.unfinished)
			}
		})
	}
}

// TestNotRunHidesNothing checks that a row that was not run never hides a result.
func TestNotRunHidesNothing(t *testing.T) {
	for _, status := range []journal.Status{journal.Skipped, journal.NotExecuted} {
		for _, attempts := range [][2]int{{0, 0}, {0, 1}} {
			good := journal.Row{Run: "r", Key: "k", Attempt: attempts[0], Status: journal.OK,
				Metrics: map[string]float64{"v": 1}}
			idle := journal.Row{Run: "r", Key: "k", Attempt: attempts[1], Status: status}
			for _, rows := range [][]journal.Row{{good, idle}, {idle, good}} {
				run := &journal.Run{Rows: rows}
				if got := Latest(run); len(got) != 1 || got[0].Status != journal.OK {
					t.Errorf("%s and %s: the latest is %+v", rows[0].Status, rows[1].Status, got)
				}
			}
		}
	}
	// A row of its own for a part of the point is kept; one for the whole point is not.
	for task, want := range map[string]int{"point": 2, "": 1} {
		run := &journal.Run{Rows: []journal.Row{{Key: "a", Task: "point", Status: journal.OK}, {Key: "point",
			Task: task, Status: journal.Skipped}}}
		if got := Latest(run); len(got) != want || got[0].Key != "a" {
			t.Errorf("task %q: the latest are %+v", task, got)
		}
	}
	// A failure that has replaced a result is none.
	run := &journal.Run{Rows: []journal.Row{{Key: "k", Status: journal.OK}, {Key: "k", Status: journal.Failed},
		{Key: "k", Status: journal.NotExecuted, Attempt: 1}}}
	if got := Latest(run); len(got) != 1 || got[0].Status != journal.NotExecuted {
		t.Errorf("after a failure, the latest is %+v", got)
	}
	// Nor is a failure a result beside another row of the same point that is good.
	run = &journal.Run{Rows: []journal.Row{{Key: "k", Status: journal.Failed}, {Key: "part", Task: "k",
		Status: journal.OK},
		{Key: "k", Status: journal.NotExecuted}}}
	if got := Latest(run); len(got) != 2 || got[0].Status != journal.NotExecuted || got[1].Status != journal.OK {
		t.Errorf("after a failure of a part, the latest are %+v", got)
	}
}

// TestLatestIsLinear checks that eight times as many rows of one point take about eight times
// the work. A launch may give a hundred thousand rows.
func TestLatestIsLinear(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := func(n int) time.Duration {
		run := &journal.Run{Rows: make([]journal.Row, n)}
		for i := range run.Rows {
			run.Rows[i] = journal.Row{Key: fmt.Sprint("key ", i), Task: "task", Status: journal.OK}
		}
		least := time.Duration(math.MaxInt64)
		for range 3 {
			start := threadTime(t)
			if got := len(Latest(run)); got != n {
				t.Fatalf("%d of %d rows", got, n)
			}
			least = min(least, threadTime(t)-start)
		}
		return least
	}
	const tick = 10 * time.Millisecond // resolution of the CPU time on some kernels
	if few, many := cost(4000), cost(8*4000); many > 30*max(few, tick) {
		t.Errorf("4000 rows of one launch take %v of processor time, eight times as many %v", few, many)
	}
}

// threadTime returns the CPU time of this thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestLatestKeepsRowsWithoutKey(t *testing.T) {
	if n := len(Latest(&journal.Run{Rows: []journal.Row{{Host: "a"}, {Host: "b"}}})); n != 2 {
		t.Errorf("%d rows, want both", n)
	}
}

// recorded writes records to a journal and reads it.
func recorded(t *testing.T, recs ...any) *journal.Journal {
	t.Helper()
	dir := t.TempDir()
	w := must.Get(journal.Open(dir))(t)
	for _, rec := range recs {
		must.Do(t, w.Append(rec))
	}
	must.Do(t, w.Close())
	return must.Get(journal.Read(dir))(t)
}

// TestIncomplete checks the text about a run that was cut short. Points dropped from the plan
// do not count.
func TestIncomplete(t *testing.T) {
	header := journal.Header{Run: "r", Schema: 1, Points: 3, Trials: 1}
	twice := header
	twice.Trials = 2
	row := func(key string, trial int, status journal.Status) journal.Row {
		return journal.Row{Run: "r", Key: key, Trial: trial, Status: status}
	}
	begin := func(key string) journal.Begin { return journal.Begin{Run: "r", Key: key} }
	end := func(outcome string) journal.End { return journal.End{Run: "r", Outcome: outcome} }
	for name, c := range map[string]struct {
		recs []any
		want string
	}{
		"whole": {[]any{header, row("a", 0, journal.OK), row("b", 0, journal.Failed), row("c", 0, journal.OK), end("complete")}, ""},
		"interrupted": {[]any{header, row("dropped", 0, journal.Skipped), begin("a"), row("a", 0, journal.Skipped), end("interrupted")},
			"1 of 3 points: the run was interrupted"},
		"killed": {[]any{header, row("a", 0, journal.OK), row("a", 0, journal.OK), begin("b")},
			"1 of 3 points: the run has not ended"},
		"aborted": {[]any{header, row("a", 0, journal.Failed), end("failed")}, "1 of 3 points: the run was aborted"},
		"trials": {[]any{twice, row("a", 0, journal.OK), row("a", 1, journal.OK), end("interrupted")},
			"2 of 6 points in 2 trials: the run was interrupted"},
		"resumed": {[]any{header, row("a", 0, journal.OK), end("interrupted"), header, row("b", 0, journal.OK), row("c", 0, journal.OK),
			end("complete")}, ""},
		"lost": {[]any{header, row("a", 0, journal.OK), row("a", 0, journal.OK), row("b", 0, journal.OK),
			journal.End{Run: "r", Outcome: "complete", Counts: map[journal.Status]int{journal.OK: 2, journal.Failed: 1}}},
			"2 of 3 rows: the other lines of the journal are damaged or missing"},
		"not planned": {[]any{row("a", 0, journal.OK)}, ""},
	} {
		j := recorded(t, c.recs...)
		if got := Of(j.Runs[0]).Incomplete(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		sum := Accumulated(j, j.Runs[0])
		if got := sum.Incomplete(); got != c.want {
			t.Errorf("%s, accumulated: %q, want %q", name, got, c.want)
		}
		lost := 0
		if name == "lost" {
			lost = 1
		}
		if got := []int{Of(j.Runs[0]).Lost(), sum.Lost()}; got[0] != lost || got[1] != lost {
			t.Errorf("%s: %v rows are lost, want %d", name, got, lost)
		}
	}
}

// TestAccumulated checks that runs of the same bench, version and seed are merged: the latest
// row of each key, good or bad, in order of appearance.
func TestAccumulated(t *testing.T) {
	row := func(run, key string, status journal.Status, value float64) journal.Row {
		return journal.Row{Run: run, Bench: "b", Key: key, Status: status, Metrics: map[string]float64{"v": value}, Index: 7}
	}
	make := func(id, bench, version string, seed uint64, rows ...journal.Row) *journal.Run {
		r := &journal.Run{Rows: rows, Header: journal.Header{Run: id, Bench: bench, Version: version, Seed: seed,
			Time: time.Unix(1, 0), Metrics: []journal.MetricInfo{{Name: "of " + id}}}}
		r.Headers = []journal.Header{r.Header}
		return r
	}
	j := &journal.Journal{Runs: []*journal.Run{
		make("1", "b", "1", 1, row("1", "x", journal.OK, 1), row("1", "y", journal.OK, 2)),
		make("2", "b", "2", 1, row("2", "x", journal.OK, 100)),
		make("3", "c", "1", 1, row("3", "x", journal.OK, 100)),
		make("4", "b", "1", 9, row("4", "x", journal.OK, 100)),
		make("5", "b", "1", 1, row("5", "z", journal.OK, 3), row("5", "x", journal.Failed, 4)),
		make("6", "b", "1", 1, row("6", "y", journal.OK, 5)),
	}}
	sum := Accumulated(j, j.Runs[4])
	var got string
	for _, r := range sum.Rows {
		got += r.Key + " " + string(r.Status) + " of " + r.Run + ", "
	}
	if want := "x failed of 5, y ok of 1, z ok of 5, "; got != want {
		t.Errorf("have %s want %s", got, want)
	}
	if sum.ID() != "5" || len(sum.Header.Metrics) != 2 {
		t.Errorf("header %+v", sum.Header)
	}
	if len(sum.Earlier) != 1 || sum.Earlier[0].Run != "1" {
		t.Errorf("rows also of %+v, want run 1", sum.Earlier)
	}
	if r := j.Runs[0].Rows[0]; r.Index != 7 {
		t.Error("the run's own rows were changed")
	}
}

// Only required rows that were not executed are missing.
func TestMissing(t *testing.T) {
	rows := []journal.Row{{Status: journal.OK}, {Status: journal.Skipped}, {Status: journal.Failed},
		{Status: journal.NotExecuted, Optional: true}, {Status: journal.NotExecuted}}
	if n := All(rows).Missing(); n != 1 {
		t.Errorf("%d rows are missing, want 1", n)
	}
}

// A run whose rows are all counted is not complete if its chain of rows is broken.
func TestBrokenChain(t *testing.T) {
	for _, end := range []*journal.End{nil, {Outcome: "complete"}} {
		d := Of(&journal.Run{Breaks: 2, End: end})
		if want := "their chain is broken in 2 places"; !strings.HasSuffix(d.Incomplete(), want) || d.Lost() != 2 {
			t.Errorf("%q, %d lost", d.Incomplete(), d.Lost())
		}
	}
}
