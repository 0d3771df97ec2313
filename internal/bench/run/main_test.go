package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The test binary plays every role: the agent, the workers with the benches below, the programs of a sweep, and
// a supervisor that is killed.
func TestMain(m *testing.M) {
	if code, is := launch.MaybeAgent(); is {
		os.Exit(code)
	}
	misbehave()
	if code, is := worker.Maybe(benches()); is {
		os.Exit(code)
	}
	switch {
	case len(os.Args) > 2 && os.Args[1] == "program":
		os.Exit(program(os.Args[2]))
	case len(os.Args) > 3 && os.Args[1] == "supervise":
		os.Exit(supervise(os.Args[2], os.Args[3], os.Args[4:]))
	}
	// Under the race detector every process would sleep a second at its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	// The tests mostly wait for processes.
	flag.Parse()
	if byUser := false; runtime.GOMAXPROCS(0) < waiting {
		flag.Visit(func(f *flag.Flag) { byUser = byUser || f.Name == "test.parallel" })
		if !byUser {
			flag.Set("test.parallel", strconv.Itoa(waiting))
		}
	}
	os.Exit(m.Run())
}

const (
	self = "/proc/self/exe"
	// hangGuard bounds every wait. A test that reaches it has failed.
	hangGuard = 3 * time.Minute
	// waiting is the number of tests that run at a time.
	waiting = 4
)

// misbehave lets a worker do something wrong before it connects.
func misbehave() {
	if fake, ok := os.LookupEnv("TEST_FAKE"); ok && os.Getenv("RANK") == "1" {
		// Like a library that sets variables when it is loaded.
		name, value, _ := strings.Cut(fake, "=")
		os.Setenv(name, value)
	}
	if fuse, ok := os.LookupEnv("TEST_DIES_ONCE"); ok && os.Remove(fuse) == nil {
		os.Exit(9)
	}
	if os.Getenv("TEST_LATE") != "" {
		time.Sleep(hangGuard)
	}
	if os.Getenv("TEST_DIES") != "" {
		os.Exit(9)
	}
}

// benches are the benches of the tests.
func benches() []*bench.Bench {
	quick := measure.Default()
	quick.Stop = measure.Stop{MinSamples: 1, MaxSamples: 3, MaxTime: time.Second}
	quick.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	sampled := quick
	sampled.Stop = measure.Stop{RelNoise: 0.01, MinSamples: 20, MaxSamples: 40, MaxTime: hangGuard}
	return []*bench.Bench{
		bench.New("still", still, bench.Ranks("2"), bench.Ints("i", "1,2,3"), bench.Env("SWEPT", "1", "2"),
			bench.Trials(1), bench.Measure(quick)),
		bench.New("slow", slow, bench.Ranks("2"), bench.Ints("i", "1,2,3"), bench.Env("SWEPT", "1", "2"), bench.Trials(2),
			bench.Measure(quick)),
		bench.New("environ", environ, bench.Ranks("2"), bench.Env("SWEPT", "a b", "", bench.Unset), bench.Trials(1),
			bench.Measure(quick)),
		bench.New("scripted", scripted, bench.Ints("i", "1,2"), bench.Env("DOUBLE", "0", "1"),
			bench.Env("IGNORED", "0", "1"), bench.Trials(1)),
		bench.New("stop", stop, bench.Ranks("2"), bench.Ints("i", "1,2,3"), bench.Measure(quick)),
		bench.New("pause", pause, bench.Ranks("2"), bench.Strings("who", "nobody", "rank", "child"), bench.Measure(quick)),
		bench.New("heed", heed, bench.Ranks("2"), bench.Strings("until", "time-out", "peer", "interrupt"),
			bench.Timeout(heedLimit)),
		bench.New("lonely", lonely, bench.Ranks("2"), bench.Ints("i", "1,2,3"), bench.Measure(quick)),
		bench.New("together", together, bench.Ranks("3"),
			bench.Strings("what", "fine", "fails", "panics", "hangs", "dies", "again", "skips"),
			// only the hanging point needs all of it, however busy the machine is
			bench.Backends("cpu", simulated), bench.Timeout(5*time.Second)),
		bench.New("slow-simulated", slow, bench.Ranks("2"), bench.Ints("i", "1,2,3,4,5"), bench.Env("SWEPT", "1", "2"),
			bench.Trials(2),
			bench.Measure(quick), bench.Backends(simulated)),
		bench.New("unsteady", unsteady, bench.Strings("what", "calms", "never", "fails", "quiet"), bench.Measure(sampled)),
		bench.New("overlap", overlap, bench.Ranks("2"), bench.Ints("i", "0,1,2,3,4,5"), bench.Backends(simulated)),
		programs("listen", false),
		programs("table", true),
	}
}

// still does nothing, quickly.
func still(ctx context.Context, s *bench.State) error {
	return s.Time(ctx, func() error { return nil })
}

// waitAtGate waits until the file of the gate exists, if there is a gate.
func waitAtGate() {
	gate, ok := os.LookupEnv("TEST_GATE")
	for limit := time.Now().Add(hangGuard); ok && time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(gate); err == nil {
			return
		}
	}
}

// slow leaves time for a kill in set-up, barrier and timed part. With a gate, its third point waits there.
func slow(ctx context.Context, s *bench.State) error {
	if s.Int("i") == 3 {
		waitAtGate()
	}
	time.Sleep(10 * time.Millisecond)
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	return s.Time(ctx, func() error { time.Sleep(5 * time.Millisecond); return nil })
}

// unsteady is disturbed during its first measurement: its samples scatter. At the end of the first measurement it
// opens the gate, if there is one, and waits in the second.
func unsteady(ctx context.Context, s *bench.State) error {
	what := s.Str("what")
	measured[what]++
	n := measured[what]
	if gate, ok := os.LookupEnv("TEST_GATE"); ok && n == 2 {
		os.WriteFile(gate, nil, 0o600)
		<-ctx.Done()
		return ctx.Err()
	}
	if what == "fails" && n == 2 {
		return errors.New("only sometimes right")
	}
	scatter := what != "quiet" && (what == "never" || n < 3)
	return s.Time(ctx, func() error { return nil }, bench.SampledBy(func(batch int, samples []int64) error {
		for i := range samples {
			samples[i] = int64(batch) * int64(100+n) * 1e6
			if scatter && i%2 == 1 {
				samples[i] *= 3
			}
		}
		return nil
	}))
}

var measured = map[string]int{} // measurements of each point in this process

// environ prints its environment, NUL-terminated like in /proc.
func environ(ctx context.Context, s *bench.State) error {
	for _, e := range os.Environ() {
		fmt.Print(e, "\x00")
	}
	return still(ctx, s)
}

// scripted takes exactly as long as DOUBLE says.
func scripted(ctx context.Context, s *bench.State) error {
	clock := &scriptedClock{}
	s.UseClock(clock)
	us := int64(100)
	if os.Getenv("DOUBLE") == "1" {
		us = 200
	}
	return s.Time(ctx, func() error { clock.now += us * 1e6; return nil })
}

type scriptedClock struct{ now int64 }

func (c *scriptedClock) Now() int64          { return c.now }
func (c *scriptedClock) Deterministic() bool { return true }
func (c *scriptedClock) Name() string        { return "scripted" }

// stop stops the process of rank 1 at the second point, including its heartbeats.
func stop(ctx context.Context, s *bench.State) error {
	if s.Rank() == 1 && s.Int("i") == 2 {
		s.Phase("stopping")
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(hangGuard) // the signal takes effect a moment later
	}
	return still(ctx, s)
}

// pause stops rank 1, or a child of it, for half a second.
func pause(ctx context.Context, s *bench.State) error {
	if s.Rank() == 1 {
		script := map[string]string{"nobody": "true", "rank": "kill -STOP $PPID; sleep 2; kill -CONT $PPID",
			"child": "sh -c 'kill -STOP $$' & sleep 2; kill -CONT $!; wait"}
		if err := exec.CommandContext(ctx, "sh", "-c", script[s.Str("who")]).Run(); err != nil {
			return err
		}
	}
	return still(ctx, s)
}

// lonely skips the second point on rank 1 only, while rank 0 waits for it.
func lonely(ctx context.Context, s *bench.State) error {
	if s.Rank() == 1 && s.Int("i") == 2 {
		return bench.Skip("rank 1 feels like it")
	}
	return still(ctx, s)
}

// programs is a sweep over a program, which is the test binary in another role.
func programs(name string, table bool) *bench.Bench {
	b := bench.New(name, nil, bench.Ranks("2"), bench.Ints("i", "1,2"), bench.Env("SWEPT", "1", "2"), bench.Trials(2))
	b.Parts[0].Command = &decl.Command{Argv: []string{self, "program", name},
		Parse: func(ranks []decl.RankOutput) ([]decl.ParsedRow, error) {
			var rows []decl.ParsedRow
			for _, line := range strings.Fields(string(ranks[0].Stdout)) {
				us, err := strconv.ParseFloat(line, 64)
				if err != nil {
					return nil, err
				}
				row := decl.ParsedRow{Samples: map[string][]float64{"time_us": {us}}}
				if us > 4 && os.Getenv("TEST_WRONG") != "" {
					row.Wrong = "7 wrong elements"
				}
				if table {
					row.Extra = point.Point{{Name: "line", Value: point.IntValue(int64(len(rows)))}}
				}
				rows = append(rows, row)
			}
			return rows, nil
		}}
	return b
}

// program is the program of a sweep. Rank 0 listens on the port it was given, and every rank has a grandchild
// in its own session.
func program(mode string) int {
	if rankVar := os.Getenv("TEST_RANK_VAR"); rankVar != "" {
		rank := os.Getenv(rankVar)
		got := fmt.Sprintln(os.Getenv("RANK"), os.Getenv("LOCAL_RANK"), os.Getenv("WORLD_SIZE"), os.Getenv("MASTER_ADDR"),
			os.Getenv("MASTER_PORT") != "")
		if want := fmt.Sprintln(rank, rank, 2, "127.0.0.1", true); got != want {
			fmt.Fprintf(os.Stderr, "torchrun's variables are %q, want %q\n", got, want)
			return 9
		}
	}
	switch mode {
	case "listen":
		if os.Getenv("RANK") == "0" {
			l, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("MASTER_ADDR"), os.Getenv("MASTER_PORT")))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 5
			}
			defer l.Close()
		}
		child := exec.Command(self, "program", "sleep")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "the grandchild:", err)
			return 7
		}
		fmt.Println(1.5)
	case "table":
		fmt.Println(1.5, 2.5, 3.5, 4.5)
	case "fall": // rank 1 fails as told, the others wait for it
		switch fail := os.Getenv("SWEPT"); {
		case os.Getenv(os.Getenv("TEST_RANK_VAR")) != "1":
			time.Sleep(hangGuard)
		case fail == "exit":
			fmt.Fprintln(os.Stderr, "ValueError: planted")
			return 3
		case fail == "kill":
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(hangGuard)
		}
	case "leave": // a daemon that outlives its parent
		daemon := exec.Command(self, "program", "forever")
		daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := daemon.Start(); err != nil {
			return 6
		}
		fmt.Println(1.5)
	case "sleep":
		// A test that looks for this process in /proc needs more time.
		long, err := time.ParseDuration(cmp.Or(os.Getenv("TEST_SLEEP"), "30ms"))
		if err != nil {
			return 8
		}
		time.Sleep(long)
		waitAtGate()
	case "forever":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(2 * hangGuard)
	}
	return 0
}

// supervise runs a bench into a folder, as a separate kernbench.
func supervise(bench, dir string, flags []string) int {
	opts := Options{Dir: dir, Environ: os.Environ()}
	for _, f := range flags {
		opts.Resume = opts.Resume || f == "resume"
	}
	p, err := makePlan(bench, plan.Request{})
	if err == nil {
		_, err = Run(context.Background(), p, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func makePlan(bench string, req plan.Request) (*plan.Plan, error) {
	req.Seed = 1
	for _, b := range benches() {
		if b.Name == bench {
			if req.Backend == "" {
				req.Backend = append(b.Backends, "cpu")[0]
			}
			return plan.Make(b, req)
		}
	}
	return nil, errors.New("no bench " + bench)
}

// scene is the RUN folder and the mark of one test.
type scene struct {
	*testing.T
	dir     string
	mark    proctest.Mark
	environ []string
	options Options
	request plan.Request
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, dir: filepath.Join(t.TempDir(), "run"), mark: proctest.Mark{Name: "TEST_MARK", Value: rand.Text()}}
	s.environ = append(os.Environ(), s.mark.String())
	t.Cleanup(func() { s.mark.AssertGone(t) })
	return s
}

// run runs a bench to its end and returns the latest rows.
func (s *scene) run(bench string) (Result, []journal.Row) {
	s.Helper()
	return s.runContext(s.Context(), bench)
}

func (s *scene) runContext(ctx context.Context, bench string) (Result, []journal.Row) {
	s.Helper()
	p := must.Get(makePlan(bench, s.request))(s)
	guard := time.AfterFunc(2*hangGuard, func() { panic("the run hangs") })
	defer guard.Stop()
	s.options.Dir, s.options.Environ = s.dir, s.environ
	res := must.Get(Run(ctx, p, s.options))(s)
	return res, s.rows()
}

// journal reads the latest run, which must be undamaged.
func (s *scene) journal() *journal.Run {
	s.Helper()
	j, r := must.Get2(journal.LoadRun(s.dir))(s)
	if len(j.Problems) > 0 {
		s.Errorf("the journal has problems: %v", j.Problems)
	}
	return r
}

func (s *scene) rows() []journal.Row {
	s.Helper()
	return dataset.Of(s.journal()).Rows.Copy()
}

// log returns what a rank printed in a row's launch.
func (s *scene) log(row journal.Row, rank int) string {
	s.Helper()
	data := must.Get(os.ReadFile(filepath.Join(s.dir, "logs", row.Launch, fmt.Sprintf("rank%d.out", rank))))(s)
	return string(data)
}

// supervisor starts a kernbench that can be killed.
func (s *scene) supervisor(bench string, flags ...string) *exec.Cmd {
	s.Helper()
	cmd := exec.Command(self, append([]string{"supervise", bench, s.dir}, flags...)...)
	cmd.Env = s.environ
	cmd.Stderr = os.Stderr
	must.Do(s, cmd.Start())
	return cmd
}

// eventually waits for a condition.
func (s *scene) eventually(what string, ok func() bool) {
	s.Helper()
	for limit := time.Now().Add(hangGuard); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			s.Fatalf("not within %v: %s", hangGuard, what)
		}
	}
}

// at names a row by its coordinates, for messages.
func at(r journal.Row) string { return fmt.Sprintf("%s %s trial=%d", r.Point, r.Env, r.Trial) }
