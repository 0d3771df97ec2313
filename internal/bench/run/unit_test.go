package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestReview reads a journal line by line and checks which tasks remain.
func TestReview(t *testing.T) {
	const key = "0123456789abcdef"
	wanted := map[taskID]bool{{key, 0}: true}
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	header := func() any { return journal.Header{Run: "r", Bench: "b"} }
	begin := func(attempt int) any { return journal.Begin{Run: "r", Key: key, Attempt: attempt} }
	row := func(status journal.Status, attempt int) any {
		return journal.Row{Run: "r", Bench: "b", Key: key, Status: status, Attempt: attempt}
	}
	line := func(n, attempt int) any {
		return journal.Row{Run: "r", Bench: "b", Key: fmt.Sprintf("line%d", n), Task: key, Status: journal.OK,
			Attempt: attempt}
	}
	wrong := func(n, attempt int) any {
		r := line(n, attempt).(journal.Row)
		r.Status = journal.Failed
		return r
	}
	other := func() any { return journal.Row{Run: "r", Bench: "b", Key: "other", Status: journal.OK} }
	end := func() any { return journal.End{Run: "r", Outcome: "complete"} }
	for _, c := range []struct {
		name    string
		records []any
		done    bool
		next    int
		retry   bool // even after two failures
	}{
		{"never started", []any{header()}, false, 0, false},
		{"started and killed", []any{header(), begin(0)}, false, 0, false},
		{"good", []any{header(), begin(0), row(journal.OK, 0)}, true, 1, false},
		{"skipped", []any{header(), begin(0), row(journal.Skipped, 0)}, true, 1, false},
		{"failed", []any{header(), begin(0), row(journal.Failed, 0), end()}, false, 1, false},
		{"timed out", []any{header(), begin(0), row(journal.Timeout, 0), end()}, false, 1, false},
		{"failed, retried at once", []any{header(), row(journal.Failed, 0), row(journal.Failed, 1), end()}, false, 2, false},
		{"failed, retried well", []any{header(), row(journal.Failed, 0), row(journal.OK, 1), end()}, true, 2, false},
		{"failed, resumed, failed", []any{header(), row(journal.Failed, 0), end(), header(), begin(1),
			row(journal.Failed, 1), end()}, true, 2, false},
		{"failed, resumed, good", []any{header(), row(journal.Failed, 0), end(), header(), row(journal.OK, 1), end()}, true,
			2, false},
		{"failed, resumed, killed", []any{header(), row(journal.Failed, 0), end(), header(), begin(1)}, false, 1, false},
		{"table, ended", []any{header(), begin(0), line(1, 0), line(2, 0), end()}, true, 1, false},
		{"table, then another point", []any{header(), begin(0), line(1, 0), line(2, 0), other()}, true, 1, false},
		{"table, killed", []any{header(), begin(0), line(1, 0)}, false, 1, false},
		{"table, killed, another point resumed", []any{header(), begin(0), line(1, 0), header(), other(), end()}, false, 1,
			false},
		{"table, killed, resumed twice", []any{header(), begin(0), line(1, 0), header(), line(1, 1), line(2, 1), end(), header(),
			other()}, true, 2, false},
		{"table, killed, started again, killed", []any{header(), begin(0), line(1, 0), header(), begin(1), other()}, false,
			1, false},
		{"of another plan", []any{header(), other(), end()}, false, 0, false},
		{"table, a wrong line before a good one", []any{header(), begin(0), wrong(1, 0), line(2, 0), end()}, false, 1, false},
		{"table, wrong, retried well", []any{header(), wrong(1, 0), line(2, 0), line(1, 1), line(2, 1), end()}, true, 2,
			false},
		{"table, wrong, resumed, wrong",
			[]any{header(), wrong(1, 0), line(2, 0), end(), header(), wrong(1, 1), line(2, 1), end()}, true, 2, false},
		{name: "failed, resumed, failed, to be retried", done: false, next: 2, retry: true,
			records: []any{header(), row(journal.Failed, 0), end(), header(), begin(1), row(journal.Failed, 1), end()}},
		{name: "good, failures to be retried", records: []any{header(), begin(0), row(journal.OK, 0)}, done: true, next: 1,
			retry: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			w := must.Get(journal.Open(dir))(t)
			defer w.Close()
			for _, rec := range c.records {
				clock = clock.Add(time.Second)
				v := reflect.New(reflect.TypeOf(rec)).Elem()
				v.Set(reflect.ValueOf(rec))
				v.FieldByName("Time").Set(reflect.ValueOf(clock))
				must.Do(t, w.Append(v.Interface()))
			}
			_, run := must.Get2(journal.LoadRun(dir))(t)
			e := &resumeState{done: map[taskID]bool{}, attempts: map[taskID]int{}, failed: map[taskID]string{}}
			e.review(run, wanted, c.retry)
			task := plan.Task{Key: key}
			if e.isDone(task) != c.done || e.nextAttempt(task) != c.next {
				t.Errorf("settled %v, next attempt %d; want %v, %d", e.isDone(task), e.nextAttempt(task), c.done, c.next)
			}
		})
	}
}

func TestEnvSeen(t *testing.T) {
	text := func(s string) *string { return &s }
	planned := point.Env{{Name: "A", Value: "1", Set: true}, {Name: "B"}, {Name: "C", Value: "", Set: true},
		{Name: "D", Value: "(unset)", Set: true}}
	good := func() map[string]*string {
		return map[string]*string{"A": text("1"), "B": nil, "C": text(""), "D": text("(unset)")}
	}
	if err := checkEnv(planned, good()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(map[string]*string){
		"A=2, but 1":             func(m map[string]*string) { m["A"] = text("2") },
		"A=(unset), but 1":       func(m map[string]*string) { m["A"] = nil },
		"B=x, but (unset)":       func(m map[string]*string) { m["B"] = text("x") },
		"C=(unset), but  was":    func(m map[string]*string) { m["C"] = nil },
		"D=(unset), but (unset)": func(m map[string]*string) { m["D"] = nil },
		"did not report B":       func(m map[string]*string) { delete(m, "B") },
	} {
		seen := good()
		spoil(seen)
		if err := checkEnv(planned, seen); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want it to say %q", err, name)
		}
	}
}

// TestResults: the results of all ranks make one row.
func TestResults(t *testing.T) {
	answer := func(rank int, status journal.Status, reason string, secondary bool) worker.Event {
		return worker.Event{Rank: rank, Secondary: secondary,
			Done: &decl.Outcome{Status: status, Reason: reason, Phase: "timed"}}
	}
	lost := 1
	follower := func(rank int) worker.Event {
		e := answer(rank, journal.Failed, "group aborted by rank 1: connection lost", true)
		e.Culprit = &lost
		return e
	}
	for _, c := range []struct {
		name    string
		answers []worker.Event
		status  journal.Status
		rank    int // -1 for none
		reason  string
	}{
		{"all good", []worker.Event{answer(1, journal.OK, "", false), answer(0, journal.OK, "", false)}, journal.OK, -1, ""},
		{"all skip", []worker.Event{answer(0, journal.Skipped, "small", false), answer(1, journal.Skipped, "small", false)},
			journal.Skipped, -1, "small"},
		{"one fails", []worker.Event{answer(0, journal.OK, "", false), answer(1, journal.Failed, "boom", false)},
			journal.Failed, 1, "boom"},
		{"the cause, not who follows",
			[]worker.Event{answer(0, journal.Failed, "group aborted", true), answer(1, journal.Failed, "boom", false)},
			journal.Failed, 1, "boom"},
		{"only followers", []worker.Event{answer(1, journal.Failed, "group aborted", true),
			answer(0, journal.Failed, "group aborted too", true)}, journal.Failed, 1, "group aborted"},
		{"only followers of a lost rank, which cannot report itself", []worker.Event{follower(0), follower(1)},
			journal.Failed, 1, "group aborted by rank 1: connection lost"},
		{"one skips, one waited", []worker.Event{answer(1, journal.Skipped, "small", false),
			answer(0, journal.Failed, "group aborted", true)}, journal.Failed, 1,
			"the ranks disagree: rank 1 left the task: small, others did not"},
		{"one skips, one is good", []worker.Event{answer(0, journal.OK, "", false),
			answer(1, journal.Skipped, "small", false)}, journal.Failed, 1,
			"the ranks disagree: rank 1 left the task: small, others did not"},
		{"one skips, one never answers", []worker.Event{answer(1, journal.Skipped, "small", false)}, journal.Failed, 1,
			"the ranks disagree: rank 1 left the task: small, others did not"},
		{"one fails, one never answers", []worker.Event{answer(1, journal.Failed, "boom", false)}, journal.Failed, 1, "boom"},
	} {
		res := &results{byRank: make([]*worker.Event, 2)}
		for _, a := range c.answers {
			res.add(a)
			res.add(a) // sent twice, counted once
		}
		row := journal.Row{Metrics: map[string]float64{}, Units: map[string]string{}}
		res.fill(&row)
		rank := -1
		if row.Rank != nil {
			rank = *row.Rank
		}
		if row.Status != c.status || rank != c.rank || string(row.Reason) != c.reason {
			t.Errorf("%s: %s at %d: %q; want %s at %d: %q", c.name, row.Status, rank, row.Reason, c.status, c.rank, c.reason)
		}
		if rank >= 0 && row.Phase != "timed" {
			t.Errorf("%s: phase %q", c.name, row.Phase)
		}
	}
}

// TestConditionsOfRanks: a condition of all ranks appears once, and a condition of one rank with its number.
func TestConditionsOfRanks(t *testing.T) {
	res := &results{byRank: make([]*worker.Event, 3)}
	noisy, slow := journal.Remarkf("noisy"), journal.Remarkf("slow")
	for rank, seen := range [][]journal.Condition{{noisy}, {noisy, slow}, {noisy}} {
		res.add(worker.Event{Rank: rank, Done: &decl.Outcome{Status: journal.OK, Conditions: seen}})
	}
	row := journal.Row{Metrics: map[string]float64{}, Units: map[string]string{}}
	res.fill(&row)
	if got := strings.Join(row.Conditions.Sentences(), "|"); got != "noisy|rank 1: slow" {
		t.Errorf("warnings %q", got)
	}
}

// TestUnfinished: in a hang, the first rank that works is named, not one that waits for it or is done.
func TestUnfinished(t *testing.T) {
	w := &workerGroup{ranks: []rankState{{phase: "timed", waiting: true}, {phase: "timed"}, {phase: "check"}}}
	left := w.unfinished(&results{byRank: []*worker.Event{nil, {}, nil}})
	if v := culprit.Blame(culprit.Evidence{Ranks: left, Late: time.Second}); v.Rank != 2 || v.Phase != "check" {
		t.Errorf("%+v of %+v", v, left)
	}
}

// planted is a launch that has ended or is about to.
type planted struct {
	events chan launch.Event
	doomed bool
	out    launch.Outcome
	err    error
}

func (p *planted) Events() <-chan launch.Event   { return p.events }
func (p *planted) Stop(launch.StopRequest)       {}
func (p *planted) Ending() bool                  { return p.doomed }
func (p *planted) Wait() (launch.Outcome, error) { return p.out, p.err }

// TestEndOfLaunch: the workers are not blamed for the consequences of the end of the agent or the launcher,
// whichever is noticed first.
func TestEndOfLaunch(t *testing.T) {
	stopped := fmt.Errorf("%w: it had been stopped for 5s", launch.ErrAgentLost)
	own := launch.Exit{Rank: 1, Code: -1, Signal: 11}
	ended := launch.Exit{Rank: 0, Code: -1, Signal: 9, Stopped: true}
	event := func(e launch.Event) func(*workerGroup) *failure {
		return func(w *workerGroup) *failure { return w.processEvent(e) }
	}
	silence := func(w *workerGroup) *failure {
		w.ranks[0].silent = 1000
		return w.preferLaunchFailure(w.checkHeartbeats())
	}
	agentEnded := launch.Outcome{Exits: []launch.Exit{ended}, Reason: "the agent was told to end"}
	for _, c := range []struct {
		name   string
		launch planted
		seen   func(*workerGroup) *failure
		want   string
	}{
		{"its end", planted{doomed: true, err: launch.ErrAgentLost}, event(nil),
			"the launch agent died; the workers ended with it"},
		{"its end, stopped", planted{doomed: true, err: stopped}, event(nil),
			"the launch agent died: it had been stopped for 5s; the workers ended with it"},
		{"silence", planted{doomed: true, err: stopped}, silence,
			"the launch agent died: it had been stopped for 5s; the workers ended with it"},
		{"silence of a worker", planted{}, silence,
			"rank 0: lost heartbeat: no message for 5s (stopped, starved of CPU or cut off; --heartbeat waits longer)"},
		{"a worker it ended", planted{out: agentEnded}, event(ended), "the workers were ended: the agent was told to end"},
		{"a worker that had ended before", planted{out: launch.Outcome{Exits: []launch.Exit{ended, own}}, err: stopped},
			event(nil),
			"rank 1: the worker ended with signal 11 (segmentation fault)"},
		{"a guard", planted{err: &rankhost.LostError{Rank: 1, Host: "a", PID: 7, Cause: "its process ended"}}, event(nil),
			"rank 1: the process of rank 1 (host a, pid 7) was lost: its process ended"},
		{"its launcher", planted{err: errors.New("mpirun ended with signal 9 (killed)")}, event(nil),
			"mpirun ended with signal 9 (killed); the workers ended with it"},
	} {
		hub := must.Get(worker.Listen())(t)
		c.launch.events = make(chan launch.Event, 1)
		f := c.seen(&workerGroup{slot: &runSlot{runner: new(runner)}, hub: hub, launch: &c.launch,
			ranks: make([]rankState, 2), procs: 2})
		got := f.reason
		if f.rank != nil {
			got = fmt.Sprintf("rank %d: %s", *f.rank, got)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		hub.Close()
	}
}

func TestLastOutput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if got := lastOutput(dir, 0); got != "" {
		t.Errorf("no file: %q", got)
	}
	write("rank0.out", "progress\n")
	if got := lastOutput(dir, 0); got != "progress" {
		t.Errorf("stdout only: %q", got)
	}
	write("rank0.err", "boom \xff\n\n")
	if got := lastOutput(dir, 0); got != "boom \uFFFD" {
		t.Errorf("errors first: %q", got)
	}
	write("rank0.err", "hm\npanic: why\n"+strings.Repeat("stack\n", 5000))
	if got := lastOutput(dir, 0); len(got) > 2000 || !strings.HasPrefix(got, "panic: why\nstack") {
		t.Errorf("a crash: %.20q", got)
	}
	write("rank0.err", strings.Repeat("\u00e9", 10_000)+"end")
	if got := lastOutput(dir, 0); len(got) > 2100 || !strings.HasSuffix(got, "\u00e9end") ||
		strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("the end of much: %d bytes, %.10q", len(got), got)
	}
}

// TestResumeOfAnotherBench: a run of another bench cannot be resumed. Restarted ranks ignore it if it began before
// their job.
func TestResumeOfAnotherBench(t *testing.T) {
	s := newScene(t)
	s.run("scripted")
	p, err := makePlan("still", plan.Request{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), p, Options{Dir: s.dir, Resume: true})
	if err == nil || !strings.Contains(err.Error(), `bench "scripted", not "still"`) {
		t.Errorf("error %v", err)
	}
	later := runner{plan: p, opts: Options{Dir: s.dir, Resume: true, ResumeSince: time.Now()}}
	if found, err := later.latest(); found != nil || err != nil {
		t.Errorf("%+v, %v, want no run of this job", found, err)
	}
}

// TestResumeFromNothing: --resume without a run starts a first run.
func TestResumeFromNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.options.Resume = true
	if res, _ := s.run("scripted"); res.Counts[journal.OK] != 8 {
		t.Errorf("counts %v", res.Counts)
	}
	// After the run is complete there is nothing left to do.
	launched := false
	s.options.Observe = func(e Event) { launched = launched || e.Task != nil }
	if res, rows := s.run("scripted"); launched || res.Counts[journal.OK] != 8 || len(rows) != 8 {
		t.Errorf("launched %v, counts %v, %d rows", launched, res.Counts, len(rows))
	}
}

// TestUnwritable: an unwritable journal is an error of the run, not of a row.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	p, err := makePlan("still", plan.Request{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), p, Options{Dir: file})
	var path *os.PathError
	if !errors.As(err, &path) {
		t.Errorf("error %v", err)
	}
}

// TestLastWords: a rank's exit may be known before its last messages have been read.
func TestLastWords(t *testing.T) {
	hub := must.Get(worker.Listen())(t)
	defer hub.Close()
	vars := hub.Vars(false)
	network, address, _ := strings.Cut(vars["KERNBENCH_WORKER"], ":")
	conn := must.Get(worker.Service(vars["KERNBENCH_TOKEN"]).Dial(t.Context(), network, address))(t)
	conn.Send(json.RawMessage(`{"hello":{"rank":0}}`))
	c := &workerGroup{hub: hub, ranks: make([]rankState, 1)}
	select {
	case e := <-hub.Events():
		c.updateRank(e)
	case <-time.After(hangGuard):
		t.Fatal("the worker did not join")
	}
	conn.Send(json.RawMessage(`{"event":{"beat":true,"phase":"timed"}}`))
	conn.Send(json.RawMessage(`{"event":{"beat":true,"phase":"the end"}}`))
	conn.Close()
	if f := c.workerDied(&launch.Exit{Rank: 0, Code: 3}); f.phase != "the end" || *f.rank != 0 ||
		f.status != journal.Failed {
		t.Errorf("%+v", f)
	}
}

// A time or sample below zero fails the row and removes its numbers.
func TestNegativeTime(t *testing.T) {
	for _, c := range []struct {
		us, least float64
		want      journal.Status
	}{{5, 4, journal.OK}, {0, 0, journal.OK}, {-5, -5, journal.Failed}, {5, -1, journal.Failed}} {
		row := journal.Row{Status: journal.OK, Metrics: map[string]float64{"time_us": c.us},
			Stats: journal.NewObject(map[string]journal.Stat{"time_us": {Min: c.least}})}
		if rejectNegativeTime(&row); row.Status != c.want ||
			c.want == journal.Failed && (len(row.Metrics) > 0 || row.Reason == "") {
			t.Errorf("%v us, least %v: %s, %q, %v", c.us, c.least, row.Status, row.Reason, row.Metrics)
		}
	}
}

// A program may replace its logs. Whatever it puts there is neither waited for nor read from outside the folder.
func TestReplacedLog(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	must.Do(t, os.WriteFile(outside, []byte("secret"), 0o600))
	for want, replace := range map[string]func(string) error{
		"is a pipe":               func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"leads out of the folder": func(path string) error { return os.Symlink(outside, path) },
		"is a folder":             func(path string) error { return os.Mkdir(path, 0o700) },
		"too large": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		},
		"was deleted": func(string) error { return nil },
	} {
		logs := t.TempDir()
		must.Do(t, replace(filepath.Join(logs, "rank0.out")))
		out := launch.Outcome{Exits: []launch.Exit{{Stdout: launch.Stream{Bytes: 5}}}}
		row, rows, err := new(runner).parse(&plan.Group{}, journal.Row{}, out, logs)
		if err != nil || rows != nil || row.Status != journal.Failed || row.Output != "" ||
			!strings.Contains(string(row.Reason), want) {
			t.Errorf("%s: %s %q, %d rows, %v", want, row.Status, row.Reason, len(rows), err)
		}
	}
}

// Output that was cut short, by a full disk or because it was too long, may end in half a number. It gives no
// row.
func TestCutOutput(t *testing.T) {
	logs := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(logs, "rank0.out"), []byte("x=123"), 0o644))
	g := &plan.Group{Part: &decl.Part{Command: &decl.Command{Parse: func([]decl.RankOutput) ([]decl.ParsedRow,
		error) {
		return []decl.ParsedRow{{}}, nil
	}}}}
	for _, c := range []struct {
		stdout launch.Stream
		rows   int
		reason string
	}{
		{launch.Stream{Bytes: 5}, 1, ""},
		{launch.Stream{Bytes: 9, Dropped: 4, LogError: "no space left on device"}, 0,
			"the last 4 bytes of the output of rank 0 were not kept: no space left on device"},
		{launch.Stream{Bytes: 9, Dropped: 4}, 0,
			"the last 4 bytes of the output of rank 0 were not kept: it has more than 256 MiB, or the disk is full"},
		{launch.Stream{Bytes: 9}, 0, "the output of rank 0 was deleted while it ran: 4 of 9 bytes are missing in " +
			filepath.Base(logs) + "/rank0.out"},
	} {
		row, rows, err := new(runner).parse(g, journal.Row{}, launch.Outcome{Exits: []launch.Exit{{Stdout: c.stdout}}}, logs)
		if err != nil || len(rows) != c.rows || row.Reason != journal.Text(c.reason) ||
			(row.Status == journal.Failed) != (c.reason != "") {
			t.Errorf("%+v: %d rows, %s %q, %v", c.stdout, len(rows), row.Status, row.Reason, err)
		}
	}
}

// Ranks that share cores wait for each other on an idle machine, whoever starts them: the ranks of a program are no
// more disturbed than those of a built-in bench.
func TestCrowdedRanksAreNotDisturbed(t *testing.T) {
	host := hostinfo.Host{CPU: hostinfo.CPU{Usable: 2}}
	s := &runSlot{runner: &runner{plan: &plan.Plan{}, host: host}}
	for ranks, want := range map[int]string{2: string(journal.CodeWaiting), 4: "4 ranks share 2 cores"} {
		g := &plan.Group{Part: &decl.Part{Command: &decl.Command{}}, Ranks: ranks}
		waited := 0.77
		row := journal.Row{Status: journal.OK, Kind: journal.Measured, Load: &journal.Load{Waiting: &waited}}
		journal.Judge(&row, s.crowded(g)...)
		if crowded := row.Conditions.Has(journal.CodeCrowded); crowded == row.Disturbed() || crowded != (ranks > 2) ||
			crowded && row.Conditions[0].Sentence() != want {
			t.Errorf("%d ranks: disturbed %v, %q", ranks, row.Disturbed(), row.Conditions.Sentences())
		}
	}
}
