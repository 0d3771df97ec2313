package node_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// torchScript runs with Debian's python3, which has torch (python3-torch).
func torchScript(t *testing.T, args ...string) []string {
	t.Helper()
	script := must.Get(filepath.Abs("../../../examples/torch_allreduce.py"))(t)
	return append([]string{"/usr/bin/python3", "-u", script}, args...)
}

// A torch.distributed script runs unchanged on three hosts. Then a rank is killed in the middle of a
// collective. Its peers report errors at once, but the killed rank is named.
func TestTorch(t *testing.T) {
	if testing.Short() {
		t.Skip("torch takes seconds to load")
	}
	t.Parallel()
	n := newNetwork(t, 3)
	tells := []string{"sh", "-c", `echo pid $$; exec "$@"`, "sh"}
	all := n.launch(n.hosts, "--nproc-per-node 1 --interface eth0",
		append(tells, torchScript(t, "--bytes", "4096", "--iters", "1000000000")...)...)
	victim := n.rankProcesses(all, 1)[1]
	all[victim.host].await(`\[rank1\]: time=.*`)
	all[victim.host].kill(victim.pid, syscall.SIGKILL)
	for _, l := range all {
		l.expect(137, fmt.Sprintf("rank 1 (node 1, host %s, pid %d) ended with signal 9", n.hosts[victim.host].Name,
			victim.pid))
	}
}
