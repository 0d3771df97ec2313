package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/proctest"
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

// Rank 0 serves the store of a torch.distributed script, also with the flags for which torchrun serves it, and inside
// such a job of torchrun.
func TestTorchStore(t *testing.T) {
	if testing.Short() {
		t.Skip("torch takes seconds to load")
	}
	t.Parallel()
	for _, flags := range []string{"--standalone", "--nnodes 1 --rdzv-backend static --master-addr 127.0.0.1"} {
		args := append([]string{"launch", "--nproc-per-node", "2", "--tee", "3"}, strings.Fields(flags)...)
		args = append(append(args, "--"), torchScript(t, "--bytes", "4096", "--iters", "1")...)
		outer := append(os.Environ(), "TORCHELASTIC_USE_AGENT_STORE=True")
		l := begin(t, exec.Command(proctest.Self(t), args...), outer)
		l.expect(0)
		l.await(`\[rank1\]: time=.*`)
	}
}
