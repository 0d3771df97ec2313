package culprit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/host/proc"
)

// aftermaths are the ways in which a planted victim ends when its peer is gone.
var aftermaths = []Rank{
	{End: "exit code 1", Failed: true, LastLine: "ConnectionResetError: [Errno 104] Connection reset by peer"},
	{End: "exit code 1", Failed: true, LastLine: "EOFError"},
	{End: "signal 13 (broken pipe)", Failed: true, Signal: syscall.SIGPIPE},
	{End: "signal 6 (aborted)", Failed: true, Signal: syscall.SIGABRT,
		LastLine: "what(): [gloo] Connection closed by peer [127.0.0.1]:4711"},
	{End: "signal 15 (terminated), after the launch was stopped", Failed: true, Signal: syscall.SIGTERM, Stopped: true,
		Activity: &Activity{State: Waiting, Call: "recv"}},
}

// pastimes are the activities of a planted rank that waits for a hung one.
var pastimes = []Activity{{State: Busy}, {State: Waiting, Call: "recv"}, {State: Waiting, Call: "poll"},
	{State: Waiting, Call: "futex"}}

// plant makes a launch of n ranks in which one is at fault and the others are affected by it.
func plant(rng *rand.Rand, kind string, n, at int) []Rank {
	ranks := make([]Rank, n)
	first := rng.IntN(3) // number of victims that are reaped before the killed rank
	waits := pastimes[rng.IntN(len(pastimes))]
	for i := range ranks {
		ranks[i] = aftermaths[rng.IntN(len(aftermaths))]
		if kind == "stop" || kind == "hang" || kind == "spin" {
			ranks[i] = Rank{Stopped: true, Failed: true, Activity: &waits}
		}
		ranks[i].Rank, ranks[i].Order = i, 2+rng.IntN(n)
	}
	r := Rank{Rank: at, Order: 1, Failed: true}
	switch kind {
	case "exit":
		r.End, r.LastLine = "exit code 1", []string{"", "ValueError: bad shape", "starting"}[rng.IntN(3)]
	case "kill":
		r.End, r.Signal, r.Order = "signal 9 (killed)", syscall.SIGKILL, 1+first
	case "stop":
		r.Stopped, r.Activity = true, &Activity{State: Stopped}
	case "hang":
		r.Stopped, r.Activity = true, &Activity{State: Asleep, Call: "sleep"}
		if waits.State == Busy && n > 2 && rng.IntN(2) == 0 { // waits on a lock
			r.Activity = &Activity{State: Waiting, Call: "futex"}
		}
	case "spin":
		r.Stopped, r.Activity = true, &Activity{State: Busy}
		if waits.State == Busy {
			waits = pastimes[1]
		}
	}
	ranks[at] = r
	return ranks
}

// At least 95 of 100 planted faults of each kind are blamed on the right rank, and no victim is ever blamed.
func TestPlanted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []string{"exit", "kill", "stop", "hang", "spin"} {
		right := 0
		for range 100 {
			n := 2 + rng.IntN(7)
			at := rng.IntN(n)
			ranks := plant(rng, kind, n, at)
			e := Evidence{Ranks: ranks}
			if kind == "stop" || kind == "hang" || kind == "spin" {
				e.Late = time.Minute
			}
			switch v := Blame(e); v.Rank {
			case at:
				right++
			case -1:
			default:
				t.Errorf("%s at rank %d of %d: %+v\n%+v", kind, at, n, v, ranks)
			}
		}
		if right < 95 {
			t.Errorf("%s: %d of 100", kind, right)
		}
	}
}

func TestVerdicts(t *testing.T) {
	exit := func(order int, how, said string) Rank {
		return Rank{Order: order, End: how, Failed: true, LastLine: said}
	}
	told := func(said string, d Activity) Rank {
		return Rank{Order: 9, End: "signal 15 (terminated), after the launch was stopped", Failed: true, Stopped: true,
			LastLine: said, Activity: &d}
	}
	recv := Activity{State: Waiting, Call: "recv"}
	type verdict struct {
		rank   int
		reason string
	}
	for name, c := range map[string]struct {
		ranks []Rank
		hung  bool
		want  verdict
	}{
		"last words": {[]Rank{exit(1, "exit code 1", "ModuleNotFoundError: No module named 'torch'")}, false,
			verdict{0, "the program ended with exit code 1: ModuleNotFoundError: No module named 'torch'"}},
		"the first to end": {[]Rank{exit(3, "exit code 1", ""), exit(1, "exit code 3", ""), exit(2, "exit code 1", "")},
			false,
			verdict{1, "the program ended with exit code 3; after it ranks 0, 2 failed too"}},
		"killed, and a victim was quicker": {[]Rank{exit(1, "exit code 1", ""),
			{Order: 2, End: "signal 9 (killed)", Signal: syscall.SIGKILL, Failed: true}}, false,
			verdict{1, "the program ended with signal 9 (killed); after it rank 0 failed too"}},
		"still ending when the others had lost it": {[]Rank{exit(1, "exit code 1", "Connection reset by peer"),
			told("ValueError: bad shape", Activity{State: Busy})}, false,
			verdict{1, "the program ended with signal 15 (terminated), after the launch was stopped: ValueError: bad shape, " +
				"and rank 0 then lost it"}},
		"stopped when the others gave it up": {[]Rank{exit(1, "exit code 1", "Connection reset by peer"),
			told("", Activity{State: Stopped})}, false,
			verdict{1, "the program was stopped (SIGSTOP), and rank 0 then lost it"}},
		"only victims": {[]Rank{exit(2, "exit code 1", "Broken pipe"), exit(1, "exit code 1", "Broken pipe")}, false,
			verdict{1, "the program ended with exit code 1: Broken pipe; after it rank 0 failed too"}},
		"alone": {[]Rank{told("", Activity{State: Asleep, Call: "sleep", CPU: 1200 * time.Millisecond})}, true,
			verdict{0, "the program did not end within 1m0s: it was asleep in sleep, having used 1.2 s of CPU time"}},
		"stopped": {[]Rank{told("", recv), told("", recv), told("", Activity{State: Stopped}), told("", recv)}, true,
			verdict{2, "the program did not end within 1m0s: rank 2 was stopped, ranks 0, 1, 3 were waiting in recv"}},
		"busy one of two": {[]Rank{told("", recv), told("", Activity{State: Busy})}, true,
			verdict{1, "the program did not end within 1m0s: rank 1 was busy, rank 0 was waiting in recv"}},
		"left the others waiting": {[]Rank{told("", recv), {Order: 1, End: "exit code 0"}, told("", recv)}, true,
			verdict{1, "the program did not end within 1m0s: rank 1 had ended with exit code 0, " +
				"ranks 0, 2 were waiting in recv"}},
		"the one left": {[]Rank{{Order: 1, End: "exit code 0"}, {Order: 2, End: "exit code 0"}, told("", recv)}, true,
			verdict{2, "the program did not end within 1m0s: rank 2 was waiting in recv, ranks 0, 1 had ended"}},
		"no telling": {[]Rank{told("", recv), told("", recv), told("", recv)}, true,
			verdict{-1, "the program did not end within 1m0s: ranks 0 to 2 were waiting in recv; none stands out"}},
		"nothing known": {[]Rank{{Stopped: true}, {Stopped: true}}, true,
			verdict{-1, "the program did not end within 1m0s: ranks 0, 1 were in an unknown state; none stands out"}},
		"ended just then": {[]Rank{{Order: 1, End: "exit code 0"}}, true, verdict{-1, "the program did not end within 1m0s"}},
	} {
		for i := range c.ranks {
			c.ranks[i].Rank = i
		}
		e := Evidence{Ranks: c.ranks}
		if c.hung {
			e.Late = time.Minute
		}
		if v := Blame(e); v.Rank != c.want.rank || v.Reason != c.want.reason || (v.Kind == Hung) != c.hung {
			t.Errorf("%s:\n%+v, want\n%+v", name, v, c.want)
		}
	}
}

// TestReports: who is to blame according to the reports of workers, nodes and launchers.
func TestReports(t *testing.T) {
	said := func(line string) Rank { return Rank{LastLine: line} }
	missed := func(line string) Rank { return Rank{LastLine: line, Failed: true, Missed: true} }
	beats := func(waiting bool) Rank { return Rank{Phase: "timed", Waiting: waiting} }
	follows := func(order int, cause *int) Rank {
		return Rank{Order: order, Failed: true, Secondary: true, Cause: cause, Phase: "check"}
	}
	exit := func(order int) Rank { return Rank{Order: order, Failed: true} }
	signal := func(order int, s syscall.Signal) Rank { return Rank{Order: order, Failed: true, Signal: s} }
	node := func(order int) Rank { return Rank{Order: order, Failed: true, Node: true} }
	interrupted := Rank{Order: 2, Failed: true, Node: true, Interrupted: true}
	held := Rank{Activity: &Activity{State: Stopped}}
	two := 2
	for name, c := range map[string]struct {
		ranks       []Rank
		late        bool
		rank, order int
	}{
		// workers that have ended their task
		"the cause, not who follows":  {[]Rank{follows(1, nil), exit(2)}, false, 1, 2},
		"only followers":              {[]Rank{follows(2, nil), follows(1, nil)}, false, 1, 1},
		"followers of a lost rank":    {[]Rank{follows(1, &two), follows(2, &two)}, false, 2, 1},
		"one skips, one follows":      {[]Rank{{Order: 1, Skipped: true}, follows(2, nil)}, false, -1, 2},
		"one skips, one fails itself": {[]Rank{{Order: 1, Skipped: true}, exit(2)}, false, 1, 2},
		// workers that hang
		"the other waits":        {[]Rank{beats(true), beats(false)}, true, 1, 0},
		"the second waits":       {[]Rank{beats(false), beats(true)}, true, 0, 0},
		"all wait":               {[]Rank{beats(true), beats(true)}, true, 0, 0},
		"all work":               {[]Rank{beats(false), beats(false), beats(false)}, true, 0, 0},
		"one is done, one hangs": {[]Rank{beats(true), {Order: 1}, beats(false)}, true, 2, 0},
		// nodes of a job
		"the earlier":                 {[]Rank{exit(2), exit(1)}, false, 1, 1},
		"killed, reported later":      {[]Rank{exit(1), signal(2, syscall.SIGKILL)}, false, 1, 2},
		"aborted later":               {[]Rank{exit(1), signal(2, syscall.SIGABRT)}, false, 0, 1},
		"broken pipe first":           {[]Rank{signal(1, syscall.SIGPIPE), exit(2)}, false, 1, 2},
		"a lost node, reported later": {[]Rank{exit(1), node(2)}, false, 1, 2},
		"a kill before a lost node":   {[]Rank{signal(1, syscall.SIGKILL), node(2)}, false, 0, 1},
		"an interrupted node":         {[]Rank{signal(1, syscall.SIGKILL), interrupted}, false, 1, 2},
		"gave up a stopped rank":      {[]Rank{exit(1), held}, false, 1, 1},
		"an abrupt end beside a stop": {[]Rank{signal(1, syscall.SIGSEGV), held}, false, 0, 1},
		"a lost node beside a stop":   {[]Rank{node(1), held}, false, 0, 1},
		// all ranks of a launcher
		"one asked for the end": {[]Rank{missed(""), said("Abort(7): MPI_Abort was called"), said("step 9")}, false, 1, 0},
		"the others lost it":    {[]Rank{missed("connection reset by peer"), said(""), said("ValueError: bad")}, false, 2, 0},
		"all report an error":   {[]Rank{said("ValueError: bad"), missed("ValueError: bad")}, false, 1, 0},
		"none reports an error": {[]Rank{said("step 1"), missed("")}, false, 1, 0},
	} {
		e := Evidence{Ranks: c.ranks}
		for i := range c.ranks {
			c.ranks[i].Rank = i
		}
		if c.late {
			e.Late = time.Minute
		}
		v := Blame(e)
		if v.Rank != c.rank || v.Order != c.order || (v.Kind == Hung) != c.late {
			t.Errorf("%s: %+v, want rank %d, order %d", name, v, c.rank, c.order)
		}
		if hung := "not finished within 1m0s"; c.late && (v.Phase != "timed" || v.Reason != hung) {
			t.Errorf("%s: %+v, want %q", name, v, hung)
		}
	}
	// A rank that was stopped and then failed, by the time-out of its own launcher, is no victim of another stop.
	both := []Rank{{Rank: 2, Order: 1, Failed: true}, {Rank: 2, Activity: held.Activity},
		{Rank: 5, Activity: held.Activity}}
	if v := Blame(Evidence{Ranks: both}); v.Rank != 2 {
		t.Errorf("%+v, want rank 2", v)
	}
}

func TestSum(t *testing.T) {
	spell := 20 * time.Microsecond // CPU time of a polling thread between two sleeps
	one := func(state byte, call string, runs bool, slept uint64) Snapshot {
		return Snapshot{{PID: 7, State: state, Call: call, CPU: time.Second,
			Threads: []proc.Thread{{ID: 7, Running: runs, Sleeps: slept, CPU: time.Duration(slept) * spell}}}}
	}
	shell := func(child Snapshot) Snapshot {
		child[0].Parent = 5
		own := Process{PID: 5, State: 'S', Call: proc.CallWait, Threads: []proc.Thread{{ID: 5, Sleeps: 3}}}
		return append(Snapshot{own}, child...)
	}
	for name, c := range map[string]struct {
		looks []Snapshot
		want  string
	}{
		"one look": {[]Snapshot{one('S', "recv", false, 1)}, "waiting in recv"},
		"asleep":   {[]Snapshot{one('S', "sleep", false, 1), one('S', "sleep", false, 1)}, "asleep in sleep"},
		"polls":    {[]Snapshot{one('S', "sleep", false, 1), one('S', "sleep", false, 90)}, "waiting in sleep"},
		"polls on a busy host": {[]Snapshot{one('R', "", true, 1), one('R', "", true, 4), one('S', "sleep", true, 9)},
			"waiting in sleep"},
		"spins": {[]Snapshot{one('R', "", true, 1), one('R', "", true, 1), one('S', "write", false, 1)},
			"busy"},
		"spins, and is interrupted": {[]Snapshot{{{PID: 7, Threads: []proc.Thread{{ID: 7, Running: true, Sleeps: 1}}}},
			{{PID: 7, Threads: []proc.Thread{{ID: 7, Running: true, Sleeps: 9, CPU: 40 * time.Millisecond}}}}}, "busy"},
		"stopped": {[]Snapshot{one('T', "", false, 1)}, "stopped"},
		"stuck": {[]Snapshot{one('D', "read", false, 1), one('D', "read", false, 1)},
			"stuck in the kernel in read"},
		"below a shell": {[]Snapshot{shell(one('S', "recv", false, 1)), shell(one('S', "recv", false, 2))},
			"waiting in recv"},
		"a shell that is polled": {[]Snapshot{shell(one('S', "sleep", false, 1)),
			shell(Snapshot{{PID: 9, State: 'S', Call: "sleep"}})}, "waiting in sleep"},
		"another thread spins": {[]Snapshot{{{PID: 7, State: 'S', Call: "futex",
			Threads: []proc.Thread{{ID: 7, Sleeps: 1}, {ID: 8, Running: true, Sleeps: 5}, {ID: 9, Sleeps: 1}}}},
			{{PID: 7, State: 'S', Call: "futex",
				Threads: []proc.Thread{{ID: 7, Sleeps: 1}, {ID: 8, Running: true, Sleeps: 5}, {ID: 9, Sleeps: 900}}}}}, "busy"},
	} {
		if d := Summarize(c.looks); d == nil || d.String() != c.want {
			t.Errorf("%s: %v, want %s", name, d, c.want)
		}
	}
	if d := Summarize([]Snapshot{one('S', "recv", false, 1), nil}); d != nil {
		t.Errorf("a rank that has ended is %v", d)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ stderr, stdout, want string }{
		{"", "", ""},
		{"", "step 1\nstep 2\n\n", "step 2"},
		{"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    import " +
			"torch\nModuleNotFoundError: No module named 'torch'\n", "",
			"ModuleNotFoundError: No module named 'torch'"},
		{"terminate called after throwing an instance of 'std::runtime_error'\n  what():  boom\n", "", "what():  boom"},
		{"panic: planted\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2\n", "", "panic: planted"},
		{"[rank0]: ValueError: bad\n[W1] Warning: process group has NOT been destroyed\n", "", "[rank0]: ValueError: bad"},
		{"OMP: Warning #96\n", "starting\nError: 7 elements differ\n", "Error: 7 elements differ"},
		{"\x1b[31mfatal: no device\x1b[0m\n----------\n", "", "fatal: no device"},
		{strings.Repeat("x", 300), "", strings.Repeat("x", maxLineRunes-1) + "…"},
	} {
		if got := SalientLine(c.stderr, c.stdout); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.stderr, c.stdout, got, c.want)
		}
	}
}

func TestList(t *testing.T) {
	for want, ranks := range map[string][]int{
		"rank 2": {2}, "ranks 0, 1": {0, 1}, "ranks 0 to 3, 7": {0, 1, 2, 3, 7}, "ranks 0, 2, 3": {0, 2, 3},
	} {
		if got := FormatRanks(ranks); got != want {
			t.Error(fmt.Sprint(got, ", want ", want))
		}
	}
}
