package node_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/netns"
)

// host is a host of the test's network, and the secret it uses.
type host struct {
	*netns.Host
	secret string
}

// network is a set of hosts on one switch.
type network struct {
	*testing.T
	hosts []*host
}

func newNetwork(t *testing.T, hosts int) *network {
	t.Helper()
	n := &network{T: t}
	for _, h := range netns.New(t, hosts).Hosts {
		n.hosts = append(n.hosts, &host{h, "the secret of this test run"})
	}
	return n
}

const (
	port = "29411"
	// heartbeat is the silence limit. It is longer than a process waits for a core on a busy machine.
	heartbeat = "5s"
)

// launch runs the same command on each of the hosts.
func (n *network) launch(hosts []*host, flags string, program ...string) []*launcher {
	n.Helper()
	var all []*launcher
	for _, h := range hosts {
		args := strings.Fields("--nnodes 3 --nproc-per-node 2 --rdzv-backend c10d --rdzv-id job --heartbeat " + heartbeat +
			" " + flags)
		if !strings.Contains(flags, "--rdzv-endpoint") {
			args = append(args, "--rdzv-endpoint", n.hosts[0].Four+":"+port)
		}
		all = append(all, start(n.T, h, append(append(args, "--"), program...)...))
	}
	return all
}

// rankProcess is the process of a rank and its host.
type rankProcess struct{ host, pid int }

// running starts the program `waits` on all hosts.
func (n *network) running(flags string) ([]*launcher, map[int]rankProcess) {
	n.Helper()
	all := n.launch(n.hosts, flags, waits...)
	return all, n.rankProcesses(all, 2)
}

// rankProcesses waits until the ranks have printed their PIDs.
func (n *network) rankProcesses(all []*launcher, perHost int) map[int]rankProcess {
	n.Helper()
	found := map[int]rankProcess{}
	for i, l := range all {
		for rank, pid := range l.pids(perHost) {
			found[rank] = rankProcess{i, pid}
		}
	}
	if len(found) != perHost*len(all) {
		n.Fatalf("ranks are missing: %v", found)
	}
	return found
}

// expectAll expects the same end on every node, and returns how long it took.
func (n *network) expectAll(since time.Time, all []*launcher, code int, texts ...string) {
	n.Helper()
	for _, l := range all {
		l.expect(code, texts...)
	}
	n.Logf("all ended %v later: %s", time.Since(since).Round(time.Millisecond), all[0].messages())
}

func TestNodesMeet(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3)
	for _, c := range []struct{ flags, master string }{
		{"", n.hosts[0].Four},
		{"--rdzv-endpoint [" + n.hosts[1].Six + "]:" + port, n.hosts[1].Six}, // IPv6, and not the first host
		{"--interface eth0 --port-range 29500-29599", n.hosts[0].Four},
	} {
		seen := map[string]bool{}
		inRange := strings.Contains(c.flags, "--port-range")
		for _, l := range n.launch(n.hosts, c.flags,
			shell(`echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, node $GROUP_RANK of $GROUP_WORLD_SIZE at $MASTER_ADDR
			case "$MASTER_PORT $KERNBENCH_PORT_RANGE" in "295"??" 29500-29599") echo in range; esac`)...) {
			l.expect(0)
			for line := range strings.Lines(l.stdout.String()) {
				_, text, _ := strings.Cut(strings.TrimSpace(line), "]: ")
				seen[text] = true
			}
		}
		if seen["in range"] != inRange {
			t.Errorf("%s: the master's port is in the range: %v", c.flags, seen["in range"])
		}
		for rank := range 6 {
			want := fmt.Sprintf("rank %d of 6, local %d, node %d of 3 at %s", rank, rank%2, rank/2, c.master)
			if !seen[want] {
				t.Errorf("%s: no %q among %v", c.flags, want, seen)
			}
		}
	}
}

// Node ranks can be chosen. The master is then the host of node 0, not the host of the rendezvous.
func TestNodeRanks(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3)
	var all []*launcher
	for i, h := range n.hosts {
		all = append(all, n.launch([]*host{h}, fmt.Sprintf("--node-rank %d", 2-i),
			shell(`echo $GROUP_RANK $MASTER_ADDR`)...)...)
	}
	for i, l := range all {
		l.expect(0)
		if want := fmt.Sprintf("[rank%d]: %d %s\n", 2*(2-i), 2-i, n.hosts[2].Four); !strings.Contains(l.stdout.String(),
			want) {
			t.Errorf("host %d: got %s, want %s", i, l.stdout, want)
		}
	}
}

func TestNodesThatDoNotMeet(t *testing.T) {
	t.Parallel()
	t.Run("never joins", func(t *testing.T) {
		t.Parallel()
		n := newNetwork(t, 3)
		for _, l := range n.launch(n.hosts[:2], "--join-timeout 8s", waits...) {
			l.expect(1, "2 of 3 nodes joined within 8s: host kb", "; missing: 1 more")
		}
	})
	t.Run("no rendezvous", func(t *testing.T) {
		t.Parallel()
		n := newNetwork(t, 3)
		for _, l := range n.launch(n.hosts[1:], "--join-timeout 1s", waits...) {
			l.expect(1, "no rendezvous at "+n.hosts[0].Four+":"+port+" within 1s: is the same command running on that host")
		}
	})
	t.Run("wrong secret", func(t *testing.T) {
		t.Parallel()
		n := newNetwork(t, 3)
		n.hosts[2].secret = "another secret altogether"
		all := n.launch(n.hosts, "--join-timeout 8s", waits...)
		all[2].expect(1, "refused: the secrets differ")
		for _, l := range all[:2] {
			l.expect(1, "2 of 3 nodes joined within 8s: ", "refused: "+n.hosts[2].Four+": the secrets differ")
		}
		for _, l := range all {
			if strings.Contains(l.stderr.String(), "secret of this test") || strings.Contains(l.stderr.String(), "altogether") {
				t.Errorf("a secret was printed: %s", l.stderr)
			}
		}
	})
	t.Run("port in use", func(t *testing.T) {
		t.Parallel()
		n := newNetwork(t, 3)
		defer n.hosts[0].occupy(t)()
		n.launch(n.hosts[:1], "", waits...)[0].expect(1, "meeting at "+n.hosts[0].Four+":"+port+": the port is in use")
	})
	t.Run("different commands", func(t *testing.T) {
		t.Parallel()
		n := newNetwork(t, 3)
		first := n.launch(n.hosts[:1], "--join-timeout 8s", waits...)
		n.launch(n.hosts[1:2], "--nproc-per-node 3", waits...)[0].expect(1,
			"--nproc-per-node is 3 here and 2 at the coordinator")
		n.launch(n.hosts[2:], "", "sleep", "999")[0].expect(1, `the program is "sleep 999" here and "`)
		first[0].expect(1, "refused: host kb1 (pid ", "--nproc-per-node is 3", "the program is")
	})
}

// occupy listens on the rendezvous port as another service.
func (h *host) occupy(t *testing.T) (release func()) {
	t.Helper()
	l := must.Get(h.Listen(h.Four + ":" + port))(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "220 this is a mail server, which speaks first and at length\r\n")
		}
	}()
	return func() { l.Close() }
}

// A failure on one host ends the job on all hosts, with one message each.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		flags string
		harm  func(n *network, all []*launcher, at map[int]rankProcess) (code int, message string, left []*launcher)
	}{
		{"killed rank", "", func(n *network, all []*launcher, at map[int]rankProcess) (int, string, []*launcher) {
			all[0].kill(at[5].pid, syscall.SIGKILL)
			return 137, fmt.Sprintf("rank 5 (node 2, host %s, pid %d) ended with signal 9 (killed); its last output:\n "+
				"   pid %d\n", n.hosts[at[5].host].Name, at[5].pid, at[5].pid), all
		}},
		{"stopped rank", "", func(n *network, all []*launcher, at map[int]rankProcess) (int, string, []*launcher) {
			all[0].kill(at[3].pid, syscall.SIGSTOP)
			return 1, fmt.Sprintf("rank 3 (node 1, host %s, pid %d) has been stopped for "+heartbeat, n.hosts[at[3].host].Name,
				at[3].pid), all
		}},
		{"interrupt", "--max-restarts 3",
			func(n *network, all []*launcher, at map[int]rankProcess) (int, string, []*launcher) {
				all[1].kill(all[1].cmd.Process.Pid, syscall.SIGINT)
				return 130, fmt.Sprintf("(host kb1, pid %d) was interrupted", all[1].cmd.Process.Pid), all
			}},
		{"killed launcher", "--max-restarts 3",
			func(n *network, all []*launcher, at map[int]rankProcess) (int, string, []*launcher) {
				all[2].kill(all[2].cmd.Process.Pid, syscall.SIGKILL)
				return 1, "(host kb2, pid ", []*launcher{all[0], all[1]}
			}},
		{"killed host of the rendezvous", "--max-restarts 3",
			func(n *network, all []*launcher, at map[int]rankProcess) (int, string, []*launcher) {
				all[0].kill(all[0].cmd.Process.Pid, syscall.SIGKILL)
				return 1, fmt.Sprintf("node 0 (host %s) was lost: its process ended", n.hosts[0].Name), []*launcher{all[1], all[2]}
			}},
		{"stopped launcher", "", func(n *network, all []*launcher, at map[int]rankProcess) (int, string, []*launcher) {
			all[1].kill(all[1].cmd.Process.Pid, syscall.SIGSTOP)
			n.Cleanup(func() { all[1].cmd.Process.Kill() })
			for _, p := range at { // its ranks end with the others, although the stopped launcher cannot end them
				for limit := time.Now().Add(hangGuard); p.host == 1 &&
					syscall.Kill(p.pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(limit) {
						n.Fatalf("rank %d of the stopped launcher lives on", p.pid)
					}
				}
			}
			return 1, "nothing was heard from it for " + heartbeat, []*launcher{all[0], all[2]}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, 3)
			all, at := n.running(c.flags)
			begin := time.Now()
			code, message, left := c.harm(n, all, at)
			n.expectAll(begin, left, code, message)
			if c.name == "stopped launcher" { // once continued, it says that it was itself to blame
				all[1].kill(all[1].cmd.Process.Pid, syscall.SIGCONT)
				all[1].expect(1, fmt.Sprintf("(host %s, pid %d) was stopped for ", n.hosts[1].Name, all[1].cmd.Process.Pid),
					"and the others gave it up")
			}
		})
	}
}

// Both sides notice a pulled cable.
func TestCutLink(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3)
	all, at := n.running("")
	cut := at[4].host // the host of node 2, which is never the rendezvous (node 0)
	begin := time.Now()
	n.hosts[cut].Cut()
	for i, l := range all {
		if i == cut {
			l.expect(1, "node 0 (host ", "was lost: nothing was heard from it for "+heartbeat,
				fmt.Sprintf("node 2 (host %s) has lost the rendezvous with it", n.hosts[cut].Name))
		} else {
			l.expect(1, fmt.Sprintf("node 2 (host %s, pid ", n.hosts[cut].Name),
				"was lost: nothing was heard from it for "+heartbeat)
		}
	}
	t.Logf("all ended %v later", time.Since(begin).Round(time.Millisecond))
}

func TestNodesRestart(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3)
	all := n.launch(n.hosts, "--max-restarts 1",
		shell(`[ $RANK.$TORCHELASTIC_RESTART_COUNT = 4.0 ] && exit 9
			[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 1000
			echo attempt $TORCHELASTIC_RESTART_COUNT`)...)
	for _, l := range all {
		l.expect(0, ": restart 1 of 1: rank 4 (node 2, host kb", "ended with exit code 9")
		if got := strings.Count(l.stdout.String(), "attempt 1\n"); got != 2 {
			t.Errorf("%d ranks ran again: %s", got, l.stdout)
		}
	}
}
