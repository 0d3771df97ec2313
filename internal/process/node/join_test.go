package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// runs starts `kernbench run` as the ranks of a launch over the hosts.
func (n *network) runs(dir string, flags ...string) []*launcher {
	n.Helper()
	program := append([]string{proctest.Self(n.T), "run", "-q", "--bench", "still", "--out", dir}, flags...)
	var all []*launcher
	for i, h := range n.hosts { // rank 0 is on the first
		all = append(all, n.launch([]*host{h}, fmt.Sprintf("--node-rank %d", i), program...)...)
	}
	return all
}

// rows reads the rows of the latest run in the folder.
func rows(t *testing.T, dir string) []journal.Row {
	t.Helper()
	j, run := must.Get2(journal.LoadRun(dir))(t)
	if len(j.Problems) > 0 {
		t.Errorf("the journal has problems: %v", j.Problems)
	}
	return dataset.Of(run).Rows.Copy()
}

// kernbench runs as the six ranks of a job on three hosts and connects over TCP. Rank 0 records, an
// environment variable is swept, and a rank that dies is named.
func TestJoinedHosts(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3)
	dir := filepath.Join(t.TempDir(), "run")
	begin := time.Now()
	code := 0
	for _, l := range n.runs(dir, "--mode", "ok,kill") {
		code = max(code, l.wait())
	}
	t.Logf("took %v", time.Since(begin).Round(time.Millisecond))
	all := rows(t, dir)
	if len(all) != 4 || code != 1 {
		t.Fatalf("%d rows, exit code %d", len(all), code)
	}
	for _, r := range all {
		if r.NumRanks == nil || *r.NumRanks != 6 {
			t.Errorf("%s %s: %v ranks", r.Point, r.Env, r.NumRanks)
		}
		if killed := strings.Contains(r.Point.String(), "kill"); killed != r.Status.Bad() ||
			killed && (*r.Rank != 5 || !strings.Contains(string(r.Reason), "signal 9")) {
			t.Errorf("%s %s: %s at %v: %s\n%s", r.Point, r.Env, r.Status, r.Rank, r.Reason, r.Output)
		}
		if r.Status != journal.OK {
			continue
		}
		hosts := map[string]bool{}
		for rank := range 6 {
			text, err := os.ReadFile(filepath.Join(dir, "logs", r.Launch, fmt.Sprintf("rank%d.out", rank)))
			var name, local, master string
			if _, scan := fmt.Sscanf(string(text), fmt.Sprintf("rank %d on %%s local rank %%s at %%s", rank), &name, &local,
				&master); err != nil || scan != nil {
				t.Fatalf("rank %d wrote %q: %v, %v", rank, text, err, scan)
			}
			hosts[name] = true
			if local != fmt.Sprint(rank%2, ",") || master != n.hosts[0].Four {
				t.Errorf("rank %d wrote %q", rank, text)
			}
		}
		if len(hosts) != 3 {
			t.Errorf("the ranks were on %v", hosts)
		}
	}
}

// A program that fails at one of the ranks on several hosts gives a row that names the rank, with the exit
// codes and last lines of all ranks.
func TestJoinedHostsProgram(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	dir := t.TempDir()
	sweep, out := filepath.Join(dir, "sweep.yaml"), filepath.Join(dir, "run")
	text := fmt.Sprintf(`name: pieces
command: [sh, -c, 'cd %s; echo piece $RANK is here >&2; : > $RANK; [ $RANK = 3 ] || exec sleep 600;
  until [ -e 0 ] && [ -e 1 ] && [ -e 2 ]; do sleep 0.01; done; exit 7']
ranks: [4]
metrics: {time_us: {regex: 'time=([0-9.]+)us'}}
`, dir)
	must.Do(t, os.WriteFile(sweep, []byte(text), 0o644))
	var all []*launcher
	for i, h := range n.hosts {
		all = append(all, n.launch([]*host{h}, fmt.Sprintf("--nnodes 2 --node-rank %d", i), proctest.Self(t), "run", "-q",
			"-f", sweep, "--out", out)...)
	}
	for _, l := range all {
		l.wait()
	}
	found := rows(t, out)
	if len(found) != 1 || found[0].Status != journal.Failed || found[0].Rank == nil || *found[0].Rank != 3 ||
		len(found[0].Ranks) != 4 {
		t.Fatalf("%+v; %s", found, all[0].stderr)
	}
	for r, e := range found[0].Ranks {
		if e.Rank != r || e.Said != fmt.Sprintf("piece %d is here", r) || (r == 3) != (e.End == "exit code 7") {
			t.Errorf("%+v", e)
		}
	}
}

// The limit of a row over several hosts is the limit of the link it used, here 20 Mbit/s out of the first
// host. probe reports the same.
func TestLimitIsTheLinks(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	n.hosts[0].Slow("20mbit")
	const bytes, fastest = 1 << 19, 2.5 * 1.3 // bytes per microsecond; bursts may exceed the limit slightly
	on := func(args ...string) (all []*launcher) {
		for i, h := range n.hosts {
			all = append(all, n.launch([]*host{h},
				fmt.Sprintf("--nnodes 2 --nproc-per-node 1 --interface eth0 --port-range 29500-29599 --node-rank %d", i),
				append([]string{proctest.Self(t)}, args...)...)...)
		}
		for _, l := range all {
			l.expect(0)
		}
		return all
	}
	dir := filepath.Join(t.TempDir(), "run")
	on("run", "-q", "--bench", "collectives", "--size", fmt.Sprint(bytes), "--seconds", "0.1", "--remeasure", "0",
		"--out", dir)
	for _, r := range rows(t, dir) {
		if r.Status != journal.OK || len(r.Limits) != 1 || r.Limits["network"] < bytes/fastest ||
			!(r.Metrics["pct_of_limit"] > 1) ||
			!strings.Contains(r.Details["network"], "kb0, kb1: ") {
			t.Errorf("%s %s: %v, limits %v, details %v", r.Status, r.Reason, r.Metrics, r.Limits, r.Details)
		}
		t.Logf("%.1f %% of the limit: %s", r.Metrics["pct_of_limit"], r.Details["network"])
	}
	file := filepath.Join(t.TempDir(), "network.json")
	said := on("probe", "--quick", "--out", file)[0].stdout.String()
	text, err := os.ReadFile(file)
	var net tcp.Network
	if err := errors.Join(err, json.Unmarshal(text, &net)); err != nil || len(net.Pairs) != 2 ||
		!strings.Contains(said, "host, all at once") {
		t.Fatalf("%v: %s\n%s", err, text, said)
	}
	for _, p := range net.Pairs {
		if slow := p.From == 0; slow != (p.GBps < fastest/1e3) && slow != (p.BothGBps < fastest/1e3) || !(p.LatencyUS > 0) {
			t.Errorf("%+v", p)
		}
	}
	t.Logf("\n%s", said)
}

// The same holds for MPI ranks that MPI's own launcher has put on the two hosts.
func TestLimitOfMPIIsTheLinks(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	n.hosts[0].Slow("20mbit")
	const bytes, fastest = 1 << 17, 2.5 * 1.3 // as above
	dir := filepath.Join(t.TempDir(), "run")
	begin(t, n.hosts[0].Command(proctest.Self(t), "run", "-q", "--bench", "collectives", "--backend", "mpi", "--op",
		"allreduce", "--ranks", "2",
		"--size", fmt.Sprint(bytes), "--seconds", "0.1", "--remeasure", "0", "--interface", "eth0", "--out", dir,
		"--launcher", fmt.Sprintf("mpirun.openmpi --allow-run-as-root --oversubscribe --mca btl_tcp_if_include eth0 --mca "+
			"plm_rsh_agent %s --host %s:1,%s:1",
			n.hosts[0].RemoteShell(), n.hosts[0].Four, n.hosts[1].Four)), os.Environ()).expect(0)
	all := rows(t, dir)
	for _, r := range all {
		if pct := r.Metrics["pct_of_limit"]; r.Status != journal.OK || len(r.Limits) != 1 ||
			r.Limits["network"] < bytes/fastest || !(pct > 1 && pct < 130) ||
			!strings.Contains(r.Details["network"], "kb0, kb1: ") {
			t.Errorf("%s %s: %v, limits %v, details %v", r.Status, r.Reason, r.Metrics, r.Limits, r.Details)
		}
	}
	if len(all) != 1 {
		t.Errorf("%d rows", len(all))
	}
}

// If a host is cut off or a rank's process is killed, the run ends with a row that names a rank of that
// host.
func TestJoinedHostLost(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(n *network, all []*launcher){
		"cut":             func(n *network, _ []*launcher) { n.hosts[2].Cut() },
		"killed launcher": func(n *network, all []*launcher) { all[2].kill(all[2].cmd.Process.Pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, 3)
			dir := filepath.Join(t.TempDir(), "run")
			all := n.runs(dir, "--mode", "linger")
			awaitBegin(t, dir)
			harm(n, all)
			for _, l := range all {
				l.wait()
			}
			// Either the launcher or rank 0 notices first: the row names a rank of the lost host, or the run was
			// interrupted and can be resumed.
			_, run := must.Get2(journal.LoadRun(dir))(t)
			for _, r := range dataset.Of(run).Rows {
				if !r.Status.Bad() || r.Rank == nil {
					t.Errorf("%s: %s", r.Status, r.Reason)
					continue
				}
				t.Logf("%s at rank %d: %s", r.Status, *r.Rank, r.Reason)
			}
			if run.End == nil || run.End.Outcome == "complete" {
				t.Errorf("the run ended with %+v", run.End)
			}
		})
	}
}

// awaitBegin waits until a point has started.
func awaitBegin(t *testing.T, dir string) {
	t.Helper()
	for limit := time.Now().Add(hangGuard); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, journal.FileName))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"type":"begin"`) {
			return
		}
	}
	t.Fatal("no point has begun")
}
