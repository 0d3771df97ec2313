package connection

import (
	"net"
	"sync"
	"time"
)

// Order is what a [Core] wants done: a message to one connection, or its end.
type Order[M any] struct {
	Peer    int
	Message M
	Last    bool // nothing follows to this one
	Drop    bool // it is dead: no message, end it at once
}

// Core coordinates a group: it decides and does nothing. Times are since the start of
// its host.
type Core[M any] interface {
	// Hear takes a message of a connection; a zero one only says that its peer lives.
	Hear(peer int, m M, at time.Duration) []Order[M]
	// Lose is told that a connection has ended.
	Lose(peer int, cause string, at time.Duration) []Order[M]
	// Refuse is told who could not make the handshake.
	Refuse(from, why string)
	// Tick lets time pass.
	Tick(at time.Duration) []Order[M]
	// Over reports whether the group has ended, after which nothing is heard.
	Over() bool
}

// Host runs a core: it connects its decisions to connections and time.
type Host[M any] struct {
	begun time.Time

	mu        sync.Mutex // of the core, and of what follows
	core      Core[M]
	listeners []net.Listener
	links     map[int]*Link[M]
	next      int // number of the next connection
	over      chan struct{}
	isOver    bool
	timeless  bool

	readers sync.WaitGroup
	ended   chan struct{}
}

// NewHost starts to run a core.
func NewHost[M any](core Core[M]) *Host[M] { return newHost(core, false) }

// NewTimelessHost starts to run a core for which time does not pass: it has no ticks,
// and sends no heart-beats.
func NewTimelessHost[M any](core Core[M]) *Host[M] { return newHost(core, true) }

func newHost[M any](core Core[M], timeless bool) *Host[M] {
	h := &Host[M]{begun: time.Now(), core: core, links: map[int]*Link[M]{}, next: OwnPeer + 1,
		over: make(chan struct{}), timeless: timeless, ended: make(chan struct{})}
	go h.run()
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
		h.Do(func(time.Duration) []Order[M] { h.core.Refuse(from, err.Error()); return nil })
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

// Own is the end of this process's own member.
func (h *Host[M]) Own() *Link[M] {
	host, member := Pipe()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(OwnPeer, host)
	return NewLink[M](member)
}

func (h *Host[M]) add(peer int, c *Conn) {
	if h.isOver {
		c.Close()
		return
	}
	l := NewLink[M](c)
	h.links[peer] = l
	h.readers.Go(func() { h.listen(peer, l) })
}

func (h *Host[M]) listen(peer int, l *Link[M]) {
	defer l.Abort()
	for {
		m, err := l.Receive()
		h.Do(func(at time.Duration) []Order[M] {
			if err == nil {
				return h.core.Hear(peer, m, at)
			}
			delete(h.links, peer)
			return h.core.Lose(peer, Describe(err), at)
		})
		if err != nil {
			return
		}
	}
}

// Do has the core act, by itself and no one else, and does what it orders. It is how
// this process tells the core something that no connection says.
func (h *Host[M]) Do(act func(at time.Duration) []Order[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOver {
		return
	}
	for _, o := range act(time.Since(h.begun)) {
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
	if h.core.Over() {
		h.isOver = true
		close(h.over)
	}
}

// Ended is closed when the group is over and everybody who can be reached was told.
func (h *Host[M]) Ended() <-chan struct{} { return h.ended }

func (h *Host[M]) run() {
	defer close(h.ended)
	if !h.timeless {
		h.passTime()
	}
	<-h.over
	// Nothing is added to these any more.
	for _, l := range h.listeners {
		l.Close()
	}
	var finishing sync.WaitGroup
	h.mu.Lock()
	for _, l := range h.links {
		finishing.Go(l.Finish)
	}
	h.mu.Unlock()
	finishing.Wait()
	h.readers.Wait() // the members close too, or the link loses patience
}

// passTime tells the core of time, and the members that the host lives.
func (h *Host[M]) passTime() {
	ticks := time.NewTicker(Tick)
	defer ticks.Stop()
	// A ticker of its own: on a loaded machine ticks get lost, and counted in them the
	// beats would come too late.
	beats := time.NewTicker(Beat)
	defer beats.Stop()
	for {
		select {
		case <-ticks.C:
			h.Do(h.core.Tick)
		case <-beats.C:
			h.mu.Lock()
			for _, l := range h.links {
				var beat M
				l.Send(beat)
			}
			h.mu.Unlock()
		case <-h.over:
			return
		}
	}
}
