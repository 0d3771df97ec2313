package rendezvous

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

const (
	tick = connection.Tick
	// judgeTicks is how long reports are collected before the first is chosen: the
	// connection to a rank that was killed may break before its death is known,
	// and its peers' complaints must not pass for the cause.
	judgeTicks = 5
	// outputTicks is how long the verdict waits for the last output of what failed.
	outputTicks = 10
	// oddTicks is how long a node must have been silent to be worth mentioning.
	oddTicks = 12
)

// message is one frame, in either direction: one field is set, and from a member besides it
// the round; none for a heart-beat.
type message struct {
	// From a member. All but Join are about a round.
	Join    *join    `json:"join,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Ready   *ready   `json:"ready,omitempty"`
	Failed  *Failure `json:"failed,omitempty"` // a round that is over has its verdict already
	Done    bool     `json:"done,omitempty"`   // every rank of this node has ended well

	Event // from the host
}

// join asks for admission to the group.
type join struct {
	connection.Join
	Addr string `json:"addr"` // where the other nodes reach it
}

// ready says that nothing of an earlier round is left. The port is free on this
// node, should it become the master.
type ready struct {
	Port int `json:"port"`
}

// coordinator decides for the group: when a round begins, what failed first, and
// whether another round follows. It does no I/O and reads no clock.
type coordinator struct {
	group       connection.Group
	maxRestarts int
	joinTicks   int
	graceTicks  int

	stage   stage
	attempt int
	nodes   map[int]*node // by the number of their connection
	waited  int           // ticks since the current stage began
	reports []report

	// A host that stood still was given up by the others, who then seem to leave it.
	ticked time.Duration // when time last passed
	stood  time.Duration // how long it stood still
	recent int           // ticks for which that explains losses
}

var _ connection.Coordinator[message] = (*coordinator)(nil)

type action = connection.Action[message]

type stage int

const (
	gathering stage = iota // until all are ready
	running
	judging // something failed; more reports may come
	over
)

// node is what a member has said since it was admitted.
type node struct {
	addr  string
	ready bool
	port  int
	done  bool
}

// report is a failure and when it happened by the host's clock.
type report struct {
	Failure
	when  time.Duration
	final bool // no restart can mend it
}

func newCoordinator(cfg Config) *coordinator {
	return &coordinator{
		group: connection.Group{Noun: "node", FullAdvice: "another job has this --rdzv-id and port: give each its own",
			Size: cfg.Nodes, Facts: cfg.facts(), SilentTicks: int(cfg.Heartbeat / tick)},
		maxRestarts: cfg.MaxRestarts, joinTicks: int(cfg.JoinTimeout / tick), graceTicks: int(cfg.Grace / tick),
		nodes: map[int]*node{},
	}
}

func (c *coordinator) Over() bool             { return c.stage == over }
func (c *coordinator) Refuse(who, why string) { c.group.Refuse(who, why) }

// Receive takes a message that came at the time given, and answers.
func (c *coordinator) Receive(peer int, m message, at time.Duration) []action {
	if m.Join != nil {
		if refusal := c.group.Admit(peer, m.Join.Join); refusal != "" {
			return []action{{Peer: peer, Message: message{Event: Event{Refused: refusal}}, Last: true}}
		}
		c.nodes[peer] = &node{addr: m.Join.Addr}
		return nil
	}
	from := c.group.MarkAlive(peer)
	if from == nil || m.Attempt != c.attempt {
		return nil
	}
	n := c.nodes[peer]
	switch {
	case m.Ready != nil && c.stage == gathering:
		n.ready, n.port = true, m.Ready.Port
		return c.begin()
	case m.Failed != nil:
		c.report(from, *m.Failed, at, m.Failed.Code == InterruptedCode)
	case m.Done && c.stage == running:
		n.done = true
		if !c.any(func(n *node) bool { return !n.done }) {
			return c.end(message{Event: Event{Finished: true}})
		}
	}
	return nil
}

// InterruptedCode is the Code of a failure that was somebody's wish.
const InterruptedCode = 130

func (c *coordinator) any(is func(*node) bool) bool {
	return slices.ContainsFunc(c.group.Members, func(m *connection.Member) bool { return is(c.nodes[m.Peer]) })
}

// begin starts a round once every node is ready for it.
func (c *coordinator) begin() []action {
	if !c.group.Complete() || c.any(func(n *node) bool { return !n.ready }) {
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
		orders[i] = action{Peer: m.Peer, Message: message{Event: Event{Start: &Round{Attempt: c.attempt, Node: i, Hosts: hosts,
			MasterAddr: master.addr, MasterPort: master.port,
			Coordinator: slices.IndexFunc(members, func(m *connection.Member) bool { return m.Peer == connection.SelfPeer })}}}}
	}
	return orders
}

// Disconnect is told that a connection ended.
func (c *coordinator) Disconnect(peer int, cause string, at time.Duration) []action {
	m := c.group.Disconnect(peer, cause)
	switch {
	case m == nil:
	case m.Gone && c.stoodStill(at):
		own := c.group.ByPeer(connection.SelfPeer)
		c.report(own, LauncherStopped(own.PID, c.stood), at, true)
	case m.Gone:
		c.report(m, Failure{Rank: NoRank, PID: m.PID, Cause: "was lost: " + cause, Code: 1}, at, true)
	case peer == connection.SelfPeer:
		why := fmt.Sprintf("the rendezvous ended before all nodes had joined: its host %s has left", m.Host)
		return c.end(message{Event: Event{Refused: why}})
	}
	return nil
}

// stoodStill tells whether this process was stopped for so long that the others have
// given it up, now or a moment ago.
func (c *coordinator) stoodStill(at time.Duration) bool {
	limit := c.group.SilentTicks
	if gap := at - c.ticked; limit > 0 && gap > time.Duration(limit)*tick {
		c.stood, c.recent = gap, limit
	}
	return c.recent > 0 && c.group.ByPeer(connection.SelfPeer) != nil
}

func (c *coordinator) report(m *connection.Member, f Failure, when time.Duration, final bool) {
	f.Node, f.Host = m.Rank, m.Host
	for i := range c.reports {
		if r := &c.reports[i]; r.More && r.Node == f.Node && r.Rank == f.Rank && r.PID == f.PID {
			r.Output, r.More = f.Output, f.More
			return
		}
	}
	c.reports = append(c.reports, report{f, when, final})
	if c.stage != judging {
		c.enter(judging)
	}
}

// Tick lets time go by.
func (c *coordinator) Tick(at time.Duration) (orders []action) {
	c.waited++
	c.recent--
	c.stoodStill(at)
	c.ticked = at
	for _, m := range c.group.Tick() {
		orders = append(orders, action{Peer: m.Peer, Drop: true})
		c.Disconnect(m.Peer, c.group.SilenceCause(), at)
	}
	switch {
	case c.stage == gathering && c.waited > c.gatherTicks():
		return append(orders, c.end(message{Event: Event{Refused: c.missing()}})...)
	case c.stage == judging && c.waited > judgeTicks:
		return append(orders, c.judge()...)
	}
	return orders
}

// judge chooses what failed first and ends the round, once its last output is known.
func (c *coordinator) judge() []action {
	f := first(c.reports)
	if f.More && c.waited <= outputTicks {
		return nil
	}
	f.More = false
	var odd []string
	for _, m := range c.group.Members {
		if m.Silent >= oddTicks && m.Rank != f.Node && !m.Gone {
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
	c.reports = nil
	c.enter(gathering)
	return c.toAll(message{Event: Event{Stop: &Verdict{Failure: f, Restart: true}}})
}

// first chooses the failure that explains the others: the earliest, except that
// a death that no program brings about by itself outranks mere exits.
func first(reports []report) Failure {
	weight := func(r report) int {
		switch {
		case r.Code == InterruptedCode && r.Rank == NoRank:
			return 0 // and whatever follows, follows from it; a rank may only have been told so by its peers
		case r.Abrupt():
			return 1
		}
		return 2
	}
	return slices.MinFunc(reports, func(a, b report) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.when, b.when))
	}).Failure
}

// Abrupt tells a death that no program brings about by itself, or a whole
// node's, from a mere exit, which may follow from such a one.
func (f Failure) Abrupt() bool { return f.Rank == NoRank || culprit.IsAbrupt(f.Signal) }

func (c *coordinator) end(m message) []action {
	c.enter(over)
	return c.toAll(m)
}

func (c *coordinator) enter(s stage) { c.stage, c.waited = s, 0 }

func (c *coordinator) toAll(m message) []action { return connection.ToAll(&c.group, m) }

// gatherTicks is how long the nodes may take to be ready: before a restart they end
// what is left of the last round.
func (c *coordinator) gatherTicks() int {
	if c.attempt == 0 {
		return c.joinTicks
	}
	return c.joinTicks + c.graceTicks
}

// missing says who is not ready when the time is up.
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
