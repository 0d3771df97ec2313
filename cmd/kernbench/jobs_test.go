//go:build !race

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/process/connection"
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

// output collects what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// TestDocumentedElasticJob compares the output in docs/clusters.md with one of a job that a second node joins.
func TestDocumentedElasticJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := must.Get(connection.PortRange{}.FreePort("127.0.0.1"))(t)
	node := func(to *output) {
		cmd := exec.Command("kernbench", append([]string{"launch", "--nnodes", "1:2", "--nproc-per-node", "1", "--grace",
			"1s", "--last-call", "1s", "--rdzv-endpoint", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)), "--"},
			words("kernbench run --bench memory --op copy --size 64K,1M --ranks 1,2 --env GOGC=50,100 --trials 2 --min-time "+
				"500ms --noise 0 --out el")...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, to, to
		cmd.Env = append(os.Environ(), "WORK="+dir, "KERNBENCH_RDZV_SECRET=the secret of this test run")
		must.Do(t, cmd.Start())
		t.Cleanup(func() {
			cmd.Process.Signal(os.Interrupt)
			cmd.Wait()
		})
	}
	var first, second output
	await := func(pattern string) {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); !regexp.MustCompile(pattern).MatchString(first.String()); {
			if time.Now().After(end) {
				t.Fatalf("no %q in\n%s\nand the second node:\n%s", pattern, first.String(), second.String())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	node(&first)
	await(`(?s)ranks=1 .*ranks=1 `) // two points
	node(&second)
	await(`restart with more nodes(?s:.*) ranks=2 .*\n`)
	// The page leaves out what made a row disturbed.
	golden.ShownMasked(t, "elastic-job", regexp.MustCompile(` \(disturbed: .*\)`).ReplaceAllString(first.String(), ""))
}

// TestDocumentedExchange compares the messages in docs/protocol.md with those between kernbench and a program in C, and
// the output of the self-test with what it prints about that program.
func TestDocumentedExchange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spy := must.Get(os.ReadFile("testdata/spy.py"))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "spy"), spy, 0o700))
	source := must.Get(filepath.Abs("../../examples/python/copy.c"))(t)
	if out, err := exec.Command("cc", "-O2", "-o", filepath.Join(dir, "copy"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, out := invoke(t, dir, words("kernbench selftest --protocol -- ./copy")...)
	if code != 0 {
		t.Errorf("self-test: exit code %d", code)
	}
	golden.ShownMasked(t, "protocol-selftest", out)
	code, out = invoke(t, dir, words("kernbench run -q -f ./spy --size 4K --max-samples 3 --min-samples 1")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	golden.ShownMasked(t, "exchange", string(must.Get(os.ReadFile(filepath.Join(dir, "exchange.log")))(t)))
}
