package rankhost

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// The test binary is also the agents and the other ranks of a job.
func TestMain(m *testing.M) {
	if code, is := launch.MaybeAgent(); is {
		os.Exit(code)
	}
	if rank, ok := os.LookupEnv("TEST_FOLLOW"); ok {
		cfg := testConfig(os.Getenv("TEST_NAME"), 3)
		cfg.Rank, _ = strconv.Atoi(rank)
		if err := Follow(context.Background(), cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hangGuard bounds every wait. A test that reaches it has failed.
const hangGuard = 3 * time.Minute

func testConfig(name string, size int) Config {
	return Config{Size: size, Local: name, Command: "run", JoinTimeout: hangGuard, Name: "here", Environ: os.Environ()}
}

// job is a leader with its followers, which are goroutines of this process.
func job(t *testing.T, configs []Config) (*Leader, []chan error) {
	t.Helper()
	ends := make([]chan error, len(configs))
	for i := range configs {
		configs[i].Rank = i
		if ends[i] = make(chan error, 1); i > 0 {
			go func() { ends[i] <- Follow(t.Context(), configs[i]) }()
		}
	}
	l := must.Get(Lead(t.Context(), configs[0]))(t)
	t.Cleanup(l.Close)
	return l, ends
}

// meetings are the two ways to meet: on one host and over TCP.
func meetings(t *testing.T, size int) map[string][]Config {
	t.Helper()
	all := map[string][]Config{}
	// An address of their own, because tests that run at the same time may be given the same free port.
	host := fmt.Sprintf("127.%d.%d.%d", 1+mathrand.IntN(254), mathrand.IntN(256), 1+mathrand.IntN(254))
	taken := must.Get(net.Listen("tcp", host+":0"))(t)
	t.Cleanup(func() { taken.Close() })
	port := taken.Addr().(*net.TCPAddr).Port
	free := must.Get(connection.PortRange{}.FreePort(host))(t)
	for i := range size {
		local := testConfig("test-"+t.Name()+strconv.Itoa(os.Getpid()), size)
		remote := local
		// The first port belongs to a service that never answers.
		remote.Local, remote.Host, remote.Ports, remote.Secret = "", host, []int{port, free},
			[]byte("a secret of this test")
		local.Environ = append(local.Environ, "RANK_HOST="+strconv.Itoa(i))
		remote.Environ = local.Environ
		all["local"], all["remote"] = append(all["local"], local), append(all["remote"], remote)
	}
	return all
}

// The activities of the ranks of a hung launch are reported with their exits.
func TestStopHung(t *testing.T) {
	t.Parallel()
	for _, configs := range meetings(t, 2) {
		l, _ := job(t, configs)
		var procs []launch.Proc
		for rank := range configs {
			procs = append(procs, launch.Proc{Argv: []string{"sleep", "3600"},
				Vars: &launch.RankVars{Rank: rank, WorldSize: len(configs)}})
		}
		run := must.Get(l.Launch(t.Context(), launch.Spec{Procs: procs}))(t)
		run.Stop(launch.StopRequest{Reason: "planted", Hung: true})
		out, err := run.Wait()
		if err != nil || len(out.Exits) != 2 || out.Exits[0].Activity == nil || out.Exits[1].Activity == nil {
			t.Errorf("%+v, %v", out.Exits, err)
		}
	}
}

// A rank on another host fails at once if the supervisor listens only on its loopback.
func TestGuardReachable(t *testing.T) {
	for _, c := range []struct {
		addr, theirs, ours string
		want               bool
	}{{"127.0.0.1", "a", "a", true}, {"127.0.0.1", "a", "b", false}, {"::1", "a", "b", false},
		{"10.0.0.1", "a", "b", true}} {
		if err := checkReachable(netip.MustParseAddr(c.addr), c.theirs, c.ours); (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func text(s string) *string { return &s }

// Each launch starts a process at every rank's host, with the requested changes to the host's own
// environment, and brings its output to rank 0.
func TestLaunches(t *testing.T) {
	for name, configs := range meetings(t, 3) {
		t.Run(name, func(t *testing.T) {
			l, ends := job(t, configs)
			if strings.HasPrefix(l.Addr(), "127.") != (name == "remote") {
				t.Errorf("reached at %q", l.Addr())
			}
			for round := range 3 {
				dir := t.TempDir()
				var procs []launch.Proc
				for rank := range 3 {
					procs = append(procs, launch.Proc{
						Argv: []string{"sh", "-c", `echo $RANK_HOST $RANK $WORLD_SIZE $SWEPT "${HOME-none}"
					echo "to err" >&2; exit $((RANK * 0))`},
						Env:    map[string]*string{"SWEPT": text(fmt.Sprint("v\xff", round)), "HOME": nil},
						Vars:   &launch.RankVars{Rank: rank, WorldSize: 3},
						Stdout: filepath.Join(dir, fmt.Sprint(rank, ".out")), Stderr: filepath.Join(dir, fmt.Sprint(rank, ".err")),
					})
				}
				run := must.Get(l.Launch(t.Context(), launch.Spec{Procs: procs, ReportEnv: []string{"SWEPT", "HOME"}}))(t)
				out, err := run.Wait()
				if err != nil || len(out.Exits) != 3 || out.Failed() != nil {
					t.Fatalf("%+v, %v", out, err)
				}
				begun := 0
				for e := range run.Events() {
					if s, is := e.(launch.Started); is {
						if begun++; s.Env != nil && (s.Env["HOME"] != nil || *s.Env["SWEPT"] != fmt.Sprint("v\xff", round)) {
							t.Errorf("rank %d saw %v", s.Rank, s.Env)
						}
					}
				}
				if begun != 3 {
					t.Errorf("%d began", begun)
				}
				for rank := range 3 {
					got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(rank, ".out")))
					if want := fmt.Sprintf("%d %d 3 v\xff%d none\n", rank, rank, round); err != nil || string(got) != want {
						t.Errorf("rank %d wrote %q, %v, want %q", rank, got, err, want)
					}
					if got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(rank, ".err"))); err != nil || string(got) != "to err\n" {
						t.Errorf("rank %d wrote %q, %v", rank, got, err)
					}
				}
			}
			l.Close()
			for rank := 1; rank < 3; rank++ {
				if err := <-ends[rank]; err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
		})
	}
}

// shell runs the same script at every rank.
func shell(size int, script string) launch.Spec {
	s := launch.Spec{Procs: make([]launch.Proc, size)}
	for rank := range size {
		s.Procs[rank] = launch.Proc{Argv: []string{"sh", "-c", script}, Vars: &launch.RankVars{Rank: rank, WorldSize: size}}
	}
	return s
}

// With StopOnFailure, a failed process ends the others, and the next launch works. A process that floods
// its output is only slowed down.
func TestFailures(t *testing.T) {
	l, _ := job(t, meetings(t, 3)["remote"])
	spec := shell(3, `[ $RANK = 2 ] && exit 7; sleep 1000`)
	spec.StopOnFailure = true
	run, err := l.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(); err != nil || out.Failed() == nil || out.Failed().Rank != 2 || out.Failed().Code != 7 ||
		!out.Exits[0].Stopped {
		t.Errorf("%+v, %v", out, err)
	}
	spec = shell(3, "exit 0")
	spec.Procs[1].Argv = []string{"/no/such/program"}
	if _, err := l.Launch(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "rank 1: ") ||
		!strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %v", err)
	}
	spec = shell(3, "exit 0")
	spec.Procs[1].Files = []string{"/no/too many open files"} // the text of the error that an exhausted limit gives
	if _, err := l.Launch(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "(ulimit -n)") {
		t.Errorf("got %v, want the limit", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	run = must.Get(l.Launch(ctx, shell(3, "sleep 1000")))(t)
	cancel()
	if out, err := run.Wait(); err != nil || len(out.Exits) != 3 || out.Reason != "context canceled" {
		t.Errorf("%+v, %v", out, err)
	}
	spec = shell(3, "head -c 5000000 /dev/zero")
	file := filepath.Join(t.TempDir(), "out")
	spec.Procs[1].Stdout = file
	if run, err = l.Launch(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(); err != nil || out.Failed() != nil {
		t.Errorf("%+v, %v", out, err)
	}
	if st, err := os.Stat(file); err != nil || st.Size() != 5000000 {
		t.Errorf("%v, %v", st, err)
	}
}

// follower is a rank in its own process, which can be killed.
func follower(t *testing.T, name string, rank int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TEST_NAME="+name, "TEST_FOLLOW="+strconv.Itoa(rank))
	cmd.Stderr = os.Stderr
	must.Do(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// A killed rank host is named, and ends the processes of the other ranks and its own. A stopped one is
// found by its silence.
func TestLostRankHost(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			name := "lost-" + rand.Text()
			victim := follower(t, name, 2)
			follower(t, name, 1)
			l, err := Lead(t.Context(), testConfig(name, 3))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			run := must.Get(l.Launch(t.Context(), shell(3, "exec sleep 1000")))(t)
			pids := map[int]int{}
			for range 3 {
				s := (<-run.Events()).(launch.Started)
				pids[s.Rank] = s.PID
			}
			victim.Process.Signal(sig)
			_, err = run.Wait()
			var lost *LostError
			if !errors.As(err, &lost) || lost.Rank != 2 || lost.PID != victim.Process.Pid || l.Lost() != lost {
				t.Errorf("got %v", err)
			}
			t.Log(err)
			if _, err := l.Launch(t.Context(), shell(3, "true")); !errors.As(err, &lost) {
				t.Errorf("a job that is not whole launched: %v", err)
			}
			for limit := time.Now().Add(hangGuard); ; time.Sleep(5 * time.Millisecond) {
				left := 0
				for _, pid := range pids {
					if syscall.Kill(pid, 0) == nil {
						left++
					}
				}
				if left == 0 {
					break
				}
				if time.Now().After(limit) {
					t.Fatalf("%d of %v are left", left, pids)
				}
			}
		})
	}
}

// Ranks that lose their leader kill their processes and say whom they lost.
func TestLostLeader(t *testing.T) {
	configs := meetings(t, 2)["remote"]
	l, ends := job(t, configs)
	run := must.Get(l.Launch(t.Context(), shell(2, "exec sleep 1000")))(t)
	var pid int
	for range 2 {
		if s := (<-run.Events()).(launch.Started); s.Rank == 1 {
			pid = s.PID
		}
	}
	peer := l.coordinator.group.ByRank(1).Peer
	// like the death of the process
	l.host.Do(func(time.Duration) []action { return []action{{Peer: peer, Drop: true}} })
	if err := <-ends[1]; err == nil || !strings.Contains(err.Error(), "rank 1 (host here) lost rank 0") {
		t.Errorf("got %v", err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("its process lives on")
	}
}

// A rank that cannot join learns why, and rank 0 says who is missing. The stories of package connection
// cover the reasons.
func TestRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		harm         func(*Config)
		theirs, ours string
	}{
		"secret": {func(c *Config) {
			c.Secret = []byte("another secret of this test")
		}, "the secrets differ", ": the secrets differ"},
		"command": {func(c *Config) {
			c.Command = "stroll"
		}, `the command is "stroll" here and "run" at the coordinator`, "missing: rank 2; refused: host here (pid "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			configs := meetings(t, 3)["remote"]
			configs[0].JoinTimeout = 8 * time.Second // generous, because processes must start first
			first, second := make(chan error, 1), make(chan error, 1)
			configs[1].Rank, configs[2].Rank = 1, 2
			c.harm(&configs[2])
			go func() { first <- Follow(t.Context(), configs[1]) }()
			go func() { second <- Follow(t.Context(), configs[2]) }()
			if _, err := Lead(t.Context(), configs[0]); err == nil || !strings.Contains(err.Error(), c.ours) {
				t.Errorf("rank 0 got %v", err)
			}
			if err := <-first; !errors.Is(err, ErrGivenUp) {
				t.Errorf("rank 1 got %v", err)
			}
			if err := <-second; err == nil || !strings.Contains(err.Error(), c.theirs) {
				t.Errorf("rank 2 got %v", err)
			}
		})
	}
}

// A missing leader and an address that is not rank 0's own are reported.
func TestNowhere(t *testing.T) {
	cfg := meetings(t, 2)["remote"][1]
	cfg.Rank, cfg.JoinTimeout, cfg.Ports = 1, 200*time.Millisecond, cfg.Ports[1:]
	if err := Follow(t.Context(), cfg); err == nil ||
		!strings.Contains(err.Error(), "rank 1 could not reach rank 0 at 127.") {
		t.Errorf("got %v", err)
	}
	cfg.Rank, cfg.Host = 0, "192.0.2.77" // reserved for documentation by RFC 5737
	if _, err := Lead(t.Context(), cfg); err == nil ||
		!strings.Contains(err.Error(), "not an address of this host: rank 0 must run on that host") {
		t.Errorf("got %v", err)
	}
}

// An interrupt of any rank interrupts the whole job.
func TestInterrupt(t *testing.T) {
	configs := meetings(t, 2)["local"]
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	configs[1].Rank = 1
	go func() { ended <- Follow(ctx, configs[1]) }()
	l := must.Get(Lead(t.Context(), configs[0]))(t)
	interrupt()
	<-l.Interrupted()
	l.Close()
	if err := <-ended; err != nil {
		t.Errorf("got %v", err)
	}
}

// A rank that ends after an interrupt is not to blame for the end of the job. A rank that ends without
// one is, even while the others are being ended.
func TestInterruptedRankIsNoCause(t *testing.T) {
	for told, lost := range map[bool]bool{true: false, false: true} {
		c := newCoordinator(Config{Size: 2, Local: "x"})
		for peer := range 2 {
			c.Receive(peer, message{Join: &join{Join: connection.Join{Rank: peer, Size: 2, Facts: Config{}.facts()}}}, 0)
		}
		c.Receive(0, message{Interrupted: true}, 0)
		if told {
			c.Receive(1, message{Interrupted: true}, 0)
		}
		c.Disconnect(1, "its process ended", 0)
		if got := c.lost.Load() != nil; got != lost {
			t.Errorf("told to end %v: lost %v", told, c.lost.Load())
		}
	}
}

// If the agent of one rank gets a signal to end, the launch ends everywhere, for that reason.
func TestEndedAtOneRank(t *testing.T) {
	l := &Leader{coordinator: newCoordinator(Config{Size: 2, Local: "x"})}
	for peer := range 2 {
		l.coordinator.Receive(peer, message{Join: &join{Join: connection.Join{Rank: peer, Size: 2,
			Facts: Config{}.facts()}}}, 0)
	}
	vars := new(launch.RankVars)
	run := must.Get(newLaunch(l, launch.Spec{Procs: []launch.Proc{{Vars: vars}, {Vars: vars}}}))(t)
	must.Get(l.coordinator.begin(run))(t)
	orders := l.coordinator.Receive(1, message{Done: &launch.Outcome{Reason: "the agent was told to end"}}, 0)
	const want = "rank 1: the agent was told to end"
	if len(orders) != 2 || orders[0].Message.Stop == nil || orders[0].Message.Stop.Reason != want {
		t.Errorf("orders %+v", orders)
	}
	l.coordinator.Receive(0, message{Done: &launch.Outcome{Reason: want}}, 0)
	if out, err := run.Wait(); err != nil || out.Reason != want {
		t.Errorf("%+v, %v", out, err)
	}
}

// Once a launch is stopped because its time is over, a rank that ends is no cause, even if its own host has not got the
// order yet.
func TestEndsAfterTheLimit(t *testing.T) {
	l := &Leader{coordinator: newCoordinator(Config{Size: 2, Local: "x"})}
	for peer := range 2 {
		l.coordinator.Receive(peer, message{Join: &join{Join: connection.Join{Rank: peer, Size: 2,
			Facts: Config{}.facts()}}}, 0)
	}
	vars := new(launch.RankVars)
	run := must.Get(newLaunch(l, launch.Spec{Procs: []launch.Proc{{Vars: vars}, {Vars: vars}}}))(t)
	must.Get(l.coordinator.begin(run))(t)
	ends := []launch.Exit{{Rank: 0, Code: 1}, {Rank: 1, Code: 1}}
	l.coordinator.Receive(0, message{Exited: &launch.Exit{Rank: 0, Code: 1}}, 0) // before the limit
	run.stop(launch.StopRequest{Reason: "not finished", Hung: true})
	l.coordinator.Receive(1, message{Exited: &launch.Exit{Rank: 1, Code: 1}}, 0)
	for rank := range ends {
		l.coordinator.Receive(rank, message{Done: &launch.Outcome{Exits: ends[rank : rank+1]}}, 0)
	}
	if out, err := run.Wait(); err != nil || out.Exits[0].Stopped || !out.Exits[1].Stopped {
		t.Errorf("%+v, %v", out.Exits, err)
	}
}

func TestCrowded(t *testing.T) {
	members := []*connection.Member{{Peer: 0}, {Peer: 1}, {Peer: 2}}
	for i, m := range members {
		m.Join = connection.Join{Rank: i, Host: "a"}
	}
	cpus := map[int][]int{0: {0}, 1: {1}, 2: {2}} // each bound to its own core
	if got := oversubscribed(members, cpus); got != nil {
		t.Error(got)
	}
	for i := range members {
		cpus[i] = []int{0, 1}
	}
	if got := oversubscribed(members, cpus); !slices.Equal(got, []FullHost{{"a", 3, 2}}) {
		t.Error(got)
	}
	members[2].Host = "b"
	if got := oversubscribed(members, cpus); got != nil {
		t.Error(got)
	}
}

// A leader that was stopped blames itself for the ranks that have left it meanwhile, and not the first of them.
func TestStoppedLeader(t *testing.T) {
	for name, c := range map[string]struct {
		self bool
		gap  time.Duration
		want string
	}{
		"stopped":    {true, 7 * time.Second, "the process of rank 0 (host here, pid "},
		"supervisor": {false, 7 * time.Second, "the supervisor (host here, pid "},
		"short":      {true, 2 * time.Second, "the process of rank 1 (host there, pid 5) was lost: it ended"},
	} {
		core := newCoordinator(Config{Size: 2, Name: "here", Ports: []int{1}, JoinTimeout: time.Minute})
		first := connection.SelfPeer + 7
		if c.self {
			first = connection.SelfPeer
		}
		facts := core.group.Facts
		core.Receive(first, message{Join: &join{Join: connection.NewJoin(0, 2, "here", facts)}}, 0)
		core.Receive(2, message{Join: &join{Join: connection.Join{Rank: 1, Size: 2, Host: "there", PID: 5, Facts: facts}}}, 0)
		core.Tick(connection.Tick)
		core.Disconnect(2, "it ended", connection.Tick+c.gap)
		if lost := core.lost.Load(); lost == nil || !strings.HasPrefix(lost.Error(), c.want) ||
			c.gap > silenceLimit && !strings.Contains(lost.Error(), "it was stopped for 7s") {
			t.Errorf("%s: %v, want %q", name, lost, c.want)
		}
	}
}

// Another executable is refused in one sentence, unless it is allowed.
func TestOtherExecutable(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		core := newCoordinator(Config{Size: 2, Ports: []int{1}, Command: "run", AllowOtherBuild: allowed})
		theirs := Config{Size: 2, Command: "run"}.facts()
		theirs[len(theirs)-1].Value = "another"
		refused := core.Receive(2, message{Join: &join{Join: connection.Join{Rank: 1, Size: 2, Facts: theirs}}}, 0)
		switch {
		case allowed && len(refused) > 0:
			t.Errorf("refused although allowed: %+v", refused)
		case !allowed && (len(refused) != 1 || !strings.Contains(refused[0].Message.Refused,
			"install the same one on every host, or pass --allow-other-build everywhere")):
			t.Errorf("%+v", refused)
		}
	}
}
