// Package rendezvous lets the nodes of one job meet, agree on their ranks, and stay in touch until
// the job ends. One of the nodes hosts it in its own process, over TCP.
//
// Each node calls [Join] with the same endpoint. The node that owns the endpoint's address becomes the host. Every
// node, including the host, is a member. A round begins when every node is ready for it. A failure on any node ends the
// round on all nodes, with a single verdict that names what failed first. Silence and closed connections are failures
// too. If restarts are left, the next round follows; otherwise the job ends.
//
// Every round has the same nodes, because the number of ranks is part of what a program computes or measures. A lost
// node ends the job.
//
// Members prove to each other that they know a shared secret, which itself is never sent, and every
// message is authenticated with a key derived from it. Nothing is encrypted, because no message is
// confidential.
//
// The package starts no processes and does not deal with logs or environments. Package node runs the ranks of a round.
package rendezvous

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

const (
	tick = connection.Tick
	// judgeTicks is how long reports are collected before the first cause is chosen. The peers of a killed rank may
	// report a broken connection before the kill is reported, and they must not be blamed.
	judgeTicks = 5
	// outputTicks is how long the verdict waits for the last output of the failed rank.
	outputTicks = 10
	// noteTicks is the silence after which the verdict mentions a node.
	noteTicks = 12
)

// message is one frame in either direction. A heartbeat has no field set. Any other message has
// exactly one, and a member's message also has Attempt.
type message struct {
	// From a member. All but Join and Ready belong to the round Attempt.
	Join    *join        `json:"join,omitempty"`
	Attempt int          `json:"attempt,omitempty"`
	Ready   *ready       `json:"ready,omitempty"`
	Failed  *Failure     `json:"failed,omitempty"` // ignored if the round already has its verdict
	Done    bool         `json:"done,omitempty"`   // every rank of this node has ended with code 0
	Stopped *stoppedRank `json:"stopped,omitempty"`

	Event // from the host
}

// join asks for admission to the group.
type join struct {
	connection.Join
	Addr string `json:"addr"` // where other nodes reach this one
}

// stoppedRank reports that a rank of this node has been stopped (SIGSTOP) for some time, or that it
// runs again.
type stoppedRank struct {
	Rank int           `json:"rank"`
	PID  int           `json:"pid"`
	For  time.Duration `json:"for"` // 0: it runs again
}

// ready reports that the previous round has ended on this node. Port is free here, in case the node
// becomes the master.
type ready struct {
	Port int `json:"port"`
}

// coordinator makes the decisions for the group: when a round begins, what failed first, and
// whether another round follows. It does no I/O and reads no clock.
type coordinator struct {
	group       connection.Group
	maxRestarts int
	joinTicks   int
	graceTicks  int

	stage      stage
	attempt    int           // number of restarts
	nodes      map[int]*node // by connection number
	stageTicks int           // ticks since the current stage began
	reports    []report

	// stopped holds the ranks that their launchers see stopped at the moment.
	stopped []Failure
	// pause detects that the host itself was stopped. The other nodes then consider it dead and disconnect, so their
	// loss is the host's fault.
	pause connection.Pause
}

var _ connection.Coordinator[message] = (*coordinator)(nil)

type action = connection.Action[message]

type stage int

const (
	gathering stage = iota // until all are ready
	running
	judging // a failure has been reported, and others may follow
	over
)

// node is the state of an admitted member.
type node struct {
	addr  string
	ready bool
	port  int
	done  bool
}

// report is a failure and the host's time of its arrival.
type report struct {
	Failure
	when  time.Duration
	final bool // a restart cannot help
}

func newCoordinator(cfg Config) *coordinator {
	c := &coordinator{
		group: connection.Group{Noun: "node", FullAdvice: "another job has this --rdzv-id and port: give each its own",
			Size: cfg.Nodes, Facts: cfg.requiredFacts(), SilentTicks: int(cfg.Heartbeat / tick)},
		maxRestarts: cfg.MaxRestarts, joinTicks: int(cfg.JoinTimeout / tick), graceTicks: int(cfg.Grace / tick),
		nodes: map[int]*node{},
	}
	c.pause = connection.Pause{Limit: time.Duration(c.group.SilentTicks) * tick}
	return c
}

func (c *coordinator) Over() bool             { return c.stage == over }
func (c *coordinator) Refuse(who, why string) { c.group.Refuse(who, why) }

// Receive handles a member's message.
func (c *coordinator) Receive(peer int, m message, at time.Duration) []action {
	if m.Join != nil {
		if refusal := c.group.Admit(peer, m.Join.Join); refusal != "" {
			return []action{{Peer: peer, Message: message{Event: Event{Refused: refusal}}, Last: true}}
		}
		c.nodes[peer] = &node{addr: m.Join.Addr}
		return nil
	}
	from := c.group.MarkAlive(peer)
	if from == nil || m.Attempt != c.attempt && m.Ready == nil {
		return nil
	}
	n := c.nodes[peer]
	switch {
	case m.Ready != nil && c.stage == gathering:
		n.ready, n.port = true, m.Ready.Port
		return c.begin()
	case m.Stopped != nil:
		c.noteStopped(from, *m.Stopped)
	case m.Failed != nil:
		c.report(from, *m.Failed, at, m.Failed.Code == InterruptedCode)
	case m.Done && c.stage == running:
		n.done = true
		if !c.anyNode(func(n *node) bool { return !n.done }) {
			return c.end(message{Event: Event{Finished: true}})
		}
	}
	return nil
}

// anyNode reports whether a node has a property.
func (c *coordinator) anyNode(is func(*node) bool) bool {
	return slices.ContainsFunc(c.group.Members, func(m *connection.Member) bool { return is(c.nodes[m.Peer]) })
}

// begin starts a round when every node is ready for it.
func (c *coordinator) begin() []action {
	if !c.group.Complete() || c.anyNode(func(n *node) bool { return !n.ready }) {
		return nil
	}
	c.group.Begin()
	c.enter(running)
	members := c.group.Members
	hosts := make([]string, len(members))
	for i, m := range members {
		hosts[i] = m.Host
		c.nodes[m.Peer].ready, c.nodes[m.Peer].done = false, false
	}
	master := c.nodes[members[0].Peer]
	orders := make([]action, len(members))
	for i, m := range members {
		orders[i] = action{Peer: m.Peer,
			Message: message{Event: Event{Start: &Round{Attempt: c.attempt, Node: i, Hosts: hosts,
				MasterAddr: master.addr, MasterPort: master.port,
				Coordinator: slices.IndexFunc(members, func(m *connection.Member) bool { return m.Peer == connection.SelfPeer })}}}}
	}
	return orders
}

// Disconnect handles the end of a member's connection.
func (c *coordinator) Disconnect(peer int, cause string, at time.Duration) []action {
	m := c.group.Disconnect(peer, cause)
	switch {
	case m == nil:
	case m.Gone && c.pause.Cause(at) != "" && c.group.ByPeer(connection.SelfPeer) != nil:
		own := c.group.ByPeer(connection.SelfPeer)
		c.report(own, LauncherPaused(own.PID, c.pause.Cause(at)), at, true)
	case m.Gone:
		c.report(m, Failure{Rank: NoRank, PID: m.PID, Cause: "was lost: " + cause, Code: 1}, at, true)
	case peer == connection.SelfPeer:
		why := fmt.Sprintf("the rendezvous ended before all nodes had joined: its host %s has left", m.Host)
		return c.end(message{Event: Event{Refused: why}})
	}
	return nil
}

// noteStopped records that a launcher sees one of its ranks stopped, or running again.
func (c *coordinator) noteStopped(from *connection.Member, s stoppedRank) {
	c.stopped = slices.DeleteFunc(c.stopped, func(f Failure) bool { return f.Rank == s.Rank })
	if s.For > 0 {
		f := RankStopped(s.Rank, s.PID, s.For)
		f.Node, f.Host = from.Rank, from.Host
		c.stopped = append(c.stopped, f)
	}
}

func (c *coordinator) report(m *connection.Member, f Failure, when time.Duration, final bool) {
	f.Node, f.Host = m.Rank, m.Host
	for i := range c.reports {
		if r := &c.reports[i]; r.More && r.Node == f.Node && r.Rank == f.Rank && r.PID == f.PID {
			r.Output, r.Note, r.More = f.Output, f.Note, f.More
			return
		}
	}
	c.reports = append(c.reports, report{f, when, final})
	if c.stage != judging {
		c.enter(judging)
	}
}

// Tick advances the time by one tick.
func (c *coordinator) Tick(at time.Duration) (orders []action) {
	c.stageTicks++
	c.pause.Tick(at)
	for _, m := range c.group.Tick() {
		orders = append(orders, action{Peer: m.Peer, Drop: true})
		c.Disconnect(m.Peer, c.group.SilenceCause(m), at)
	}
	switch {
	case c.stage == gathering && c.stageTicks > c.gatherTicks():
		return append(orders, c.end(message{Event: Event{Refused: c.missing()}})...)
	case c.stage == judging && c.stageTicks > judgeTicks:
		return append(orders, c.judge()...)
	}
	return orders
}

// judge chooses the first failure and ends the round, once that failure's output has arrived.
func (c *coordinator) judge() []action {
	f := firstCause(c.reports)
	if f.More && c.stageTicks <= outputTicks {
		return nil
	}
	f.More = false
	if !f.Abrupt() && len(c.stopped) > 0 && !slices.ContainsFunc(c.stopped, f.same) {
		// Ranks that wait for a stopped rank eventually give up and fail, so the stopped rank is the cause.
		victim := f
		f = c.stopped[0]
		f.Note = fmt.Sprintf("after that, rank %d (host %s) %s", victim.Rank, victim.Host, victim.Cause)
	}
	var odd []string
	for _, m := range c.group.Members {
		if m.Silent >= noteTicks && m.Rank != f.Node && !m.Gone {
			odd = append(odd, fmt.Sprintf("node %d (host %s) had been silent for %v", m.Rank, m.Host,
				time.Duration(m.Silent)*tick))
		}
	}
	if len(odd) > 0 {
		f.Note = strings.TrimPrefix(f.Note+", "+strings.Join(odd, ", "), ", ")
	}
	final := slices.ContainsFunc(c.reports, func(r report) bool { return r.final })
	if final || c.attempt >= c.maxRestarts {
		return c.end(message{Event: Event{Stop: &Verdict{Failure: f}}})
	}
	c.attempt++
	c.reports, c.stopped = nil, nil
	c.enter(gathering)
	return c.toAll(message{Event: Event{Stop: &Verdict{Failure: f, Restarts: c.attempt}}})
}

// firstCause returns the failure that explains the others. It is the earliest one, except that abrupt ends take
// precedence over ordinary exits, and an interrupt of a whole node takes precedence over both.
func firstCause(reports []report) Failure {
	weight := func(r report) int {
		switch {
		case r.Code == InterruptedCode && r.Rank == NoRank:
			return 0 // other failures are consequences of the interrupt, even if a rank received it first
		case r.Abrupt():
			return 1
		}
		return 2
	}
	return slices.MinFunc(reports, func(a, b report) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.when, b.when))
	}).Failure
}

func (c *coordinator) end(m message) []action {
	c.enter(over)
	return c.toAll(m)
}

func (c *coordinator) enter(s stage) { c.stage, c.stageTicks = s, 0 }

func (c *coordinator) toAll(m message) []action { return connection.ToAll(&c.group, m) }

// gatherTicks returns the time that nodes have to become ready. Before a restart, this includes the time to end the
// previous round.
func (c *coordinator) gatherTicks() int {
	if c.attempt == 0 {
		return c.joinTicks
	}
	return c.joinTicks + c.graceTicks
}

// missing returns a text that says which nodes are not ready.
func (c *coordinator) missing() string {
	limit := time.Duration(c.gatherTicks()) * tick
	if !c.group.Complete() {
		return c.group.Missing(limit)
	}
	var late []string
	for _, m := range c.group.Members {
		if !c.nodes[m.Peer].ready {
			late = append(late, c.group.Name(m.Join))
		}
	}
	if c.attempt == 0 {
		return fmt.Sprintf("not ready within %v: %s", limit, strings.Join(late, ", "))
	}
	return fmt.Sprintf("not ready for restart %d within %v: %s", c.attempt, limit, strings.Join(late, ", "))
}
