package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/proctest"
)

func standalone(t *testing.T, flags string, program ...string) *launcher {
	t.Helper()
	args := append([]string{"--standalone"}, strings.Fields(flags)...)
	return start(t, nil, append(append(args, "--"), program...)...)
}

func shell(script string) []string { return []string{"sh", "-c", script} }

func TestVariables(t *testing.T) {
	t.Setenv("TORCHELASTIC_RUN_ID", "of an outer launcher")
	t.Setenv("SLURM_PROCID", "7")
	t.Setenv("KERNBENCH_RDZV_SECRET", "not for the ranks")
	t.Setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3")
	l := standalone(t, "--nproc_per_node=2 --max_restarts 4 --rdzv_id myjob --interface lo", "env")
	l.expect(0)
	for _, want := range []string{
		"[rank0]: RANK=0", "[rank1]: RANK=1", "[rank1]: WORLD_SIZE=2", "[rank1]: LOCAL_RANK=1", "[rank1]: LOCAL_WORLD_SIZE=2",
		"[rank1]: GROUP_RANK=0", "[rank1]: GROUP_WORLD_SIZE=1", "[rank1]: ROLE_RANK=1", "[rank1]: ROLE_WORLD_SIZE=2",
		"[rank1]: ROLE_NAME=default",
		"[rank1]: MASTER_ADDR=127.0.0.1", "[rank1]: MASTER_PORT=", "[rank1]: TORCHELASTIC_RUN_ID=myjob",
		"[rank1]: TORCHELASTIC_RESTART_COUNT=0",
		"[rank1]: TORCHELASTIC_MAX_RESTARTS=4", "[rank1]: TORCHELASTIC_USE_AGENT_STORE=False", "[rank1]: OMP_NUM_THREADS=1",
		"[rank1]: NCCL_ASYNC_ERROR_HANDLING=1", "[rank1]: TORCH_NCCL_ASYNC_ERROR_HANDLING=3",
		"[rank1]: NCCL_SOCKET_IFNAME==lo", "[rank1]: GLOO_SOCKET_IFNAME=lo",
	} {
		if !strings.Contains(l.stdout.String(), want) {
			t.Errorf("no %s in\n%s", want, l.stdout)
		}
	}
	for _, bad := range []string{"SLURM_PROCID", "not for the ranks", "KERNBENCH_RDZV_SECRET", "of an outer launcher"} {
		if strings.Contains(l.stdout.String(), bad) {
			t.Errorf("the ranks see %s", bad)
		}
	}
}

// The error that a rank has stored, as torch's @record does, is part of the launcher's message. An older file is not.
func TestErrorFile(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "attempt0"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "attempt0", "rank0.error.json"), []byte(`{"message": "stale"}`), 0o600))
	write := `test $RANK = 0 && { printf '{"message": {"message": "ValueError: bad\\n  matrix", "extraInfo": {}}}' ` +
		`> $TORCHELASTIC_ERROR_FILE; exit 3; }; sleep 99`
	standalone(t, "--nproc-per-node 2", shell(write)...).expect(3, "ended with exit code 3: ValueError: bad matrix")
	silent := standalone(t, "--log-dir "+dir, shell("exit 4")...)
	silent.expect(4, "ended with exit code 4")
	if strings.Contains(silent.stderr.String(), "stale") {
		t.Errorf("an old error is shown: %s", silent.stderr)
	}
}

// Jobs without a name get different ones.
// The message about a crashed Go program has its cause and the limit that it hit, not its stacks.
func TestCrashReport(t *testing.T) {
	l := start(t, nil, append([]string{"--standalone", "--"},
		shell(`(echo 'open x: too many open files'; echo 'panic: no files'; seq 40) >&2; exit 2`)...)...)
	l.expect(2, " files (ulimit -n); its last output:", "    open x: too many", "    panic: no files")
	if strings.Contains(l.stderr.String(), "\n    40") {
		t.Errorf("it quotes the stacks:\n%s", l.stderr)
	}
}

func TestStandaloneJobsHaveNames(t *testing.T) {
	var names []string
	for range 2 {
		l := standalone(t, "", shell("echo $TORCHELASTIC_RUN_ID")...)
		l.expect(0)
		names = append(names, l.stdout.String())
	}
	if names[0] == names[1] || strings.Contains(names[0], "none") {
		t.Errorf("two jobs are called %q", names)
	}
}

func TestThreadsAndCores(t *testing.T) {
	t.Parallel()
	l := standalone(t,
		"--threads-per-rank 3 --bind core --master_addr 127.0.0.2 --master_port 1234 --rdzv_conf timeout=9",
		shell(`echo $OMP_NUM_THREADS $MKL_NUM_THREADS $MASTER_ADDR:$MASTER_PORT
			grep Cpus_allowed_list /proc/self/status`)...)
	l.expect(0)
	mine := cores.Share(cores.Allowed(), 1, 3, cores.Core)[0]
	want := fmt.Sprintf("[rank0]: 3 3 127.0.0.2:1234\n[rank0]: Cpus_allowed_list:\t%d", mine[0])
	if !strings.Contains(l.stdout.String(), want) {
		t.Errorf("got\n%swant\n%s", l.stdout, want)
	}
}

// torchrun's command lines work: a Python file, a Python module, PET_ variables.
func TestTorchrunsCommands(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"train.py": "import os, sys; print('file', os.environ['RANK'], sys.argv[1:])",
		"mod.py":   "import sys; print('module', __name__, sys.argv[1:])"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	t.Setenv("PET_NPROC_PER_NODE", "2")
	t.Setenv("PYTHONPATH", dir)
	l := standalone(t, "", filepath.Join(dir, "train.py"), "--lr", "1")
	l.expect(0)
	l.await(`\[rank1\]: file 1 \['--lr', '1'\]`)
	l = start(t, nil, "--standalone", "--nproc_per_node=1", "-m", "mod", "-x")
	l.expect(0)
	l.await(`\[rank0\]: module __main__ \['-x'\]`)
	start(t, nil, "--standalone", "--no-python", filepath.Join(dir, "train.py")).expect(1, "permission denied")
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program []string
		code    int
		message []string
	}{
		{shell("exit 0"), 0, nil},
		{shell("[ $RANK = 0 ] && exec sleep 1000; echo last words >&2; exit 7"), 7,
			[]string{"rank 1 (node 0, host ", ") ended with exit code 7; its last output:\n    last words\n"}},
		{shell("[ $RANK = 0 ] && exec sleep 1000; kill -SEGV $$"), 139, []string{"rank 1 ", "ended with signal 11"}},
		{shell("[ $RANK = 1 ] && exec sleep 1000; echo result; exit 3"), 3,
			[]string{"rank 0 ", "its last output:\n    result\n"}},
		{shell("exit 2"), 2, []string{"ended with exit code 2"}}, // not a usage error of the launcher itself
		{[]string{"/no/such/program"}, 1, []string{"node 0 (host ", "could not start its ranks: ", "/no/such/program"}},
	} {
		l := standalone(t, "--nproc-per-node 2", c.program...)
		l.expect(c.code, c.message...)
		if strings.Contains(l.stderr.String(), "--help") {
			t.Errorf("a rank's failure is answered with the manual:\n%s", l.stderr)
		}
	}
}

func TestKilledRank(t *testing.T) {
	t.Parallel()
	// One rank has a descendant in its own session, and all processes ignore SIGTERM.
	l := standalone(t, "--nproc-per-node 2 --grace 100ms",
		shell("trap '' TERM; setsid sleep 1000 & echo pid $$; while :; do sleep 1000; done")...)
	pid := l.pids(2)[1]
	l.kill(pid, syscall.SIGKILL)
	l.expect(137, fmt.Sprintf("pid %d) ended with signal 9 (killed)", pid))
}

// A launcher whose agent is killed says so, and no process of the job is left.
func TestKilledAgent(t *testing.T) {
	t.Parallel()
	l := standalone(t, "--nproc-per-node 2", waits...)
	l.pids(2)
	for _, p := range l.mark.Processes() {
		if strings.HasPrefix(p.Cmdline, "kernbench-agent") {
			l.kill(p.PID, syscall.SIGKILL)
		}
	}
	l.expect(1, ") lost its ranks: the launch agent died")
}

func TestStoppedRank(t *testing.T) {
	t.Parallel()
	l := standalone(t, "--nproc-per-node 2 --heartbeat 1s", waits...)
	pid := l.pids(2)[1]
	l.kill(pid, syscall.SIGSTOP)
	l.expect(1, fmt.Sprintf("rank 1 (node 0, host %s, pid %d) has been stopped for 1s", hostname(t), pid))
}

// A short stop is no failure.
func TestStoppedForAMoment(t *testing.T) {
	t.Parallel()
	l := standalone(t, "--heartbeat 1h", shell("echo pid $$; kill -STOP $$; echo awake")...)
	pid := l.pids(1)[0]
	for limit := time.Now().Add(hangGuard); state(pid) != "T" && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	l.kill(pid, syscall.SIGCONT)
	l.expect(0)
	l.await(`\[rank0\]: awake`)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	l := standalone(t, "--nproc-per-node 2", waits...)
	l.pids(2)
	l.kill(l.cmd.Process.Pid, syscall.SIGINT)
	l.expect(130, "was interrupted")
}

// A batch system may send a signal to all processes before the end of a job, and later SIGTERM. The ranks
// receive both and have time to save their work.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	l := standalone(t, "", shell(`trap 'echo noted' USR1; trap 'echo asked; sleep 1.2; echo saved; exit 0' TERM
		echo pid $$; while :; do sleep 0.05; done`)...)
	rank := l.pids(1)[0]
	for _, p := range l.mark.Processes() {
		if p.PID != rank {
			syscall.Kill(p.PID, syscall.SIGUSR1)
		}
	}
	l.await(`\[rank0\]: noted`)
	l.kill(l.cmd.Process.Pid, syscall.SIGTERM)
	l.expect(130, "was interrupted")
	l.await(`\[rank0\]: saved`)
}

// If the launcher itself is killed, its ranks end with it.
func TestKilledLauncher(t *testing.T) {
	t.Parallel()
	l := standalone(t, "--nproc-per-node 2", waits...)
	l.pids(2)
	l.kill(l.cmd.Process.Pid, syscall.SIGKILL)
	l.wait()
}

func TestRestart(t *testing.T) {
	t.Parallel()
	script := `echo attempt $TORCHELASTIC_RESTART_COUNT
		[ $RANK.$TORCHELASTIC_RESTART_COUNT = 1.0 ] && exit 5
		[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 1000
		exit 0`
	l := standalone(t, "--nproc-per-node 2 --max-restarts 1", shell(script)...)
	l.expect(0, ": restart 1 of 1: rank 1 ", "ended with exit code 5")
	l.await(`\[rank0\]: attempt 1`)

	l = standalone(t, "--max-restarts 2", shell("exit $((TORCHELASTIC_RESTART_COUNT + 20))")...)
	l.expect(22, ": restart 1 of 2: ", ": restart 2 of 2: ", "ended with exit code 22")
}

func TestLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := standalone(t, "--nproc-per-node 2 --redirects 3 --tee 1:1 --log-dir "+dir,
		shell(`echo out $RANK; echo err $RANK >&2; printf tail`)...)
	l.expect(0)
	if got := l.stdout.String(); got != "[rank1]: out 1\n[rank1]: tail\n" || l.stderr.String() != "" {
		t.Errorf("console: %q and %q", got, l.stderr)
	}
	for file, want := range map[string]string{"rank0.out": "out 0\ntail", "rank0.err": "err 0\n",
		"rank1.out": "out 1\ntail", "rank1.err": "err 1\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, "attempt0", file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	// A second launch neither appends to the logs of the first nor overwrites them.
	standalone(t, "--redirects 3 --log-dir "+dir, shell("echo again")...).expect(0)
	for file, want := range map[string]string{"rank0.out": "again\n", "rank0.out.1": "out 0\ntail",
		"rank1.out": "out 1\ntail"} {
		if got, err := os.ReadFile(filepath.Join(dir, "attempt0", file)); err != nil || string(got) != want {
			t.Errorf("%s after a second launch: %q, %v", file, got, err)
		}
	}
	if out, err := exec.Command(proctest.Self(t), "launch", "--standalone", "--nproc-per-node", "1", "--", "printf",
		`a\r\n[rank0]: b\rc`).Output(); err != nil || string(out) != "a\r\n[rank0]: b\rc" {
		t.Errorf("without flags: %q, %v", out, err)
	}
	l = standalone(t, "--nproc-per-node 2 --local_ranks_filter 0", shell("echo $RANK")...)
	l.expect(0)
	if l.stdout.String() != "[rank0]: 0\n" {
		t.Errorf("filtered: %q", l.stdout)
	}
}

// Large output is neither lost nor mixed up.
func TestMuchOutput(t *testing.T) {
	t.Parallel()
	l := standalone(t, "--nproc-per-node 2", shell("seq 1 20000; seq 1 20000 >&2")...)
	l.expect(0)
	for rank := range 2 {
		next := 1
		for line := range strings.Lines(l.stdout.String()) {
			if line == fmt.Sprintf("[rank%d]: %d\n", rank, next) {
				next++
			}
		}
		if next != 20001 {
			t.Errorf("rank %d: the output ends after %d lines in order", rank, next-1)
		}
	}
	if n := strings.Count(l.stdout.String(), "\n"); n != 40000 {
		t.Errorf("%d lines, want 40000", n)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(open, []byte("a secret for a group to read"), 0o640))
	short := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(short, []byte("short\n"), 0o600))
	for args, want := range map[string]string{
		"--standalone":                           "want a program after --",
		"--nproc-per-node 0 x":                   "--nproc-per-node 0: want a whole number of at least 1",
		"--nnodes 2 x":                           "2 nodes need an address to meet: give --rdzv-endpoint",
		"--nnodes 2 --rdzv-endpoint localhost x": "several nodes need a shared secret",
		"--nnodes 2 --rdzv-endpoint localhost --rdzv-secret-file " + open + " x":  "other users can read or change",
		"--nnodes 2 --rdzv-endpoint localhost --rdzv-secret-file " + short + " x": "has 5 characters: it needs at least 16",
		"--nnodes 2 --node-rank 2 x": "--node-rank 2: want 0 to 1",
		"--standalone --nnodes 2 x":  "--standalone means one node",
		"--nnodes 2:2 x":             "2 nodes need an address to meet",
		"--nnodes 2:3 x":             "a job has a fixed number of nodes",
		"--nnodes 3:2 x":             "--nnodes 3:2: want a whole number",
		"--rdzv-backend etcd x":      "etcd",
		"--bind wide x":              "wide",
		"--redirects 3 x":            "needs --log-dir",
		"--tee 9 x":                  "--tee",
		"--interface nowhere0 x":     "this host has [",
		"--nproc 3 x":                "--nproc-per-node",
		"--grace 0 x":                "--grace",
	} {
		l := start(t, nil, strings.Fields(args)...)
		l.expect(2, want)
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	return must.Get(os.Hostname())(t)
}

// state returns the letter of a process's state in /proc.
func state(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:min(1, len(rest))]
}
