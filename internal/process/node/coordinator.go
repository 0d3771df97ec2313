package node

import (
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
	Join    *join      `json:"join,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
	Ready   *readyNode `json:"ready,omitempty"`
	Failed  *Failure   `json:"failed,omitempty"` // ignored if the round already has its verdict
	Done    bool       `json:"done,omitempty"`   // every rank of this node has ended with code 0
	// Stopped is a rank of this node that has been stopped (SIGSTOP) for some time, or, without a cause, one that runs
	// again.
	Stopped *Failure `json:"stopped,omitempty"`

	Event // from the host
}

// join asks for admission to the group.
type join struct {
	connection.Join
	Addr string `json:"addr"` // where other nodes reach this one
}

// readyNode reports that the previous round has ended on this node. Port is free here, in case the node
// becomes the master.
type readyNode struct {
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
	attempt    int                  // number of restarts
	members    map[int]*memberState // by connection number
	stageTicks int                  // ticks since the current stage began
	reports    []Failure            // of this round, in the order of arrival
	final      bool                 // a restart cannot help

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

// memberState is the state of an admitted member.
type memberState struct {
	addr  string
	ready bool
	port  int
	done  bool
}

func newCoordinator(cfg Config) *coordinator {
	c := &coordinator{
		group: connection.Group{Noun: "node", FullAdvice: "another job has this --rdzv-id and port: give each its own",
			Size: cfg.Nodes, Facts: cfg.facts(), SilentTicks: int(cfg.Heartbeat / tick)},
		maxRestarts: cfg.MaxRestarts, joinTicks: int(cfg.JoinTimeout / tick), graceTicks: int(cfg.Grace / tick),
		members: map[int]*memberState{},
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
		c.members[peer] = &memberState{addr: m.Join.Addr}
		return nil
	}
	from := c.group.MarkAlive(peer)
	if from == nil || m.Attempt != c.attempt && m.Ready == nil {
		return nil
	}
	n := c.members[peer]
	switch {
	case m.Ready != nil && c.stage == gathering:
		n.ready, n.port = true, m.Ready.Port
		return c.begin()
	case m.Stopped != nil:
		c.noteStopped(from, *m.Stopped)
	case m.Failed != nil:
		c.report(from, *m.Failed, m.Failed.Code == interruptedCode)
	case m.Done && c.stage == running:
		n.done = true
		if !c.anyNode(func(n *memberState) bool { return !n.done }) {
			return c.end(message{Event: Event{Finished: true}})
		}
	}
	return nil
}

// anyNode reports whether a node has a property.
func (c *coordinator) anyNode(is func(*memberState) bool) bool {
	return slices.ContainsFunc(c.group.Members, func(m *connection.Member) bool { return is(c.members[m.Peer]) })
}

// begin starts a round when every node is ready for it.
func (c *coordinator) begin() []action {
	if !c.group.Complete() || c.anyNode(func(n *memberState) bool { return !n.ready }) {
		return nil
	}
	c.group.Begin()
	c.enter(running)
	members := c.group.Members
	hosts := make([]string, len(members))
	for i, m := range members {
		hosts[i] = m.Host
		c.members[m.Peer].ready, c.members[m.Peer].done = false, false
	}
	master := c.members[members[0].Peer]
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
		c.report(own, launcherPaused(own.PID, c.pause.Cause(at)), true)
	case m.Gone:
		c.report(m, Failure{Rank: noRank, PID: m.PID, Cause: "was lost: " + cause, Code: 1}, true)
	case peer == connection.SelfPeer:
		why := fmt.Sprintf("the rendezvous ended before all nodes had joined: its host %s has left", m.Host)
		return c.end(message{Event: Event{Refused: why}})
	}
	return nil
}

// noteStopped records that a launcher sees one of its ranks stopped, or running again.
func (c *coordinator) noteStopped(from *connection.Member, f Failure) {
	c.stopped = slices.DeleteFunc(c.stopped, func(s Failure) bool { return s.Rank == f.Rank })
	if f.Cause != "" {
		f.Node, f.Host = from.Rank, from.Host
		c.stopped = append(c.stopped, f)
	}
}

func (c *coordinator) report(m *connection.Member, f Failure, final bool) {
	f.Node, f.Host = m.Rank, m.Host
	for i := range c.reports {
		if r := &c.reports[i]; r.More && r.Node == f.Node && r.Rank == f.Rank && r.PID == f.PID {
			r.Output, r.Note, r.More = f.Output, f.Note, f.More
			return
		}
	}
	c.reports = append(c.reports, f)
	c.final = c.final || final
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
	f := blame(c.reports, c.stopped)
	if f.More && c.stageTicks <= outputTicks {
		return nil
	}
	f.More = false
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
	if c.final || c.attempt >= c.maxRestarts {
		return c.end(message{Event: Event{Stop: &Verdict{Failure: f}}})
	}
	c.attempt++
	c.reports, c.stopped = nil, nil
	c.enter(gathering)
	return c.toAll(message{Event: Event{Stop: &Verdict{Failure: f, Restarts: c.attempt}}})
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
		if !c.members[m.Peer].ready {
			late = append(late, c.group.Name(m.Join))
		}
	}
	if c.attempt == 0 {
		return fmt.Sprintf("not ready within %v: %s", limit, strings.Join(late, ", "))
	}
	return fmt.Sprintf("not ready for restart %d within %v: %s", c.attempt, limit, strings.Join(late, ", "))
}
