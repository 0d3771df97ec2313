// Package faults injects random faults into random runs of the whole program. `go test` injects thirty
// faults, FAULTS=300 sets another number, and FAULTS_SEED repeats a campaign. After every fault, no row
// is lost, no process and no shared memory is left, and the culprit is named.
package faults

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
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
	small    bool // the folder's file system fills up soon
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
	{"hosts", 2 * ranks, false, func(s *scene) {
		s.network = netns.New(s.T, 2)
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
	{"kill worker", 6, "local joined mpirun mpihosts srun hosts", killOf(workers, syscall.SIGKILL),
		rankNamed("signal 9", "the worker ended", "ended with")},
	{"kill agent", 3, "local mpirun mpihosts srun", killOf(agents, syscall.SIGKILL), reasonNamed("the launch agent died")},
	{"stop agent", 1, "local mpirun srun", killOf(agents, syscall.SIGSTOP),
		unharmed},
	{"end agent", 1, "local mpirun", killOf(agents, syscall.SIGTERM), reasonNamed("told to end")},
	{"kill supervisor", 4, "local mpirun mpihosts srun", killOf(supervisors, syscall.SIGKILL), alwaysNamed},
	{"stop agent, kill supervisor", 2, "local mpirun mpihosts srun",
		inTurn(killOf(agents, syscall.SIGSTOP), killOf(supervisors, syscall.SIGKILL)), alwaysNamed},
	{"interrupt twice", 1, "local mpirun srun",
		inTurn(killOf(supervisors, syscall.SIGINT), killOf(supervisors, syscall.SIGTERM)), alwaysNamed},
	{"kill mpirun or srun", 2, "mpirun mpihosts srun", killOf(launcherPrograms, syscall.SIGKILL),
		reasonNamed("ended with signal 9 (killed)")},
	{"hang up", 1, "local mpirun mpihosts srun joined", killOf(supervisors, syscall.SIGHUP), interrupted},
	{"hang up node", 1, "hosts", killOf(launchers, syscall.SIGHUP), interrupted},
	{"kill rank", 4, "joined hosts", killOf(rankHosts, syscall.SIGKILL), rankHostNamed},
	{"kill launcher", 3, "joined hosts", killOf(launchers, syscall.SIGKILL), launcherNamed},
	{"stop worker", 1, "local joined mpihosts srun", killOf(workers, syscall.SIGSTOP), rankNamed("lost heartbeat")},
	{"stop rank", 1, "joined hosts", killOf(followers, syscall.SIGSTOP), rankHostNamed},
	{"stop launcher", 1, "hosts", stopLauncher, launcherNamed},
	{"stop launcher, kill it", 1, "hosts", inTurn(stopLauncher, killVictim), launcherNamed},
	{"cut", 2, "hosts", cut, launcherNamed},
	{"freeze node", 1, "hosts", freezeNode, launcherNamed},
	{"reset", 3, "mpirun mpihosts srun hosts", resetWorker,
		rankNamed("the worker ended", "ended with", "connection lost")},
	{"reset launcher", 1, "hosts", resetLauncher, launcherNamed},
	{"flood", 2, "local joined mpirun mpihosts srun hosts", flood, unharmed},
	{"disk full", 2, "local joined", nil, stderrNamed("no space left on device")},
	{"wrong secret", 1, "hosts", nil, stderrNamed("the secrets differ")},
}

// possible returns the shapes in which the fault can be injected on this machine.
func (f *fault) possible() []*shape {
	return slices.DeleteFunc(slices.Clone(shapes), func(s *shape) bool {
		return !slices.Contains(strings.Fields(f.shapes), s.name) || s.slurm && !haveSlurm()
	})
}

// draw chooses a fault to inject.
func draw(rng *mathrand.Rand) injection {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	n := rng.IntN(total)
	var f *fault
	for _, f = range faults {
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
	lines map[string]*[4]int // injected, hit, failed rows, resumed rows
}

func TestCampaign(t *testing.T) {
	count := setting(t, "FAULTS", 30)
	if testing.Short() {
		count = 4
	}
	seed := setting(t, "FAULTS_SEED", 1)
	t.Logf("%d faults, FAULTS_SEED=%d", count, seed)
	hearHangUps()
	rng := mathrand.New(mathrand.NewPCG(seed, 0))
	shm := shared(t)
	results := &tally{lines: map[string]*[4]int{}}
	t.Run("injections", func(t *testing.T) {
		for i := range count {
			drawn := draw(rng)
			for testing.Short() && !drawn.simple() {
				drawn = draw(rng)
			}
			t.Run(fmt.Sprintf("%03d %s in %s", i, drawn.fault.name, drawn.shape.name), func(t *testing.T) {
				t.Parallel()
				hit, bad, resumed := newScene(t, drawn).play()
				results.add(drawn.fault.name+" in "+drawn.shape.name, hit, bad, resumed)
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
	t.Logf("injections by fault, those that hit, rows they cost at first, rows there in the end:\n%s", results)
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
				"end agent"}, f.name) || strings.HasSuffix(sh.name, "hosts") || testing.Short() && !drawn.simple() {
				continue
			}
			t.Run(f.name+" in "+sh.name, func(t *testing.T) {
				t.Parallel()
				if hit, _, _ := newScene(t, drawn).play(); !hit {
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

// play runs the bench, injects the fault, checks the result, resumes the run and checks again.
func (s *scene) play() (hit bool, bad, rows int) {
	switch s.fault.name {
	case "disk full":
		mount(s.T, s.dir, 8+4*(s.pick%8))
		s.small = true
	case "wrong secret":
		s.secrets[s.pick%2] = "another secret altogether"
	}
	defer s.mark.AssertGone(s.T)
	s.shape.start(s)
	if hit = s.fault.inject == nil; !hit && s.awaitBegin() {
		time.Sleep(s.delay)
		hit = s.fault.inject(s)
	}
	s.wait()
	failed := s.failures()
	if hit && !s.fault.named(s, failed) {
		s.Errorf("the culprit (pid %d, rank %d) is not named: %d bad rows %v; said:\n%s", s.victim.PID, s.victim.rank(),
			len(failed), reasons(failed), s.output())
	}
	if s.small {
		grow(s.T, s.dir)
	}
	s.eventually("the end of all that the run had started", func() bool { return len(s.mark.Processes()) == 0 })
	if s.shape.slurm {
		s.eventually("the end of its jobs", func() bool { return !slices.Contains(slurmJobs(s.T), s.mark.Value) })
	}
	s.resume()
	return hit, len(failed), s.assertComplete()
}

func (s *scene) runArgs() []string {
	return []string{"run", "--bench", "work", "--ranks", strconv.Itoa(s.shape.ranks), "--out", s.dir}
}

// command starts the program under test, on a host if one is given.
func (s *scene) command(h *netns.Host, args ...string) {
	s.Helper()
	argv := append([]string{proctest.Self(s.T)}, args...)
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
		text, _ := os.ReadFile(filepath.Join(s.dir, journal.FileName)) // may not exist yet
		if strings.Contains(string(text), `"type":"begin"`) {
			return true
		}
		if s.over() {
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

func (s *scene) eventually(what string, ok func() bool) {
	s.Helper()
	for limit := time.Now().Add(hangGuard); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			s.Errorf("waited in vain for %s", what)
			return
		}
	}
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
	return slices.DeleteFunc(r.Latest(), func(row journal.Row) bool { return row.Status == journal.OK })
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
	for _, row := range r.Latest() {
		if row.Status != journal.OK {
			s.Errorf("%s %s: %s: %s", row.Point, row.Env, row.Status, row.Reason)
		}
		good[row.Point.String()+" "+row.Env.String()] = true
	}
	if len(good) != 6 || len(r.Latest()) != 6 {
		s.Errorf("%d rows of %d points, want 6: %v", len(r.Latest()), len(good), good)
	}
	return len(good)
}

func reasons(rows []journal.Row) (out []string) {
	for _, r := range rows {
		rank := "no rank"
		if r.Rank != nil {
			rank = fmt.Sprint("rank ", *r.Rank)
		}
		out = append(out, rank+": "+r.Reason)
	}
	return out
}

func (t *tally) add(name string, hit bool, bad, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[name]
	if line == nil {
		line = new([4]int)
		t.lines[name] = line
	}
	line[0]++
	if hit {
		line[1]++
	}
	line[2] += bad
	line[3] += rows
}

func (t *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %7s %7s %9s %9s\n", "fault", "injected", "hit", "bad rows", "complete")
	var names []string
	for name := range t.lines {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		l := t.lines[name]
		fmt.Fprintf(&b, "%-28s %7d %7d %9d %9d\n", name, l[0], l[1], l[2], l[3])
	}
	return b.String()
}
