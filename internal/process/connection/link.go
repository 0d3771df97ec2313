package connection

import (
	"bufio"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// queueLength is how many frames may wait for a slow network. They are few and
// small: a peer that far behind is as good as lost.
const queueLength = 256

// Link carries messages of one type over a connection, both ways, and never waits
// for its peer to send. One goroutine may receive; any may send.
type Link[M any] struct {
	conn *Conn

	mu     sync.Mutex
	queue  chan []byte
	closed bool
	gone   chan struct{} // nothing is written any more
	ended  chan struct{} // the writer has ended
}

// NewLink takes over a connection.
func NewLink[M any](c *Conn) *Link[M] {
	c.in = bufio.NewReader(c.in)
	l := &Link[M]{conn: c, queue: make(chan []byte, queueLength), gone: make(chan struct{}), ended: make(chan struct{})}
	go l.write()
	return l
}

// Send queues a message and never waits. A link that cannot take it is dead or
// dying, which its receiver finds out.
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

// Throttle returns when a peer that is slow has taken most of what was sent, or the
// link has ended. Who sends much calls it before each Send.
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
		if l.conn.sendFrame(body, nil) != nil {
			close(l.gone)
			l.conn.Close()
			for range l.queue { // until close, so that nobody waits
			}
			return
		}
	}
}

// Receive waits for the next message; io.EOF is the peer's orderly end.
func (l *Link[M]) Receive() (m M, err error) { return m, l.conn.Receive(&m) }

// Run hears what the peer says until the link ends, which is the error, or hear
// wants no more. All the while it sends heart-beats. A peer that is silent for longer
// than the limit is a [SilentError]; 0 is no limit.
func (l *Link[M]) Run(limit time.Duration, hear func(M) (more bool)) error {
	var silent atomic.Int64 // ticks since the peer was heard; less than 0 while it is not listened to
	over := make(chan struct{})
	defer close(over)
	go func() {
		beats, ticks := time.NewTicker(HeartbeatInterval), time.NewTicker(Tick)
		defer beats.Stop()
		defer ticks.Stop()
		for {
			select {
			case <-beats.C:
				var beat M
				l.Send(beat)
			case <-ticks.C:
				if n := silent.Load(); n >= 0 {
					silent.CompareAndSwap(n, n+1)
				}
				if limit > 0 && silent.Load() > int64(limit/Tick) {
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
			return &SilentError{limit}
		}
		if err != nil {
			return err
		}
		if !hear(m) {
			return nil
		}
		silent.Store(0)
	}
}

// Finish sends what is queued, says that nothing follows, and lets the peer read it:
// closing at once could destroy what is on the way. The receiving goroutine goes on
// until the peer closes too, or a second has passed.
func (l *Link[M]) Finish() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	close(l.queue)
	l.mu.Unlock()
	l.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
	<-l.ended
	l.conn.CloseWrite()
	l.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
}

// Abort ends the link at once, and whatever waits on it.
func (l *Link[M]) Abort() {
	l.conn.Close()
	l.Finish()
}

// SilentError says that nothing was heard of a peer.
type SilentError struct{ Limit time.Duration }

func (e *SilentError) Error() string {
	return fmt.Sprintf("nothing was heard of it for %v (stopped, or the network is cut)", e.Limit)
}

// DescribeLoss completes "was lost: ..." with the error of a Receive or a Run.
func DescribeLoss(err error) string {
	if IsDisconnect(err) {
		return "its process ended (connection closed)"
	}
	if _, ok := err.(*SilentError); ok {
		return err.Error()
	}
	return fmt.Sprintf("the connection broke: %v", err)
}
