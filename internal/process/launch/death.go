package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kernbench/kernbench/internal/process/culprit"
)

// maxReport limits the part of an agent's own output that is kept, in bytes. The beginning is kept, because a crash
// report begins with its cause.
const maxReport = 256 << 10

// report returns what the agent has written to stderr.
func (a *Agent) report() string {
	buf := make([]byte, maxReport)
	n, _ := a.stderr.ReadAt(buf, 0)
	return strings.TrimSpace(string(buf[:n]))
}

// explainDeath adds the cause of an agent's death to an error, in one line: the signal or exit code, the resource limit
// that was reached, and the file with the crash report.
func (a *Agent) explainDeath(cause error, oomBefore int64) error {
	report := a.report()
	if errors.Is(cause, ErrAgentClosed) && report == "" {
		return cause
	}
	crash := culprit.Crash(report)
	how := crash
	if state := a.cmd.ProcessState; how == "" && state != nil && !state.Success() {
		how = "it ended with " + fmt.Sprintf("exit code %d", state.ExitCode())
		if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
			how = culprit.DescribeSignal(status.Signal())
			if status.Signal() == syscall.SIGKILL && oomKills() > oomBefore {
				how += ", probably out of memory"
			}
		}
	}
	if how != "" && !a.stopped.Load() && !a.clean {
		cause = fmt.Errorf("%w: %s", cause, how)
	}
	if limit := culprit.OwnLimits().Explain(report); limit != "" {
		cause = fmt.Errorf("%w; %s", cause, limit)
	}
	switch {
	case report == "":
		return cause
	case crash == "" && !strings.Contains(report, "\n"):
		return fmt.Errorf("%w: %s", cause, report)
	}
	path, err := a.saveReport(report)
	if err != nil {
		return fmt.Errorf("%w (its crash report could not be stored: %v)", cause, err)
	}
	return fmt.Errorf("%w (crash report: %s)", cause, path)
}

// endReason returns why the agent ends a launch. If the supervisor is still alive, it reports this to the user.
func (a *agent) endReason() string {
	if sig := syscall.Signal(a.endSignal.Load()); sig != 0 {
		return "the launch agent, which starts and ends the ranks, was told to end by " + culprit.DescribeSignal(sig)
	}
	return "the launch agent was told to end"
}

// WithLimit adds the resource limit to an error that points to one, such as "too many open files".
func WithLimit(err error) error {
	text := err.Error()
	if with := culprit.OwnLimits().AddTo(text); with != text {
		return fmt.Errorf("%w%s", err, strings.TrimPrefix(with, text))
	}
	return err
}

// saveReport stores the agent's output in logDir, or in the folder for temporary files if logDir does not exist.
func (a *Agent) saveReport(text string) (path string, err error) {
	dir := a.logDir
	if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() {
		dir = os.TempDir()
	}
	f, err := os.CreateTemp(dir, "kernbench-agent-*.log") // readable by this user only
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text + "\n")
	return filepath.Clean(f.Name()), errors.Join(err, f.Close())
}
