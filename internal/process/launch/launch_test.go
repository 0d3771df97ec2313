package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/connection"
)

func TestExitsAndOutput(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{
		s.program(0, "say", "to out", "to err"), s.program(7, "exit", "3"), s.program(2, "panic"),
	}})
	started, exited := map[int]bool{}, map[int]bool{}
	for e := range l.Events() {
		switch e := e.(type) {
		case Started:
			started[e.Rank] = e.PID > 0
		case Exit:
			exited[e.Rank] = true
		}
	}
	want := map[int]bool{0: true, 7: true, 2: true}
	if diff := cmp.Diff(want, started); diff != "" {
		t.Errorf("started: %s", diff)
	}
	if diff := cmp.Diff(want, exited); diff != "" {
		t.Errorf("exited: %s", diff)
	}
	o := s.wait(l)
	var codes []int
	for _, e := range o.Exits {
		codes = append(codes, e.Code)
		if e.Wall <= 0 || e.Signal != 0 || e.Stopped || e.OOM {
			t.Errorf("unlikely: %+v", e)
		}
	}
	if diff := cmp.Diff([]int{0, 2, 3}, codes); diff != "" {
		t.Errorf("codes: %s", diff)
	}
	if o.Leftovers != 0 || o.Reason != "" || o.Survivors != nil {
		t.Errorf("outcome %+v", o)
	}
	if out, err := s.read(0, "out"), s.read(0, "err"); out != "to out" || err != "to err" {
		t.Errorf("logs hold %q and %q", out, err)
	}
	if err := s.read(2, "err"); !strings.Contains(err, "panic: planted") {
		t.Errorf("the panic is not in the log: %q", err)
	}
	if f := o.Failed(); f == nil || f.String() != "rank 2: exit code 2" {
		t.Errorf("first failure is %v", f)
	}
}

func TestOneLogForBothStreams(t *testing.T) {
	s := newScene(t)
	p := s.program(0, "say", "one ", "two ")
	p.Stderr = p.Stdout
	o := s.run(p)
	s.run(p)
	if got := s.read(0, "out"); got != "one two one two " {
		t.Errorf("the log holds %q, want both streams of both launches in order", got)
	}
	if got := o.Exits[0].Stdout.Bytes; got != 8 {
		t.Errorf("%d bytes counted, want 8", got)
	}
}

// A rank that is killed from outside is reported as such, and the other ranks continue.
func TestKilledRank(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "sleep"), s.program(1, "polite")}})
	s.awaitOutput(0, "ready")
	s.awaitOutput(1, "ready")
	for e := range l.Events() {
		if st, ok := e.(Started); ok && st.Rank == 0 {
			syscall.Kill(st.PID, syscall.SIGKILL)
		}
		if x, ok := e.(Exit); ok {
			if x.Rank == 0 && len(s.mark.Processes()) != 1 {
				t.Error("the other rank is gone too")
			}
			l.Stop(StopRequest{Reason: "seen enough"})
		}
	}
	o := s.wait(l)
	if e := o.Exits[0]; e.Signal != syscall.SIGKILL || e.Code != -1 || e.Stopped {
		t.Errorf("the killed rank: %+v", e)
	}
	if e := o.Exits[1]; e.Code != 0 || !e.Stopped {
		t.Errorf("the stopped rank: %+v", e)
	}
	if o.Reason != "seen enough" || !strings.HasSuffix(s.read(1, "out"), "asked\n") {
		t.Errorf("reason %q, log %q", o.Reason, s.read(1, "out"))
	}
}

func TestStopOnFailure(t *testing.T) {
	s := newScene(t)
	o := s.wait(s.launch(Spec{StopOnFailure: true, Procs: []Proc{s.program(0, "sleep"), s.program(1, "exit", "5")}}))
	if e := o.Exits[0]; e.Signal != syscall.SIGTERM || !e.Stopped || o.Reason != "rank 1: exit code 5" {
		t.Errorf("reason %q, the other rank: %v", o.Reason, e)
	}
}

func TestDumpLeavesGoroutineStacks(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "sleep")}, Grace: hangGuard})
	s.awaitOutput(0, "ready")
	l.Stop(StopRequest{Reason: "timed out", Dump: true})
	o := s.wait(l)
	if log := s.read(0, "err"); !strings.Contains(log, "SIGQUIT: quit") || !strings.Contains(log, "goroutine ") {
		t.Errorf("no dump in the log: %q", log)
	}
	if o.Reason != "timed out" {
		t.Errorf("reason %q", o.Reason)
	}
}

func TestContextStops(t *testing.T) {
	s := newScene(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	l := must.Get(s.Agent.Launch(ctx, Spec{Procs: []Proc{s.program(0, "sleep")}}))(t)
	cancel(errors.New("interrupted"))
	if o := s.wait(l); o.Reason != "interrupted" {
		t.Errorf("reason %q", o.Reason)
	}
	if _, err := s.Agent.Launch(ctx, Spec{Procs: []Proc{s.program(0, "sleep")}}); err == nil {
		t.Error("launched under a context that is over")
	}
}

func TestFlood(t *testing.T) {
	s := newScene(t)
	const size, limit = 30<<20 + 1, 1 << 20
	l := s.launch(Spec{LogLimit: limit, Procs: []Proc{
		s.program(0, "flood", strconv.Itoa(size)), s.program(1, "say", "quiet", ""), s.program(2, "say", "calm", ""),
	}})
	o := s.wait(l)
	e := o.Exits[0]
	if e.Failed() || e.Stdout.Bytes != size || e.Stdout.Dropped != size-limit {
		t.Errorf("flood: %v, %d bytes, %d dropped", e, e.Stdout.Bytes, e.Stdout.Dropped)
	}
	note := "\n[kernbench: " + strconv.Itoa(size-limit) + " more bytes were dropped here, the limit is 1048576 bytes]\n"
	if log := s.read(0, "out"); len(log) != limit+len(note) || !strings.HasSuffix(log, note) {
		t.Errorf("log of %d bytes ends with %q", len(log), log[max(0, len(log)-100):])
	}
	if s.read(1, "out") != "quiet" || s.read(2, "out") != "calm" {
		t.Error("the others were disturbed")
	}
	// The agent keeps only buffers and tails in memory, not the flood.
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/statm")
	if pages, _ := strconv.Atoi(strings.Fields(string(status))[1]); pages*os.Getpagesize() > 200<<20 {
		t.Errorf("the agent has grown to %d pages", pages)
	}
}

// A log that cannot be written does not block the program.
func TestLogError(t *testing.T) {
	s := newScene(t)
	p := s.program(0, "flood", "1000000")
	p.Stdout = "/dev/full"
	e := s.run(p).Exits[0]
	if e.Failed() || e.Stdout.Bytes != 1000000 || e.Stdout.Dropped != 1000000 ||
		!strings.Contains(e.Stdout.LogError, "no space left") {
		t.Errorf("%v %+v", e, e.Stdout.LogError)
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Setenv("LAUNCH_TEST_INHERITED", "yes")
	t.Setenv("OMPI_COMM_WORLD_RANK", "5")
	s := newScene(t)
	before, _ := os.ReadFile("/proc/self/environ")
	own := slices.Clone(os.Environ())
	empty, odd := "", "caf\xe9 = \"x\"\n\ty"
	set := map[string]*string{"LAUNCH_TEST_INHERITED": nil, "LAUNCH_TEST_EMPTY": &empty, "LAUNCH_TEST_ODD": &odd}
	seen := filepath.Join(t.TempDir(), "seen")
	p := s.program(0, "environ", seen)
	p.Env, p.Vars = set, &RankVars{Rank: 0, WorldSize: 1, LocalWorldSize: 1, MasterPort: 4711}
	l := s.launch(Spec{Procs: []Proc{p}, Environ: os.Environ(),
		ReportEnv: []string{"LAUNCH_TEST_INHERITED", "LAUNCH_TEST_EMPTY", "LAUNCH_TEST_ODD", "RANK"}})
	zero := "0"
	for e := range l.Events() {
		if st, ok := e.(Started); ok {
			want := map[string]*string{"LAUNCH_TEST_INHERITED": nil, "LAUNCH_TEST_EMPTY": &empty, "LAUNCH_TEST_ODD": &odd,
				"RANK": &zero}
			if diff := cmp.Diff(want, map[string]*string(st.Env)); diff != "" {
				t.Errorf("read back: %s", diff)
			}
			must.Do(t, os.WriteFile(seen, nil, 0o600))
		}
	}
	s.wait(l)
	got := strings.Split(strings.TrimSuffix(s.read(0, "out"), "\x00"), "\x00")
	if diff := cmp.Diff(slices.Sorted(slices.Values(append(Environ(os.Environ(), set, p.Vars), TagVar+"="+s.tag))),
		slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("the program's environment: %s", diff)
	}
	if strings.Contains(s.read(0, "out"), "OMPI_COMM_WORLD_RANK") ||
		strings.Contains(s.read(0, "out"), "LAUNCH_TEST_INHERITED") {
		t.Error("a removed variable came through")
	}
	if after, _ := os.ReadFile("/proc/self/environ"); !slices.Equal(before, after) || !slices.Equal(own, os.Environ()) {
		t.Error("the supervisor's own environment has changed")
	}
}

func TestFilesAndNothingElse(t *testing.T) {
	s := newScene(t)
	var procs []Proc
	shared := memfd(t, "shared")
	for rank := range 3 {
		p := s.program(rank, "file")
		p.Files = []string{memfd(t, "of "+strconv.Itoa(rank)), shared}
		procs = append(procs, p)
	}
	procs[2].Files[0] = shared
	fds := s.program(3, "fds")
	fds.Files = []string{shared}
	s.run(append(procs, fds)...)
	for rank, want := range []string{"of 0<nil>", "of 1<nil>", "shared<nil>"} {
		if got := s.read(rank, "out"); got != want {
			t.Errorf("rank %d read %q, want %q", rank, got, want)
		}
	}
	for line := range strings.Lines(s.read(3, "out")) {
		fd, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		// Opened by the reader: the directory, and descriptors of the Go runtime.
		own := target == "" || strings.Contains(target, "eventpoll") || strings.Contains(target, "eventfd") ||
			strings.HasPrefix(target, "/sys/fs/cgroup/")
		if n, _ := strconv.Atoi(fd); n > 3 && !own {
			t.Errorf("the program inherited descriptor %s", line)
		}
	}
}

// A launch may have more files than one message can carry.
func TestManyFiles(t *testing.T) {
	s := newScene(t)
	p := s.program(0, "fds")
	for range connection.MaxFiles + 60 {
		p.Files = append(p.Files, memfd(t, "x"))
	}
	s.run(p)
	if n := strings.Count(s.read(0, "out"), "memfd:"); n != connection.MaxFiles+60 {
		t.Errorf("%d files arrived", n)
	}
}

// memfd returns the path of a file in memory.
func memfd(t *testing.T, text string) string {
	fd := must.Get(unix.MemfdCreate("launch-test", unix.MFD_CLOEXEC))(t)
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	f.WriteString(text)
	return fmt.Sprintf("/proc/self/fd/%d", fd)
}

func TestAffinity(t *testing.T) {
	s := newScene(t)
	allowed := cores.Allowed()
	cpu := allowed[0]
	bound, free := s.program(0, "affinity"), s.program(1, "affinity")
	bound.CPUs = []int{cpu}
	s.run(bound, free)
	if got := s.read(0, "out"); got != strconv.Itoa(cpu) {
		t.Errorf("bound to CPUs %s, want %d", got, cpu)
	}
	if got := s.read(1, "out"); len(allowed) > 1 && got == strconv.Itoa(cpu) {
		t.Errorf("the next process is bound too, to %s", got)
	}
}

func TestRefused(t *testing.T) {
	s := newScene(t)
	good := s.program(0, "sleep")
	tests := map[string]struct {
		change func(*Proc)
		want   string
	}{
		"no such program": {func(p *Proc) { p.Argv = []string{"/nowhere/at/all"} }, "rank 1: starting /nowhere/at/all"},
		"not in PATH": {func(p *Proc) { p.Argv = []string{"not-a-program"}; p.Env = overrides("PATH=/bin") },
			"not-a-program in PATH=/bin: not found"},
		"no such directory": {func(p *Proc) { p.Dir = "/nowhere" }, "in /nowhere"},
		"log in nowhere":    {func(p *Proc) { p.Stderr = "/nowhere/log" }, "rank 1: stderr: opening the log"},
		"empty argv":        {func(p *Proc) { p.Argv = nil }, "rank 1: no program in argv"},
		"NUL in a variable": {func(p *Proc) { p.Env = overrides("A=b\x00c") }, `"A=b\x00c" holds a NUL byte`},
		"no file":           {func(p *Proc) { p.Files = []string{"/nowhere/file"} }, "rank 1: opening a file for it"},
		"absent CPU":        {func(p *Proc) { p.CPUs = []int{1023} }, "binding to cores [1023]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bad := s.program(1, "sleep")
			test.change(&bad)
			_, err := s.Agent.Launch(t.Context(), Spec{Procs: []Proc{good, bad}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if left := s.mark.Processes(); len(left) != 0 {
				t.Errorf("the processes %v are left", left)
			}
		})
	}
	if _, err := s.Agent.Launch(t.Context(), Spec{}); err == nil {
		t.Error("a launch of nothing was accepted")
	}
	l := s.launch(Spec{Procs: []Proc{good}})
	if _, err := s.Agent.Launch(t.Context(), Spec{Procs: []Proc{s.program(1, "sleep")}}); err == nil {
		t.Error("two launches at once were accepted")
	}
	l.Stop(StopRequest{Reason: ""})
	s.wait(l)
}

func TestLookPathUsesTheProgramsOwnPATH(t *testing.T) {
	s := newScene(t)
	dir := t.TempDir()
	must.Do(t, os.Symlink("/bin/true", filepath.Join(dir, "only-here")))
	p := Proc{Argv: []string{"only-here"}, Env: overrides("PATH=relative:."), Dir: dir}
	if o := s.run(p); o.Exits[0].Failed() {
		t.Error(o.Exits[0])
	}
}

// A launch leaves descriptors, files and the subreaper flag as they were.
func TestNothingIsLeftInTheSupervisor(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	cycle := func(crash bool) {
		a := must.Get(Start(t.Context(), ""))(t)
		l := must.Get(a.Launch(t.Context(),
			Spec{Procs: []Proc{{Argv: []string{"/bin/true"}, Files: []string{memfd(t, "")}}}}))(t)
		l.Wait()
		if crash {
			syscall.Kill(a.PID(), syscall.SIGKILL)
			<-a.Done()
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("closing twice: %v", err)
		}
		if _, err := a.Launch(t.Context(), Spec{Procs: []Proc{{Argv: []string{"/bin/true"}}}}); !errors.Is(err,
			ErrAgentClosed) &&
			!errors.Is(err, ErrAgentLost) {
			t.Errorf("launching with a closed agent: %v", err)
		}
	}
	open := func() (n int) {
		names, _ := os.ReadDir("/proc/self/fd")
		for _, name := range names {
			if target, _ := os.Readlink("/proc/self/fd/" + name.Name()); !strings.HasPrefix(target, "/memfd:") {
				n++
			}
		}
		return n
	}
	cycle(false) // the runtime opens descriptors on first use
	before := open()
	for i := range 6 {
		cycle(i%2 == 0)
	}
	if after := open(); after != before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
	if is, err := childSubreaper(); is != 0 || err != nil {
		t.Errorf("still a subreaper: %d, %v", is, err)
	}
	if names, _ := os.ReadDir(tmp); len(names) != 0 {
		t.Errorf("files are left: %v", names)
	}
}

func BenchmarkLaunch(b *testing.B) {
	a := must.Get(Start(b.Context(), ""))(b)
	defer a.Close()
	procs := []Proc{{Rank: 0, Argv: []string{"/bin/true"}}, {Rank: 1, Argv: []string{"/bin/true"}}}
	for b.Loop() {
		l := must.Get(a.Launch(b.Context(), Spec{Procs: procs}))(b)
		l.Wait()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "launches/s")
}

// The cost of starting the processes of BenchmarkLaunch without an agent, for comparison.
func BenchmarkForkExec(b *testing.B) {
	for b.Loop() {
		var running []*os.Process
		for range 2 {
			p := must.Get(os.StartProcess("/bin/true", []string{"/bin/true"}, &os.ProcAttr{Env: []string{}}))(b)
			running = append(running, p)
		}
		for _, p := range running {
			p.Wait()
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "launches/s")
}
