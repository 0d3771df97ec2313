package faults

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
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

// TestSrun injects some faults into srun jobs. `make slurm` runs it.
func TestSrun(t *testing.T) {
	if !haveSlurm() {
		t.Skip("it needs a Slurm, as make slurm has")
	}
	hearHangUps()
	for _, f := range faults {
		for _, sh := range f.possible() {
			if !sh.slurm || !slices.Contains([]string{"kill supervisor", "hang up", "kill worker", "stop agent",
				"stop agent, kill supervisor", "kill mpirun or srun"}, f.name) {
				continue
			}
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				if r := newScene(t, injection{shape: sh, fault: f}).play(); !r.hit {
					t.Error("it did not hit")
				}
			})
		}
	}
}
