//go:build !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// TestDocumentedFailures compares the messages about failed ranks in docs/clusters.md with real ones.
func TestDocumentedFailures(t *testing.T) {
	t.Parallel()
	launch := func(enter []string, script string) string {
		args := append(enter, "kernbench", "launch", "--standalone", "--nproc-per-node", "2", "--grace", "1s", "--",
			"sh", "-c", `[ $RANK = 1 ] || exec sleep 1000; `+script)
		_, out := invoke(t, t.TempDir(), args...)
		return out
	}
	golden.ShownMasked(t, "launch-failure", launch(nil, "echo loading; exit 3"))
	golden.ShownMasked(t, "limit-of-processes", launch(processLimit(t, 1000),
		`printf 'fakecgo: pthread_create failed: 11\nSIGABRT: abort\n' >&2; exit 2`))
}

// processLimit makes a control group with a limit for processes, and returns the command by which a program enters it.
func processLimit(t *testing.T, limit int) (enter []string) {
	t.Helper()
	for _, parent := range hostinfo.CgroupDirs(hostinfo.Root(), "pids") {
		dir, err := os.MkdirTemp("/"+parent, "kernbench-docs-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { // a group is busy until its last process is reaped
			for end := time.Now().Add(time.Minute); syscall.Rmdir(dir) != nil && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
		})
		if os.WriteFile(filepath.Join(dir, "pids.max"), fmt.Append(nil, limit), 0) == nil {
			return []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs")}
		}
	}
	t.Skip("no control group that limits processes can be made here")
	return nil
}

// TestDocumentedExchange compares the messages in docs/protocol.md with those between kernbench and a program in C.
func TestDocumentedExchange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spy := must.Get(os.ReadFile("testdata/spy.py"))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "spy"), spy, 0o700))
	source := must.Get(filepath.Abs("../../examples/python/copy.c"))(t)
	if out, err := exec.Command("cc", "-O2", "-o", filepath.Join(dir, "copy"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, out := invoke(t, dir, words("kernbench run -q -f ./spy --size 4K --max-samples 3 --min-samples 1")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	golden.ShownMasked(t, "exchange", string(must.Get(os.ReadFile(filepath.Join(dir, "exchange.log")))(t)))
}
