package rankhost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// Leader is rank 0's end: it starts processes at the hosts of all ranks, its own
// included.
type Leader struct {
	cfg  Config
	host *connection.Host[message]
	core *coordinator
	own  chan error // how rank 0's own rank host ended; nil when there is none
}

// Lead gathers all ranks. The context bounds the gathering.
func Lead(ctx context.Context, cfg Config) (*Leader, error) {
	listener, err := cfg.listen(ctx)
	if errors.Is(err, connection.ErrNotLocal) {
		err = fmt.Errorf("%w: rank 0 must be there", err)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for the other ranks: %w", err)
	}
	defer listener.Close()
	l := newLeader(cfg)
	l.own = make(chan error, 1)
	link := l.host.SelfLink()
	cfg.own = true
	own, err := newRankHost(ctx, cfg, link, "", "")
	if err != nil {
		link.Abort()
		close(l.own)
		l.end(message{GivenUp: true})
		return nil, err
	}
	go func() { l.own <- own.serve(context.Background()) }()
	l.host.Serve(listener, cfg.service())
	return l.gather(ctx)
}

func newLeader(cfg Config) *Leader {
	l := &Leader{cfg: cfg, core: newCoordinator(cfg)}
	l.host = connection.NewHost(l.core)
	return l
}

// gather waits until all ranks are there.
func (l *Leader) gather(ctx context.Context) (_ *Leader, err error) {
	select {
	case err = <-l.core.gathered:
	case <-l.core.interrupted:
		err = ErrInterrupted
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		l.end(message{GivenUp: true})
		return nil, err
	}
	return l, nil
}

// Lost says which rank is gone, nil while all are there.
func (l *Leader) Lost() *LostError { return l.core.lost.Load() }

// Addr is the address at which the other ranks have reached rank 0, empty when
// all are on this host and need none.
func (l *Leader) Addr() string { return l.core.reached }

// FirstRankAddr is the address of rank 0's host, by which it has reached this one.
func (l *Leader) FirstRankAddr() string { return l.core.first }

// Oversubscribed says where ranks are more than the cores that they may use, "" if nowhere.
func (l *Leader) Oversubscribed() string { return crowded(l.core.group.Members, l.core.cpus) }

// Interrupted is closed when one of the ranks was told to end: who did so meant
// the whole job.
func (l *Leader) Interrupted() <-chan struct{} { return l.core.interrupted }

// Close says goodbye to all ranks, which then end well.
func (l *Leader) Close() { l.end(message{Bye: true}) }

func (l *Leader) end(m message) {
	l.host.Do(func(time.Duration) []action {
		l.core.over = true
		return l.core.toAll(m)
	})
	<-l.host.Ended()
	if l.own != nil {
		<-l.own
		l.own = nil
	}
}

// Launch starts a process at every rank's host and returns when all run. The end
// of ctx stops the launch, during its whole life. One launch at a time.
func (l *Leader) Launch(ctx context.Context, spec Spec) (*Launch, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	if len(spec.Procs) != l.cfg.Size {
		return nil, fmt.Errorf("launching: %d processes for %d ranks", len(spec.Procs), l.cfg.Size)
	}
	run, err := newLaunch(l, spec)
	if err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	err = launch.ErrAgentClosed
	l.host.Do(func(time.Duration) (orders []action) {
		orders, err = l.core.begin(run)
		return orders
	})
	if err != nil {
		run.closeLogs()
		return nil, fmt.Errorf("launching: %w", err)
	}
	release := context.AfterFunc(ctx, func() { run.Stop(launch.StopRequest{Reason: context.Cause(ctx).Error()}) })
	if err := <-run.begun; err != nil {
		release()
		<-run.done
		return nil, fmt.Errorf("launching: %w", err)
	}
	go func() { <-run.done; release() }()
	return run, nil
}

// coordinator decides for the job.
type coordinator struct {
	group       connection.Group
	joinTimeout time.Duration
	where       string
	gathered    chan error // how the gathering ended; one value
	interrupted chan struct{}
	interrupt   func() // closes interrupted

	waited   time.Duration
	reached  string
	first    string        // address of rank 0
	cpus     map[int][]int // by peer
	leaving  map[int]bool  // by peer: was told to end
	launch   *Launch
	launches int
	lost     atomic.Pointer[LostError]
	over     bool
}

type action = connection.Action[message]

var _ connection.Coordinator[message] = (*coordinator)(nil)

func newCoordinator(cfg Config) *coordinator {
	c := &coordinator{
		group: connection.Group{Noun: "rank", Size: cfg.Size, Facts: cfg.facts(),
			SilentTicks: int(connection.SilenceLimit / connection.Tick)},
		where: cfg.where(), joinTimeout: cfg.JoinTimeout, gathered: make(chan error, 1), interrupted: make(chan struct{}),
		cpus: map[int][]int{}, leaving: map[int]bool{},
	}
	c.interrupt = sync.OnceFunc(func() { close(c.interrupted) })
	return c
}

func (c *coordinator) Over() bool             { return c.over }
func (c *coordinator) Refuse(who, why string) { c.group.Refuse(who, why) }

func (c *coordinator) Receive(peer int, m message, _ time.Duration) []action {
	if m.Join != nil {
		return c.admit(peer, *m.Join)
	}
	from := c.group.MarkAlive(peer)
	switch {
	case from == nil:
	case m.Interrupted:
		c.leaving[peer] = true
		c.interrupt()
	case c.launch != nil:
		return c.launch.hear(from.Rank, m)
	}
	return nil
}

func (c *coordinator) admit(peer int, j join) []action {
	if refusal := c.group.Admit(peer, j.Join); refusal != "" {
		return []action{{Peer: peer, Message: message{Refused: refusal}, Last: true}}
	}
	c.cpus[peer] = j.CPUs
	if j.Rank == 0 {
		c.first = j.Own
	}
	if j.Reached != "" {
		c.reached = j.Reached
	}
	if c.group.Complete() {
		c.group.Begin()
		c.gather(nil)
	}
	return nil
}

func (c *coordinator) gather(err error) {
	select {
	case c.gathered <- err:
	default: // it has ended before
	}
}

func (c *coordinator) Tick(at time.Duration) (orders []action) {
	for _, m := range c.group.Tick() {
		orders = append(orders, action{Peer: m.Peer, Drop: true})
		orders = append(orders, c.Disconnect(m.Peer, c.group.SilenceCause(), at)...)
	}
	if c.waited += connection.Tick; c.waited > c.joinTimeout && !c.group.Complete() {
		c.gather(fmt.Errorf("waiting for the other ranks at %s: %s", c.where, c.group.Missing(c.joinTimeout)))
	}
	return orders
}

// Disconnect takes a rank for dead, and with it the job.
func (c *coordinator) Disconnect(peer int, cause string, _ time.Duration) []action {
	m := c.group.Disconnect(peer, cause)
	if m == nil {
		return nil
	}
	lost := &LostError{Rank: m.Rank, Host: m.Host, PID: m.PID, Cause: cause}
	if !c.leaving[peer] { // its end follows from the job's
		c.lost.CompareAndSwap(nil, lost) // the first explains the others
	}
	c.gather(lost)
	if c.launch == nil {
		return nil
	}
	return c.launch.fail(m.Rank, lost)
}

// crowded compares each host's ranks with the cores that they may use together.
func crowded(members []*connection.Member, cpus map[int][]int) string {
	var full []string
	for _, host := range lists.Distinct(lists.Map(members, func(m *connection.Member) string { return m.Host })) {
		there := lists.Filter(members, func(m *connection.Member) bool { return m.Host == host })
		own := map[int]bool{}
		for _, m := range there {
			for _, cpu := range cpus[m.Peer] {
				own[cpu] = true
			}
		}
		if len(own) > 0 && len(there) > len(own) {
			full = append(full, fmt.Sprintf("%d ranks share %d cores of host %s", len(there), len(own), host))
		}
	}
	return strings.Join(full, ", ")
}

func (c *coordinator) toAll(m message) []action { return connection.ToAll(&c.group, m) }

// begin makes a launch the current one.
func (c *coordinator) begin(run *Launch) (orders []action, err error) {
	switch lost := c.lost.Load(); {
	case lost != nil:
		return nil, lost
	case c.launch != nil:
		return nil, errors.New("another launch is still running; wait for it first")
	}
	c.launch = run
	c.launches++
	run.id = c.launches
	return lists.Map(c.group.Members, func(m *connection.Member) action {
		return action{Peer: m.Peer, Message: message{Launch: &start{run.id, run.spec.Procs[m.Rank], run.spec}}}
	}), nil
}
