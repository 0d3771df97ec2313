package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// TestStories runs the scripts in testdata against a coordinator. Time passes only by tick, and by a
// millisecond with each report. The commands are:
//
//	job nodes=N [restarts=N]  a new group; 20 ticks to join, 50 of silence
//	join PEER [node=RANK] [FACT=VALUE]...
//	ready PEER, done PEER [attempt=N], lose PEER CAUSE
//	start                             all join and become ready
//	fail PEER rank=R code=C [signal=S] [pid=P] [more] [output=TEXT] [attempt=N]
//	halt PEER rank=R pid=P for=S      the launcher sees a rank stopped for S seconds; 0: it runs again
//	tick N [silent=PEER]              all others are heard
//	stand N                           the host is stopped for N ticks
func TestStories(t *testing.T) {
	s := story{T: t}
	proctest.Stories(t, func(verb string, args []string) []string { return told(s.do(verb, args)) })
}

type story struct {
	*testing.T
	*coordinator
	cfg Config
	now time.Duration
}

func (s *story) do(verb string, args []string) (orders []action) {
	options := map[string]string{}
	for _, arg := range args {
		if name, value, is := strings.Cut(arg, "="); is || name == "more" {
			options[name] = value
		}
	}
	number := func(name string, otherwise int) int {
		if text, ok := options[name]; ok {
			return must.Get(strconv.Atoi(text))(s)
		}
		return otherwise
	}
	peer := 0
	if len(args) > 0 && !strings.Contains(args[0], "=") {
		options["peer"] = args[0]
		peer = number("peer", 0)
	}
	hear := func(m message) []action { return s.Receive(peer, m, s.now) }
	switch verb {
	case "job":
		s.cfg = Config{ID: "job", Nodes: number("nodes", 0), Procs: 2,
			MaxRestarts: number("restarts", 0), JoinTimeout: 20 * tick,
			Heartbeat: 50 * tick, Program: []string{"train"}}
		s.coordinator, s.now = newCoordinator(s.cfg), 0
		// the build of a test binary is different every time
		s.group.Facts[slices.Index(s.group.Facts, connection.BuildFact(false))].Value = "ours"
	case "join":
		j := join{connection.Join{Rank: number("node", AnyNode), Size: s.cfg.Nodes, Host: fmt.Sprintf("host%d", peer),
			PID: 1000 + peer, Facts: slices.Clone(s.group.Facts)}, fmt.Sprintf("10.0.0.%d", peer)}
		for i, f := range j.Facts {
			if value, ok := options[strings.ReplaceAll(f.Name, " ", "-")]; ok {
				j.Facts[i].Value = value
			}
		}
		return hear(message{Join: &j})
	case "start":
		for n := range s.cfg.Nodes {
			s.do("join", []string{strconv.Itoa(n)})
		}
		for n := range s.cfg.Nodes {
			orders = s.do("ready", []string{strconv.Itoa(n)})
		}
		if len(orders) != s.cfg.Nodes {
			s.Fatalf("no round began: %v", orders)
		}
		return nil
	case "ready":
		return hear(message{Attempt: s.attempt, Ready: &readyNode{5000 + peer}})
	case "done":
		return hear(message{Attempt: number("attempt", s.attempt), Done: true})
	case "lose":
		s.now += time.Millisecond
		return s.Disconnect(peer, strings.Join(args[1:], " "), s.now)
	case "stand": // stopped for a number of ticks
		s.now += time.Duration(peer) * tick
		return nil
	case "fail":
		s.now += time.Millisecond
		f := Failure{Rank: number("rank", 0), Code: number("code", 0), PID: number("pid", 0),
			Signal: syscall.Signal(number("signal", 0)),
			Node:   number("node", 0), Host: options["host"], Output: strings.ReplaceAll(options["output"], `\n`, "\n")}
		f.Cause = fmt.Sprintf("ended with code %d", f.Code)
		_, f.More = options["more"]
		return hear(message{Attempt: number("attempt", s.attempt), Failed: &f})
	case "halt":
		f := Failure{Rank: number("rank", 0)}
		if stopped := time.Duration(number("for", 0)) * time.Second; stopped > 0 {
			f = rankStopped(f.Rank, number("pid", 0), stopped)
		}
		return hear(message{Attempt: s.attempt, Stopped: &f})
	case "tick":
		silent := number("silent", -1)
		for range peer { // here, peer is the number of ticks
			s.now += tick
			for _, m := range s.group.Members {
				if m.Peer != silent {
					s.Receive(m.Peer, message{}, s.now)
				}
			}
			orders = append(orders, s.Tick(s.now)...)
		}
		return orders
	default:
		s.Fatalf("no verb %q", verb)
	}
	return nil
}

// told formats actions, with one line for a text that goes to several peers.
func told(orders []action) (lines []string) {
	var texts []string
	peers := map[string][]string{}
	for _, o := range orders {
		text := "drop"
		switch m := o.Message; {
		case m.Start != nil:
			text = fmt.Sprintf("start attempt %d as node %d of %v, master %s:%d", m.Start.Attempt, m.Start.Node, m.Start.Hosts,
				m.Start.MasterAddr, m.Start.MasterPort)
		case m.Stop != nil && m.Stop.Restarts > 0:
			text = "restart: " + m.Stop.Failure.String()
		case m.Stop != nil:
			text = "stop: " + m.Stop.Failure.String()
		case m.Finished:
			text = "finished"
		case m.Refused != "":
			text = "refused: " + m.Refused
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		peers[text] = append(peers[text], strconv.Itoa(o.Peer))
	}
	for _, text := range texts {
		lines = append(lines, fmt.Sprintf("to %s: %s", strings.Join(peers[text], ", "), text))
	}
	return lines
}

// A node that has lost the rendezvous blames it, except for an abrupt end of its own, or if it was stopped itself.
func TestCutOff(t *testing.T) {
	const lost = "node 0 (host a) was lost: no answer; node 1 (host b) has lost the rendezvous with it"
	for name, c := range map[string]struct {
		failed *Failure
		at     int
		want   string
	}{
		"nothing failed": {nil, 0, lost},
		"a rank gave up": {&Failure{Rank: 3, Cause: "ended with exit code 1", Code: 1}, 0,
			lost + ", rank 3 ended with exit code 1"},
		"a rank was killed": {&Failure{Rank: 3, Cause: "was killed", Signal: syscall.SIGKILL}, 0,
			"rank 3 (node 1, host b) was killed"},
		"the node has failed":  {&Failure{Rank: noRank, Cause: "could not start"}, 0, "node 1 (host b) could not start"},
		"the node was refused": {nil, 1, "node 1 (host b) was lost: no answer"},
	} {
		n := &node{failed: c.failed, begun: time.Now()}
		v := n.cutOff(&Round{Node: 1, Hosts: []string{"a", "b"}}, c.at, "was lost: no answer")
		if got := v.Failure.String(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// For any sequence of events, ranks are unique, a group ends only once, and every living node is told
// the same end.
func TestCoordinatorKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(1, 4).Draw(rt, "nodes")
		c := newCoordinator(Config{Nodes: nodes, MaxRestarts: rapid.IntRange(0, 2).Draw(rt, "restarts"),
			JoinTimeout: 30 * tick, Heartbeat: 10 * tick})
		ends := map[int][]string{} // by peer
		lost := map[int]bool{}
		take := func(orders []action) {
			seen := map[int]bool{}
			for _, o := range orders {
				if lost[o.Peer] {
					rt.Fatalf("an order to the lost peer %d: %+v", o.Peer, o)
				}
				if o.Drop {
					lost[o.Peer] = true
				}
				m := o.Message
				if m.Start != nil {
					if n := len(m.Start.Hosts); n != nodes {
						rt.Fatalf("%d nodes, want %d", n, nodes)
					}
					if seen[m.Start.Node] || m.Start.Node < 0 || m.Start.Node >= nodes {
						rt.Fatalf("node rank %d twice or out of range", m.Start.Node)
					}
					seen[m.Start.Node] = true
				}
				if m.Finished || m.Refused != "" || m.Stop != nil && m.Stop.Restarts == 0 {
					ends[o.Peer] = append(ends[o.Peer], fmt.Sprintf("%+v %s %t", m.Stop, m.Refused, m.Finished))
				}
			}
		}
		unlessOver := func(act func() []action) []action { // like the host
			if c.Over() {
				return nil
			}
			return act()
		}
		hear := func(peer int, m message, at time.Duration) []action {
			return unlessOver(func() []action { return c.Receive(peer, m, at) })
		}
		rt.Repeat(map[string]func(*rapid.T){
			"join": func(rt *rapid.T) {
				peer := rapid.IntRange(0, 5).Draw(rt, "peer")
				if c.group.ByPeer(peer) != nil || lost[peer] || ends[peer] != nil || c.Over() {
					return // a connection joins once
				}
				node := rapid.SampledFrom([]int{AnyNode, AnyNode, 0, 1}).Draw(rt, "node")
				take(c.Receive(peer, message{Join: &join{Join: connection.Join{Rank: node, Size: nodes, Facts: c.group.Facts}}}, 0))
			},
			"ready": func(rt *rapid.T) {
				take(hear(rapid.IntRange(0, 5).Draw(rt, "peer"), message{Attempt: c.attempt, Ready: &readyNode{}}, 0))
			},
			"done": func(rt *rapid.T) {
				take(hear(rapid.IntRange(0, 5).Draw(rt, "peer"), message{Attempt: c.attempt, Done: true}, 0))
			},
			"fail": func(rt *rapid.T) {
				take(hear(rapid.IntRange(0, 5).Draw(rt, "peer"),
					message{Attempt: rapid.IntRange(0, 2).Draw(rt, "attempt"),
						Failed: &Failure{Rank: 1, Code: 1, More: rapid.Bool().Draw(rt, "more")}}, 0))
			},
			"lose": func(rt *rapid.T) {
				peer := rapid.IntRange(0, 5).Draw(rt, "peer")
				lost[peer] = true
				take(unlessOver(func() []action { return c.Disconnect(peer, "cut", 0) }))
			},
			"tick": func(rt *rapid.T) { take(unlessOver(func() []action { return c.Tick(0) })) },
			"": func(rt *rapid.T) {
				if !c.Over() {
					return
				}
				for _, m := range c.group.Members {
					if !m.Gone && len(ends[m.Peer]) != 1 {
						rt.Fatalf("node %d was told %d ends: %v", m.Rank, len(ends[m.Peer]), ends[m.Peer])
					}
				}
			},
		})
	})
}
