// Package faults injects random faults into random runs of the whole program. `go test` injects thirty
// faults, FAULTS=300 sets another number, FAULTS_ONLY limits the kinds by a regular expression, and
// FAULTS_SEED repeats a campaign. After every fault, no row is lost, no process and no shared memory is
// left, and the culprit is named.
package faults

import (
	"crypto/rand"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/netns"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// injection is one fault of the campaign. It depends on the seed alone.
type injection struct {
	shape *shape
	fault *fault
	delay time.Duration // after the start of the first point
	pick  int           // chooses among the possible victims
}

// shape is a way to run the bench.
type shape struct {
	name  string
	ranks int
	slurm bool // needs Slurm
	// start starts the run in the folder. The last command holds rank 0.
	start func(s *scene)
}

// fault is a kind of fault and the shapes it applies to.
type fault struct {
	name   string
	weight int
	shapes string
	early  bool                      // inject while the run starts, not after its first point has begun
	inject func(s *scene) (hit bool) // nil if the fault exists from the beginning
	// named reports whether the rows and messages name the culprit; rows are the failed ones.
	named func(s *scene, rows []journal.Row) bool
}

// scene is a run and the fault injected into it.
type scene struct {
	*testing.T
	injection
	dir      string
	mark     proctest.Mark
	secrets  []string // one per host
	network  *netns.Network
	commands []*exec.Cmd
	ended    []chan struct{}
	said     []*proctest.Buffer
	victim   process
	small    bool         // the folder's file system fills up soon
	wrapper  []string     // command that starts the run, for example with limited resources
	relay    *netns.Relay // cable of the second host
}

// shapes are the ways to run the bench.
var shapes = []*shape{
	{"local", ranks, false, func(s *scene) { s.command(nil, s.runArgs()...) }},
	{"joined", ranks, false, func(s *scene) {
		s.command(nil, append([]string{"launch", "--standalone", "--nproc-per-node", strconv.Itoa(ranks), "--heartbeat",
			"1s", "--", proctest.Self(s.T)}, s.runArgs()...)...)
	}},
	{"mpirun", ranks, false, func(s *scene) {
		s.command(nil, append(s.runArgs(), "--launcher", "mpirun.openmpi --allow-run-as-root --oversubscribe")...)
	}},
	{"mpihosts", ranks, false, func(s *scene) {
		s.network = netns.New(s.T, 2)
		s.command(s.network.Hosts[0], append(s.runArgs(), "--interface", "eth0", "--launcher",
			"mpirun.openmpi --allow-run-as-root --oversubscribe"+
				" --mca plm_rsh_agent "+s.network.Hosts[0].RemoteShell()+" --host "+s.network.Hosts[0].Four+":1,"+
				s.network.Hosts[1].Four+":1")...)
	}},
	{"srun", ranks, true, func(s *scene) {
		s.command(nil, append(s.runArgs(), "--launcher", "srun --nodes=2 --comment="+s.mark.Value)...)
	}},
	{"srunjoined", ranks, true, func(s *scene) {
		s.wrapper = []string{"srun", "--nodes=2", fmt.Sprintf("--ntasks=%d", ranks), "--kill-on-bad-exit=1",
			"--comment=" + s.mark.Value}
		s.command(nil, s.runArgs()...)
	}},
	{"hosts", 2 * ranks, false, func(s *scene) {
		s.network = netns.New(s.T, 2)
		if strings.HasPrefix(s.fault.name, "network ") {
			s.relay = s.network.Hosts[1].Relay()
		}
		for i, h := range s.network.Hosts {
			s.command(h, append([]string{"launch", "--nnodes", "2", "--nproc-per-node", strconv.Itoa(ranks), "--join-timeout",
				"8s",
				"--node-rank", strconv.Itoa(i), "--rdzv-endpoint", s.network.Hosts[0].Four + ":29411", "--", proctest.Self(s.T)},
				s.runArgs()...)...)
		}
	}},
}

// faults are the kinds of faults.
var faults = []*fault{
	{"kill worker", 6, "local joined mpirun mpihosts srun hosts srunjoined", false, killOf(workers, syscall.SIGKILL),
		rankNamed("signal 9", "the worker ended", "ended with")},
	{"kill agent", 3, "local mpirun mpihosts srun", false, killOf(agents, syscall.SIGKILL),
		reasonNamed("the launch agent died")},
	{"stop agent", 1, "local mpirun srun", false, killOf(agents, syscall.SIGSTOP),
		unharmed},
	{"end agent", 1, "local mpirun", false, killOf(agents, syscall.SIGTERM), reasonNamed("told to end")},
	{"kill supervisor", 4, "local mpirun mpihosts srun", false, killOf(supervisors, syscall.SIGKILL), alwaysNamed},
	{"stop agent, kill supervisor", 2, "local mpirun mpihosts srun", false,
		inTurn(killOf(agents, syscall.SIGSTOP), killOf(supervisors, syscall.SIGKILL)), alwaysNamed},
	{"interrupt twice", 1, "local mpirun srun", false,
		inTurn(killOf(supervisors, syscall.SIGINT), killOf(supervisors, syscall.SIGTERM)), alwaysNamed},
	{"kill mpirun or srun", 2, "mpirun mpihosts srun", false, killOf(launcherPrograms, syscall.SIGKILL),
		reasonNamed("ended with signal 9 (killed)")},
	{"cancel step", 2, "srun srunjoined", false, cancelStep, cancelNamed},
	{"hang up", 1, "local mpirun mpihosts srun joined", false, killOf(supervisors, syscall.SIGHUP), interrupted},
	{"hang up node", 1, "hosts", false, killOf(launchers, syscall.SIGHUP), interrupted},
	{"kill rank", 4, "joined hosts srunjoined", false, killOf(rankHosts, syscall.SIGKILL), rankHostNamed},
	{"kill launcher", 3, "joined hosts", false, killOf(launchers, syscall.SIGKILL), launcherNamed},
	{"stop worker", 1, "local joined mpihosts srun srunjoined", false, killOf(workers, syscall.SIGSTOP),
		rankNamed("lost heartbeat")},
	{"stop rank", 1, "joined hosts srunjoined", false, killOf(followers, syscall.SIGSTOP), rankHostNamed},
	{"stop launcher", 1, "hosts", false, stopLauncher, launcherNamed},
	{"stop launcher, kill it", 1, "hosts", false, inTurn(stopLauncher, killVictim), launcherNamed},
	{"cut", 2, "hosts", false, cut, launcherNamed},
	{"freeze node", 1, "hosts", false, freezeNode, launcherNamed},
	{"reset", 3, "mpirun mpihosts srun hosts", false, resetWorker,
		rankNamed("the worker ended", "ended with", "connection lost")},
	{"reset launcher", 1, "hosts", false, resetLauncher, launcherNamed},
	{"flood", 2, "local joined mpirun mpihosts srun hosts", false, flood, unharmed},
	{"disk full", 2, "local joined", false, nil, stderrNamed("no space left on device")},
	{"stop rank 0", 3, "joined hosts srunjoined", false, killOf(leaders, syscall.SIGSTOP), stoppedLeaderNamed},
	{"pause supervisor", 3, "local mpirun", false, pauseOf(supervisors, 1, 8), unharmed},
	{"pause supervisor at start", 3, "local mpirun", true, pauseOf(supervisors, 1, 8), unharmed},
	{"pause launcher", 2, "joined", false, pauseOf(launchers, 1, 8), unharmed},
	{"pause launcher at start", 2, "joined", true, pauseOf(launchers, 1, 8), unharmed},
	{"pause rank", 2, "hosts", false, pauseOf(rankHosts, 1, 3), unharmed},
	{"pause agent", 2, "local joined mpirun", false, pauseOf(agents, 1, 4), unharmed},
	{"network loss", 3, "hosts", false, losePackets, networkNamed},
	{"network delay", 1, "hosts", false, delayPackets, unharmed},
	{"address-space limit", 3, "local joined", false, nil, limitNamed("ulimit -v")},
	{"file limit", 3, "local joined", false, nil, limitNamed("ulimit -n")},
	{"pid limit", 3, "local joined", false, nil, limitNamed("pids.max")},
	{"memory limit", 3, "local joined", false, nil, limitNamed("memory.max")},
	{"wrong secret", 1, "hosts", false, nil, stderrNamed("the secrets differ")},
}

// possible returns the shapes in which the fault can be injected on this machine.
func (f *fault) possible() []*shape {
	return slices.DeleteFunc(slices.Clone(shapes), func(s *shape) bool {
		return !slices.Contains(strings.Fields(f.shapes), s.name) || s.slurm && !haveSlurm()
	})
}

// slow matches the kinds of faults that wait for seconds. `make test` leaves them to the campaign.
var slow = regexp.MustCompile(`^(pause|network|stop rank 0)|limit$`)

// drawable returns the kinds to draw from: the ones that are possible here and match FAULTS_ONLY; without FAULTS, all
// but the slow ones.
func drawable() []*fault {
	only := regexp.MustCompile(os.Getenv("FAULTS_ONLY"))
	return slices.DeleteFunc(slices.Clone(faults), func(f *fault) bool {
		return !only.MatchString(f.name) || len(f.possible()) == 0 || os.Getenv("FAULTS") == "" && slow.MatchString(f.name)
	})
}

// draw chooses a fault to inject.
func draw(rng *mathrand.Rand, kinds []*fault) injection {
	total := 0
	for _, f := range kinds {
		total += f.weight
	}
	n := rng.IntN(total)
	var f *fault
	for _, f = range kinds {
		if n -= f.weight; n < 0 {
			break
		}
	}
	in := f.possible()
	return injection{in[rng.IntN(len(in))], f, time.Duration(rng.Int64N(int64(250 * time.Millisecond))), rng.IntN(1 << 20)}
}

// simple faults need neither root nor another launcher.
func (s injection) simple() bool {
	return s.fault.name != "disk full" && (s.shape.name == "local" || s.shape.name == "joined")
}

func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: want a number", name, text)
	}
	return n
}

// tally counts the results of each kind of fault.
type tally struct {
	mu    sync.Mutex
	lines map[string]*[5]int // injected, hit, culprit right, lost rows, runs that left processes
}

func TestCampaign(t *testing.T) {
	count := setting(t, "FAULTS", 30)
	if testing.Short() {
		count = 12
	}
	seed := setting(t, "FAULTS_SEED", 1)
	t.Logf("%d faults, FAULTS_SEED=%d", count, seed)
	hearHangUps()
	rng, kinds := mathrand.New(mathrand.NewPCG(seed, 0)), drawable()
	shm := shared(t)
	results := &tally{lines: map[string]*[5]int{}}
	t.Run("injections", func(t *testing.T) {
		for i := range count {
			drawn := draw(rng, kinds)
			t.Run(fmt.Sprintf("%03d %s in %s", i, drawn.fault.name, drawn.shape.name), func(t *testing.T) {
				t.Parallel()
				results.add(drawn.fault.name, newScene(t, drawn).play())
			})
		}
	})
	for name := range shared(t) {
		if !shm[name] {
			t.Errorf("/dev/shm/%s is left", name)
		}
	}
	if !t.Failed() {
		t.Logf("zero lost rows, zero processes and no shared memory left behind, every culprit named")
	}
	t.Logf("faults by kind; lost counts rows that are missing in the end, left over runs that left processes:\n%s",
		results)
}

// hearHangUps undoes a nohup of the test, which the started programs would inherit.
func hearHangUps() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) }

// TestSeldom injects the faults that the campaign rarely draws, in every shape on one host.
func TestSeldom(t *testing.T) {
	hearHangUps()
	for _, f := range faults {
		for _, sh := range f.possible() {
			drawn := injection{shape: sh, fault: f}
			if !slices.Contains([]string{"flood", "stop agent", "stop agent, kill supervisor", "interrupt twice", "hang up",
				"end agent", "stop rank 0"}, f.name) || strings.HasSuffix(sh.name, "hosts") || testing.Short() && !drawn.simple() {
				continue
			}
			t.Run(f.name+" in "+sh.name, func(t *testing.T) {
				t.Parallel()
				if r := newScene(t, drawn).play(); !r.hit {
					t.Error("it did not hit")
				}
			})
		}
	}
}

func newScene(t *testing.T, i injection) *scene {
	return &scene{T: t, injection: i, dir: filepath.Join(t.TempDir(), "run"),
		mark:    proctest.Mark{Name: markName, Value: rand.Text()},
		secrets: []string{"the secret of this test run", "the secret of this test run"}}
}

// result is the outcome of one injection.
type result struct {
	hit, named bool
	bad        int  // rows that failed at first
	lost       int  // rows that are missing after the run was resumed
	left       bool // processes outlived the run
}

// play runs the bench, injects the fault, checks the result, resumes the run and checks again.
func (s *scene) play() (r result) {
	switch s.fault.name {
	case "disk full":
		mount(s.T, s.dir, 8+4*(s.pick%8))
		s.small = true
	case "address-space limit":
		s.wrapper = []string{"prlimit", fmt.Sprintf("--as=%d", (1300+20*(s.pick%25))<<20)}
	case "file limit":
		s.wrapper = []string{"prlimit", fmt.Sprintf("--nofile=%d", 8+s.pick%24)}
	case "pid limit":
		s.wrapper = controlGroup(s.T, "pids", 8+s.pick%40)
	case "memory limit":
		s.wrapper = controlGroup(s.T, "memory", (6+s.pick%25)<<20)
	case "wrong secret":
		s.secrets[s.pick%2] = "another secret altogether"
	}
	defer s.mark.AssertGone(s.T)
	s.shape.start(s)
	hit := false
	if s.fault.inject != nil && (s.fault.early || s.awaitBegin()) {
		time.Sleep(s.delay)
		hit = s.fault.inject(s)
	}
	s.wait()
	failed := s.failures()
	if s.fault.inject == nil { // a run may fit into its limits
		hit = len(failed) > 0 || !s.finished()
	}
	r.hit, r.bad, r.named = hit, len(failed), !hit || s.fault.named(s, failed)
	if !r.named {
		s.Errorf("the culprit (pid %d, rank %d) is not named: %d bad rows %v; said:\n%s", s.victim.PID, s.victim.rank(),
			len(failed), reasons(failed), s.output())
	}
	if s.small {
		grow(s.T, s.dir)
	}
	r.left = !s.eventually("the end of all that the run had started",
		func() bool { return len(s.mark.Processes()) == 0 })
	if s.shape.slurm {
		s.eventually("the end of its jobs", func() bool { return !slices.Contains(slurmJobs(s.T), s.mark.Value) })
	}
	s.resume()
	r.lost = points - s.assertComplete()
	return r
}

// points is the number of rows of a complete run.
const points = 6

func (s *scene) runArgs() []string {
	return []string{"run", "--bench", "work", "--ranks", strconv.Itoa(s.shape.ranks), "--out", s.dir}
}

// command starts the program under test, on a host if one is given.
func (s *scene) command(h *netns.Host, args ...string) {
	s.Helper()
	argv := slices.Concat(s.wrapper, []string{proctest.Self(s.T)}, args)
	cmd := exec.Command(argv[0], argv[1:]...)
	if h != nil {
		cmd = h.Command(argv...)
	}
	said := new(proctest.Buffer)
	cmd.Env = append(os.Environ(), s.mark.String(), "KERNBENCH_RDZV_SECRET="+s.secrets[len(s.commands)%len(s.secrets)],
		proctest.QuickExit)
	cmd.Stdout, cmd.Stderr = said, said
	must.Do(s, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	s.commands, s.said, s.ended = append(s.commands, cmd), append(s.said, said), append(s.ended, ended)
}

func (s *scene) output() string {
	var all []string
	for _, b := range s.said {
		all = append(all, b.String())
	}
	return strings.Join(all, "----\n")
}

// awaitBegin waits until a point has started. It reports false if the run ends before.
func (s *scene) awaitBegin() bool {
	for limit := time.Now().Add(hangGuard); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		over := s.over()                                               // if it is, the journal is complete
		text, _ := os.ReadFile(filepath.Join(s.dir, journal.FileName)) // may not exist yet
		if strings.Contains(string(text), `"type":"begin"`) {
			return true
		}
		if over {
			break
		}
	}
	s.Errorf("no point has begun; said:\n%s", s.output())
	return false
}

func (s *scene) over() bool {
	for _, e := range s.ended {
		select {
		case <-e:
		default:
			return false
		}
	}
	return true
}

// wait waits for the end of every command. A stopped command is killed once the others and all its own
// processes have ended. A frozen node is thawed once the other node considers it dead.
func (s *scene) wait() {
	s.Helper()
	for i, e := range s.ended {
		if i == 1 && s.fault.name == "freeze node" {
			s.signalNode(syscall.SIGCONT)
		}
		if s.commands[i].Process.Pid == s.victim.PID && s.fault.name == "stop launcher" {
			continue
		}
		select {
		case <-e:
		case <-time.After(hangGuard):
			s.Errorf("it does not end; said:\n%s", s.output())
			for _, p := range s.mark.Processes() {
				s.Logf("still there: %d %s", p.PID, p.Cmdline)
				syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
	}
	if s.fault.name == "stop launcher" && s.victim.PID != 0 {
		s.eventually("the end of all but the stopped launcher", func() bool {
			return !slices.ContainsFunc(s.mark.Processes(), func(p proctest.Process) bool {
				return p.PID != s.victim.PID && !strings.HasPrefix(p.Cmdline, "kernbench-agent")
			})
		})
		syscall.Kill(s.victim.PID, syscall.SIGKILL)
		for _, e := range s.ended {
			<-e
		}
	}
}

func (s *scene) eventually(what string, ok func() bool) bool {
	s.Helper()
	for limit := time.Now().Add(hangGuard); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			s.Errorf("waited in vain for %s", what)
			return false
		}
	}
	return true
}

// failures returns the latest rows that are not good. A run that never began has none.
func (s *scene) failures() []journal.Row {
	j, r, err := journal.LoadRun(s.dir)
	if err != nil {
		return nil
	}
	if len(j.Problems) > 0 && !s.small { // a full disk may tear the last line
		s.Errorf("the journal has problems: %v", j.Problems)
	}
	return dataset.Of(r).Rows.Where(func(row *journal.Row) bool { return row.Status != journal.OK }).Copy()
}

// resume completes the run with new ranks.
func (s *scene) resume() {
	s.Helper()
	cmd := exec.Command(proctest.Self(s.T), append(s.runArgs(), "-q", "--resume")...)
	cmd.Env = append(os.Environ(), s.mark.String(), proctest.QuickExit)
	guard := time.AfterFunc(hangGuard, func() { cmd.Process.Kill() })
	defer guard.Stop()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Errorf("resuming: %v\n%s", err, out)
	}
}

// assertComplete expects exactly one good row for every point and environment.
func (s *scene) assertComplete() int {
	s.Helper()
	j, r, err := journal.LoadRun(s.dir)
	if err != nil {
		s.Error(err)
		return 0
	}
	if len(j.Problems) > 0 && !s.small {
		s.Errorf("the journal has problems: %v", j.Problems)
	}
	good := map[string]bool{}
	rows := dataset.Of(r).Rows
	for _, row := range rows {
		if row.Status != journal.OK {
			s.Errorf("%s %s: %s: %s", row.Point, row.Env, row.Status, row.Reason)
		}
		good[row.Point.String()+" "+row.Env.String()] = true
	}
	if len(good) != points || len(rows) != points {
		s.Errorf("%d rows of %d points, want %d: %v", len(rows), len(good), points, good)
	}
	return len(good)
}

func reasons(rows []journal.Row) (out []string) {
	for _, r := range rows {
		rank := "no rank"
		if r.Rank != nil {
			rank = fmt.Sprint("rank ", *r.Rank)
		}
		out = append(out, rank+": "+string(r.Reason))
	}
	return out
}

func (t *tally) add(name string, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[name]
	if line == nil {
		line = new([5]int)
		t.lines[name] = line
	}
	count := func(i int, is bool) {
		if is {
			line[i]++
		}
	}
	count(0, true)
	count(1, r.hit)
	count(2, r.hit && r.named)
	line[3] += r.lost
	count(4, r.left)
}

func (t *tally) String() string {
	var b strings.Builder
	var sum [5]int
	fmt.Fprintf(&b, "| kind | injected | hit | culprit right | lost rows | left over |\n|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(t.lines)) {
		l := t.lines[name]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", name, l[0], l[1], l[2], l[3], l[4])
		for i, n := range l {
			sum[i] += n
		}
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d | %d | %d |\n", sum[0], sum[1], sum[2], sum[3], sum[4])
	return b.String()
}
