package culprit

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
)

// Launcher holds the evidence about a launcher that has ended with a failure, such as mpirun or srun.
type Launcher struct {
	Name   string
	End    string // a text that says how it ended
	Signal syscall.Signal
	Stderr string // the end of its own output
}

// cause returns why the launcher is to blame for the end of its ranks: it was killed, or its job was cancelled. It
// returns "" if a rank ended first.
func (l *Launcher) cause() string {
	if l == nil {
		return ""
	}
	switch message := slurmCancel(l.Stderr); {
	case message != "":
		return fmt.Sprintf("%s ended with %s: %s", l.Name, l.End, message)
	case l.Signal != 0:
		return fmt.Sprintf("%s ended with %s", l.Name, l.End)
	}
	return ""
}

var (
	slurmCancelled = regexp.MustCompile(`\*\*\* ((?:JOB|STEP) \S+ ON \S+ CANCELLED .*?) \*\*\*`)
	slurmAborted   = regexp.MustCompile(`^srun: (Job step aborted)\b`)
	slurmTaskEnded = regexp.MustCompile(`^srun: error: \S+: tasks? \d`)
)

// slurmCancel returns Slurm's message that the job or step was cancelled: by scancel, a time limit or a
// job of higher priority. It returns "" if a rank ended first.
//
// In both cases Slurm says that the step was cancelled, because srun --kill-on-bad-exit cancels the step after
// the end of a rank. The lines come from several processes, in any order. But srun says that the job step was
// aborted only if somebody else cancelled it.
func slurmCancel(output string) string {
	var message string
	taskEnded, aborted := false, false
	for line := range strings.Lines(output) {
		if m := slurmCancelled.FindStringSubmatch(line); m != nil && message == "" {
			message = m[1]
			aborted = aborted || !taskEnded
		}
		aborted = aborted || slurmAborted.MatchString(line)
		taskEnded = taskEnded || slurmTaskEnded.MatchString(line)
	}
	switch {
	case !aborted:
		return ""
	case message == "":
		return "Job step aborted"
	}
	return message
}
