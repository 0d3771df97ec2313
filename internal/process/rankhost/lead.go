package rankhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// Leader is rank 0's end. It starts processes at the hosts of all ranks, including its own.
type Leader struct {
	cfg         Config
	host        *connection.Host[message]
	coordinator *coordinator
	selfHost    chan error // result of rank 0's own rank host; nil if there is none
}

// Lead waits until all ranks have joined. ctx limits only this wait.
func Lead(ctx context.Context, cfg Config) (*Leader, error) {
	listener, err := cfg.listen(ctx)
	if errors.Is(err, connection.ErrNotLocal) {
		err = fmt.Errorf("%w: rank 0 must run on that host", err)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for the other ranks: %w", err)
	}
	defer listener.Close()
	l := newLeader(cfg)
	l.selfHost = make(chan error, 1)
	link := l.host.SelfLink()
	cfg.self = true
	own, err := newRankHost(ctx, cfg, link, "", "")
	if err != nil {
		link.Abort()
		close(l.selfHost)
		l.end(message{GivenUp: true})
		return nil, err
	}
	go func() { l.selfHost <- own.serve(context.Background()) }()
	l.host.Serve(listener, cfg.service())
	if err := l.Gather(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func newLeader(cfg Config) *Leader {
	l := &Leader{cfg: cfg, coordinator: newCoordinator(cfg)}
	l.host = connection.NewUntimedHost(l.coordinator)
	l.host.Watch(&l.coordinator.group, &l.coordinator.pause)
	return l
}

// Gather waits until all ranks have joined. After an error it has dismissed the ranks that had joined.
func (l *Leader) Gather(ctx context.Context) (err error) {
	select {
	case err = <-l.coordinator.gathered:
	case <-l.coordinator.interrupted:
		err = ErrInterrupted
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		l.end(message{GivenUp: true})
	}
	return err
}

// Lost returns the loss of the first rank, or nil while all are present. A leader that was stopped for too long counts
// as lost itself, because the others have left it or are about to.
func (l *Leader) Lost() *LostError {
	l.host.Do(func(at time.Duration) []action {
		if self := l.coordinator.selfLoss(at); self != nil {
			l.coordinator.lost.CompareAndSwap(nil, self)
		}
		return nil
	})
	return l.coordinator.lost.Load()
}

// Addr returns the address at which the other ranks have reached rank 0, or "" if all are on this
// host.
func (l *Leader) Addr() string { return l.coordinator.leaderAddr }

// Interrupted returns a channel that is closed when a signal tells one of the ranks to end. Such a signal is meant for
// the whole job.
func (l *Leader) Interrupted() <-chan struct{} { return l.coordinator.interrupted }

// Close dismisses all ranks. Their processes then exit with code 0.
func (l *Leader) Close() { l.end(message{Bye: true}) }

func (l *Leader) end(m message) {
	l.host.Do(func(time.Duration) []action {
		l.coordinator.over = true
		return l.coordinator.toAll(m)
	})
	<-l.host.Ended()
	if l.selfHost != nil {
		<-l.selfHost
		l.selfHost = nil
	}
}

// Launch starts a process at every rank's host and returns when all run. [Launch.Wait] returns a [LostError] if one is
// lost. When ctx ends, at any
// time, the launch is stopped. Only one launch may run at a time.
func (l *Leader) Launch(ctx context.Context, spec launch.Spec) (*Launch, error) {
	err := context.Cause(ctx)
	if err == nil && len(spec.Procs) != l.cfg.Size {
		err = fmt.Errorf("%d processes for %d ranks", len(spec.Procs), l.cfg.Size)
	}
	var run *Launch
	if err == nil {
		run, err = newLaunch(l, spec)
	}
	if err != nil {
		return nil, fmt.Errorf("launching: %w", err)
	}
	err = launch.ErrAgentClosed
	l.host.Do(func(time.Duration) (orders []action) {
		orders, err = l.coordinator.begin(run)
		return orders
	})
	if err != nil {
		run.closeLogs()
		return nil, fmt.Errorf("launching: %w", err)
	}
	if err := run.AwaitStart(ctx, run.Stop, func() { run.Wait() }); err != nil {
		return nil, err
	}
	return run, nil
}

// coordinator makes the decisions for the job.
type coordinator struct {
	group       connection.Group
	joinTimeout time.Duration
	where       string
	name        string     // of this host
	gathered    chan error // one value: the result of the gathering
	interrupted chan struct{}
	interrupt   func() // closes interrupted

	waited           time.Duration
	leaderAddr       string
	firstRankAddr    string        // at which other ranks reach the host of rank 0, or "" if all are on this host
	cpus             map[int][]int // by connection number
	interruptedPeers map[int]bool  // told to end, by connection number
	launch           *Launch
	lost             atomic.Pointer[LostError]
	pause            connection.Pause // of this process
	over             bool
}

type action = connection.Action[message]

var _ connection.Coordinator[message] = (*coordinator)(nil)

func newCoordinator(cfg Config) *coordinator {
	c := &coordinator{
		group: connection.Group{Noun: "rank", Size: cfg.Size, Facts: cfg.facts(),
			SilentTicks: int(silenceLimit / connection.Tick)},
		pause: connection.Pause{Limit: connection.SilenceLimit},
		where: cfg.meetingPoint(), name: cfg.Name, joinTimeout: cfg.JoinTimeout, gathered: make(chan error, 1),
		interrupted: make(chan struct{}),
		cpus:        map[int][]int{}, interruptedPeers: map[int]bool{},
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
		c.interruptedPeers[peer] = true
		c.interrupt()
	case c.launch != nil:
		return c.launch.receive(from.Rank, m)
	}
	return nil
}

func (c *coordinator) admit(peer int, j join) []action {
	if refusal := c.group.Admit(peer, j.Join); refusal != "" {
		return []action{{Peer: peer, Message: message{Refused: refusal}, Last: true}}
	}
	c.cpus[peer] = j.CPUs
	if j.Rank == 0 {
		c.firstRankAddr = j.OwnAddr
	}
	if j.LeaderAddr != "" {
		c.leaderAddr = j.LeaderAddr
	}
	if c.group.Complete() {
		c.group.Begin()
		c.finishGathering(nil)
	}
	return nil
}

func (c *coordinator) finishGathering(err error) {
	select {
	case c.gathered <- err:
	default: // already finished
	}
}

func (c *coordinator) Tick(at time.Duration) (orders []action) {
	c.pause.Tick(at)
	for _, m := range c.group.Tick() {
		orders = append(orders, action{Peer: m.Peer, Drop: true})
		orders = append(orders, c.Disconnect(m.Peer, c.group.SilenceCause(m), at)...)
	}
	if c.waited += connection.Tick; c.waited > c.joinTimeout && !c.group.Complete() {
		c.finishGathering(&MissingError{len(c.group.Members),
			fmt.Sprintf("waiting for the other ranks at %s: %s", c.where, c.group.Missing(c.joinTimeout))})
	}
	return orders
}

// selfLoss returns the loss of this process if it was recently stopped for so long that the other ranks give it up.
// Otherwise it returns nil.
func (c *coordinator) selfLoss(at time.Duration) *LostError {
	pause := c.pause.Cause(at)
	if pause == "" {
		return nil
	}
	lost := &LostError{Rank: NoRank, Host: c.name, PID: os.Getpid(), Cause: "it " + pause + ", and the ranks gave it up"}
	if self := c.group.ByPeer(connection.SelfPeer); self != nil {
		lost.Rank = self.Rank
	}
	return lost
}

// Disconnect marks a rank as lost, and with it the job.
func (c *coordinator) Disconnect(peer int, cause string, at time.Duration) []action {
	m := c.group.Disconnect(peer, cause)
	if m == nil {
		return nil
	}
	lost := c.selfLoss(at)
	if lost == nil {
		lost = &LostError{Rank: m.Rank, Host: m.Host, PID: m.PID, Cause: cause}
	}
	if !c.interruptedPeers[peer] { // otherwise it ends because the job does
		c.lost.CompareAndSwap(nil, lost) // the first loss explains the others
	}
	c.finishGathering(lost)
	if c.launch == nil {
		return nil
	}
	return c.launch.fail(m.Rank, lost)
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
	return lists.Map(c.group.Members, func(m *connection.Member) action {
		p := run.spec.Procs[m.Rank]
		vars := *p.Vars
		p.Rank, p.Vars, vars.MasterAddr = m.Rank, &vars, cmp.Or(c.firstRankAddr, c.leaderAddr)
		return action{Peer: m.Peer, Message: message{Launch: &launchOrder{p, []byte(p.Dir), run.spec}}}
	}), nil
}

// Launch is a running launch with a process at the host of every rank. To the caller it behaves
// like a launch on one host.
type Launch struct {
	*launch.Progress
	leader *Leader
	spec   launch.Spec

	// The fields below belong to the coordinator.
	stopped   bool
	hung      bool // it was stopped because its time was over
	started   int
	open      []bool // by rank: it has not ended, failed or been lost
	openRanks int    // number of open ranks
	logs      [][2]*os.File
	dropped   [][2]int64
	outcome   launch.Outcome
	err       error
}

func newLaunch(l *Leader, spec launch.Spec) (*Launch, error) {
	n := len(spec.Procs)
	r := &Launch{Progress: launch.NewProgress(n), leader: l, spec: spec, open: make([]bool, n), openRanks: n,
		logs: make([][2]*os.File, n), dropped: make([][2]int64, n)}
	for rank, p := range spec.Procs {
		r.open[rank] = true
		for i, path := range []string{p.Stdout, p.Stderr} {
			if path == "" {
				continue
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
			if err != nil {
				r.closeLogs()
				return nil, fmt.Errorf("opening a log: %w", err)
			}
			r.logs[rank][i] = f
		}
	}
	return r, nil
}

func (r *Launch) closeLogs() {
	for _, pair := range r.logs {
		for _, f := range pair {
			if f != nil {
				f.Close()
			}
		}
	}
}

// Stop ends the launch everywhere, see [launch.Launch.Stop]. It does not wait. Only the first call
// counts.
func (r *Launch) Stop(s launch.StopRequest) {
	r.leader.host.Do(func(time.Duration) []action { return r.stop(s) })
}

func (r *Launch) stop(s launch.StopRequest) []action {
	if r.stopped || r.openRanks == 0 {
		return nil
	}
	r.stopped, r.hung, r.outcome.Reason = true, s.Hung, s.Reason
	return r.leader.coordinator.toAll(message{Stop: &s})
}

// Ending reports whether a rank is lost. Later failures of the others are consequences of that.
func (r *Launch) Ending() bool { return r.leader.Lost() != nil }

// receive handles a rank's message about its process.
func (r *Launch) receive(rank int, m message) []action {
	switch {
	case !r.open[rank]: // late messages are ignored
	case m.Output != nil:
		r.writeLog(rank, m.Output)
	case m.Started != nil:
		r.Report(*m.Started)
		if r.started++; r.started == len(r.spec.Procs) {
			r.ReportStart(nil)
		}
	case m.Exited != nil:
		// The rank hosts get the order to stop at different times. A rank that ends after another one was stopped, because
		// it has lost that one, may not have got it yet.
		m.Exited.Stopped = m.Exited.Stopped || r.hung
		r.Report(*m.Exited)
		if r.spec.StopOnFailure && m.Exited.Failed() {
			return r.stop(launch.StopRequest{Reason: m.Exited.String()})
		}
	case m.Done != nil:
		var orders []action
		// A reason without a stop request means that the rank's own agent has ended the process, because a signal told
		// it to or because the rank host was stopped.
		if m.Done.Reason != "" {
			orders = r.stop(launch.StopRequest{Reason: fmt.Sprintf("rank %d: %s", rank, m.Done.Reason)})
		}
		r.finish(rank, m.Done, nil)
		return orders
	case m.Failed != "":
		return r.fail(rank, fmt.Errorf("rank %d: %s", rank, m.Failed))
	}
	return nil
}

// writeLog writes output to the rank's log, and counts what could not be written.
func (r *Launch) writeLog(rank int, o *output) {
	i := 0
	if o.Err {
		i = 1
	}
	if f := r.logs[rank][i]; f != nil {
		n, err := f.Write(o.Data)
		if err == nil {
			return
		}
		r.dropped[rank][i] += int64(len(o.Data) - n)
	}
}

// fail ends a rank's part in the launch when the rank cannot report its end itself, and stops the others.
func (r *Launch) fail(rank int, err error) []action {
	orders := r.stop(launch.StopRequest{Reason: err.Error()})
	r.finish(rank, nil, err)
	return orders
}

// finish ends a rank's part. The last one ends the launch.
func (r *Launch) finish(rank int, outcome *launch.Outcome, err error) {
	if !r.open[rank] {
		return
	}
	r.open[rank] = false
	if r.err == nil {
		r.err = err
	}
	if outcome != nil {
		r.outcome.Leftovers += outcome.Leftovers
		r.outcome.Wall = max(r.outcome.Wall, outcome.Wall)
		for _, x := range outcome.Exits {
			x.Stdout.Dropped += r.dropped[rank][0]
			x.Stderr.Dropped += r.dropped[rank][1]
			r.outcome.Exits = append(r.outcome.Exits, x)
		}
		if len(outcome.Survivors) > 0 && r.err == nil {
			r.err = fmt.Errorf("rank %d: processes %v could not be killed", rank, outcome.Survivors)
		}
	}
	if r.openRanks--; r.openRanks > 0 {
		return
	}
	r.closeLogs()
	r.leader.coordinator.launch = nil
	r.End(r.outcome, r.err)
}
