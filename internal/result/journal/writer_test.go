package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
)

// same compares records, with nil equal to empty, which JSON does not distinguish.
var same = []cmp.Option{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Row{}, "Origin"),
	cmp.Comparer(func(a, b point.Value) bool { return a == b })}

// sameText also treats values as equal if only their kinds differ, since a journal without a
// header does not record the kinds.
var sameText = []cmp.Option{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Row{}, "Origin"),
	cmp.Comparer(func(a, b point.Value) bool {
		return a.String() == b.String()
	})}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axes := append(genAxes("a").Draw(t, "axes of a"), genAxes("b").Draw(t, "axes of b")...)
		partA := slices.DeleteFunc(slices.Clone(axes), func(a AxisInfo) bool { return a.Part != "a" })
		partB := slices.DeleteFunc(slices.Clone(axes), func(a AxisInfo) bool { return a.Part != "b" })
		header := Header{Schema: Schema, Run: "r1", Bench: rapid.String().Draw(t, "bench"), Time: genTime.Draw(t, "time"),
			Axes: axes, Seed: rapid.Uint64().Draw(t, "seed")}
		want := append(rapid.SliceOfN(genRow("r1", partA), 0, 2).Draw(t, "rows of a"),
			rapid.SliceOfN(genRow("r1", partB), 0, 2).Draw(t, "rows of b")...)
		note := Note{Run: "r1", Text: Text(rapid.String().Draw(t, "note")), Time: genTime.Draw(t, "time")}
		end := End{"r1", "complete", map[Status]int{OK: 3}, rapid.IntRange(0, 9).Draw(t, "missing"),
			genFinite.Draw(t, "seconds"), genTime.Draw(t, "time")}

		recs := []any{header}
		for _, r := range want {
			recs = append(recs, r)
		}
		data := encodeAll(t, append(recs, note, end)...)
		if n := bytes.Count(data, []byte("\n")); n != len(recs)+2 {
			t.Fatalf("%d records make %d lines", len(recs)+2, n)
		}
		j := parseBytes(t, data)
		if len(j.Problems) > 0 || len(j.Runs) != 1 {
			t.Fatalf("%d runs, problems %v", len(j.Runs), j.Problems)
		}
		got := j.Runs[0]
		for _, diff := range []string{
			cmp.Diff(header, got.Header, same...), cmp.Diff(want, got.Rows, same...),
			cmp.Diff([]Note{note}, got.Notes), cmp.Diff(&end, got.End),
		} {
			if diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestLineText checks the text that other programs read: times are in UTC, and objects and
// lists that the schema requires are not null.
func TestLineText(t *testing.T) {
	local := testTime.In(time.FixedZone("CET", 3600))
	for _, rec := range []any{
		Header{Run: "r", Time: local}, Begin{Run: "r", Key: "k", Time: local},
		Row{Run: "r", Key: "k", Time: local, Reason: "a < b"},
		Note{Run: "r", Time: local}, End{Run: "r", Time: local},
	} {
		text := strings.Replace(string(encodeAll(t, rec)), `"num_ranks":null`, "", 1)
		if !strings.Contains(text, `"time":"2026-11-15T01:42:33.123456789Z"`) || strings.Contains(text, "null") ||
			strings.Contains(text, `\u003c`) {
			t.Errorf("%T is written as %s", rec, text)
		}
	}
}

// TestTruncateAnywhere truncates a journal at every byte, as a crash might.
func TestTruncateAnywhere(t *testing.T) {
	recs := []any{Header{Run: "r", Bench: "b", Time: testTime}, testRow("r", 0), Begin{Run: "r", Key: "k"},
		testRow("r", 1), testRow("r", 2)}
	data := encodeAll(t, recs...)
	all := parseBytes(t, data).Runs[0].Rows
	var rowEnds []int // the byte after each row's closing brace
	for at, line := 0, 0; at < len(data); line++ {
		at += bytes.IndexByte(data[at:], '\n') + 1
		if _, isRow := recs[line].(Row); isRow {
			rowEnds = append(rowEnds, at-1)
		}
	}
	// Append is slow because it syncs, so it is tried at every byte near the ends of lines and
	// at every seventh byte elsewhere.
	path := filepath.Join(t.TempDir(), FileName)
	for cut := range len(data) + 1 {
		torn := cut > 0 && data[cut-1] != '\n' && (cut == len(data) || data[cut] != '\n')
		whole := 0
		for whole < len(rowEnds) && rowEnds[whole] <= cut {
			whole++
		}
		check := func(j *Journal, extra ...Row) {
			t.Helper()
			var rows []Row
			for _, r := range j.Runs {
				rows = append(rows, r.Rows...)
			}
			want := append(slices.Clone(all[:whole]), extra...)
			if diff := cmp.Diff(want, rows, sameText...); diff != "" {
				t.Fatalf("cut at %d: %s", cut, diff)
			}
			if (len(j.Problems) == 1) != torn || len(j.Problems) > 1 {
				t.Fatalf("cut at %d, torn %v: problems %v", cut, torn, j.Problems)
			}
		}
		check(parseBytes(t, data[:cut]))

		nearEnd := bytes.IndexByte(data[cut:], '\n') < 3
		if !nearEnd && cut%7 != 0 {
			continue
		}
		must.Do(t, os.WriteFile(path, data[:cut], 0o644))
		w := mustOpen(t, filepath.Dir(path))
		mustAppend(t, w, testRow("r", 7))
		w.Close()
		after, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(after, data[:cut]) {
			t.Fatalf("cut at %d: what was there has changed (%v)", cut, err)
		}
		row := testRow("r", 7)
		row.Schema = Schema
		check(mustRead(t, path), row)
	}
}

// checkInterleaved expects n complete rows of each run, in order.
func checkInterleaved(t *testing.T, dir string, n int, runs ...string) {
	t.Helper()
	j := mustRead(t, dir)
	if len(j.Problems) > 0 {
		t.Fatalf("problems %v", j.Problems)
	}
	if len(j.Runs) != len(runs) {
		t.Fatalf("%d runs, want %d", len(j.Runs), len(runs))
	}
	for _, id := range runs {
		run := must.Get(j.Find(id))(t)
		if len(run.Rows) != n {
			t.Errorf("run %s has %d rows, want %d", id, len(run.Rows), n)
		}
		for i, row := range run.Rows {
			if want := testRow(id, i).Key; row.Key != want {
				t.Fatalf("run %s: row %d has key %s, want %s", id, i, row.Key, want)
			}
		}
	}
}

func TestTwoWriters(t *testing.T) {
	const n = 100
	dir := t.TempDir()
	var wg sync.WaitGroup
	for _, id := range []string{"one", "two"} {
		w := mustOpen(t, dir)
		wg.Go(func() {
			for i := range n {
				if err := w.Append(testRow(id, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	checkInterleaved(t, dir, n, "one", "two")
}

func TestTwoProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	one, two := child(t, "append", dir, "one", "100"), child(t, "append", dir, "two", "100")
	must.Do(t, errors.Join(one.Start(), two.Start()))
	must.Do(t, errors.Join(one.Wait(), two.Wait()))
	checkInterleaved(t, dir, 100, "one", "two")
}

// TestLockIsTaken holds the lock and checks that Append waits for it. Without the lock, the
// tests above could still pass by chance.
func TestLockIsTaken(t *testing.T) {
	dir := t.TempDir()
	holder, w := mustOpen(t, dir), mustOpen(t, dir)
	must.Do(t, flock(holder.file, syscall.LOCK_EX))
	done := make(chan error)
	go func() { done <- w.Append(testRow("r", 0)) }()
	for range 100 { // give an Append without a lock time to finish
		if data, _ := os.ReadFile(w.path); len(data) > 0 {
			t.Fatal("a record was written while another writer held the lock")
		}
	}
	must.Do(t, flock(holder.file, syscall.LOCK_UN))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkInterleaved(t, dir, 1, "r")
}

// TestDiskFull makes a file reach its size limit in the middle of a line.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	size := len(encodeAll(t, testRow("full", 0)))
	out, err := child(t, "fsize", dir, "2000").CombinedOutput()
	if err == nil {
		t.Fatalf("the child wrote 1000 rows of %d bytes into 2000: %s", size, out)
	}
	for _, want := range []string{"the row of all_reduce latency size=4Ki dtype=f32 trial 0 is lost", "bytes written",
		"file too large", FileName} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the error does not say %q: %s", want, out)
		}
	}
	j := mustRead(t, dir)
	if whole := 2000 / size; len(j.Runs[0].Rows) != whole || len(j.Problems) != 1 {
		t.Fatalf("%d rows and problems %v, want %d rows and the torn one", len(j.Runs[0].Rows), j.Problems, whole)
	}
	// Once there is room again, the next writer can append.
	mustAppend(t, mustOpen(t, dir), testRow("full", 9))
	if j = mustRead(t, dir); len(j.Runs[0].Rows) != 2000/size+1 || len(j.Problems) != 1 {
		t.Fatalf("afterwards: %d rows, problems %v", len(j.Runs[0].Rows), j.Problems)
	}
}

// A newline is added before a record only if the file does not end in one.
func TestNewlineBeforeRecord(t *testing.T) {
	line, two := string(encodeAll(t, testRow("r", 0))), string(encodeAll(t, testRow("r", 0), testRow("r", 0)))
	for before, want := range map[string]string{"": line, "\n": "\n" + line, line: two, "{": "{\n" + line} {
		dir := t.TempDir()
		w := mustOpen(t, dir)
		must.Do(t, os.WriteFile(w.path, []byte(before), 0o644))
		mustAppend(t, w, testRow("r", 0))
		if got := string(must.Get(os.ReadFile(w.path))(t)); got != want {
			t.Errorf("after %.20q: %q, want %q", before, got, want)
		}
	}
}

func TestDeletedJournal(t *testing.T) {
	dir := t.TempDir()
	w := mustOpen(t, dir)
	mustAppend(t, w, testRow("r", 0))
	must.Do(t, os.Remove(w.path))
	if err := w.Append(testRow("r", 1)); err == nil || !strings.Contains(err.Error(), "deleted, replaced") {
		t.Fatalf("appending to a deleted file: %v", err)
	}
}

// If the file becomes shorter, recorded rows are lost.
func TestTruncatedJournal(t *testing.T) {
	dir := t.TempDir()
	w, other := mustOpen(t, dir), mustOpen(t, dir)
	mustAppend(t, w, testRow("r", 0))
	mustAppend(t, other, testRow("s", 0))
	mustAppend(t, w, testRow("r", 1))
	must.Do(t, os.Truncate(w.path, 0))
	if err := w.Append(testRow("r", 2)); !errors.Is(err, ErrReplaced) {
		t.Fatalf("appending to a truncated file: %v", err)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	mustAppend(t, mustOpen(t, dir), testRow("r", 0))
	for d := filepath.Dir(dir); d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { // so that the other user can enter the folder
			t.Fatal(err)
		}
	}
	must.Do(t, errors.Join(os.Chmod(filepath.Join(dir, FileName), 0o444), os.Chmod(dir, 0o555)))
	out, err := child(t, "readonly", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "permission denied") ||
		!strings.Contains(string(out), filepath.Join(dir, FileName)) {
		t.Errorf("opening a read-only journal: %v, %s", err, out)
	}
	out, err = child(t, "readonly", filepath.Join(dir, "new")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "permission denied") ||
		!strings.Contains(string(out), "can be written") {
		t.Errorf("making a folder in a read-only one: %v, %s", err, out)
	}
	checkInterleaved(t, dir, 1, "r") // still readable
}

func TestOpenOnFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, nil, 0o644))
	if _, err := Open(path); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Open on a file: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	with := func(change func(*Row)) Row {
		r := testRow("r", 0)
		change(&r)
		return r
	}
	tests := []struct {
		name string
		rec  any
		want string
	}{
		{"metric", with(func(r *Row) { r.Metrics["time_us"] = nan }), "unsupported value: NaN"},
		{"stat", with(func(r *Row) { r.Stats = r.Stats.With("time_us", Stat{P99: nan}) }), "unsupported value: NaN"},
		{"axis", with(func(r *Row) { r.Point = r.Point.With("x", point.FloatValue(nan)) }), "unsupported value: NaN"},
		{"option", with(func(r *Row) { r.Options = r.Options.With("x", point.FloatValue(inf)) }), "unsupported value: +Inf"},
		{"no run", with(func(r *Row) { r.Run = "" }), "no run id"},
		{"no key", with(func(r *Row) { r.Key = "" }), "no key"},
		{"begin without key", Begin{Run: "r"}, "no key"},
		{"seconds", End{Run: "r", Seconds: nan}, "the end of run r"},
		{"pointer", &Row{}, "*journal.Row"},
		{"other", 7, "want a Header, Begin, Row, Note, Label or End"},
		{"nil", nil, "want a Header, Begin, Row, Note, Label or End"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := mustOpen(t, t.TempDir())
			if err := w.Append(tt.rec); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
			if data, err := os.ReadFile(w.path); err != nil || len(data) > 0 {
				t.Errorf("the refused record left %q (%v)", data, err)
			}
		})
	}
}

func TestClean(t *testing.T) {
	nan := math.NaN()
	r := testRow("r", 0)
	r.Metrics["bad"], r.Limits, r.Skew = nan, map[string]float64{"link": nan, "bus": 3}, &nan
	r.Stats = r.Stats.With("bad", Stat{Max: math.Inf(-1)})
	r.Conditions = []Condition{Remarkf("earlier")}
	c := r.Clean()
	mustAppend(t, mustOpen(t, t.TempDir()), c)
	want := []string{"earlier", "metric bad is NaN and was left out", "limit link is NaN and was left out",
		"spread of bad has a -Inf and was left out", "skew is NaN and was left out"}
	if diff := cmp.Diff(want, c.Conditions.Sentences()); diff != "" {
		t.Error(diff)
	}
	if len(c.Metrics) != 2 || len(c.Limits) != 1 || len(c.Stats) != 1 || c.Skew != nil {
		t.Errorf("left: %v %v %v %v", c.Metrics, c.Limits, c.Stats, c.Skew)
	}
	if len(r.Metrics) != 3 || len(r.Limits) != 2 || len(r.Stats) != 2 || len(r.Conditions) != 1 {
		t.Error("Clean changed the row it was given")
	}
	good := testRow("r", 1)
	if diff := cmp.Diff(good, good.Clean(), same...); diff != "" {
		t.Errorf("a good row changed: %s", diff)
	}
}

// TestCleanDropsEveryNumber sets each number of a row to NaN in turn: none of them may cost the row, and none is
// recorded.
func TestCleanDropsEveryNumber(t *testing.T) {
	for bad, numbers := 0, 1; bad < numbers; bad++ {
		var r Row
		numbers = 0
		fill(reflect.ValueOf(&r).Elem(), func() float64 {
			numbers++
			if numbers == bad+1 {
				return math.NaN()
			}
			return 0.25
		})
		r.Point, r.Env, r.Options = nil, nil, nil
		_, err := encode(r)
		if err == nil || !strings.Contains(err.Error(), "unsupported value: NaN") {
			t.Errorf("number %d is NaN: %v", bad+1, err)
		}
		c := r.Clean()
		if _, err := encode(c); err != nil || len(c.Conditions) != 2 {
			t.Errorf("without number %d: %v, warnings %q", bad+1, err, c.Conditions.Sentences())
		}
	}
}

func TestAppendAfterClose(t *testing.T) {
	w := mustOpen(t, t.TempDir())
	w.Close()
	if err := w.Append(testRow("r", 0)); !errors.Is(err, fs.ErrClosed) && !errors.Is(err, syscall.EBADF) {
		t.Errorf("appending after Close: %v", err)
	}
}

// TestOpenNoLink checks that Open refuses a symbolic link, which in a shared folder may lead
// anywhere.
func TestOpenNoLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "theirs")
	must.Do(t, os.Symlink(elsewhere, filepath.Join(dir, FileName)))
	if w, err := Open(dir); err == nil {
		w.Close()
		t.Error("a link was followed")
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("the file that it leads to was made")
	}
}
