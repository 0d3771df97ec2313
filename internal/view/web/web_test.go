package web

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/export"
)

// record stores a run with one point per value in each trial.
func record(t testing.TB, dir, id string, trials int, values ...float64) {
	t.Helper()
	recordOn(t, "", dir, id, trials, values...)
}

// recordOn is record on a host with a CPU model.
func recordOn(t testing.TB, cpu, dir, id string, trials int, values ...float64) {
	t.Helper()
	w := must.Get(journal.Open(dir))(t)
	defer w.Close()
	start := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	records := []any{journal.Header{Schema: journal.Schema, Run: id, Bench: "b", Time: start, Trials: trials,
		Points:  len(values),
		Host:    hostinfo.Host{CPU: hostinfo.CPU{Model: cpu}},
		Axes:    []journal.AxisInfo{{Name: "n", Kind: point.Int}},
		Metrics: []journal.MetricInfo{{Name: "time_us", Unit: "us", Better: "lower"}}}}
	for trial := range trials {
		for n, v := range values {
			records = append(records, journal.Row{Schema: journal.Schema, Run: id, Bench: "b", Trial: trial, Index: n,
				Status: journal.OK, Kind: journal.Measured,
				Point:   point.Point{{Name: "n", Value: point.IntValue(int64(n))}},
				Metrics: map[string]float64{"time_us": v * (1 + float64(trial)/1000)},
				Units:   map[string]string{"time_us": "us"}, Samples: 10, Time: start.Add(time.Second), Key: fmt.Sprint("k", n)})
		}
	}
	counts := map[journal.Status]int{journal.OK: trials * len(values)}
	for _, r := range append(records, journal.End{Run: id, Outcome: "complete", Counts: counts, Seconds: 1, Time: start}) {
		must.Do(t, w.Append(r))
	}
}

func newServer(dir, token string) *Server {
	return New(Options{Dir: dir, Bench: func(string) *bench.Bench { return nil }, Token: token, Cookie: "c"})
}

// get sends a request to a server. Headers have the form "Name: value".
func get(s *Server, method, target string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func TestAccess(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, "r", 1, 1, 2)
	open, closed := newServer(dir, ""), newServer(dir, "secret-token")
	for _, c := range []struct {
		s       *Server
		method  string
		target  string
		headers []string
		want    int
	}{
		{open, "GET", "http://127.0.0.1:1/", nil, 200},
		{open, "GET", "http://localhost:1/api/runs", nil, 200},
		{open, "GET", "http://[::1]:1/api/runs", nil, 200},
		{open, "GET", "http://rebound.example:1/api/runs", nil, 403}, // DNS rebinding
		{open, "GET", "http://127.0.0.1.rebound.example/api/runs", nil, 403},
		{open, "POST", "http://127.0.0.1:1/api/runs", nil, 405},
		{open, "DELETE", "http://127.0.0.1:1/", nil, 405},
		{closed, "GET", "http://node1/", nil, 401},
		{closed, "GET", "http://127.0.0.1/api/runs", nil, 401}, // the token is also required on loopback
		{closed, "GET", "http://node1/assets/app.js", nil, 401},
		{closed, "GET", "http://node1/api/runs", []string{"Authorization: Bearer secret-token"}, 200},
		{closed, "GET", "http://node1/api/runs", []string{"Authorization: Bearer secret-toke"}, 401},
		{closed, "GET", "http://node1/api/runs", []string{"Authorization: secret-token"}, 401},
		{closed, "GET", "http://node1/api/runs", []string{"Cookie: c=secret-token"}, 200},
		{closed, "GET", "http://node1/api/runs", []string{"Cookie: d=secret-token"}, 401},
		{closed, "GET", "http://node1/?token=wrong", nil, 401},
		{closed, "GET", "http://node1/run?run=r&token=secret-token", nil, 303},
		{open, "GET", "http://127.0.0.1/nothing", nil, 404},
		{open, "GET", "http://127.0.0.1/docs/", nil, 200},
		{open, "GET", "http://127.0.0.1/docs/tutorial", nil, 200},
		{open, "GET", "http://127.0.0.1/docs/files/guides/scale-a-solve.png", nil, 200},
		{open, "GET", "http://127.0.0.1/docs/nothing", nil, 404},
		{open, "GET", "http://127.0.0.1/docs/files/../../etc/passwd", nil, 307},
		{closed, "GET", "http://node1/docs/tutorial", nil, 401},
		{open, "GET", "http://127.0.0.1/api/run?run=nothing", nil, 404},
		{open, "GET", "http://127.0.0.1/api/run?run=../../etc", nil, 404},
		{open, "GET", "http://127.0.0.1/api/run?run=.@r&only=m>", nil, 400},
		{open, "GET", "http://127.0.0.1/api/run?run=.@r&plot=x=m", nil, 400},
		{open, "GET", "http://127.0.0.1/api/rows?run=.@r&from=-1", nil, 400},
		{open, "GET", "http://127.0.0.1/api/rows?run=.@r&only=" + strings.Repeat("n", maxQuery+1), nil, 400},
		{open, "GET", "http://127.0.0.1/api/figure.svg?run=.@r&figure=x", nil, 404},
		{open, "GET", "http://127.0.0.1/api/inside?run=.@r&file=", nil, 404},
		{open, "GET", "http://127.0.0.1/api/inside?run=.@r&file=../journal.jsonl", nil, 404},
		{closed, "GET", "http://node1/api/inside?run=.@r&file=x", nil, 401},
	} {
		got := get(c.s, c.method, c.target, c.headers...)
		if got.StatusCode != c.want {
			t.Errorf("%s %s %q: %d, want %d", c.method, c.target, c.headers, got.StatusCode, c.want)
		}
		if p := got.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") ||
			strings.Contains(p, "script-src 'unsafe") || strings.Contains(p, "eval") {
			t.Errorf("%s: policy %q", c.target, p)
		}
		if c.want == 303 && (got.Header.Get("Location") != "/run?run=r" ||
			!strings.Contains(got.Header.Get("Set-Cookie"), "HttpOnly; SameSite=Strict")) {
			t.Errorf("logged in to %q with %q", got.Header.Get("Location"), got.Header.Get("Set-Cookie"))
		}
	}
	// A login must not redirect to another host.
	if got := get(closed, "GET", "http://node1//evil.example/?token=secret-token").Header.Get("Location"); strings.HasPrefix(got, "//") {
		t.Errorf("sent to %q", got)
	}
}

// The page's script uses no function that could turn a text into markup.
func TestNoMarkup(t *testing.T) {
	files, err := fs.Glob(assets, "assets/*")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		text := must.Get(fs.ReadFile(assets, name))(t)
		for _, way := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
			"new Function", "srcdoc", "<style", " style=", "onclick="} {
			if strings.Contains(string(text), way) {
				t.Errorf("%s uses %s", name, way)
			}
		}
	}
}

// ask returns the decoded JSON of a successful answer.
func ask[T any](t *testing.T, s *Server, target string) (out T) {
	t.Helper()
	got := get(s, "GET", "http://127.0.0.1"+target)
	if err := json.NewDecoder(got.Body).Decode(&out); got.StatusCode != 200 || err != nil {
		t.Fatalf("%s: %d, %v", target, got.StatusCode, err)
	}
	return out
}

// Runs are found at any depth, also when they are added later. Hidden folders and
// symbolic links are skipped.
func TestRuns(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	record(t, filepath.Join(dir, "a"), "one", 1, 1)
	record(t, filepath.Join(dir, "b", "c"), "two", 2, 1, 2)
	record(t, filepath.Join(dir, ".hidden"), "three", 1, 1)
	record(t, away, "four", 1, 1)
	must.Do(t, os.Symlink(away, filepath.Join(dir, "link")))
	s := newServer(dir, "")
	if list := ask[runList](t, s, "/api/runs"); len(list.Runs) != 2 || list.Runs[0].Run != "b/c@two" ||
		list.Runs[0].OK != 4 || list.Runs[0].Outcome != "complete" {
		t.Errorf("%+v", list)
	}
	record(t, filepath.Join(dir, "a"), "later", 1, 1)
	if list := ask[runList](t, s, "/api/runs"); len(list.Runs) != 3 {
		t.Errorf("after another run: %+v", list)
	}
	page := ask[runPage](t, s, "/api/run?run=b/c")
	if page.Info.ID != "two" || page.Rows != 4 || len(page.Figures) != 1 || page.Figures[0].Alt == "" {
		t.Errorf("%+v", page)
	}
	rows := ask[rowPage](t, s, "/api/rows?run=b/c@two&sort=-time_us&only=n%3E0")
	cell := func(p rowPage, name string) document.Cell {
		i := slices.IndexFunc(p.Tables[0].Columns, func(c document.Column) bool { return c.Title == name })
		if i < 0 {
			t.Fatalf("no column %s in %+v", name, p.Tables[0].Columns)
		}
		return p.Tables[0].Rows[0].Cells[i]
	}
	// A point is one line with the median of its trials, as in the terminal.
	if rows.Total != 1 || !rows.Trials || cell(rows, "time (µs)").Text != "2.001" ||
		cell(rows, "±trials").Text != "0.0%" || rows.Tables[0].Note != "" {
		t.Errorf("%+v", rows)
	}
	rows = ask[rowPage](t, s, "/api/rows?run=b/c@two&sort=-time_us&only=n%3E0&trials=each&columns=all")
	if rows.Total != 2 || cell(rows, "time (µs)").Text != "2.002" || cell(rows, "trial").Text != "1" {
		t.Errorf("each trial: %+v", rows)
	}
	if single := ask[rowPage](t, s, "/api/rows?run=a@later"); single.Trials ||
		single.Tables[0].Note != export.SingleNote {
		t.Errorf("one launch without a note: %+v", single)
	}
}

// A run without an end record is running while a process holds it, else stopped.
func TestRunning(t *testing.T) {
	dir := t.TempDir()
	w := must.Get(journal.Open(dir))(t)
	defer w.Close()
	start := time.Now().Add(-time.Minute)
	for _, r := range []any{journal.Header{Schema: journal.Schema, Run: "r", Bench: "b", Time: start, Points: 4},
		journal.Begin{Run: "r", Key: "k1", Time: start},
		journal.Row{Schema: journal.Schema, Run: "r", Bench: "b", Status: journal.OK, Key: "k1",
			Time: start.Add(20 * time.Second)},
		journal.Begin{Run: "r", Key: "k2", Point: "n=2", Time: start.Add(20 * time.Second)}} {
		must.Do(t, w.Append(r))
	}
	hold := must.Get(journal.HoldRun(dir, "r"))(t)
	st := newStore(dir, func(string) *bench.Bench { return nil }, index{})
	b, id := must.Get2(st.open(".@r"))(t)
	state, err := st.state(b, id)
	if err != nil || state.Outcome != running || state.Done != 1 || state.Planned != 4 || len(state.Current) != 1 ||
		state.Current[0].Point != "n=2" {
		t.Errorf("%+v: %v", state, err)
	}
	// Three points of 20 s are left, and the current one has already taken 20 s.
	if state.Remaining == nil || *state.Remaining < 35 || *state.Remaining > 45 {
		t.Errorf("remaining %v", state.Remaining)
	}
	must.Do(t, hold.Release())
	clear(b.holders)
	if state, err := st.state(b, id); err != nil || state.Outcome != stopped {
		t.Errorf("released: %+v: %v", state, err)
	}
}

// TestCompareDifferences checks that the page lists how runs differ, and compares runs on
// different CPUs only if the request ignores that.
func TestCompareDifferences(t *testing.T) {
	dir := t.TempDir()
	recordOn(t, "Xeon 6338", filepath.Join(dir, "a"), "old", 6, 10)
	recordOn(t, "EPYC 9654", filepath.Join(dir, "b"), "old", 6, 10)
	s := newServer(dir, "")
	c := ask[comparePage](t, s, "/api/compare?run=a@old&run=b@old").Comparisons[0]
	if c.Summary != "1 point: 1 not comparable" || !slices.Equal(c.Decisive, []string{"cpu"}) ||
		len(c.Differences) != 1 || !strings.HasPrefix(c.Differences[0], "cpu: Xeon 6338 -> EPYC 9654") {
		t.Errorf("%+v", c)
	}
	if c := ask[comparePage](t, s, "/api/compare?run=a@old&run=b@old&ignore=cpu").Comparisons[0]; c.Decisive != nil ||
		c.Summary != "1 point: 1 same" {
		t.Errorf("ignored: %+v", c)
	}
}

// TestInputs edits one input at a time, for a new run and for the same run resumed: the page of the
// run, the comparison and the history name it.
func TestInputs(t *testing.T) {
	before := journal.Inputs{"program ./p": "1111", "file common.sh": "2222", "interpreter /bin/sh": "3333",
		"variable OMP_NUM_THREADS": "8", "unit time_us": "us"}
	for input, differs := range map[string]string{
		"program ./p":              "inputs: program ./p 1111 -> program ./p 7",
		"file common.sh":           "inputs: file common.sh 2222 -> file common.sh 7",
		"interpreter /bin/sh":      "inputs: interpreter /bin/sh 3333 -> interpreter /bin/sh 7",
		"variable OMP_NUM_THREADS": "OMP_NUM_THREADS: 8 -> 7",
		"unit time_us":             "unit: us -> 7",
	} {
		for _, id := range []string{"a", "b"} {
			dir := t.TempDir()
			after := maps.Clone(before)
			after[input] = "7"
			for i, in := range []journal.Inputs{before, after} {
				w := must.Get(journal.Open(dir))(t)
				at := time.Date(2026, 11, 15, 9+i, 0, 0, 0, time.UTC)
				run := []string{"a", id}[i]
				must.Do(t, w.Append(journal.Header{Schema: journal.Schema, Run: run, Bench: "b", Time: at, Trials: 1, Points: 1,
					Environ:      map[string]string{"OMP_NUM_THREADS": in["variable OMP_NUM_THREADS"]},
					Fingerprints: map[string]journal.Inputs{in.Fingerprint(): in}}))
				must.Do(t, w.Append(journal.Row{Schema: journal.Schema, Run: run, Bench: "b", Status: journal.OK,
					Kind: journal.Measured, Point: point.Point{{Name: "n", Value: point.IntValue(1)}}, Samples: 10,
					Metrics: map[string]float64{"time_us": 10}, Units: map[string]string{"time_us": in["unit time_us"]},
					Time: at.Add(time.Second), Key: fmt.Sprint("k", i), Inputs: in.Fingerprint()}))
				must.Do(t, w.Close())
			}
			s := newServer(dir, "")
			if page := ask[runPage](t, s, "/api/run?run=."); !strings.Contains(strings.Join(page.Remarks, "\n"),
				"1 other build not shown (the latest: "+input+" differs)") {
				t.Errorf("%s, run %s: remarks %q", input, id, page.Remarks)
			}
			rows := ask[rowPage](t, s, "/api/rows?run=.")
			past := ask[historyPage](t, s, "/api/history?run=.&point="+url.QueryEscape(rows.Tables[0].Rows[0].Point))
			if len(past.Runs) != 2 || past.Runs[0].Changed != "" || past.Runs[1].Changed != input {
				t.Errorf("%s, run %s: history %+v", input, id, past.Runs)
			}
			if id == "a" {
				continue
			}
			c := ask[comparePage](t, s, "/api/compare?run=.@a&run=.@b").Comparisons[0]
			if !slices.ContainsFunc(c.Differences, func(text string) bool { return strings.HasPrefix(text, differs) }) {
				t.Errorf("%s: differences %q, want %q", input, c.Differences, differs)
			}
		}
	}
}

// TestDamage checks that the page of a run lists every line that has no checksum, and every row that does not follow
// the one before it.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	record(t, filepath.Join(dir, "new"), "r", 4, 10)
	record(t, filepath.Join(dir, "old"), "r", 4, 10)
	path := filepath.Join(dir, "old", journal.FileName)
	lines := strings.SplitAfter(string(must.Get(os.ReadFile(path))(t)), "\n")
	lines[4] = regexp.MustCompile(`,"crc":"[0-9a-f]+"}`).ReplaceAllString(lines[4], "}")
	must.Do(t, os.WriteFile(path, []byte(strings.Join(slices.Delete(lines, 2, 3), "")), 0o644))
	s := newServer(dir, "")
	page := ask[runPage](t, s, "/api/run?run=old")
	problems := strings.Join(page.Problems, "\n")
	if len(page.Problems) != 2 ||
		!strings.Contains(problems, "journal.jsonl: line 3 (run r): rows of the run are missing") ||
		!strings.Contains(problems, "journal.jsonl: line 4 (run r): the line does not match its checksum") ||
		page.Info.Lost != 2 {
		t.Errorf("problems %q, %d lost", page.Problems, page.Info.Lost)
	}
	if c := ask[comparePage](t, s, "/api/compare?run=new&run=old").Comparisons[0]; !strings.Contains(
		strings.Join(c.Remarks, "\n"), "NEW: 2 of 4 rows") || strings.Contains(strings.Join(c.Remarks, "\n"), "OLD: 2") {
		t.Errorf("the comparison: %q", c.Remarks)
	}
	if page := ask[runPage](t, s, "/api/run?run=new"); len(page.Problems) > 0 || page.Info.Lost > 0 {
		t.Errorf("an intact run: %q", page.Problems)
	}
}

// Runs are compared like in the compare command, with the same wording. A run compared
// with itself is the same.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	record(t, filepath.Join(dir, "a"), "old", 6, 10, 20)
	record(t, filepath.Join(dir, "b"), "old", 6, 10, 25)
	s := newServer(dir, "")
	page := ask[comparePage](t, s, "/api/compare?run=a@old&run=b@old&run=a@old")
	if len(page.Comparisons) != 2 || page.Comparisons[0].Summary != "2 points: 1 slower, 1 same" ||
		page.Comparisons[1].Summary != "2 points: 2 same" {
		t.Fatalf("%+v", page.Comparisons)
	}
	if lines := page.Comparisons[0].Lines; lines[1][1] != "slower" || lines[1][4] != "+25.00%" {
		t.Errorf("%q", lines)
	}
	// Runs with the same id in two folders are two series. The third run is the first one.
	if len(page.Figures) != 1 || len(page.Figures[0].Panels[0].Series) != 2 {
		t.Errorf("%+v", page.Figures)
	}
	for _, bad := range []string{"run=a", "run=a&run=gone", "run=a&run=b&metric=tiem_us",
		"run=a" + strings.Repeat("&run=b", maxCompared)} {
		if got := get(s, "GET", "http://127.0.0.1/api/compare?"+bad).StatusCode; got != 400 && got != 404 {
			t.Errorf("%s: %d", bad, got)
		}
	}
}

// A change is marked at its first run, and noise is not marked.
func TestHistory(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  int // the first slower run; 0 for none
		delta float64
		want  []string // by run
	}{
		{"steady", 0, 0, make([]string, 10)},
		{"slower", 6, 0.2, []string{"", "", "", "", "", "", "slower", "", "", ""}},
		{"faster", 5, -0.2, []string{"", "", "", "", "", "faster", "", "", "", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for i := range 10 {
				value := 100 * (1 + float64(i%3)/200)
				if c.slow > 0 && i >= c.slow {
					value *= 1 + c.delta
				}
				record(t, dir, fmt.Sprintf("r%d", i), 5, value, 7)
			}
			s := newServer(dir, "")
			rows := ask[rowPage](t, s, "/api/rows?run=.")
			page := ask[historyPage](t, s, "/api/history?run=.&point="+url.QueryEscape(rows.Tables[0].Rows[0].Point))
			var got []string
			for _, m := range page.Runs {
				got = append(got, m.Change)
			}
			if !slices.Equal(got, c.want) || len(page.Figures[0].Panels[0].Series[0].Points) != 10 {
				t.Errorf("%q, want %q", got, c.want)
			}
			// All points together: the mean of each run, and the same changes.
			all := ask[historyPage](t, s, "/api/history?run=.")
			if c.slow > 0 && all.Runs[c.slow].Change != c.want[c.slow] ||
				all.Point != "b, the geometric mean over its points" || all.Runs[0].Value != "26.5 µs" {
				t.Errorf("the whole bench: %+v", all.Runs)
			}
		})
	}
}

// An address that does not exist gets a page with links in a browser, and text in a program.
func TestMissingPage(t *testing.T) {
	s := newServer(t.TempDir(), "")
	for _, path := range []string{"/nothing", "/docs/nothing", "/%3Cimg%20src=x%3E"} {
		got := get(s, "GET", "http://127.0.0.1"+path, "Accept: text/html,*/*")
		page := string(must.Get(io.ReadAll(got.Body))(t))
		if got.StatusCode != 404 || !strings.Contains(page, `<a href="/">All runs</a>`) || strings.Contains(page, "<img") {
			t.Errorf("%s: %d\n%s", path, got.StatusCode, page)
		}
		got = get(s, "GET", "http://127.0.0.1"+path)
		if text := string(must.Get(io.ReadAll(got.Body))(t)); got.StatusCode != 404 || strings.Contains(text, "<html") {
			t.Errorf("%s: %d\n%s", path, got.StatusCode, text)
		}
	}
}
