package journal

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
)

// TestRunAgainstReference records random begins and rows of a few points and compares the
// methods of Run with a simple search through the sequence.
func TestRunAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			begin      bool
			key, trial int
		}
		events := rapid.SliceOf(rapid.Custom(func(t *rapid.T) event {
			return event{rapid.Bool().Draw(t, "begin"), rapid.IntRange(0, 2).Draw(t, "key"),
				rapid.IntRange(0, 1).Draw(t, "trial")}
		})).Draw(t, "events")
		recs := []any{Header{Run: "r"}}
		for i, e := range events {
			key := fmt.Sprint(e.key)
			if e.begin {
				recs = append(recs, Begin{Run: "r", Key: key, Trial: e.trial, Attempt: i})
			} else {
				recs = append(recs, Row{Run: "r", Key: key, Trial: e.trial, Attempt: i, Status: OK})
			}
		}
		run := parseBytes(t, encodeAll(t, recs...)).Runs[0]

		// Attempt identifies each record by its position.
		var latest, unfinished []int
		for i, e := range events {
			first, lastRow, lastBegin, followed := true, i, true, false
			for k, o := range events {
				if o.key != e.key || o.trial != e.trial {
					continue
				}
				if k < i && !o.begin {
					first = false
				}
				if k > i && o.begin {
					lastBegin = false
				}
				if k > i && !o.begin {
					lastRow, followed = k, true
				}
			}
			if !e.begin && first {
				latest = append(latest, lastRow)
			}
			if e.begin && lastBegin && !followed {
				unfinished = append(unfinished, i)
			}
		}
		var gotLatest, gotUnfinished []int
		for _, r := range run.Latest() {
			gotLatest = append(gotLatest, r.Attempt)
		}
		for _, b := range run.Unfinished() {
			gotUnfinished = append(gotUnfinished, b.Attempt)
		}
		if diff := cmp.Diff(latest, gotLatest); diff != "" {
			t.Fatalf("latest: %s", diff)
		}
		if diff := cmp.Diff(unfinished, gotUnfinished); diff != "" {
			t.Fatalf("unfinished: %s", diff)
		}
		if got := run.Counts()[OK]; got != len(latest) {
			t.Fatalf("counts %d, want %d", got, len(latest))
		}
	})
}

// TestPointOfSeveralRows repeats a point that gives several rows. No row of the earlier
// attempt may count, even if its key does not occur again.
func TestPointOfSeveralRows(t *testing.T) {
	row := func(key, task string, attempt int, status Status) Row {
		return Row{Run: "r", Key: key, Task: task, Attempt: attempt, Status: status}
	}
	begin := func(attempt int) Begin { return Begin{Run: "r", Key: "task", Attempt: attempt} }
	tests := []struct {
		name       string
		recs       []any
		want       []string // keys of the latest rows
		unfinished int
	}{
		{"one attempt", []any{begin(0), row("a", "task", 0, OK), row("b", "task", 0, OK)}, []string{"a", "b"}, 0},
		{"without begin", []any{row("a", "task", 0, OK), row("b", "task", 0, OK)}, []string{"a", "b"}, 0},
		{"failed, then good", []any{begin(0), row("task", "", 0, Failed), begin(1), row("a", "task", 1, OK),
			row("b", "task", 1, OK)}, []string{"a", "b"}, 0},
		{"good, then failed", []any{begin(0), row("a", "task", 0, OK), row("b", "task", 0, OK), begin(1),
			row("task", "", 1, Failed)}, []string{"task"}, 0},
		{"fewer rows", []any{row("a", "task", 0, OK), row("b", "task", 0, OK), row("b", "task", 1, OK)}, []string{"b"}, 0},
		{"crashed again", []any{begin(0), row("a", "task", 0, OK), begin(1)}, []string{"a"}, 1},
		{"good, then skipped", []any{row("a", "task", 0, OK), row("b", "task", 0, OK), row("task", "", 1, Skipped)},
			[]string{"a", "b"}, 0},
		{"good, then not executed by another run", []any{row("a", "task", 0, OK), row("task", "", 0, NotExecuted)},
			[]string{"a"}, 0},
		{"good, then skipped under its key",
			[]any{row("a", "task", 0, OK), row("b", "task", 0, OK), row("a", "task", 0, Skipped)}, []string{"a", "b"}, 0},
		{"one of several skipped", []any{row("a", "task", 0, OK), row("b", "task", 0, Skipped)}, []string{"a", "b"}, 0},
		{"failed, then skipped", []any{row("a", "task", 0, Failed), row("task", "", 1, Skipped)}, []string{"task"}, 0},
		{"place kept", []any{row("task", "", 0, Failed), row("other", "", 0, OK), row("a", "task", 1, OK)},
			[]string{"a", "other"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := parseBytes(t, encodeAll(t, tt.recs...)).Runs[0]
			var keys []string
			for _, r := range run.Latest() {
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
	for _, status := range []Status{Skipped, NotExecuted} {
		for _, attempts := range [][2]int{{0, 0}, {0, 1}} {
			good := Row{Run: "r", Key: "k", Attempt: attempts[0], Status: OK, Metrics: map[string]float64{"v": 1}}
			idle := Row{Run: "r", Key: "k", Attempt: attempts[1], Status: status}
			for _, rows := range [][]Row{{good, idle}, {idle, good}} {
				run := Run{Rows: rows}
				if got := run.Latest(); len(got) != 1 || got[0].Status != OK {
					t.Errorf("%s and %s: the latest is %+v", rows[0].Status, rows[1].Status, got)
				}
			}
		}
	}
	// A row of its own for a part of the point is kept; one for the whole point is not.
	for task, want := range map[string]int{"point": 2, "": 1} {
		run := Run{Rows: []Row{{Key: "a", Task: "point", Status: OK}, {Key: "point", Task: task, Status: Skipped}}}
		if got := run.Latest(); len(got) != want || got[0].Key != "a" {
			t.Errorf("task %q: the latest are %+v", task, got)
		}
	}
	// A failure that has replaced a result is none.
	run := Run{Rows: []Row{{Key: "k", Status: OK}, {Key: "k", Status: Failed},
		{Key: "k", Status: NotExecuted, Attempt: 1}}}
	if got := run.Latest(); len(got) != 1 || got[0].Status != NotExecuted {
		t.Errorf("after a failure, the latest is %+v", got)
	}
	// Nor is a failure a result beside another row of the same point that is good.
	run = Run{Rows: []Row{{Key: "k", Status: Failed}, {Key: "part", Task: "k", Status: OK},
		{Key: "k", Status: NotExecuted}}}
	if got := run.Latest(); len(got) != 2 || got[0].Status != NotExecuted || got[1].Status != OK {
		t.Errorf("after a failure of a part, the latest are %+v", got)
	}
}

// TestLatestIsLinear checks that eight times as many rows of one point take about eight times
// the work. A launch may give a hundred thousand rows.
func TestLatestIsLinear(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := func(n int) time.Duration {
		run := Run{Rows: make([]Row, n)}
		for i := range run.Rows {
			run.Rows[i] = Row{Key: fmt.Sprint("key ", i), Task: "task", Status: OK}
		}
		least := time.Duration(math.MaxInt64)
		for range 3 {
			start := threadTime(t)
			if got := len(run.Latest()); got != n {
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
	j := parseText(t, `{"type":"row","run":"r","host":"a"}`, `{"type":"row","run":"r","host":"b"}`)
	if n := len(j.Runs[0].Latest()); n != 2 {
		t.Errorf("%d rows, want both", n)
	}
}

func TestEndBelongsToLatestPart(t *testing.T) {
	h, end := Header{Run: "r"}, End{Run: "r", Outcome: "interrupted"}
	if run := parseBytes(t, encodeAll(t, h, end)).Runs[0]; run.End == nil || run.End.Outcome != "interrupted" {
		t.Errorf("end %v", run.End)
	}
	if run := parseBytes(t, encodeAll(t, h, end, h)).Runs[0]; run.End != nil {
		t.Errorf("resumed and not ended, but end is %v", run.End)
	}
	done := End{Run: "r", Outcome: "complete"}
	if run := parseBytes(t, encodeAll(t, h, end, h, done)).Runs[0]; run.End == nil || run.End.Outcome != "complete" {
		t.Errorf("end %v", run.End)
	}
}

// TestAxisOfItsPart has an axis whose kind differs in one part.
func TestAxisOfItsPart(t *testing.T) {
	header := Header{Run: "r", Axes: []AxisInfo{{Name: "n", Kind: point.Bytes}, {Part: "p", Name: "n", Kind: point.Float}}}
	row := func(part string) Row {
		return Row{Run: "r", Key: "k", Part: part,
			Point: point.Point{{Name: "n", Value: point.IntValue(64)}, {Name: "undeclared", Value: point.IntValue(1)}}}
	}
	rows := parseBytes(t, encodeAll(t, header, row("p"), row("other"))).Runs[0].Rows
	for i, want := range []point.Kind{point.Float, point.Bytes} {
		if got := rows[i].Point[0].Value.Kind(); got != want {
			t.Errorf("part %q: kind %v, want %v", rows[i].Part, got, want)
		}
		if got := rows[i].Point[1].Value.Kind(); got != point.Int {
			t.Errorf("an axis that no header has became %v", got)
		}
	}
}

// TestIncomplete checks the text about a run that was cut short. Points dropped from the plan
// do not count.
func TestIncomplete(t *testing.T) {
	header := Header{Run: "r", Schema: 1, Points: 3, Trials: 1}
	twice := header
	twice.Trials = 2
	row := func(key string, trial int, status Status) Row {
		return Row{Run: "r", Key: key, Trial: trial, Status: status}
	}
	begin := func(key string) Begin { return Begin{Run: "r", Key: key} }
	end := func(outcome string) End { return End{Run: "r", Outcome: outcome} }
	for name, c := range map[string]struct {
		recs []any
		want string
	}{
		"whole": {[]any{header, row("a", 0, OK), row("b", 0, Failed), row("c", 0, OK), end("complete")}, ""},
		"interrupted": {[]any{header, row("dropped", 0, Skipped), begin("a"), row("a", 0, Skipped), end("interrupted")},
			"1 of 3 points: the run was interrupted"},
		"killed": {[]any{header, row("a", 0, OK), row("a", 0, OK), begin("b")},
			"1 of 3 points: the run has not ended"},
		"aborted": {[]any{header, row("a", 0, Failed), end("failed")}, "1 of 3 points: the run was aborted"},
		"trials": {[]any{twice, row("a", 0, OK), row("a", 1, OK), end("interrupted")},
			"2 of 6 points in 2 trials: the run was interrupted"},
		"resumed": {[]any{header, row("a", 0, OK), end("interrupted"), header, row("b", 0, OK), row("c", 0, OK),
			end("complete")}, ""},
		"lost": {[]any{header, row("a", 0, OK), row("a", 0, OK), row("b", 0, OK),
			End{Run: "r", Outcome: "complete", Counts: map[Status]int{OK: 2, Failed: 1}}},
			"2 of 3 rows: the other lines of the journal are damaged or missing"},
		"not planned": {[]any{row("a", 0, OK)}, ""},
	} {
		j := parseBytes(t, encodeAll(t, c.recs...))
		if got := j.Runs[0].Incomplete(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		sum := j.Accumulated(j.Runs[0])
		if got := sum.Incomplete(); got != c.want {
			t.Errorf("%s, accumulated: %q, want %q", name, got, c.want)
		}
		lost := 0
		if name == "lost" {
			lost = 1
		}
		if got := []int{j.Runs[0].Lost(), sum.Lost()}; got[0] != lost || got[1] != lost {
			t.Errorf("%s: %v rows are lost, want %d", name, got, lost)
		}
	}
}

// TestDamagedHeader checks that a damaged field is a Problem and the other fields are used.
func TestDamagedHeader(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(string(encodeAll(t,
		Header{Run: "r", Schema: 1, Bench: "b", Points: 3, Axes: []AxisInfo{{Name: "size", Kind: point.Bytes}}},
		Row{Run: "r", Key: "k", Status: OK, Point: point.Point{{Name: "size", Value: point.BytesValue(4096)}}}))), "\n")
	lines[0] = strings.Replace(lines[0], `"host":{`, `"host":7,"was":{`, 1)
	// by another program
	lines[0] = strings.TrimSpace(string(appendChecksum([]byte(lines[0][:len(lines[0])-crcLen] + "}\n"))))
	j := parseText(t, lines...)
	if len(j.Problems) != 1 || len(j.Runs) != 1 || j.Runs[0].Header.Points != 3 {
		t.Fatalf("%v, %+v", j.Problems, j.Runs)
	}
	if v, _ := j.Runs[0].Rows[0].Point.Get("size"); v.Pretty() != "4Ki" {
		t.Errorf("size %v", v.Pretty())
	}
}
