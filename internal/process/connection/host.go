package connection

import (
	"net"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Action is what a [Core] wants done: a message to one connection, or its end.
type Action[M any] struct {
	Peer    int
	Message M
	Last    bool // nothing follows to this one
	Drop    bool // it is dead: no message, end it at once
}

// ToAll is a message to every member of a group that is not gone.
func ToAll[M any](g *Group, m M) []Action[M] {
	there := lists.Filter(g.Members, func(member *Member) bool { return !member.Gone })
	return lists.Map(there, func(member *Member) Action[M] { return Action[M]{Peer: member.Peer, Message: m} })
}

// Coordinator coordinates a group: it decides and does nothing. Times are since the start of
// its host.
type Coordinator[M any] interface {
	// Receive takes a message of a connection; a zero one only says that its peer lives.
	Receive(peer int, m M, at time.Duration) []Action[M]
	// Disconnect is told that a connection has ended.
	Disconnect(peer int, cause string, at time.Duration) []Action[M]
	// Refuse is told who could not make the handshake.
	Refuse(from, why string)
	// Tick lets time pass.
	Tick(at time.Duration) []Action[M]
	// Over reports whether the group has ended, after which nothing is heard.
	Over() bool
}

// Host runs a core: it connects its decisions to connections and time.
type Host[M any] struct {
	begun time.Time

	mu        sync.Mutex // of the core, and of what follows
	core      Coordinator[M]
	listeners []net.Listener
	next      int // number of the next connection
	isOver    bool
	over      chan struct{}

	sending sync.Mutex // of the links: a core that takes its time delays no heart-beat
	links   map[int]*Link[M]

	readers sync.WaitGroup
	ended   chan struct{}
}

// NewHost starts to run a core.
func NewHost[M any](core Coordinator[M]) *Host[M] {
	h := NewUntimedHost(core)
	go h.every(Tick, func() { h.Do(h.core.Tick) })
	go h.every(HeartbeatInterval, h.beat)
	return h
}

// NewUntimedHost starts to run a core for which time does not pass: it has no ticks,
// and sends no heart-beats.
func NewUntimedHost[M any](core Coordinator[M]) *Host[M] {
	h := &Host[M]{begun: time.Now(), core: core, links: map[int]*Link[M]{}, next: SelfPeer + 1,
		over: make(chan struct{}), ended: make(chan struct{})}
	go h.end()
	return h
}

// Serve lets members of a service in until the group is over.
func (h *Host[M]) Serve(l net.Listener, s Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOver {
		l.Close()
		return
	}
	h.listeners = append(h.listeners, l)
	go s.Serve(l, func(c *Conn) { h.Add(c) }, func(from string, err error) {
		h.Do(func(time.Duration) []Action[M] { h.core.Refuse(from, err.Error()); return nil })
	})
}

// Add takes over connections, all before one is listened to. They are numbered from 1
// on.
func (h *Host[M]) Add(conns ...*Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range conns {
		h.add(h.next, c)
		h.next++
	}
}

// SelfLink is the end of this process's own member.
func (h *Host[M]) SelfLink() *Link[M] {
	host, member := Pipe()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(SelfPeer, host)
	return NewLink[M](member)
}

func (h *Host[M]) add(peer int, c *Conn) {
	if h.isOver {
		c.Close()
		return
	}
	l := NewLink[M](c)
	h.sending.Lock()
	h.links[peer] = l
	h.sending.Unlock()
	h.readers.Go(func() { h.listen(peer, l) })
}

func (h *Host[M]) listen(peer int, l *Link[M]) {
	defer l.Abort()
	for {
		m, err := l.Receive()
		if err != nil {
			h.sending.Lock()
			delete(h.links, peer)
			h.sending.Unlock()
			h.Do(func(at time.Duration) []Action[M] { return h.core.Disconnect(peer, DescribeLoss(err), at) })
			return
		}
		h.Do(func(at time.Duration) []Action[M] { return h.core.Receive(peer, m, at) })
	}
}

// Do has the core act, it alone, and does what it orders. It is how this process tells
// the core something that no connection says. When the group is over, nothing is done.
func (h *Host[M]) Do(act func(at time.Duration) []Action[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOver {
		return
	}
	for _, o := range act(time.Since(h.begun)) {
		h.obey(o)
	}
	if h.core.Over() {
		h.isOver = true
		close(h.over)
	}
}

func (h *Host[M]) obey(o Action[M]) {
	h.sending.Lock()
	defer h.sending.Unlock()
	l := h.links[o.Peer]
	switch {
	case l == nil:
	case o.Drop:
		delete(h.links, o.Peer)
		l.conn.Close() // its reader does the rest
	default:
		l.Send(o.Message)
		if o.Last {
			go l.Finish()
		}
	}
}

// every does something again and again until the group is over.
func (h *Host[M]) every(period time.Duration, do func()) {
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			do()
		case <-h.over:
			return
		}
	}
}

func (h *Host[M]) beat() {
	h.sending.Lock()
	defer h.sending.Unlock()
	for _, l := range h.links {
		var beat M
		l.Send(beat)
	}
}

// Ended is closed when the group is over and everybody who can be reached was told.
func (h *Host[M]) Ended() <-chan struct{} { return h.ended }

func (h *Host[M]) end() {
	defer close(h.ended)
	<-h.over
	for _, l := range h.listeners { // nothing is added to them any more
		l.Close()
	}
	var finishing sync.WaitGroup
	h.sending.Lock()
	for _, l := range h.links {
		finishing.Go(l.Finish)
	}
	h.sending.Unlock()
	finishing.Wait()
	h.readers.Wait() // the members close too, or the link loses patience
}
