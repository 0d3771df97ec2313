package connection

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Action is a [Coordinator]'s instruction to its host: send a message to one connection, or close
// it.
type Action[M any] struct {
	Peer    int
	Message M
	Last    bool // close the connection after this message
	Drop    bool // the peer is dead: close the connection at once, without a message
}

// ToAll addresses a message to every member that is not gone.
func ToAll[M any](g *Group, m M) []Action[M] {
	present := lists.Filter(g.Members, func(m *Member) bool { return !m.Gone })
	return lists.Map(present, func(member *Member) Action[M] { return Action[M]{Peer: member.Peer, Message: m} })
}

// Coordinator makes the decisions for a group. It does no I/O and reads no clock, so that tests can drive it step by
// step. at is the time since the start of its [Host].
type Coordinator[M any] interface {
	// Receive handles a message. A zero message is a heartbeat.
	Receive(peer int, m M, at time.Duration) []Action[M]
	// Disconnect handles the end of a connection.
	Disconnect(peer int, cause string, at time.Duration) []Action[M]
	// Refuse handles a failed handshake.
	Refuse(from, why string)
	// Tick handles the passing of one Tick.
	Tick(at time.Duration) []Action[M]
	// Over reports whether the group has ended. The host delivers nothing after that.
	Over() bool
}

// Host runs a [Coordinator]: it passes messages and ticks to the coordinator and performs the actions that it returns.
type Host[M any] struct {
	begun time.Time

	mu          sync.Mutex // guards the coordinator and the fields below
	coordinator Coordinator[M]
	listeners   []net.Listener
	next        int // number of the next connection
	isOver      bool
	over        chan struct{}

	sending sync.Mutex // guards links; not mu, so that a slow coordinator does not delay heartbeats
	links   map[int]*Link[M]

	readers sync.WaitGroup
	ended   chan struct{}
}

// Watch starts ticks and heartbeats for a coordinator with this group, and gives it the eyes of this process.
func (h *Host[M]) Watch(g *Group, own *Pause) {
	g.Observe, own.Waited = h.Observe, OwnDelay
	go h.every(Tick, func() { h.Do(h.coordinator.Tick) })
	go h.every(HeartbeatInterval, h.sendHeartbeats)
}

// NewUntimedHost starts to run a coordinator, without ticks and heartbeats before Watch is called.
func NewUntimedHost[M any](core Coordinator[M]) *Host[M] {
	h := &Host[M]{begun: time.Now(), coordinator: core, links: map[int]*Link[M]{}, next: SelfPeer + 1,
		over: make(chan struct{}), ended: make(chan struct{})}
	go h.closeAll()
	return h
}

// Serve accepts the members of a service until the group is over.
func (h *Host[M]) Serve(l net.Listener, s Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOver {
		l.Close()
		return
	}
	h.listeners = append(h.listeners, l)
	go s.Serve(l, func(c *Conn) { h.Add(c) }, func(from string, err error) {
		h.Do(func(time.Duration) []Action[M] { h.coordinator.Refuse(from, err.Error()); return nil })
	})
}

// Add takes over connections. It gives them the next numbers, starting with 1. All of them are registered before the
// first message is delivered.
func (h *Host[M]) Add(conns ...*Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range conns {
		h.add(h.next, c)
		h.next++
	}
}

// SelfLink returns the link of this process's own member.
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
			h.Do(func(at time.Duration) []Action[M] { return h.coordinator.Disconnect(peer, DescribeLoss(err), at) })
			return
		}
		h.Do(func(at time.Duration) []Action[M] { return h.coordinator.Receive(peer, m, at) })
	}
}

// Do calls act with exclusive access to the coordinator and performs the actions that act returns. The process that
// runs the host uses it to inform the coordinator directly. After the group has ended, Do has no effect.
func (h *Host[M]) Do(act func(at time.Duration) []Action[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOver {
		return
	}
	for _, o := range act(time.Since(h.begun)) {
		h.perform(o)
	}
	if h.coordinator.Over() {
		h.isOver = true
		close(h.over)
	}
}

func (h *Host[M]) perform(o Action[M]) {
	h.sending.Lock()
	defer h.sending.Unlock()
	l := h.links[o.Peer]
	switch {
	case l == nil:
	case o.Drop:
		delete(h.links, o.Peer)
		l.conn.Close() // its reader notices and cleans up
	default:
		l.Send(o.Message)
		if o.Last {
			go l.Finish()
		}
	}
}

// every calls do periodically until the group is over.
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

func (h *Host[M]) sendHeartbeats() {
	h.sending.Lock()
	defer h.sending.Unlock()
	for _, l := range h.links {
		var beat M
		l.Send(beat)
	}
}

// Observe reads what this host knows about a member.
func (h *Host[M]) Observe(m *Member) Evidence {
	h.sending.Lock()
	defer h.sending.Unlock()
	l := h.links[m.Peer]
	if l == nil {
		return Evidence{}
	}
	return l.conn.Observe(cmp.Or(l.conn.PID, m.localPID()))
}

// Ended returns a channel that is closed when the group has ended and all queued messages have been sent to the members
// that can be reached.
func (h *Host[M]) Ended() <-chan struct{} { return h.ended }

func (h *Host[M]) closeAll() {
	defer close(h.ended)
	<-h.over
	for _, l := range h.listeners { // Serve adds none after the end
		l.Close()
	}
	var finishing sync.WaitGroup
	h.sending.Lock()
	for _, l := range h.links {
		finishing.Go(l.Finish)
	}
	h.sending.Unlock()
	finishing.Wait()
	h.readers.Wait() // a reader ends when its member closes the connection, at the latest after lingerTimeout
}

// queueLength is the number of frames that may wait for a slow network. Messages are few and small, so a peer whose
// queue is full is treated as lost.
const queueLength = 256

// Link exchanges messages of one type over a connection. Sending never blocks. One goroutine at a
// time may receive; any number may send.
type Link[M any] struct {
	conn *Conn

	mu     sync.Mutex // guards closed, so that nothing is sent on queue after it is closed
	queue  chan []byte
	closed bool
	gone   chan struct{} // closed when writing has failed
	ended  chan struct{} // closed when the writer has returned

	finishing atomic.Bool // Finish was called: each message has lingerTimeout to be sent
}

// NewLink takes over a connection.
func NewLink[M any](c *Conn) *Link[M] {
	c.in = bufio.NewReader(c.in)
	l := &Link[M]{conn: c, queue: make(chan []byte, queueLength), gone: make(chan struct{}), ended: make(chan struct{})}
	go l.write()
	return l
}

// Send queues a message without blocking. If the message cannot be encoded or the queue is full,
// Send closes the connection, and the receiving side reports the error.
func (l *Link[M]) Send(m M) {
	body, err := encode(m)
	if err != nil {
		l.conn.Close()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- body:
	default:
		l.conn.Close()
	}
}

// Throttle blocks while more than a quarter of the queue is in use, unless the link has ended. Callers that send bulk
// data must call it before each Send, because Send closes the connection when the queue is full.
func (l *Link[M]) Throttle() {
	for len(l.queue) > queueLength/4 {
		select {
		case <-l.gone:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func (l *Link[M]) write() {
	defer close(l.ended)
	for body := range l.queue {
		if l.finishing.Load() {
			l.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
		}
		if l.conn.sendFrame(body, nil) != nil {
			close(l.gone)
			l.conn.Close()
			for range l.queue { // discard until Finish closes the queue
			}
			return
		}
	}
}

// Receive waits for the next message. The error is io.EOF if the peer closed the connection.
func (l *Link[M]) Receive() (m M, err error) { return m, l.conn.Receive(&m) }

// Run passes each message to handle until handle returns false or the link fails. Meanwhile it sends heartbeats. If the
// peer is silent for longer than limit, the error is a [SilentError]; a limit of 0 disables the check. Silence is
// counted in ticks, and only while Run waits for a message. The peer is therefore not blamed if this process was
// stopped or handle is slow.
func (l *Link[M]) Run(limit time.Duration, handle func(M) (more bool)) error {
	var silent atomic.Int64 // ticks since the last message; negative while handle runs
	var cause atomic.Pointer[string]
	over := make(chan struct{})
	defer close(over)
	go func() {
		beats, ticks := time.NewTicker(HeartbeatInterval), time.NewTicker(Tick)
		defer beats.Stop()
		defer ticks.Stop()
		var begin Evidence // when the silence began
		for {
			select {
			case <-beats.C:
				var beat M
				l.Send(beat)
			case <-ticks.C:
				if n := silent.Load(); n >= 0 {
					silent.CompareAndSwap(n, n+1)
				}
				switch n := silent.Load(); {
				case n == int64(quietTicks):
					begin = l.conn.Observe(l.conn.PID)
				case limit > 0 && n > int64(limit/Tick):
					why := l.conn.Observe(l.conn.PID).Since(begin).Cause(limit)
					cause.CompareAndSwap(nil, &why)
					l.conn.Close()
				}
			case <-over:
				return
			}
		}
	}()
	for {
		m, err := l.Receive()
		if n := silent.Swap(-1); err != nil && limit > 0 && n > int64(limit/Tick) {
			e := &SilentError{Limit: limit}
			if why := cause.Load(); why != nil {
				e.Cause = *why
			}
			return e
		}
		if err != nil {
			return err
		}
		if !handle(m) {
			return nil
		}
		silent.Store(0)
	}
}

// Finish sends the queued messages and closes the sending direction. The peer may be slow, but each message must be
// sent within lingerTimeout. Finish does not close both directions at once, because that could destroy data in flight.
// The receiving goroutine continues until the peer closes its side, for at most lingerTimeout.
func (l *Link[M]) Finish() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	close(l.queue)
	l.mu.Unlock()
	l.finishing.Store(true)
	l.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
	<-l.ended
	l.conn.CloseWrite()
	l.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
}

// Abort closes the link at once, which also ends a pending Receive.
func (l *Link[M]) Abort() {
	l.conn.Close()
	l.Finish()
}

// DescribeLoss returns the cause of an error of Receive or Run, as the end of a message such as "rank 1 was lost: ...".
func DescribeLoss(err error) string {
	if IsDisconnect(err) {
		return "its process ended (connection closed)"
	}
	if _, ok := err.(*SilentError); ok {
		return err.Error()
	}
	return fmt.Sprintf("the connection broke: %v", err)
}
