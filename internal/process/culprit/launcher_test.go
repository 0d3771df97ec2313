package culprit

import (
	"strings"
	"syscall"
	"testing"
)

// A step that Slurm has cancelled is distinguished from one whose other ranks srun has cancelled after a rank ended.
func TestSlurmCancel(t *testing.T) {
	const step = "STEP 1.0 ON n1 CANCELLED AT 2026-11-18T16:36:07"
	const job = "JOB 4 ON n1 CANCELLED AT 2026-11-18T16:36:07 DUE TO TIME LIMIT"
	for text, want := range map[string]string{
		"slurmstepd-n1: error: *** " + step + " ***\nsrun: error: n2: task 1: Killed\n":                      step,
		"srun: Job step aborted: Waiting up to 5 seconds.\nslurmstepd: error: *** " + job + " ***\n":         job,
		"srun: error: n2: task 1: Killed\nslurmstepd-n1: error: *** " + step + " ***\n":                      "",
		"srun: error: n[1-2]: tasks 0-1: Exited with exit code 1\nslurmstepd: error: *** " + step + " ***\n": "",
		"srun: job 8 queued and waiting for resources\n":                                                     "",
		"srun: error: n2: task 1: Killed\nsrun: launch/slurm: _step_signal: Terminating StepId=1.0\n" +
			"srun: Job step aborted: Waiting up to 5 seconds for job step to finish.\n" +
			"slurmstepd-n1: error: *** " + step + " ***\n": step,
		"srun: error: n2: task 1: Killed\nsrun: launch/slurm: _step_signal: Terminating StepId=1.0\n" +
			"slurmstepd-n1: error: *** " + step + " ***\nsrun: Force Terminated StepId=1.0\n": "",
		"srun: Job step aborted: Waiting up to 5 seconds for job step to finish.\n" +
			"srun: error: n2: task 1: Killed\n": "Job step aborted",
	} {
		want := Verdict{Rank: -1, Kind: LauncherEnded, Reason: "srun ended with exit code 1: " + want}
		if strings.HasSuffix(want.Reason, ": ") {
			want = Verdict{Rank: -1, Reason: "the program failed"}
		}
		l := Launcher{Name: "srun", End: "exit code 1", Stderr: text}
		if got := Blame(Evidence{Launcher: &l}); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	killed := Launcher{Name: "mpirun", End: "signal 9 (killed)", Signal: syscall.SIGKILL}
	want := Verdict{Rank: -1, Kind: LauncherEnded, Reason: "mpirun ended with signal 9 (killed)"}
	if v := Blame(Evidence{Launcher: &killed}); v != want {
		t.Errorf("%+v, want %+v", v, want)
	}
}
