package faults

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// haveSlurm reports whether Slurm is installed. scripts/slurm.sh installs it.
func haveSlurm() bool { return os.Getenv("SLURM_CONF") != "" }

// slurmJobs returns the comments of all jobs that Slurm has not ended yet.
func slurmJobs(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("squeue", "--noheader", "--format=%k").Output()
	if err != nil {
		t.Errorf("asking Slurm for its jobs: %v", err)
	}
	return strings.Fields(string(out))
}

// slurmJob returns the ID of the scene's job, or "" if it has ended.
func (s *scene) slurmJob() string {
	out, _ := exec.Command("squeue", "--noheader", "--format=%i %k").Output() // empty if Slurm does not answer
	for line := range strings.Lines(string(out)) {
		if id, comment, _ := strings.Cut(strings.TrimSpace(line), " "); comment == s.mark.Value {
			return id
		}
	}
	return ""
}

// cancelStep cancels the ranks as a user or an administrator does.
func cancelStep(s *scene) bool {
	job := s.slurmJob()
	return job != "" && exec.Command("scancel", job+".0").Run() == nil
}

// cancelNamed expects the rows, or the output of srun, to say that the step was cancelled.
func cancelNamed(s *scene, rows []journal.Row) bool {
	for _, r := range rows {
		if !cancelled.MatchString(string(r.Reason)) {
			return false
		}
	}
	return len(rows) > 0 || cancelled.MatchString(s.output()) || s.finished()
}

// cancelled matches two messages. Slurm prints at least one of them.
var cancelled = regexp.MustCompile(`CANCELLED|Job step aborted`)

// TestSrun injects some faults into srun jobs. `make slurm` runs it.
func TestSrun(t *testing.T) {
	if !haveSlurm() {
		t.Skip("it needs a Slurm, as make slurm has")
	}
	hearHangUps()
	for _, f := range faults {
		for _, sh := range f.possible() {
			if !sh.slurm || !slices.Contains([]string{"kill supervisor", "hang up", "kill worker", "kill agent", "stop agent",
				"stop agent, kill supervisor", "kill mpirun or srun", "cancel step", "kill rank", "stop rank",
				"stop rank 0"}, f.name) {
				continue
			}
			t.Run(f.name+" in "+sh.name, func(t *testing.T) {
				t.Parallel()
				if r := newScene(t, injection{shape: sh, fault: f}).play(); !r.hit {
					t.Error("it did not hit")
				}
			})
		}
	}
}
