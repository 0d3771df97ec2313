package python

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// interpreterForTests is Debian's Python, as in the scripts of cmd/kernbench.
const interpreterForTests = "/usr/bin/python3"

// measured runs the only bench of a file on one rank, at points of one axis.
func measured(t *testing.T, path, axis string, values ...string) (outcomes []decl.Outcome) {
	t.Helper()
	found := must.Get(Load(t.Context(), path, interpreterForTests, 0, nil))(t)
	p := must.Get(Start(found[0].Script, Rank{Ranks: 1, Environ: os.Environ()}, os.Stdout, os.Stderr))(t)
	t.Cleanup(p.Close)
	body := must.Get(p.Body(found[0].Name))(t)
	for _, v := range values {
		at := bench.Point{{Name: axis, Value: point.StringValue(v)}}
		o, _ := body(t.Context(), decl.Setting{Point: at, Measure: found[0].Parts[0].Measure})
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// Events time the work on the device without preambles and launches, graphs are replayed, and the row
// names the clock and the state of the cache. The device is simulated: a launch takes the host 20 us,
// the kernel takes 7 us, 3 us more with a cold cache, and half as long in a graph, whose start takes
// 2 us.
func TestModes(t *testing.T) {
	type wanted struct {
		mode, clock, cache, says string
		least, most              float64
	}
	wants := []wanted{
		{"wall", "perf_counter", "warm", "", 27, 1e6},
		{"events", "cuda events", "warm", "", 7, 7},
		{"cold", "cuda events", "cold", "", 10, 10},
		{"preamble", "cuda events", "warm", "", 7, 7},
		{"waiting preamble", "cuda events", "warm", "", 7, 7},
		{"waiting call", "cuda events", "warm", "the host was not ahead of the GPU in any sample", 27, 1e6},
		{"graph", "cuda graph", "warm", "", 3.5, 3.535},
		{"cold graph", "", "", `cache="cold" is for mode="events"`, 0, 0},
		{"unknown", "", "", "mode='unknown': want one of wall, events, graph", 0, 0},
	}
	for i, o := range measured(t, "testdata/modes.py", "mode", lists.Map(wants, func(w wanted) string {
		return w.mode
	})...) {
		want, us := wants[i], o.Metrics["time_us"]
		warnings := strings.Join(append(o.Conditions.Sentences(), o.Reason), "; ")
		if o.Clock != want.clock || o.Cache != want.cache || us < want.least || us > want.most {
			t.Errorf("%s: %s %s, clock %q, %s, %v us, want %+v", want.mode, o.Status, warnings, o.Clock, o.Cache, us, want)
		}
		if !strings.Contains(warnings, want.says) || want.says == "" && strings.Contains(warnings, "ahead") {
			t.Errorf("%s: it says %q, want %q", want.mode, warnings, want.says)
		}
	}
	// Work on a stream for which the current one does not wait would seem to take little time.
	if o := measured(t, "testdata/modes.py", "mode", "elsewhere")[0]; o.Status != "failed" ||
		!strings.Contains(o.Reason, "have the current stream wait for the stream that the call uses") {
		t.Errorf("work on another stream: %s %s, %v", o.Status, o.Reason, o.Metrics)
	}
}

// Typical mistakes that would give wrong times or hide wrong results fail, or are handled correctly.
func TestTraps(t *testing.T) {
	all := measured(t, "testdata/traps.py", "trap", "bool", "coroutine", "generator", "jax", "jax, nothing", "device",
		"exec", "skip")
	for i, want := range []string{"number of wrong elements", "returns a coroutine", "returns a generator", "",
		"return what it computes", "", "state.exec was called by a function that is timed", "state.skip was called by"} {
		o := all[i]
		if ok := o.Status == "ok"; ok != (want == "") || !strings.Contains(o.Reason, want) {
			t.Errorf("trap %d: %s %s, want %q", i, o.Status, o.Reason, want)
		}
	}
}

// The harness adds less than 5 µs to a sample on an idle machine. The limit of the test is generous, because CI
// machines are shared.
func TestEmptyFunction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty.py")
	const source = `from kernbench import bench

@bench.register
@bench.axis("preamble", ["no", "yes"])
@bench.sampling(max_samples=2000)
def empty(state, ctx):
    state.exec(lambda: None, preamble=(lambda: None) if state["preamble"] == "yes" else None)
`
	must.Do(t, os.WriteFile(path, []byte(source), 0o644))
	for i, o := range measured(t, path, "preamble", "no", "yes") { // in batches, and each by itself
		if us, has := o.Metrics["time_us"]; !has || us >= 50 {
			t.Errorf("%d: %s %s: %v us", i, o.Status, o.Reason, us)
		}
	}
}

// The module uses only the syntax of Python 3.8.
func TestOldPython(t *testing.T) {
	const parse = "import ast, sys\nfor f in sys.argv[1:]: ast.parse(open(f).read(), f, feature_version=(3, 8))"
	files := must.Get(filepath.Glob("kernbench/*.py"))(t)
	if out, err := exec.Command(interpreterForTests,
		append([]string{"-c", parse}, files...)...).CombinedOutput(); err != nil ||
		len(files) < 2 {
		t.Errorf("%v: %v\n%s", files, err, out)
	}
}

// The number of calls does not depend on a rank's clock. Otherwise ranks would wait for each other
// forever.
func TestEqualCalls(t *testing.T) {
	const script = `import sys, time
sys.path.insert(0, "testdata/fake")
sys.path.insert(0, ".")
from kernbench._timing import MODES
import torch
for mode, timer in MODES.items():
    for slow in (0, 0.003):
        calls = []
        def call():
            time.sleep(slow)
            calls.append("captured" if torch.cuda._capturing else "made")
        t = timer(call, single_rank=False)
        torch.cuda.log.clear()
        for count, batch in ((1, 1), (2, 1), (2, 3)):
            assert len(t.sample(count, batch)) == count
        replays = [int(e.split()[1]) for e in torch.cuda.log if "replay" in e]
        print(mode, calls.count("made"), calls.count("captured"), len(replays))
`
	out, err := exec.Command(interpreterForTests, "-B", "-c", script).CombinedOutput()
	// One call finds out what to wait for, one calibrates the delay, and two come before the first sample of a batch;
	// graphs are captured for one call and for three.
	want := strings.Repeat("wall 10 0 0\n", 2) + strings.Repeat("events 13 0 0\n", 2) + strings.Repeat("graph 2 4 11\n", 2)
	if err != nil || string(out) != want {
		t.Errorf("%v: calls\n%s, want\n%s", err, out, want)
	}
}

// A program in another language that breaks the protocol is refused, or fails its point with what it did instead.
func TestPlanted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "planted")
	must.Do(t, os.WriteFile(path, must.Get(os.ReadFile("testdata/planted"))(t), 0o755))
	for fault, want := range map[string]string{
		"":            "",
		"no benches":  "no bench",
		"bad axis":    "unknown kind",
		"not json":    "reading the program's answer",
		"crash":       "the program ended: exit status 9",
		"nothing":     "without state.exec",
		"one less":    "samples",
		"floats":      "reading the program's answer",
		"no verdict":  "no number of wrong elements",
		"wrong":       "3 wrong elements",
		"any version": "",
	} {
		t.Setenv("FAULT", fault)
		said := ""
		if _, err := Load(t.Context(), path, interpreterForTests, 0, nil); err != nil {
			said = err.Error()
		} else {
			said = measured(t, path, "n", "1")[0].Reason
		}
		if (said == "") != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", fault, said, want)
		}
	}
}

// A stopped program (SIGSTOP) is noticed long before the point's timeout.
func TestStoppedProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755))
	p := must.Get(start([]string{"", path}, os.Environ(), io.Discard, io.Discard))(t)
	defer p.close()
	must.Do(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	if _, err := p.greet(t.Context(), nil); err == nil || err.Error() != "the program ended: it had been stopped for 5s" {
		t.Errorf("got %v", err)
	}
}

// An answer without an end is refused before it fills the memory.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\nexec tr '\\0' x </dev/zero >&3\n"), 0o755))
	p := must.Get(start([]string{"", path}, os.Environ(), io.Discard, io.Discard))(t)
	defer p.close()
	if _, err := p.greet(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "more than 64Mi bytes") {
		t.Errorf("got %v", err)
	}
}

// A bound in the file moves the opposite default bound if necessary, like on the command line.
func TestSampling(t *testing.T) {
	for _, c := range []struct {
		asked     sampling
		low, high int
	}{
		{sampling{}, 20, 10_000},
		{sampling{MinSamples: 20_000}, 20_000, 20_000},
		{sampling{MaxSamples: 5}, 5, 5},
		{sampling{MinSamples: 3, MaxSamples: 7}, 3, 7},
	} {
		stop := c.asked.config().Stop
		if err := c.asked.config().Validate(); err != nil || stop.MinSamples != c.low || stop.MaxSamples != c.high {
			t.Errorf("%+v gives %d to %d samples, want %d to %d: %v", c.asked, stop.MinSamples, stop.MaxSamples, c.low, c.high,
				err)
		}
	}
	if stop := (sampling{Seconds: 0.01}).config().Stop; stop.MaxTime != 10*time.Millisecond ||
		stop.MinTime > stop.MaxTime {
		t.Errorf("a hundredth of a second is %v to %v", stop.MinTime, stop.MaxTime)
	}
	if (sampling{MinSamples: -1}).config().Validate() == nil {
		t.Error("fewer than no samples are taken")
	}
}
