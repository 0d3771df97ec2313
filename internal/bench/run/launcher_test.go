package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestLauncherCommand(t *testing.T) {
	for _, c := range []struct {
		version string
		want    string // "" if it is rejected
	}{
		{"mpirun (Open MPI) 4.1.4\n\nReport bugs to", "launch --flag -n 3 -x A -x B program arg"},
		{"mpiexec (OpenRTE) 4.1.4", "launch --flag -n 3 -x A -x B program arg"},
		{"HYDRA build details:\n    Version: 4.0.2", "launch --flag -n 3 program arg"},
		{"slurm-wlm 22.05.8\n", "launch --flag --ntasks=3 --export=ALL --kill-on-bad-exit=1 --job-name=kernbench-X " +
			"program arg"},
		{"Intel(R) Something 2021", ""},
		{"", ""},
	} {
		kind, err := launcherKind(c.version)
		if c.want == "" {
			if err == nil {
				t.Errorf("%q was taken for %s", c.version, kind)
			}
			continue
		}
		l := &Launcher{argv: []string{"launch", "--flag"}, kind: kind, name: "kernbench-X"}
		if got := strings.Join(l.command(3, []string{"program", "arg"}, []string{"A", "B"}), " "); err != nil ||
			got != c.want {
			t.Errorf("%q: got %s, %v", c.version, got, err)
		}
	}
	// A launcher that is slow to answer, as on a busy machine, is not taken for another program.
	path := filepath.Join(t.TempDir(), "mpirun")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700))
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := NewLauncher(brief, path, "127.0.0.1"); err == nil || !strings.Contains(err.Error(), "did not answer") {
		t.Errorf("slow: %v", err)
	}
	for command, want := range map[string]string{"": "--launcher is empty", "/no/such/mpirun": "no such program",
		"mpirun 'a b": "is not closed",
		"true":        "under another launcher, such as torchrun", "false": "its --version fails (exit status 1)"} {
		if l, err := NewLauncher(t.Context(), command, "127.0.0.1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want the error %q", command, l, err, want)
		}
	}
}

// The ranks of a launcher get the chosen interface and ports, even on hosts to which the launcher exports only
// named variables. Planned variables and the user's own settings take precedence.
func TestLauncherReach(t *testing.T) {
	value := "mine"
	r := &runner{opts: Options{Launcher: &Launcher{argv: []string{"mpirun"}, kind: jobenv.OpenMPI, Interface: "eth0"},
		Ports: connection.PortRange{First: 29500, Last: 29599}, Environ: []string{"NCCL_SOCKET_IFNAME=ib"}}}
	for _, c := range []struct {
		env        point.Env
		line, vars string
	}{
		{nil, "-x GLOO_SOCKET_IFNAME -x KERNBENCH_PORT_RANGE program",
			"GLOO_SOCKET_IFNAME=eth0 KERNBENCH_PORT_RANGE=29500-29599 NCCL_SOCKET_IFNAME=ib"},
		{point.Env{{Name: jobenv.InterfaceVar, Value: value, Set: true}},
			"-x GLOO_SOCKET_IFNAME -x KERNBENCH_PORT_RANGE program",
			"GLOO_SOCKET_IFNAME=mine KERNBENCH_PORT_RANGE=29500-29599 NCCL_SOCKET_IFNAME=ib"},
		{point.Env{{Name: jobenv.InterfaceVar}}, "-x KERNBENCH_PORT_RANGE program",
			"KERNBENCH_PORT_RANGE=29500-29599 NCCL_SOCKET_IFNAME=ib"},
	} {
		proc := r.launcherProc(&plan.Group{Ranks: 2, Env: c.env}, processSpec{argv: []string{"program"}})
		vars := launch.Environ(r.opts.Environ, proc.Env, nil)
		if line := strings.Join(proc.Argv, " "); line != "mpirun -n 2 "+c.line || strings.Join(vars, " ") != c.vars {
			t.Errorf("%v: %s with %v", c.env, line, vars)
		}
	}
}

// launchers are the real launchers, and the variable in which each passes the rank.
var launchers = map[string]struct{ rankVar, command string }{
	"openmpi": {"OMPI_COMM_WORLD_RANK", "mpirun.openmpi --allow-run-as-root --oversubscribe"},
	// Hydra overwrites a swept variable with its own, as a login on another host could.
	"hydra": {"PMI_RANK", "mpiexec.hydra -genv SWEPT remote"},
}

// withLaunchers runs a test with each real launcher.
func withLaunchers(t *testing.T, do func(s *scene, rankVar string)) {
	t.Parallel()
	for name, l := range launchers {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(strings.Fields(l.command)[0]); err != nil {
				t.Fatalf("this test needs Debian's openmpi-bin and mpich (-short leaves it out): %v", err)
			}
			s := newScene(t)
			var err error
			if s.options.Launcher, err = NewLauncher(t.Context(), l.command, "127.0.0.1"); err != nil {
				t.Fatal(err)
			}
			do(s, l.rankVar)
		})
	}
}

// Ranks started by mpirun or mpiexec work like our own: they see the planned environment, synchronise, and
// give rows.
func TestLaunchers(t *testing.T) {
	withLaunchers(t, func(s *scene, rankVar string) {
		_, rows := s.run("environ")
		for _, r := range rows {
			if r.Status != journal.OK {
				s.Errorf("%s: %s: %s\n%s", at(r), r.Status, r.Reason, r.Output)
			}
		}
		if len(rows) != 3 || s.journal().Header.Launcher != s.options.Launcher.Name() {
			s.Errorf("%d rows by launcher %q", len(rows), s.journal().Header.Launcher)
		}
		for rank := range 2 {
			if !strings.Contains(s.log(rows[0], rank), fmt.Sprintf("%s=%d\x00", rankVar, rank)) {
				s.Errorf("rank %d was not started by the launcher", rank)
			}
		}
	})
}

// A killed rank costs one row, which names it and its signal.
func TestLaunchersRankKilled(t *testing.T) {
	withLaunchers(t, func(s *scene, rankVar string) {
		var once sync.Once
		s.request = plan.Request{Trials: 1}
		s.options.Observe = func(e Event) {
			if e.Task != nil {
				once.Do(func() {
					for _, p := range s.mark.Processes() {
						if p.Env[rankVar] == "1" && p.Env["KERNBENCH_WORKER"] != "" {
							syscall.Kill(p.PID, syscall.SIGKILL)
						}
					}
				})
			}
		}
		_, rows := s.run("slow")
		failed := slices.DeleteFunc(slices.Clone(rows), func(r journal.Row) bool { return r.Status == journal.OK })
		if len(rows) != 6 || len(failed) != 1 {
			s.Fatalf("%d rows, %d failed", len(rows), len(failed))
		}
		if r := failed[0]; r.Rank == nil || *r.Rank != 1 || r.Reason != "the worker ended with signal 9 (killed)" {
			s.Errorf("%s: %s", at(r), r.Reason)
		}
	})
}

// The program of a sweep is started through the launcher too, with the planned environment, and a failed
// rank is named.
func TestLaunchersProgram(t *testing.T) {
	withLaunchers(t, func(s *scene, rankVar string) {
		path := must.Get(os.Executable())(s)
		run := func(mode string, req plan.Request) []journal.Row {
			b := programs(mode, true)
			b.Parts[0].Command.Argv[0] = path // /proc/self/exe would be the guard
			req.Backend, req.Seed, req.Trials = "cpu", 1, 1
			p := must.Get(plan.Make(b, req))(s)
			s.options.Dir, s.options.Environ = filepath.Join(s.dir, mode),
				append(s.environ, "SWEPT=inherited", "TEST_RANK_VAR="+rankVar)
			must.Get(Run(s.Context(), p, s.options))(s)
			_, r := must.Get2(journal.LoadRun(s.options.Dir))(s)
			return dataset.Of(r).Rows.Copy()
		}
		// Four lines of rank 0, at each of two points in two environments. One of these has the variable removed.
		rows := run("table", plan.Request{Envs: []plan.Assign{{Name: "SWEPT", Text: "1,-"}}})
		if len(rows) != 16 || slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Status != journal.OK }) {
			s.Errorf("%d rows: %+v", len(rows), rows)
		}
		// Rank 1 fails by itself or is killed, and the other rank waits for it.
		rows = run("fall", plan.Request{Envs: []plan.Assign{{Name: "SWEPT", Text: "exit,kill"}}})
		for i, want := range []string{"exit code 3: ValueError: planted", "exit code 3: ValueError: planted",
			"signal 9 (killed)", "signal 9 (killed)"} {
			r := rows[i]
			if r.Status != journal.Failed || r.Rank == nil || *r.Rank != 1 ||
				r.Reason != journal.Textf("the program ended with %s", want) || len(r.Ranks) != 2 {
				s.Errorf("%s: %s at rank %v: %s\n%v", at(r), r.Status, r.Rank, r.Reason, r.Ranks)
			}
		}
	})
}

// A launcher that waits for its turn, or that ends, is blamed for ranks that do not start, not rank 0.
func TestLauncherStartsNoRank(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]struct {
		status journal.Status
		reason string
	}{
		"exec sleep 600": {journal.Timeout,
			"srun started no rank within 1s (--join-timeout): srun: job 7 queued and waiting for resources"},
		"exit 7": {journal.Failed, "srun ended with exit code 7: srun: job 7 queued and waiting for resources"},
	} {
		s := newScene(t)
		path := filepath.Join(t.TempDir(), "srun")
		must.Do(t, os.WriteFile(path, []byte(`#!/bin/sh
[ "$1" = --version ] && exec echo slurm-wlm 22.05.8
echo "srun: job 7 queued and waiting for resources" >&2
`+end+"\n"), 0o700))
		s.options.Launcher = must.Get(NewLauncher(t.Context(), path, "127.0.0.1"))(t)
		s.options.JoinTimeout = time.Second
		_, rows := s.run("environ")
		for _, r := range rows {
			if r.Status != want.status || r.Rank != nil || string(r.Reason) != want.reason {
				t.Errorf("%s: %s at rank %v: %s", at(r), r.Status, r.Rank, r.Reason)
			}
		}
		if len(rows) != 3 {
			t.Errorf("%d rows", len(rows))
		}
	}
}

func TestFirstSentence(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"-----\n\n-----\n":                "",
		"-----\nmpirun has detected x.\n": "mpirun has detected x.",
		"  srun: error: no\nmore":         "srun: error: no",
	} {
		if got := firstTextLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
