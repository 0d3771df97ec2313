package rendezvous

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// script drives a council through what happens and tells what it orders.
type script struct {
	*testing.T
	council
	now time.Duration
}

func newScript(t *testing.T, nodes, restarts int) *script {
	return &script{T: t, council: council{
		common: join{ID: "job", Nodes: nodes, Procs: 2, MaxRestarts: restarts}, joinTicks: 20, silentTicks: 50,
	}}
}

func (s *script) join(peer, node int) []order {
	return s.hear(peer, message{Join: &join{ID: "job", Nodes: s.common.Nodes, Procs: 2, MaxRestarts: s.common.MaxRestarts,
		Node: node, Host: fmt.Sprintf("host%d", peer), PID: 1000 + peer, Addr: fmt.Sprintf("10.0.0.%d", peer)}}, s.now)
}

func (s *script) ready(peer int) []order {
	return s.hear(peer, message{Ready: &ready{Attempt: s.attempt, Port: 5000 + peer}}, s.now)
}

// start brings all nodes into the first round.
func (s *script) start() []order {
	s.Helper()
	for peer := range s.common.Nodes {
		if got := s.join(peer, AnyNode); got != nil {
			s.Fatalf("peer %d was answered %+v to its join", peer, got)
		}
	}
	return s.allReady()
}

func (s *script) allReady() (orders []order) {
	s.Helper()
	for peer := range s.common.Nodes {
		if orders != nil {
			s.Fatal("a round began before all were ready")
		}
		orders = s.ready(peer)
	}
	if len(orders) != s.common.Nodes || orders[0].Start == nil {
		s.Fatalf("no round began: %+v", orders)
	}
	return orders
}

// ticks lets time pass; the others stay alive. It returns the first orders.
func (s *script) ticks(n int, silent ...int) []order {
	for range n {
		s.now += tick
		for _, seat := range s.seats {
			quiet := false
			for _, peer := range silent {
				quiet = quiet || peer == seat.peer
			}
			if !quiet {
				s.hear(seat.peer, message{Beat: true}, s.now)
			}
		}
		if orders := s.pass(s.now); orders != nil {
			return orders
		}
	}
	return nil
}

func TestRanksByArrivalAndByWish(t *testing.T) {
	s := newScript(t, 4, 0)
	for _, j := range []struct{ peer, node int }{{7, AnyNode}, {3, 0}, {9, AnyNode}, {4, 2}} {
		s.join(j.peer, j.node)
	}
	var orders []order
	for _, peer := range []int{7, 3, 9, 4} {
		orders = s.ready(peer)
	}
	// Wishes first (3 is 0, 4 is 2), the rest in the order of arrival.
	want := map[int]int{3: 0, 7: 1, 4: 2, 9: 3}
	for _, o := range orders {
		if o.Start.Node != want[o.peer] {
			t.Errorf("peer %d is node %d, want %d", o.peer, o.Start.Node, want[o.peer])
		}
		if o.Start.MasterAddr != "10.0.0.3" || o.Start.MasterPort != 5003 {
			t.Errorf("the master is at %s:%d, want node 0's 10.0.0.3:5003", o.Start.MasterAddr, o.Start.MasterPort)
		}
		if got := strings.Join(o.Start.Hosts, " "); got != "host3 host7 host4 host9" {
			t.Errorf("hosts %s", got)
		}
	}
	if len(orders) != 4 {
		t.Errorf("%d orders", len(orders))
	}
}

func TestRefusals(t *testing.T) {
	good := join{ID: "job", Nodes: 2, Procs: 2, Node: AnyNode, Host: "b"}
	for _, c := range []struct {
		change func(*join)
		want   string
	}{
		{func(j *join) { j.ID = "other" }, `for job "job", not for "other"`},
		{func(j *join) { j.Nodes = 3 }, "--nnodes is 3 here and 2"},
		{func(j *join) { j.Procs = 1 }, "--nproc-per-node is 1 here and 2"},
		{func(j *join) { j.MaxRestarts = 1 }, "--max-restarts is 1 here and 0"},
		{func(j *join) { j.Node = 1 }, "node rank 1 is already taken by host host0"},
		{func(j *join) { j.Node = 2 }, "node rank 2 does not exist"},
	} {
		s := newScript(t, 2, 0)
		s.join(0, 1)
		j := good
		c.change(&j)
		got := s.hear(5, message{Join: &j}, 0)
		if len(got) != 1 || got[0].peer != 5 || !strings.Contains(got[0].Refused, c.want) {
			t.Errorf("got %+v, want a refusal with %q", got, c.want)
		}
		if len(s.seats) != 1 {
			t.Errorf("%s: it has a seat all the same", c.want)
		}
	}
	s := newScript(t, 2, 0)
	s.start()
	if got := s.join(5, AnyNode); len(got) != 1 || !strings.Contains(got[0].Refused, "all 2 nodes of job \"job\" have joined: host0 (node 0), host1 (node 1)") {
		t.Errorf("a third of two nodes got %+v", got)
	}
}

func TestMissingNodesAreNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*script)
		want string
	}{
		{"by number", func(s *script) { s.join(0, AnyNode); s.ready(0) }, "1 of 3 nodes joined within 2s: host0; missing: 2 more"},
		{"by rank", func(s *script) { s.join(0, 1) }, "1 of 3 nodes joined within 2s: host0 (node 1); missing: node 0, 2"},
		{"who was turned away", func(s *script) { s.join(0, AnyNode); s.reject("10.0.0.9", "the secrets differ") },
			"missing: 2 more; turned away: 10.0.0.9: the secrets differ"},
		{"who left again", func(s *script) { s.join(0, AnyNode); s.join(1, AnyNode); s.lose(1, "connection closed", 0) },
			"1 of 3 nodes joined within 2s: host0; missing: 2 more; turned away: host1: joined and left: connection closed"},
	} {
		s := newScript(t, 3, 0)
		c.do(s)
		if early := s.ticks(20); early != nil {
			t.Errorf("%s: too early: %+v", c.name, early)
		}
		got := s.ticks(1)
		if len(got) != 1 || !strings.Contains(got[0].Refused, c.want) {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
}

func TestHostLeavesBeforeAllHaveJoined(t *testing.T) {
	s := newScript(t, 3, 0)
	s.join(hostPeer, AnyNode)
	s.join(1, AnyNode)
	got := s.lose(hostPeer, "connection closed", 0)
	if len(got) != 1 || got[0].peer != 1 || !strings.Contains(got[0].Refused, "its host host0 has left") || s.stage != over {
		t.Errorf("got %+v in stage %d", got, s.stage)
	}
}

func TestGoodEnd(t *testing.T) {
	s := newScript(t, 2, 0)
	s.start()
	if got := s.hear(0, message{Done: &done{}}, 0); got != nil {
		t.Errorf("one node is done, and the order is %+v", got)
	}
	if got := s.hear(1, message{Done: &done{}}, 0); len(got) != 2 || !got[0].Finished {
		t.Errorf("all are done, and the order is %+v", got)
	}
}

// verdict lets the council judge and returns its one verdict.
func (s *script) verdict(silent ...int) Verdict {
	s.Helper()
	orders := s.ticks(judgeTicks+1, silent...)
	if len(orders) == 0 || orders[0].Stop == nil {
		s.Fatalf("no verdict: %+v", orders)
	}
	for _, o := range orders {
		if *o.Stop != *orders[0].Stop {
			s.Errorf("two verdicts: %+v and %+v", *o.Stop, *orders[0].Stop)
		}
	}
	return *orders[0].Stop
}

func (s *script) fails(peer int, f Failure) {
	s.hear(peer, message{Failed: &failed{s.attempt, f}}, s.now)
}

func TestWhoFailedFirst(t *testing.T) {
	ms := time.Millisecond
	exit := func(rank, code int) Failure { return Failure{Rank: rank, Code: code, Cause: "exit"} }
	killed := Failure{Rank: 2, Code: 137, Signal: syscall.SIGKILL, Cause: "killed"}
	for _, c := range []struct {
		name string
		do   func(*script)
		want string
	}{
		{"the only one", func(s *script) { s.fails(1, exit(3, 7)) }, "3 7"},
		{"the earlier report", func(s *script) { s.fails(1, exit(3, 7)); s.now += ms; s.fails(0, exit(0, 1)) }, "3 7"},
		{"the earlier report, whose last words come later", func(s *script) {
			early := exit(3, 7)
			early.More = true
			s.fails(1, early)
			s.now += ms
			s.fails(0, exit(0, 1))
			s.now += ms
			s.fails(1, exit(3, 7))
		}, "3 7"},
		{"a killed rank whose peers complained first", func(s *script) { s.fails(0, exit(0, 1)); s.now += ms; s.fails(1, killed) }, "2 137"},
		{"an abort is a complaint", func(s *script) {
			s.fails(1, exit(3, 7))
			s.now += ms
			s.fails(0, Failure{Rank: 0, Code: 134, Signal: syscall.SIGABRT, Cause: "aborted"})
		}, "3 7"},
		{"a lost node whose peers complained first", func(s *script) { s.fails(0, exit(0, 1)); s.now += ms; s.lose(1, "gone", s.now) }, "-1 1"},
		{"an interrupt explains everything", func(s *script) {
			s.fails(0, killed)
			s.now += ms
			s.fails(1, Failure{Rank: NoRank, Code: Interrupted, Cause: "was interrupted"})
		}, "-1 130"},
	} {
		s := newScript(t, 2, 0)
		s.start()
		c.do(s)
		f := s.verdict().Failure
		if got := fmt.Sprint(f.Rank, " ", f.Code); got != c.want {
			t.Errorf("%s: got %s (%v), want %s", c.name, got, f, c.want)
		}
		if s.stage != over {
			t.Errorf("%s: the group is not over", c.name)
		}
	}
}

// The verdict waits for the last output of what failed, and for nobody else's;
// not for ever.
func TestLastWords(t *testing.T) {
	first := Failure{Rank: 3, PID: 77, Cause: "ended with exit code 7", Code: 7, More: true}
	for _, c := range []struct {
		name   string
		words  bool
		output string
	}{{"they come", true, "a\nb\n"}, {"they do not", false, ""}} {
		s := newScript(t, 2, 0)
		s.start()
		s.fails(1, first)
		s.fails(0, Failure{Rank: 0, PID: 78, Cause: "ended with exit code 1", Code: 1, More: true})
		if early := s.ticks(wordTicks); early != nil {
			t.Fatalf("%s: judged before the last words: %+v", c.name, early)
		}
		if c.words {
			told := first
			told.Output, told.More = c.output, false
			s.fails(1, told)
		}
		orders := s.ticks(1)
		if len(orders) != 2 || orders[0].Stop == nil {
			t.Fatalf("%s: no verdict: %+v", c.name, orders)
		}
		if f := orders[0].Stop.Failure; f.Rank != 3 || f.Output != c.output || f.More {
			t.Errorf("%s: got %+v", c.name, f)
		}
	}
}

// What is said of a round that has its verdict already is no failure of the next.
func TestLateReport(t *testing.T) {
	s := newScript(t, 2, 1)
	s.start()
	s.fails(1, Failure{Rank: 3, Code: 7})
	s.verdict()
	s.hear(1, message{Failed: &failed{0, Failure{Rank: 2, Code: 8}}}, s.now)
	if got := s.allReady(); len(got) != 2 || got[0].Start == nil {
		t.Errorf("the restart was not begun: %+v", got)
	}
}

// The host does not take itself for silent, though its own beats may come late.
func TestOwnSilence(t *testing.T) {
	s := newScript(t, 2, 0)
	s.start()
	if got := s.ticks(200, hostPeer); got != nil {
		t.Errorf("got %+v", got)
	}
}

// The report's node and host come from its seat, whatever it says.
func TestFailureIsPlaced(t *testing.T) {
	s := newScript(t, 2, 0)
	s.start()
	s.fails(1, Failure{Rank: 3, PID: 77, Node: 9, Host: "liar", Cause: "ended with exit code 7", Code: 7, Output: "a\nb\n"})
	want := "rank 3 (node 1, host host1, pid 77) ended with exit code 7; its last output:\n    a\n    b"
	if got := s.verdict().Failure.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSilence(t *testing.T) {
	s := newScript(t, 3, 5)
	s.start()
	if got := s.ticks(50, 2); got != nil {
		t.Fatalf("too early: %+v", got)
	}
	s.ticks(1, 2)
	v := s.verdict(2)
	if f := v.Failure; f.Rank != NoRank || f.Node != 2 || !strings.Contains(f.Cause, "nothing was heard of it for 5s") {
		t.Errorf("got %v", f)
	}
	if v.Restart {
		t.Error("a lost node cannot be restarted")
	}
}

// A rank that fails because the network is cut, before silence proves it, is
// named together with the silent node.
func TestSilentNodeIsMentioned(t *testing.T) {
	s := newScript(t, 3, 0)
	s.start()
	s.ticks(oddTicks, 2)
	s.fails(0, Failure{Rank: 1, Cause: "ended with exit code 1", Code: 1})
	if f := s.verdict(2).Failure; f.Rank != 1 || !strings.Contains(f.Note, "node 2 (host host2) had been silent for 1.") {
		t.Errorf("got %+v", f)
	}
}

func TestRestarts(t *testing.T) {
	s := newScript(t, 2, 1)
	s.start()
	s.hear(0, message{Done: &done{}}, 0) // a node that was done must run again
	s.fails(1, Failure{Rank: 3, Cause: "exit", Code: 7})
	if v := s.verdict(); !v.Restart {
		t.Fatal("the first failure ends the group")
	}
	s.hear(0, message{Done: &done{Attempt: 0}}, 0) // on its way when the round ended
	for _, o := range s.allReady() {
		if o.Start.Attempt != 1 || o.Start.Node != o.peer {
			t.Errorf("peer %d: %+v", o.peer, o.Start)
		}
	}
	if got := s.hear(1, message{Done: &done{Attempt: 1}}, 0); got != nil {
		t.Errorf("node 0 has yet to be done again, and the order is %+v", got)
	}
	s.fails(0, Failure{Rank: 0, Cause: "exit", Code: 8})
	if v := s.verdict(); v.Restart || v.Failure.Code != 8 {
		t.Errorf("the second failure: %+v", v)
	}

	s = newScript(t, 2, 9)
	s.start()
	s.fails(0, Failure{Rank: NoRank, Code: Interrupted})
	if s.verdict().Restart {
		t.Error("an interrupt was answered with a restart")
	}

	s = newScript(t, 2, 9)
	s.start()
	s.fails(0, Failure{Rank: 1, Code: 3})
	s.verdict()
	s.ready(0)
	got := s.ticks(21)
	if len(got) != 2 || !strings.Contains(got[0].Refused, "not ready for restart 1 within 2s: node 1 (host host1)") {
		t.Errorf("a node that does not come back: %+v", got)
	}
}

// Whatever happens in whatever order: ranks are unique, a group ends only once,
// and every living node is told the same end.
func TestCouncilKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(1, 4).Draw(rt, "nodes")
		c := council{common: join{Nodes: nodes, MaxRestarts: rapid.IntRange(0, 2).Draw(rt, "restarts")}, joinTicks: 30, silentTicks: 10}
		ends := map[int][]string{} // by peer
		lost := map[int]bool{}
		take := func(orders []order) {
			seen := map[int]bool{}
			for _, o := range orders {
				if lost[o.peer] {
					rt.Fatalf("an order to the lost peer %d: %+v", o.peer, o)
				}
				if o.Start != nil {
					if seen[o.Start.Node] || o.Start.Node < 0 || o.Start.Node >= nodes {
						rt.Fatalf("node rank %d twice or out of range", o.Start.Node)
					}
					seen[o.Start.Node] = true
				}
				if o.Finished || o.Refused != "" || o.Stop != nil && !o.Stop.Restart {
					ends[o.peer] = append(ends[o.peer], fmt.Sprintf("%+v %s %t", o.Stop, o.Refused, o.Finished))
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"join": func(rt *rapid.T) {
				peer := rapid.IntRange(0, 5).Draw(rt, "peer")
				if c.seatOf(peer) != nil || lost[peer] || ends[peer] != nil {
					return // a connection joins once
				}
				node := rapid.SampledFrom([]int{AnyNode, AnyNode, 0, 1}).Draw(rt, "node")
				take(c.hear(peer, message{Join: &join{Nodes: nodes, MaxRestarts: c.common.MaxRestarts, Node: node}}, 0))
			},
			"ready": func(rt *rapid.T) {
				take(c.hear(rapid.IntRange(0, 5).Draw(rt, "peer"), message{Ready: &ready{Attempt: c.attempt}}, 0))
			},
			"done": func(rt *rapid.T) {
				take(c.hear(rapid.IntRange(0, 5).Draw(rt, "peer"), message{Done: &done{c.attempt}}, 0))
			},
			"fail": func(rt *rapid.T) {
				take(c.hear(rapid.IntRange(0, 5).Draw(rt, "peer"), message{Failed: &failed{rapid.IntRange(0, 2).Draw(rt, "attempt"), Failure{Rank: 1, Code: 1, More: rapid.Bool().Draw(rt, "more")}}}, 0))
			},
			"lose": func(rt *rapid.T) {
				peer := rapid.IntRange(0, 5).Draw(rt, "peer")
				lost[peer] = true
				take(c.lose(peer, "cut", 0))
			},
			"tick": func(rt *rapid.T) { take(c.pass(0)) },
			"": func(rt *rapid.T) {
				if c.stage == over {
					for _, s := range c.seats {
						if !s.gone && len(ends[s.peer]) != 1 {
							rt.Fatalf("node %d was told %d ends: %v", s.Node, len(ends[s.peer]), ends[s.peer])
						}
					}
				}
			},
		})
	})
}
