package rendezvous

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// AnyNode lets the rendezvous choose a node's rank.
const AnyNode = -1

const (
	// tick is the council's unit of time. Silence is counted in ticks and not by
	// the clock: a host that was itself stopped for a while finds one tick
	// waiting, not a group of dead nodes.
	tick = 100 * time.Millisecond
	// judgeTicks is how long reports are collected before the first is chosen: the
	// connection to a rank that was killed may break before its death is known,
	// and its peers' complaints must not pass for the cause.
	judgeTicks = 5
	// wordTicks is how long the verdict waits for the last output of what failed.
	wordTicks = 10
	// oddTicks is how long a node must have been silent to be worth mentioning.
	oddTicks = 12
	beatTime = 500 * time.Millisecond
)

// council decides for the group. It does no I/O and reads no clock: it is told
// what was heard and that time has passed, and answers with what to send.
type council struct {
	common      join // what all nodes must have in common
	joinTicks   int
	silentTicks int

	stage    stage
	attempt  int
	seats    []*seat // in the order of arrival, then of node ranks
	waited   int     // ticks since the current stage began
	reports  []report
	rejected []string // who was turned away, and why
}

type stage int

const (
	gathering stage = iota // until all are ready
	running
	judging // something failed; more reports may come
	over
)

// hostPeer is the number of the host's connection to itself.
const hostPeer = 0

// seat is a node that was admitted.
type seat struct {
	join
	peer   int // the number of its connection
	ready  bool
	port   int
	done   bool
	gone   bool
	silent int // ticks since it was last heard
}

// report is a failure and when it happened by the host's clock.
type report struct {
	Failure
	when  time.Duration
	final bool // no restart can mend it
}

// order is a message to one connection.
type order struct {
	peer int
	message
}

// hear takes a message that came at the time given, and answers.
func (c *council) hear(peer int, m message, at time.Duration) []order {
	if m.Join != nil {
		return c.admit(peer, *m.Join)
	}
	s := c.seatOf(peer)
	if s == nil || s.gone {
		return nil
	}
	s.silent = 0
	switch {
	case m.Ready != nil && m.Ready.Attempt == c.attempt && c.stage == gathering:
		s.ready, s.port = true, m.Ready.Port
		return c.begin()
	case m.Failed != nil && m.Failed.Attempt == c.attempt:
		f := m.Failed.Failure
		c.report(s, f, at, f.Code == Interrupted)
	case m.Done != nil && m.Done.Attempt == c.attempt && c.stage == running:
		s.done = true
		if !slices.ContainsFunc(c.seats, func(s *seat) bool { return !s.done }) {
			return c.end(message{Finished: true})
		}
	}
	return nil
}

// Interrupted is the Code of a failure that was somebody's wish.
const Interrupted = 130

// admit gives a node a seat, or says why not.
func (c *council) admit(peer int, j join) []order {
	refuse := func(format string, args ...any) []order {
		why := fmt.Sprintf(format, args...)
		c.reject(j.Host, why)
		return []order{{peer, message{Refused: why}}}
	}
	for _, s := range c.seats {
		if j.Node != AnyNode && j.Node == s.Node {
			return refuse("node rank %d is already taken by host %s (pid %d)", j.Node, s.Host, s.PID)
		}
	}
	switch want := c.common; {
	case j.ID != want.ID:
		return refuse("this rendezvous is for job %q, not for %q: give each job its own --rdzv-id and port", want.ID, j.ID)
	case j.Nodes != want.Nodes:
		return refuse("--nnodes is %d here and %d at the rendezvous: give the same command on every node", j.Nodes, want.Nodes)
	case j.Procs != want.Procs:
		return refuse("--nproc-per-node is %d here and %d at the rendezvous: give the same command on every node", j.Procs, want.Procs)
	case j.MaxRestarts != want.MaxRestarts:
		return refuse("--max-restarts is %d here and %d at the rendezvous: give the same command on every node", j.MaxRestarts, want.MaxRestarts)
	case j.Node != AnyNode && (j.Node < 0 || j.Node >= want.Nodes):
		return refuse("node rank %d does not exist: it must be 0 to %d", j.Node, want.Nodes-1)
	case len(c.seats) == want.Nodes || c.stage == over:
		return refuse("all %d nodes of job %q have joined: %s", want.Nodes, want.ID, c.names())
	}
	c.seats = append(c.seats, &seat{join: j, peer: peer})
	return nil
}

// reject remembers who could not join: the message about missing nodes tells.
func (c *council) reject(who, why string) {
	const most = 5 // enough to see the pattern
	if text := who + ": " + why; len(c.rejected) < most && !slices.Contains(c.rejected, text) {
		c.rejected = append(c.rejected, text)
	}
}

// begin starts a round once every node is ready for it.
func (c *council) begin() []order {
	if len(c.seats) < c.common.Nodes || slices.ContainsFunc(c.seats, func(s *seat) bool { return !s.ready }) {
		return nil
	}
	c.assign()
	hosts := make([]string, len(c.seats))
	for i, s := range c.seats {
		hosts[i] = s.Host
		s.ready, s.done = false, false
	}
	c.enter(running)
	orders := make([]order, len(c.seats))
	for i, s := range c.seats {
		orders[i] = order{s.peer, message{Start: &Round{Attempt: c.attempt, Node: i, Hosts: hosts,
			MasterAddr: c.seats[0].Addr, MasterPort: c.seats[0].port}}}
	}
	return orders
}

// assign gives node ranks to those that did not insist on one, in the order of
// their arrival. Restarts find every rank assigned.
func (c *council) assign() {
	next := 0
	taken := func(rank int) bool { return slices.ContainsFunc(c.seats, func(s *seat) bool { return s.Node == rank }) }
	for _, s := range c.seats {
		if s.Node == AnyNode {
			for taken(next) {
				next++
			}
			s.Node = next
		}
	}
	slices.SortFunc(c.seats, func(a, b *seat) int { return cmp.Compare(a.Node, b.Node) })
}

// lose is told that a connection ended.
func (c *council) lose(peer int, cause string, at time.Duration) []order {
	s := c.seatOf(peer)
	switch {
	case s == nil || s.gone:
	case c.stage == gathering && c.attempt == 0:
		c.seats = slices.DeleteFunc(c.seats, func(other *seat) bool { return other == s })
		if peer == hostPeer {
			return c.end(message{Refused: fmt.Sprintf("the rendezvous ended before all nodes had joined: its host %s has left", s.Host)})
		}
		c.reject(s.Host, "joined and left: "+cause) // it may come again
	default:
		s.gone = true
		c.report(s, Failure{Rank: NoRank, PID: s.PID, Cause: "was lost: " + cause, Code: 1}, at, true)
	}
	return nil
}

func (c *council) report(s *seat, f Failure, when time.Duration, final bool) {
	if c.stage == over {
		return
	}
	f.Node, f.Host = s.Node, s.Host
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

// pass lets one tick of time go by.
func (c *council) pass(at time.Duration) []order {
	c.waited++
	var orders []order
	for _, s := range slices.Clone(c.seats) {
		if s.silent++; s.silent > c.silentTicks && s.peer != hostPeer { // whose silence would be our own
			orders = c.lose(s.peer, fmt.Sprintf("nothing was heard of it for %v (its launcher is stopped, or the network is cut)", time.Duration(c.silentTicks)*tick), at)
		}
	}
	switch {
	case c.stage == gathering && c.waited > c.joinTicks:
		return c.end(message{Refused: c.missing()})
	case c.stage == judging && c.waited > judgeTicks:
		return c.judge()
	}
	return orders
}

// judge chooses what failed first and ends the round, once its last words are known.
func (c *council) judge() []order {
	f := first(c.reports)
	if f.More && c.waited <= wordTicks {
		return nil
	}
	f.More = false
	for _, s := range c.seats {
		if s.silent >= oddTicks && s.Node != f.Node && !s.gone {
			f.Note = strings.TrimPrefix(fmt.Sprintf("%s, node %d (host %s) had been silent for %v", f.Note, s.Node, s.Host, time.Duration(s.silent)*tick), ", ")
		}
	}
	final := slices.ContainsFunc(c.reports, func(r report) bool { return r.final })
	if final || c.attempt >= c.common.MaxRestarts {
		return c.end(message{Stop: &Verdict{Failure: f}})
	}
	c.attempt++
	c.reports = nil
	c.enter(gathering)
	return c.toAll(message{Stop: &Verdict{Failure: f, Restart: true}})
}

// first chooses the failure that explains the others: the earliest, except that
// a death that no program brings about by itself outranks mere exits.
func first(reports []report) Failure {
	rank := func(r report) int {
		switch {
		case r.Code == Interrupted:
			return 0 // and whatever follows, follows from it
		case r.Violent():
			return 1
		}
		return 2
	}
	return slices.MinFunc(reports, func(a, b report) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.when, b.when))
	}).Failure
}

// violent are the signals that end a program from outside or for a fault of its
// own. SIGABRT is not among them: libraries raise it when a peer is lost.
var violent = []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE, syscall.SIGSYS}

// Violent tells a death that no program brings about by itself, or a whole
// node's, from a mere exit, which may follow from such a one.
func (f Failure) Violent() bool { return f.Rank == NoRank || slices.Contains(violent, f.Signal) }

func (c *council) end(m message) []order {
	c.enter(over)
	return c.toAll(m)
}

func (c *council) enter(s stage) { c.stage, c.waited = s, 0 }

func (c *council) toAll(m message) []order {
	var orders []order
	for _, s := range c.seats {
		if !s.gone {
			orders = append(orders, order{s.peer, m})
		}
	}
	return orders
}

func (c *council) seatOf(peer int) *seat {
	for _, s := range c.seats {
		if s.peer == peer {
			return s
		}
	}
	return nil
}

func (c *council) names() string {
	names := make([]string, len(c.seats))
	for i, s := range c.seats {
		names[i] = s.Host
		if s.Node != AnyNode {
			names[i] += fmt.Sprintf(" (node %d)", s.Node)
		}
	}
	return strings.Join(names, ", ")
}

// missing says who is not there when the time is up.
func (c *council) missing() string {
	limit := time.Duration(c.joinTicks) * tick
	if c.attempt > 0 {
		var late []string
		for _, s := range c.seats {
			if !s.ready {
				late = append(late, fmt.Sprintf("node %d (host %s)", s.Node, s.Host))
			}
		}
		return fmt.Sprintf("not ready for restart %d within %v: %s", c.attempt, limit, strings.Join(late, ", "))
	}
	text := fmt.Sprintf("%d of %d nodes joined within %v: %s; ", len(c.seats), c.common.Nodes, limit, c.names())
	explicit := !slices.ContainsFunc(c.seats, func(s *seat) bool { return s.Node == AnyNode })
	if lack := c.common.Nodes - len(c.seats); explicit {
		var ranks []string
		for rank := range c.common.Nodes {
			if !slices.ContainsFunc(c.seats, func(s *seat) bool { return s.Node == rank }) {
				ranks = append(ranks, fmt.Sprint(rank))
			}
		}
		text += "missing: node " + strings.Join(ranks, ", ")
	} else {
		text += fmt.Sprintf("missing: %d more", lack)
	}
	if len(c.rejected) > 0 {
		text += "; turned away: " + strings.Join(c.rejected, "; ")
	}
	return text
}
