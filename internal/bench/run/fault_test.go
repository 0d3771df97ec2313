package run

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestEnvironment: a worker sees exactly the planned environment, and the supervisor's own environment does
// not change.
func TestEnvironment(t *testing.T) {
	before, kernel := os.Environ(), readAll(t, "/proc/self/environ")
	s := newScene(t)
	s.environ = []string{"KEEP=1", s.mark.String(), "SWEPT=inherited",
		// Variables of outer launchers must not reach the ranks.
		"RANK=9", "OMPI_COMM_WORLD_RANK=3", "PMI_RANK=3", "SLURM_PROCID=3", "TORCHELASTIC_RUN_ID=x",
		"KERNBENCH_LAUNCH=outer", "KERNBENCH_WORKER=unix:nowhere"}
	_, rows := s.run("environ")
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	for i, swept := range []string{"SWEPT=a b", "SWEPT=", ""} {
		if rows[i].Status != journal.OK {
			t.Errorf("%s: %s: %s", at(rows[i]), rows[i].Status, rows[i].Reason)
			continue
		}
		for rank, digit := range []string{"0", "1"} {
			want := []string{"KEEP=1", "KERNBENCH_LAUNCH", "LOCAL_RANK=" + digit, "LOCAL_WORLD_SIZE=2",
				"MASTER_ADDR=127.0.0.1", "MASTER_PORT", "RANK=" + digit, s.mark.String(), "WORLD_SIZE=2"}
			if swept != "" {
				want = append(want, swept)
			}
			slices.Sort(want)
			got := strings.Split(strings.TrimSuffix(s.log(rows[i], rank), "\x00"), "\x00")
			for k, e := range got {
				for _, name := range []string{"KERNBENCH_LAUNCH", "MASTER_PORT"} { // new for each launch
					if strings.HasPrefix(e, name+"=") && e != "KERNBENCH_LAUNCH=outer" {
						got[k] = name
					}
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s, rank %d sees\n%q, want\n%q", at(rows[i]), rank, got, want)
			}
		}
	}
	if !slices.Equal(os.Environ(), before) || readAll(t, "/proc/self/environ") != kernel {
		t.Error("the environment of the supervisor has changed")
	}
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

// TestWrongEnvironment: a worker with an unplanned environment fails. The row names the variable and both
// values, and the points of the other environment are good.
func TestWrongEnvironment(t *testing.T) {
	t.Parallel()
	for fake, reason := range map[string]string{"SWEPT=2": "SWEPT=2, but 1 was planned", "OTHER=1": ""} {
		t.Run(fake, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.environ = append(s.environ, "TEST_FAKE="+fake)
			res, rows := s.run("still")
			for _, r := range rows {
				e, _ := r.Env.Get("SWEPT")
				if reason == "" || e.Value == "2" {
					if r.Status != journal.OK {
						t.Errorf("%s: %s: %s", at(r), r.Status, r.Reason)
					}
					continue
				}
				if r.Status != journal.Failed || !strings.Contains(string(r.Reason), reason) || r.Rank == nil || *r.Rank != 1 ||
					r.Phase != "start" {
					t.Errorf("%s: %s at %v in %q: %q, want it to say %q", at(r), r.Status, r.Rank, r.Phase, r.Reason, reason)
				}
			}
			if want := map[bool]int{true: 6, false: 3}[reason == ""]; res.Counts[journal.OK] != want {
				t.Errorf("counts %v, want %d good ones", res.Counts, want)
			}
		})
	}
}

// TestUnsetButSet: a variable is set although it should not be.
func TestUnsetButSet(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.environ = append(s.environ, "TEST_FAKE=SWEPT=here")
	s.request.Envs = []plan.Assign{{Name: "SWEPT", Text: "-"}}
	_, rows := s.run("still")
	for _, r := range rows {
		if r.Status != journal.Failed || !strings.Contains(string(r.Reason), "SWEPT=here, but (unset) was planned") {
			t.Errorf("%s: %s: %s", at(r), r.Status, r.Reason)
		}
	}
}

// TestDiesAtStart: a launch that fails before its workers are ready costs one point, not the whole group. A
// group that fails to start each time is given up.
func TestDiesAtStart(t *testing.T) {
	t.Parallel()
	t.Run("once", func(t *testing.T) {
		s := newScene(t)
		fuse := filepath.Join(t.TempDir(), "fuse")
		must.Do(t, os.WriteFile(fuse, nil, 0o600))
		s.environ = append(s.environ, "TEST_DIES_ONCE="+fuse)
		res, rows := s.run("still")
		if res.Counts[journal.Failed] != 1 || res.Counts[journal.OK] != 5 {
			t.Errorf("counts %v, want 1 failed and 5 ok", res.Counts)
		}
		if r := rows[0]; r.Status != journal.Failed || r.Rank == nil || r.Phase != "start" ||
			!strings.Contains(string(r.Reason), "exit code 9") {
			t.Errorf("%s at %v in %q: %s", r.Status, r.Rank, r.Phase, r.Reason)
		}
	})
	t.Run("retried", func(t *testing.T) {
		s := newScene(t)
		fuse := filepath.Join(t.TempDir(), "fuse")
		must.Do(t, os.WriteFile(fuse, nil, 0o600))
		s.environ = append(s.environ, "TEST_DIES_ONCE="+fuse)
		s.options.Retries = 1
		res, rows := s.run("still")
		if res.Counts[journal.Failed] != 0 || res.Counts[journal.OK] != 6 || rows[0].Attempt != 1 {
			t.Errorf("counts %v, attempt %d of the first: want all good, the first at its second attempt", res.Counts,
				rows[0].Attempt)
		}
		for i, r := range rows {
			warned := slices.ContainsFunc(r.Conditions.Sentences(), func(w string) bool {
				return strings.HasPrefix(w, "needed a retry: attempt 1 failed at rank ") && strings.Contains(w, "exit code 9")
			})
			if warned != (i == 0) {
				t.Errorf("%s: warnings %q", at(r), r.Conditions.Sentences())
			}
		}
	})
	t.Run("always", func(t *testing.T) {
		s := newScene(t)
		s.environ = append(s.environ, "TEST_DIES=1")
		res, rows := s.run("still")
		if res.Counts[journal.Failed] != 6 {
			t.Errorf("counts %v, want 6 failed", res.Counts)
		}
		launches := map[string]bool{}
		for _, r := range rows {
			launches[r.Launch] = true
		}
		if len(launches) > 4 {
			t.Errorf("%d launches for 2 groups that cannot start", len(launches))
		}
	})
}

// TestLostHeartbeat: a stopped process sends no heartbeats and is considered dead.
func TestLostHeartbeat(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	res, rows := s.run("stop")
	if res.Counts[journal.OK] != 2 || res.Counts[journal.Failed] != 1 {
		t.Errorf("counts %v, want 2 ok and 1 failed", res.Counts)
	}
	if r := rows[1]; r.Status != journal.Failed || r.Rank == nil || *r.Rank != 1 || r.Phase != "stopping" ||
		!strings.Contains(string(r.Reason), "heartbeat") {
		t.Errorf("%s at %v in %q: %s", r.Status, r.Rank, r.Phase, r.Reason)
	}
}

// TestDisagreement: if one rank skips alone, the others wait for it. The row says so and names the rank.
func TestDisagreement(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	res, rows := s.run("lonely")
	if res.Counts[journal.OK] != 2 || res.Counts[journal.Failed] != 1 {
		t.Errorf("counts %v, want 2 ok and 1 failed", res.Counts)
	}
	r := rows[1]
	if r.Status != journal.Failed || r.Rank == nil || *r.Rank != 1 || !strings.Contains(string(r.Reason), "disagree") ||
		!strings.Contains(string(r.Reason), "rank 1 feels like it") {
		t.Errorf("%s at %v in %q: %s", r.Status, r.Rank, r.Phase, r.Reason)
	}
}

// TestEffectOfVariables: each variable gets one verdict: one doubles the time, the other has no effect.
func TestEffectOfVariables(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.run("scripted")
	var texts []string
	for _, n := range s.journal().Notes {
		texts = append(texts, string(n.Text))
	}
	want := []string{
		"DOUBLE: best is 0: time_us -50.0 % against 1 (95 % interval -50.0 to -50.0 %)",
		"IGNORED: no visible effect: time_us of its 2 values is equal within 2 % at all 2 points (95 % intervals " +
			"+0.0 to +0.0 %)",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("notes\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

// TestTwoAtOnce: the rows of each of two supervisors say that the other one was running.
func TestTwoAtOnce(t *testing.T) {
	first, second := newScene(t), newScene(t)
	gate := filepath.Join(t.TempDir(), "gate") // the first run ends after the second
	first.environ = append(first.environ, "TEST_GATE="+gate)
	hasRow := func(s *scene) func() bool {
		return func() bool {
			_, r, err := journal.LoadRun(s.dir)
			return err == nil && len(r.Rows) > 0
		}
	}
	a := first.supervisor("slow")
	first.eventually("a row of the first", hasRow(first))
	b := second.supervisor("slow")
	must.Do(t, b.Wait())
	must.Do(t, os.WriteFile(gate, nil, 0o600))
	must.Do(t, a.Wait())
	warned := func(s *scene) (n int) {
		for _, r := range s.rows() {
			if r.Conditions.Has(journal.CodeCrowd) {
				n++
			}
		}
		return n
	}
	if warned(first) == 0 {
		t.Error("the first did not notice the second")
	}
	if n := warned(second); n != 12 {
		t.Errorf("%d of the second's 12 rows are marked", n)
	}
}

// TestInterrupt: an interrupt at any moment keeps the recorded rows and leaves no row for the current
// point. Resuming completes the set.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	moments := []time.Duration{0, 3 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond,
		200 * time.Millisecond}
	for _, bench := range []string{"slow", "listen"} {
		for _, after := range moments {
			t.Run(bench+after.String(), func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var once sync.Once
				s.options.Observe = func(e Event) {
					if e.Started != nil {
						once.Do(func() { time.AfterFunc(after, cancel) })
					}
				}
				res, rows := s.runContext(ctx, bench)
				if !res.Interrupted {
					t.Log("the run was over before the interrupt")
				}
				for _, r := range rows {
					if r.Status != journal.OK {
						t.Errorf("%s: %q: %s", at(r), r.Status, r.Reason)
					}
				}
				s.options = Options{Resume: true}
				if res, _ := s.run(bench); res.Interrupted || res.Counts[journal.OK] != len(plannedWork(t, bench)) {
					t.Errorf("resumed to %v", res.Counts)
				}
				assertComplete(t, s, bench)
			})
		}
	}
}

// TestInterruptAtStart: workers that have not connected yet give no failed rows.
func TestInterruptAtStart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.environ = append(s.environ, "TEST_LATE=1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		s.eventually("a worker", func() bool { return len(s.mark.Processes()) > 0 })
		cancel()
	}()
	if res, rows := s.runContext(ctx, "still"); !res.Interrupted || len(rows) != 0 {
		t.Errorf("interrupted: %v, rows: %v", res.Interrupted, rows)
	}
}

// plannedWork returns the tasks of an undisturbed run.
func plannedWork(t *testing.T, bench string) map[taskID]bool {
	t.Helper()
	p := must.Get(makePlan(bench, plan.Request{}))(t)
	return planned(p)
}

// assertComplete expects exactly one good row for every planned task.
func assertComplete(t *testing.T, s *scene, bench string) {
	t.Helper()
	left := plannedWork(t, bench)
	for _, r := range s.rows() {
		w := taskID{r.TaskKey(), r.Trial}
		if !left[w] {
			t.Errorf("%s: a row too many", at(r))
		}
		if r.Status != journal.OK {
			t.Errorf("%s: %s: %s", at(r), r.Status, r.Reason)
		}
		delete(left, w)
	}
	if len(left) > 0 {
		t.Errorf("%d rows are missing", len(left))
	}
}

// TestWrongResult: rows with a wrong result fail, say why, and have no numbers. Other rows of the same table
// are good.
func TestWrongResult(t *testing.T) {
	t.Setenv("TEST_WRONG", "1")
	s := newScene(t)
	res, rows := s.run("table")
	if bad := len(rows) / 4; bad == 0 || res.Counts[journal.Failed] != bad || res.Counts[journal.OK] != 3*bad {
		t.Errorf("%v of %d rows", res.Counts, len(rows))
	}
	for _, r := range rows {
		switch wrong := r.Point.At("line").Int() == 3; {
		case !wrong && (r.Status != journal.OK || len(r.Metrics) != 1):
			t.Errorf("%s: %s %s %v", at(r), r.Status, r.Reason, r.Metrics)
		case wrong && (r.Status != journal.Failed || r.Phase != "check" || r.Reason != "7 wrong elements" ||
			len(r.Metrics) != 0):
			t.Errorf("%s: %s %s %v", at(r), r.Status, r.Reason, r.Metrics)
		}
	}
}
