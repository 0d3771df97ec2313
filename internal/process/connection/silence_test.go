package connection

import (
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
)

// This host's observations distinguish the causes of a silence.
func TestSilenceCause(t *testing.T) {
	const silent = 5 * time.Second
	for name, c := range map[string]struct {
		seen Evidence
		want string
	}{
		"stopped": {Evidence{Local: true, State: "T", Waited: silent}, "it is stopped by a signal"},
		"ended":   {Evidence{Local: true}, "its process has ended"},
		"starved": {Evidence{Local: true, State: "R", Waited: 4 * time.Second},
			"its threads waited 4.0 s for a processor"},
		"half starved": {Evidence{Local: true, State: "R", Waited: silent / 2}, "waited 2.5 s for a processor"},
		"traced":       {Evidence{Local: true, State: "t"}, "it is stopped by a signal"},
		"zombie":       {Evidence{Local: true, State: "Z"}, "its process has ended"},
		"hung":         {Evidence{Local: true, State: "S", Waited: time.Second}, "alive, but does not answer"},
		"cut": {Evidence{TCP: true, Unconfirmed: 1, LastAck: 4500 * time.Millisecond, Resent: 5},
			"the network is cut"},
		"cut, and stopped by its launcher": {Evidence{Local: true, State: "T", TCP: true, Unconfirmed: 1, LastAck: silent},
			"the network is cut"},
		"cut, container": {Evidence{Local: true, State: "S", TCP: true, Unconfirmed: 1, LastAck: silent},
			"the network is cut"},
		"loss":        {Evidence{TCP: true, Unconfirmed: 1, LastAck: time.Second, Resent: 7}, "loses packets: 7 had"},
		"little loss": {Evidence{TCP: true, Unconfirmed: 1, LastAck: time.Second, Resent: 2}, "loses packets: 2 had"},
		"far, stopped": {Evidence{TCP: true, LastAck: 400 * time.Millisecond, Resent: 1},
			"acknowledges packets, so its process is stopped or gets no processor, or the network loses its packets"},
		"idle":    {Evidence{TCP: true, LastAck: silent}, "acknowledges packets"},
		"unknown": {Evidence{}, ""},
	} {
		if got := c.seen.Cause(silent); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	g := Group{Size: 1, SilentTicks: 50, Observe: func(m *Member) Evidence {
		return Evidence{TCP: true, Resent: m.Silent} // one packet per tick
	}}
	g.Admit(1, Join{Rank: AnyRank, Size: 1})
	for range 51 {
		g.Tick()
	}
	if got := g.SilenceCause(g.Members[0]); !strings.Contains(got, "for 5s: the network loses packets: 41 had") {
		t.Errorf("counted from the beginning of the silence: %q", got)
	}
}

// A real process that is stopped is seen as such.
func TestObserve(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	must.Do(t, cmd.Start())
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	must.Do(t, cmd.Process.Signal(syscall.SIGSTOP))
	must.Get(syscall.Wait4(cmd.Process.Pid, nil, syscall.WUNTRACED, nil))(t)
	a, b := Pipe()
	defer a.Close()
	defer b.Close()
	if e := a.Observe(cmd.Process.Pid); !strings.Contains(e.Cause(time.Second), "stopped by a signal") {
		t.Errorf("%+v", e)
	}
	if e := a.Observe(0); e != (Evidence{}) {
		t.Errorf("a pipe to another host: %+v", e)
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	dialled := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer dialled.Close()
	if e := Plain(dialled).Observe(0); !e.TCP || e.Local || e.Unconfirmed != 0 || e.Resent != 0 {
		t.Errorf("an idle TCP connection: %+v", e)
	}
	ours, theirs := must.Get2(SocketPair())(t)
	defer ours.Close()
	defer theirs.Close()
	if e := ours.Observe(0); e.TCP {
		t.Errorf("a unix socket: %+v", e)
	}
	own := NewJoin(0, 1, "", nil)
	if other := (Join{PID: own.PID, Space: "elsewhere"}); own.localPID() != own.PID || other.localPID() != 0 {
		t.Errorf("own process %d, of another host %d", own.localPID(), other.localPID())
	}
}

// Without a source of delays, every pause is a stop.
func TestPauseWithoutDelays(t *testing.T) {
	p := Pause{Limit: 5 * time.Second}
	at := time.Duration(0)
	for range 2 * waitedInterval {
		at += Tick
		p.Tick(at)
	}
	if got := p.Cause(at + 6*time.Second); !strings.HasPrefix(got, "was stopped for 6s") {
		t.Errorf("got %q", got)
	}
}

// A process notices its own pause for as long as its peers may leave because of it, and whether it was
// stopped or starved.
func TestPause(t *testing.T) {
	var waited time.Duration
	p := Pause{Limit: 5 * time.Second, Waited: func() time.Duration { return waited }}
	at := time.Duration(0)
	tick := func(n int) {
		for range n {
			at += Tick
			p.Tick(at)
		}
	}
	tick(20)
	if at += 4 * time.Second; p.Cause(at) != "" {
		t.Errorf("a short pause: %s", p.Cause(at))
	}
	at += 3 * time.Second
	if got := p.Cause(at); !strings.HasPrefix(got, "was stopped for 7s") {
		t.Errorf("stopped, before the next tick: %q", got)
	}
	tick(1)
	if got := p.Cause(at); !strings.HasPrefix(got, "was stopped for 7s") {
		t.Errorf("stopped, after it: %q", got)
	}
	if tick(60); p.Cause(at) != "" {
		t.Errorf("long ago: %q", p.Cause(at))
	}
	at, waited = at+6*time.Second, waited+3*time.Second
	if got := p.Cause(at); !strings.HasPrefix(got, "got no processor for 6s") {
		t.Errorf("starved for half of the time: %q", got)
	}
	tick(10) // the wait so far does not count for the next pause
	at, waited = at+6*time.Second, waited+3*time.Second-1
	if got := p.Cause(at); !strings.HasPrefix(got, "was stopped for 6s") {
		t.Errorf("starved for less than half of the time: %q", got)
	}
}
