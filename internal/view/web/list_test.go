package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const asPage = "Prefer: respond-async"

// recordMany writes a journal of about this many bytes: one run of many points.
func recordMany(t *testing.T, dir string, bytes int) (rows int) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o777))
	f := must.Get(os.Create(filepath.Join(dir, journal.FileName)))(t)
	defer f.Close()
	w := bufio.NewWriter(f)
	written, sum := 0, ""
	line := func(typ string, record any) { // as journal.Writer writes it, but without syncing
		text := string(must.Get(json.Marshal(record))(t))
		text = fmt.Sprintf(`{"type":%q,%s`, typ, text[1:len(text)-1])
		if typ != "run" && sum != "" {
			text += fmt.Sprintf(`,"chain":%q`, sum)
		}
		own := fmt.Sprintf("%08x", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
		if typ == "row" {
			sum = own
		}
		written += must.Get(fmt.Fprintf(w, `%s,"crc":%q}`+"\n", text, own))(t)
	}
	start := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	line("run", journal.Header{Schema: journal.Schema, Run: "big", Bench: "large", Time: start, Trials: 1})
	for ; written < bytes; rows++ {
		line("row", journal.Row{Schema: journal.Schema, Run: "big", Bench: "large", Index: rows, Status: journal.OK,
			Kind: journal.Measured, Quality: journal.QualitySettled, Samples: 10, Time: start, Key: fmt.Sprint("k", rows),
			Point:   point.Point{{Name: "n", Value: point.IntValue(int64(rows))}},
			Metrics: map[string]float64{"time_us": float64(1 + rows%7)}, Units: map[string]string{"time_us": "us"}})
	}
	line("end", journal.End{Run: "big", Outcome: "complete", Seconds: 1, Time: start})
	must.Do(t, w.Flush())
	return rows
}

// TestLargeJournal checks that the first page answers while a large journal is read: it has the other runs and the
// progress. The page of the large run answers with the progress too. WEB_LARGE_MB=122 makes the journal as large as
// the one that once took minutes, and prints the times.
func TestLargeJournal(t *testing.T) {
	size := leastIndexed + 1<<16
	if mb, err := strconv.Atoi(os.Getenv("WEB_LARGE_MB")); err == nil {
		size = mb << 20
	}
	dir := t.TempDir()
	rows := recordMany(t, filepath.Join(dir, "big"), size)
	record(t, filepath.Join(dir, "small"), "one", 1, 1, 2)
	s := newServer(dir, "")
	s.patience = 50 * time.Millisecond
	begin := time.Now()
	must.Get(s.store.list())(t)
	big := s.store.journals["big"]
	big.mu.Lock() // as if it were read for as long as the test needs
	list := askAs[runList](t, s, "/api/runs", 200)
	t.Logf("the first answer came after %v", time.Since(begin))
	if len(list.Runs) != 1 || list.Runs[0].Run != "small@one" || list.Pending == nil ||
		!slices.Equal(list.Pending.Journals, []string{"big"}) || list.Pending.Bytes < int64(size) {
		t.Errorf("while the journal is read: %+v, %+v", list.Runs, list.Pending)
	}
	askAs[progress](t, s, "/api/run?run=big", 202)
	askAs[progress](t, s, "/api/run?run=big", 202)
	if len(s.calls) != 1 {
		t.Errorf("%d calls for one address", len(s.calls))
	}
	askAs[runPage](t, s, "/api/run?run=small", 200)
	big.mu.Unlock()
	list = ask[runList](t, s, "/api/runs")
	t.Logf("all is read after %v", time.Since(begin))
	if len(list.Runs) != 2 || list.Pending != nil {
		t.Errorf("afterwards: %+v, %+v", list.Runs, list.Pending)
	}
	if page := ask[runPage](t, s, "/api/run?run=big"); page.Rows != rows || page.Info.Number.Points != rows {
		t.Errorf("%d rows, want %d", page.Rows, rows)
	}
	if len(s.calls) != 0 {
		t.Errorf("%d calls are left", len(s.calls))
	}
}

// askAs asks as the page does, which prefers progress to waiting.
func askAs[T any](t *testing.T, s *Server, target string, status int) (out T) {
	t.Helper()
	got := get(s, "GET", "http://127.0.0.1"+target, asPage)
	if err := json.NewDecoder(got.Body).Decode(&out); got.StatusCode != status || err != nil {
		t.Fatalf("%s: %d, want %d: %v", target, got.StatusCode, status, err)
	}
	return out
}

// TestUnreadableJournals checks that every journal which cannot be read, or not completely, is listed with the reason.
func TestUnreadableJournals(t *testing.T) {
	dir := t.TempDir()
	record(t, filepath.Join(dir, "good"), "r", 1, 1)
	record(t, filepath.Join(dir, "damaged"), "r", 1, 1)
	write := func(folder, text string) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Join(dir, folder), 0o777))
		f := must.Get(os.OpenFile(filepath.Join(dir, folder, journal.FileName), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
			0o666))(t)
		must.Get(f.WriteString(text))(t)
		must.Do(t, f.Close())
	}
	write("damaged", "{\"type\":\"row\"\n")
	write("empty", "")
	write("garbage", "this is no journal\n")
	must.Do(t, os.MkdirAll(filepath.Join(dir, "linked"), 0o777))
	must.Do(t, os.Symlink("/dev/zero", filepath.Join(dir, "linked", journal.FileName)))
	must.Do(t, os.MkdirAll(filepath.Join(dir, "folder", journal.FileName), 0o777))
	want := map[string]string{
		"damaged": "line 4",
		"empty":   "the journal has no run",
		"garbage": "line 1: the line does not match its checksum",
		"linked":  "journal.jsonl is a symbolic link, and only regular files are read",
	}
	if os.Geteuid() != 0 { // root reads everything
		write("closed", "{}\n")
		must.Do(t, os.Chmod(filepath.Join(dir, "closed", journal.FileName), 0))
		want["closed"] = "permission denied"
	}
	list := ask[runList](t, newServer(dir, ""), "/api/runs")
	got := map[string]string{}
	for _, p := range list.Problems {
		got[p.Folder] = p.Reason
	}
	for folder, reason := range want {
		if !strings.Contains(got[folder], reason) {
			t.Errorf("%s: %q, want %q", folder, got[folder], reason)
		}
	}
	if len(list.Runs) != 2 || len(got) != len(want) {
		t.Errorf("%d runs, problems %q", len(list.Runs), got)
	}
}

// TestRunInfo checks what the first page says about runs: their quality, their result, and how the latest compares
// with the one before it.
func TestRunInfo(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, "r1", 6, 10, 40)
	record(t, dir, "r2", 6, 10, 50)
	record(t, dir, "r3", 1, 10)
	host := hostinfo.Host{Build: hostinfo.Build{Revision: "fedcba9876543210"}}
	out := must.Get(journal.Open(filepath.Join(dir, "outside")))(t) // of a Git repository
	must.Do(t, out.Append(journal.Header{Schema: journal.Schema, Run: "o", Bench: "b", Host: host}))
	must.Do(t, out.Close())
	w := must.Get(journal.Open(filepath.Join(dir, "noisy")))(t)
	start := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	must.Do(t, w.Append(journal.Header{Schema: journal.Schema, Run: "r", Bench: "b", Time: start, Trials: 1, Points: 2,
		Commit: "0123456789abcdef", Host: host}))
	for i := range 2 {
		must.Do(t, w.Append(journal.Row{Schema: journal.Schema, Run: "r", Bench: "b", Index: i, Status: journal.OK,
			Kind: journal.Measured, Quality: journal.QualityDisturbed, Time: start, Key: fmt.Sprint("k", i),
			Metrics: map[string]float64{"time_us": 5}}))
	}
	must.Do(t, w.Append(journal.Note{Run: "r", Text: "after the upgrade", Time: start}))
	must.Do(t, w.Append(journal.End{Run: "r", Outcome: "complete", Seconds: 1, Time: start}))
	must.Do(t, w.Close())
	list := ask[runList](t, newServer(dir, ""), "/api/runs")
	find := func(run string) runInfo {
		i := slices.IndexFunc(list.Runs, func(r runInfo) bool { return r.Run == run })
		if i < 0 {
			t.Fatalf("no run %s", run)
		}
		return list.Runs[i]
	}
	if outside := find("outside@o"); outside.Commit != "" {
		t.Errorf("the list shows the commit of kernbench, %s, as the user's", outside.Commit)
	}
	one, two, three, noisy := find(".@r1"), find(".@r2"), find(".@r3"), find("noisy@r")
	if n := one.Number; n == nil || n.Text != "20 µs" || n.Points != 2 || n.Metric != "time_us" {
		t.Errorf("the result of the first run is %+v", n)
	}
	if one.Number.Set != two.Number.Set || one.Number.Set == three.Number.Set {
		t.Error("the sets of points are wrong")
	}
	if v := three.Verdict; v == nil || v.Before != ".@r2" || !v.Worse || one.Verdict != nil || two.Verdict != nil {
		t.Errorf("verdicts %+v, %+v, %+v", one.Verdict, two.Verdict, v)
	}
	if noisy.Disturbed != 2 || noisy.OK != 2 || noisy.Commit != "0123456789ab" ||
		!slices.Equal(noisy.Notes, []string{"after the upgrade"}) {
		t.Errorf("%+v", noisy)
	}
}

// TestLostRow checks that a run with a damaged row counts it, in the list and on its page.
func TestLostRow(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, "r", 2, 10, 20)
	path := filepath.Join(dir, journal.FileName)
	text := strings.Replace(string(must.Get(os.ReadFile(path))(t)), `"time_us":20`, `"time_us":30`, 1)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	s := newServer(dir, "")
	if r := ask[runList](t, s, "/api/runs").Runs[0]; r.Lost != 1 || r.OK != 3 || r.Outcome != "complete" {
		t.Errorf("the list has %+v", r)
	}
	page := ask[runPage](t, s, "/api/run?run=.")
	if page.Info.Lost != 1 || len(page.Problems) != 1 ||
		!strings.Contains(page.Summary, "Of its 4 rows 3 are ok and 1 is lost.") {
		t.Errorf("the page has %+v, problems %q, and says %q", page.Info, page.Problems, page.Summary)
	}
}

// TestPanicInAnAnswer checks that a bench whose view panics gives an error and not the end of the server.
func TestPanicInAnAnswer(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, "r", 1, 1)
	s := New(Options{Dir: dir, Bench: func(string) *bench.Bench { panic("oh") }})
	got := get(s, "GET", "http://127.0.0.1/api/rows?run=.")
	text := string(must.Get(io.ReadAll(got.Body))(t))
	if got.StatusCode != 500 || !strings.Contains(text, "internal error: oh") {
		t.Errorf("%d: %s", got.StatusCode, text)
	}
	if len(s.calls) != 0 {
		t.Errorf("%d calls are left", len(s.calls))
	}
}
