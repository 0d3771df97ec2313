package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// limitFiles are the files with the limit of a controller, in both versions of control groups.
var limitFiles = map[string][]string{"pids": {"pids.max"}, "memory": {"memory.limit_in_bytes", "memory.max"}}

// makeGroup makes a control group that can limit the controller, and returns the file of the limit.
func makeGroup(t *testing.T, controller string) (dir, file string) {
	t.Helper()
	for _, parent := range hostinfo.CgroupDirs(hostinfo.Root(), controller) {
		dir, err := os.MkdirTemp("/"+parent, "kernbench-faults-")
		if err != nil {
			continue // not permitted
		}
		for _, name := range limitFiles[controller] {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return dir, filepath.Join(dir, name)
			}
		}
		must.Do(t, syscall.Rmdir(dir))
	}
	t.Skipf("no control group with the controller %s can be made here", controller)
	return "", ""
}

// controlGroup makes a group with a limit and returns the command by which a program enters it.
func controlGroup(t *testing.T, controller string, limit int) (enter []string) {
	t.Helper()
	dir, file := makeGroup(t, controller)
	t.Cleanup(func() {
		// Not with RemoveAll: the files of a group vanish with it. A group is busy until its last process is reaped.
		for end := time.Now().Add(hangGuard); ; time.Sleep(10 * time.Millisecond) {
			if err := syscall.Rmdir(dir); err == nil || time.Now().After(end) {
				must.Do(t, err)
				return
			}
		}
	})
	must.Do(t, os.WriteFile(file, fmt.Append(nil, limit), 0))
	return []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs")}
}

// limitNamed expects a line to name the limit. A command whose own process hits the limit cannot say more
// than Go's runtime does, or nothing if the kernel kills it.
func limitNamed(limit string) func(*scene, []journal.Row) bool {
	return func(s *scene, rows []journal.Row) bool {
		if strings.Contains(s.output()+strings.Join(reasons(rows), "\n"), "("+limit+")") {
			return true
		}
		for line := range strings.Lines(s.output()) {
			if ownCrash.MatchString(line) {
				return true
			}
		}
		status := s.commands[0].ProcessState.Sys().(syscall.WaitStatus)
		return status.Signaled() && status.Signal() == syscall.SIGKILL
	}
}

// ownCrash matches a report of Go's runtime that no launcher has passed on from a rank. The first two are by programs
// without and with cgo.
var ownCrash = regexp.MustCompile(`^(fakecgo: |runtime/cgo: |runtime: failed to create new OS thread|fatal error: )`)
