package node_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// elastic starts nodes of one elastic job on this host.
type elastic struct {
	*testing.T
	endpoint       string
	flags, program []string
}

func newElastic(t *testing.T, flags string, program ...string) elastic {
	port := must.Get(connection.PortRange{}.FreePort("127.0.0.1"))(t)
	endpoint := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	all := flags + " --nproc-per-node 1 --grace 1s --last-call 1s --rdzv-endpoint " + endpoint
	return elastic{t, endpoint, strings.Fields(all), program}
}

// node starts a node. Without a secret, it has none.
func (e elastic) node(secret string) *launcher {
	e.Helper()
	argv := append([]string{"launch"}, e.flags...)
	cmd := exec.Command(proctest.Self(e.T), append(append(argv, "--"), e.program...)...)
	env := os.Environ()
	if secret != "" {
		env = append(env, "KERNBENCH_RDZV_SECRET="+secret)
	}
	return begin(e.T, cmd, env)
}

// first starts the node that hosts the rendezvous, which is node 0.
func (e elastic) first() *launcher {
	e.Helper()
	l := e.node(secret)
	for limit := time.Now().Add(hangGuard); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", e.endpoint); err == nil {
			c.Close()
			return l
		}
	}
	e.Fatalf("no rendezvous at %s", e.endpoint)
	return nil
}

const secret = "the secret of this test run"

// A job of two or three nodes begins with two, restarts when a third one joins and when one is killed,
// and ends when too few are left.
func TestElastic(t *testing.T) {
	t.Parallel()
	job := newElastic(t, "--nnodes 2:3 --max-restarts 2 --join-timeout 10s", shell(
		`echo $RANK of $WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE, `+
			`restart $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; exec sleep 1000`)...)
	expect := func(l *launcher, rank, size, restart int) {
		t.Helper()
		l.await(fmt.Sprintf(`\[rank%[1]d\]: %[1]d of %[2]d, node %[1]d of %[2]d, restart %[3]d of 2`, rank, size, restart))
	}
	first := job.first()
	second := job.node(secret)
	expect(first, 0, 2, 0)
	expect(second, 1, 2, 0)

	job.node("").expect(2, "several nodes need a shared secret")
	job.node("another secret altogether").expect(1, "the secrets differ")

	third := job.node(secret)
	for rank, l := range []*launcher{first, second, third} {
		expect(l, rank, 3, 1)
	}
	job.node(secret).expect(1, "all 3 nodes have joined")

	first.kill(second.cmd.Process.Pid, syscall.SIGKILL)
	expect(first, 0, 2, 2)
	expect(third, 1, 2, 2) // ranks leave no gap

	first.kill(third.cmd.Process.Pid, syscall.SIGTERM)
	third.expect(130, "was interrupted")
	if code := first.wait(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"restart with more nodes: host ", "restart 1 of 2: node 1 (host ",
		"was lost: its process ended", "restart 2 of 2: node 1 (host ", "was interrupted",
		"1 of 2 nodes joined within 11s", "missing: 1 more"} {
		if !strings.Contains(first.stderr.String(), want) {
			t.Errorf("no %q in:\n%s", want, first.stderr)
		}
	}
}

// A run of kernbench continues in its journal when its job restarts with more ranks. The rows record the
// number of ranks.
func TestElasticRun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	job := newElastic(t, "--nnodes 1:2", proctest.Self(t), "run", "-q", "--bench", "still", "--mode", "ok,alone",
		"--ranks", "1,2", "--out", dir)
	first := job.first()
	awaitBegin(t, dir)
	second := job.node(secret)
	first.expect(0, "restart with more nodes")
	second.expect(0)
	_, run := must.Get2(journal.LoadRun(dir))(t)
	sizes := map[int]int{} // good rows by number of ranks
	for _, r := range dataset.Of(run).Rows {
		switch {
		case r.Status == journal.OK:
			sizes[*r.NumRanks]++
		case r.Status != journal.Skipped || *r.NumRanks != 1: // rows of two ranks were skipped at first
			t.Errorf("%s with %d ranks: %s: %s", r.Point, *r.NumRanks, r.Status, r.Reason)
		}
	}
	if len(run.Headers) != 2 || sizes[2] != 4 || sizes[1] > 2 {
		t.Errorf("%d invocations, rows by number of ranks: %v", len(run.Headers), sizes)
	}
}
