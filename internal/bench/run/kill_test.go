package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// kills is how often each victim is killed at a random moment.
func kills() int {
	if testing.Short() {
		return 2
	}
	return 4
}

// TestKillSupervisor: kill -9 of the supervisor at a random moment ends every worker, program and
// grandchild. Resuming completes the same set of rows as an undisturbed run.
func TestKillSupervisor(t *testing.T) {
	t.Parallel()
	for _, bench := range []string{"slow", "slow-simulated", "listen"} {
		for n := range kills() {
			t.Run(fmt.Sprintf("%s %d", bench, n), func(t *testing.T) {
				t.Parallel()
				s, random := newScene(t), proctest.Random(t)
				temp := t.TempDir()
				s.environ = append(s.environ, "TMPDIR="+temp)
				shm := shmFiles(t)
				// On a busy machine, the run must not end before it is noticed.
				gate := filepath.Join(t.TempDir(), "gate")
				s.environ = append(s.environ, "TEST_SLEEP=200ms", "TEST_GATE="+gate)
				cmd := s.supervisor(bench)
				s.eventually("a worker", func() bool { return len(victims(s, bench)) > 0 })
				time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
				listeners := map[string]string{} // sockets by port
				open := listening(t)
				for _, p := range s.mark.Processes() {
					if port := p.Env["MASTER_PORT"]; open[port] != "" {
						listeners[port] = open[port]
					}
				}
				cmd.Process.Kill()
				cmd.Wait()
				s.mark.AssertGone(t)
				open = listening(t)
				for port, socket := range listeners {
					if open[port] == socket { // not opened by another process since
						t.Errorf("something still listens on port %s", port)
					}
				}
				if left, _ := os.ReadDir(temp); len(left) > 0 {
					t.Errorf("%d files are left in the temporary folder, such as %s", len(left), left[0].Name())
				}
				for name := range shmFiles(t) {
					if !shm[name] && strings.Contains(name, "kernbench") {
						t.Errorf("/dev/shm/%s is left", name)
					}
				}
				must.Do(t, os.WriteFile(gate, nil, 0o600))
				s.environ = append(s.environ, "TEST_SLEEP=")
				s.options.Resume = true
				s.run(bench)
				assertComplete(t, s, bench)
			})
		}
	}
}

// listening returns the listening sockets of this host, by port.
func listening(t *testing.T) map[string]string {
	t.Helper()
	table := must.Get(os.ReadFile("/proc/net/tcp"))(t)
	sockets := map[string]string{}
	for line := range strings.Lines(string(table)) {
		const local, state, inode, listen = 1, 3, 9, "0A"
		f := strings.Fields(line)
		if len(f) <= inode || f[state] != listen {
			continue
		}
		_, hex, _ := strings.Cut(f[local], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			t.Fatalf("/proc/net/tcp: %q: %v", line, err)
		}
		sockets[strconv.FormatUint(port, 10)] = f[inode]
	}
	return sockets
}

func shmFiles(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	entries := must.Get(os.ReadDir("/dev/shm"))(t)
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}

// victims returns the workers of a bench, or the grandchildren of its programs.
func victims(s *scene, bench string) (found []proctest.Process) {
	for _, p := range s.mark.Processes() {
		grandchild := strings.Contains(p.Cmdline, "program sleep")
		if p.Env["KERNBENCH_WORKER"] != "" || bench == "listen" && grandchild {
			found = append(found, p)
		}
	}
	return found
}

// TestKillRank: kill -9 of a worker or of a program's grandchild at a random moment gives a failed row with the
// cause. The sweep continues, and resuming repairs the row.
func TestKillRank(t *testing.T) {
	t.Parallel()
	for _, bench := range []string{"slow", "listen"} {
		for n := range kills() {
			t.Run(fmt.Sprintf("%s %d", bench, n), func(t *testing.T) {
				t.Parallel()
				s, random := newScene(t), proctest.Random(t)
				done := make(chan struct{})
				killed := make(chan proctest.Process, 1)
				go func() {
					defer close(killed)
					wait := time.Duration(random.Int64N(int64(200 * time.Millisecond)))
					for limit := time.Now().Add(wait); ; time.Sleep(time.Millisecond) {
						select {
						case <-done:
							return
						default:
						}
						if found := victims(s, bench); time.Now().After(limit) && len(found) > 0 {
							victim := found[random.IntN(len(found))]
							if syscall.Kill(victim.PID, syscall.SIGKILL) == nil {
								killed <- victim
							}
							return
						}
					}
				}()
				res, rows := s.run(bench)
				close(done)
				victim, hit := <-killed
				failed := 0
				for _, r := range rows {
					if !r.Status.Bad() {
						continue
					}
					failed++
					how := "signal 9"
					if bench == "listen" {
						how = "exit code 7"
					}
					if !strings.Contains(string(r.Reason), how) || r.Rank == nil || r.Phase == "" ||
						hit && fmt.Sprint(*r.Rank) != victim.Env["RANK"] {
						t.Errorf("%s: %s at %v in %q: %s; killed was rank %s", at(r), r.Status, r.Rank, r.Phase, r.Reason,
							victim.Env["RANK"])
					}
				}
				// No one notices the kill of a worker that was about to exit, or of a grandchild at its end.
				if failed > 1 || len(rows) != len(plannedWork(t, bench)) {
					t.Errorf("%d of %d rows failed: %v", failed, len(rows), res.Counts)
				}
				t.Logf("killed: %v, failed rows: %d", hit, failed)
				s.options.Resume = true
				s.run(bench)
				assertComplete(t, s, bench)
			})
		}
	}
}

// TestKillAgent: the agent may be killed too.
func TestKillAgent(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	gate := filepath.Join(t.TempDir(), "gate") // the launch ends after its agent is killed
	s.environ = append(s.environ, "TEST_GATE="+gate)
	cmd := s.supervisor("slow")
	var agent int
	s.eventually("an agent at work", func() bool {
		for _, p := range s.mark.Processes() {
			if p.Cmdline == "kernbench-agent " {
				agent = p.PID
			}
		}
		return agent != 0 && len(victims(s, "slow")) == 2
	})
	syscall.Kill(agent, syscall.SIGKILL)
	must.Do(t, os.WriteFile(gate, nil, 0o600))
	must.Do(t, cmd.Wait())
	failed := 0
	for _, r := range s.rows() {
		if r.Status.Bad() {
			failed++
			// The ranks may be seen here before the supervisor knows that they run. The reason then begins with "launching".
			if !strings.Contains(string(r.Reason), "the launch agent died") || r.Rank != nil {
				t.Errorf("%s: %s", at(r), r.Reason)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d failed rows, want 1", failed)
	}
	s.options.Resume = true
	s.run("slow")
	assertComplete(t, s, "slow")
}

// TestLeftBehind: a daemon that a program leaves behind is killed, and a warning says so.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.request = plan.Request{Axes: []plan.Assign{{Name: "i", Text: "1"}}, Envs: []plan.Assign{{Name: "SWEPT", Text: "1"}},
		Trials: 1}
	p := must.Get(makePlan("listen", s.request))(t)
	for _, g := range p.Groups {
		g.Part.Command.Argv = []string{self, "program", "leave"}
	}
	res, err := Run(t.Context(), p, Options{Dir: s.dir, Environ: s.environ})
	if err != nil || res.Counts[journal.OK] != 1 {
		t.Fatalf("%v, %v", res.Counts, err)
	}
	if left := s.mark.Processes(); len(left) > 0 {
		t.Errorf("%d processes are left, such as %s", len(left), left[0].Cmdline)
	}
	for _, r := range s.rows() {
		if len(r.Conditions) == 0 || !strings.Contains(r.Conditions[0].Sentence(), "2 processes outlived the program") {
			t.Errorf("%s: warnings %q", at(r), r.Conditions.Sentences())
		}
	}
}

// TestTornTable: if a supervisor is killed between the rows of one program's table, that program runs again.
func TestTornTable(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.run("table")
	whole := s.rows()
	if len(whole) != 8*4 {
		t.Fatalf("%d rows, want 32", len(whole))
	}
	file := filepath.Join(s.dir, journal.FileName)
	data := must.Get(os.ReadFile(file))(t)
	lines := strings.SplitAfter(string(data), "\n")
	// All programs are alike. Test every line of the last two, after which little is left to run, and one of the first.
	cuts := []int{4}
	for cut := len(lines) * 3 / 4; cut < len(lines); cut++ {
		cuts = append(cuts, cut)
	}
	for _, cut := range cuts {
		must.Do(t, os.WriteFile(file, []byte(strings.Join(lines[:cut], "")), 0o600))
		s.options.Resume = true
		s.run("table")
		have := map[taskID]bool{}
		for _, r := range s.rows() {
			have[taskID{r.Key, r.Trial}] = true
			if r.Status != journal.OK {
				t.Errorf("cut after %d lines: %s: %s: %s", cut, at(r), r.Status, r.Reason)
			}
		}
		for _, r := range whole {
			if !have[taskID{r.Key, r.Trial}] {
				t.Errorf("cut after %d lines: %s is missing", cut, at(r))
			}
		}
		if len(have) != len(whole) {
			t.Errorf("cut after %d lines: %d rows, want %d", cut, len(have), len(whole))
		}
	}
}
