package rankhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// Leader is rank 0's end: it starts processes at the places of all ranks, its
// own included.
type Leader struct {
	cfg  Config
	addr string
	own  chan error // how rank 0's own place ended
	quit chan struct{}

	interrupted chan struct{} // closed when a rank was told to end
	interrupt   func()

	mu       sync.Mutex
	seats    []*seat // by rank
	turned   []string
	arrived  chan struct{} // something has happened to the seats
	launch   *Launch
	launches int
	lost     *LostError
	closed   bool
	readers  sync.WaitGroup
}

// seat is a rank that was admitted.
type seat struct {
	join
	link   *link
	silent time.Duration
	lost   bool
}

// Lead gathers all ranks. The context bounds the gathering.
func Lead(ctx context.Context, cfg Config) (*Leader, error) {
	listener, err := cfg.listen(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting for the other ranks: %w", err)
	}
	defer listener.Close()
	l := &Leader{cfg: cfg, own: make(chan error, 1), quit: make(chan struct{}), seats: make([]*seat, cfg.Size), arrived: make(chan struct{}, 1), interrupted: make(chan struct{})}
	l.interrupt = sync.OnceFunc(func() { close(l.interrupted) })
	if err := l.seatMyself(ctx); err != nil {
		return nil, err
	}
	go l.accept(listener)
	go l.beat()
	if err := l.gather(ctx); err != nil {
		l.bye(true)
		return nil, err
	}
	return l, nil
}

// seatMyself makes rank 0 a place too. The two talk over a pipe as they would
// over the network.
func (l *Leader) seatMyself(ctx context.Context) error {
	ours, theirs := connection.Pipe()
	p, err := newPlace(ctx, l.cfg, connection.NewLink[message](theirs))
	if err != nil {
		return err
	}
	go func() { l.own <- p.serve(context.Background()) }()
	l.admit(connection.NewLink[message](ours), "")
	return nil
}

func (l *Leader) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			c, err := l.cfg.service().Greet(conn)
			if err != nil {
				who, _, unnamed := net.SplitHostPort(conn.RemoteAddr().String())
				if unnamed != nil {
					who = "a process of this host"
				}
				l.turnAway(who, err.Error())
				return
			}
			addr, _, _ := net.SplitHostPort(conn.LocalAddr().String()) // none of a local socket
			l.admit(connection.NewLink[message](c), addr)
		}()
	}
}

// turnAway remembers who could not join: the message about missing ranks tells.
func (l *Leader) turnAway(who, why string) {
	const most = 5 // enough to see the pattern
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := who + ": " + why; len(l.turned) < most && !slices.Contains(l.turned, text) {
		l.turned = append(l.turned, text)
	}
}

// admit gives a rank its seat, or says why not, and listens to it.
func (l *Leader) admit(k *link, addr string) {
	m, err := k.Receive()
	if err != nil || m.Join == nil {
		k.Abort()
		return
	}
	j := *m.Join
	l.mu.Lock()
	var why string
	switch want := l.cfg; {
	case l.closed:
		why = "rank 0 has ended"
	case j.Rank < 0 || j.Rank >= want.Size || j.Size != want.Size:
		why = fmt.Sprintf("rank %d of %d does not belong to a job of %d ranks", j.Rank, j.Size, want.Size)
	case j.Command != want.Command:
		why = fmt.Sprintf("rank %d was told to run %q, rank 0 to run %q: give all ranks the same command", j.Rank, j.Command, want.Command)
	case l.seats[j.Rank] != nil:
		why = fmt.Sprintf("rank %d is already here, from host %s (pid %d)", j.Rank, l.seats[j.Rank].Host, l.seats[j.Rank].PID)
	default:
		l.seats[j.Rank] = &seat{join: j, link: k}
		if addr != "" {
			l.addr = addr
		}
		l.readers.Go(func() { l.listen(j.Rank, k) })
	}
	l.mu.Unlock()
	if why != "" {
		l.turnAway(j.Host, why)
		k.Send(message{Refused: why})
		k.Finish()
		return
	}
	l.signal()
}

func (l *Leader) signal() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// gather waits until every seat is taken.
func (l *Leader) gather(ctx context.Context) error {
	limit := time.After(l.cfg.JoinTimeout)
	for {
		l.mu.Lock()
		missing, lost := l.missing(), l.lost
		l.mu.Unlock()
		switch {
		case lost != nil:
			return lost
		case len(missing) == 0:
			return nil
		}
		select {
		case <-l.arrived:
		case <-l.interrupted:
			return ErrInterrupted
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit:
			return l.absence()
		}
	}
}

// absence says who is missing when the time is up.
func (l *Leader) absence() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := l.missing()
	err := fmt.Errorf("%d of %d ranks joined at %s within %v, missing: rank %s", l.cfg.Size-len(missing), l.cfg.Size, l.cfg.where(), l.cfg.JoinTimeout, strings.Join(missing, ", "))
	if len(l.turned) > 0 {
		err = fmt.Errorf("%w; turned away: %s", err, strings.Join(l.turned, "; "))
	}
	return err
}

func (l *Leader) missing() (ranks []string) {
	for rank, s := range l.seats {
		if s == nil {
			ranks = append(ranks, fmt.Sprint(rank))
		}
	}
	return ranks
}

// Lost says which rank is gone, nil while all are there.
func (l *Leader) Lost() *LostError {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Addr is the address at which the other ranks have reached rank 0, empty when
// all are on this host and need none.
func (l *Leader) Addr() string { return l.addr }

// Interrupted is closed when one of the ranks was told to end: who did so meant
// the whole job.
func (l *Leader) Interrupted() <-chan struct{} { return l.interrupted }

// Close says goodbye to all ranks, which then end well.
func (l *Leader) Close() { l.bye(false) }

func (l *Leader) bye(givenUp bool) {
	l.each(func(s *seat) { s.link.Send(message{Bye: !givenUp, GivenUp: givenUp}) })
	l.end()
}

func (l *Leader) end() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	close(l.quit)
	l.mu.Unlock()
	var finishing sync.WaitGroup
	l.each(func(s *seat) { finishing.Go(s.link.Finish) })
	finishing.Wait()
	<-l.own
	l.readers.Wait() // the others close too, or the link loses patience
	l.each(func(s *seat) { s.link.Abort() })
}

func (l *Leader) each(do func(*seat)) {
	l.mu.Lock()
	seats := slices.Clone(l.seats)
	l.mu.Unlock()
	for _, s := range seats {
		if s != nil {
			do(s)
		}
	}
}

// beat says that rank 0 lives, and counts the silence of the others.
func (l *Leader) beat() {
	ticks := time.NewTicker(beatTime)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-l.quit:
			return
		}
		l.each(func(s *seat) {
			s.link.Send(message{Beat: true})
			l.mu.Lock()
			s.silent += beatTime
			late := s.silent > Heartbeat
			l.mu.Unlock()
			if late {
				l.lose(s.Rank, fmt.Sprintf("nothing was heard of it for %v (stopped, or the network is cut)", Heartbeat))
			}
		})
	}
}

// lose takes a rank for dead, and with it the job.
func (l *Leader) lose(rank int, cause string) {
	l.mu.Lock()
	s := l.seats[rank]
	if l.closed || s.lost {
		l.mu.Unlock()
		return
	}
	s.lost = true
	lost := &LostError{Rank: rank, Host: s.Host, PID: s.PID, Cause: cause}
	if l.lost == nil { // the first explains the others
		l.lost = lost
	}
	current := l.launch
	l.mu.Unlock()
	s.link.Abort()
	l.signal()
	if current != nil {
		current.fail(rank, lost)
	}
}

// listen takes what one rank says.
func (l *Leader) listen(rank int, k *link) {
	for {
		m, err := k.Receive()
		if err != nil {
			l.lose(rank, describe(err))
			return
		}
		l.mu.Lock()
		l.seats[rank].silent = 0
		current := l.launch
		l.mu.Unlock()
		switch {
		case m.Interrupted:
			l.interrupt()
		case m.Beat:
		case current != nil:
			current.hear(rank, m)
		}
	}
}

// describe says in words how a connection ended.
func describe(err error) string {
	if connection.Ended(err) {
		return "it ended (connection closed)"
	}
	return fmt.Sprintf("the connection broke: %v", err)
}

// Launch starts a process at every rank's place and returns when all run. The end
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
	l.mu.Lock()
	switch {
	case l.lost != nil:
		err = l.lost
	case l.closed:
		err = launch.ErrClosed
	case l.launch != nil:
		err = errors.New("another launch is still running; wait for it first")
	default:
		l.launch = run
		l.launches++
		run.id = l.launches
	}
	l.mu.Unlock()
	if err != nil {
		run.closeLogs()
		return nil, fmt.Errorf("launching: %w", err)
	}
	l.each(func(s *seat) { s.link.Send(message{Launch: spec.order(run.id, s.Rank)}) })
	release := context.AfterFunc(ctx, func() { run.Stop(context.Cause(ctx).Error(), false) })
	if err := <-run.begun; err != nil {
		release()
		<-run.done
		return nil, fmt.Errorf("launching: %w", err)
	}
	go func() { <-run.done; release() }()
	return run, nil
}

func (s Spec) order(id, rank int) *order {
	p := s.Procs[rank]
	o := &order{ID: id, Dir: []byte(p.Dir), Vars: p.Vars, Native: p.Native, Files: p.Files, Watch: s.WatchEnv}
	for _, a := range p.Argv {
		o.Argv = append(o.Argv, []byte(a))
	}
	for name, value := range p.Set {
		v := setting{Name: name, Unset: value == nil}
		if value != nil {
			v.Value = []byte(*value)
		}
		o.Set = append(o.Set, v)
	}
	return o
}
