package connection

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// maxFrame bounds a frame; the largest real ones carry a rank's last lines, or
	// the environment of some ranks.
	maxFrame = 1 << 20
	// queueLength is how many frames may wait for a slow network. They are few
	// and small: a peer that far behind is as good as lost.
	queueLength = 256
	// lingerLimit is how long a closing link waits for its peer to hear the end.
	lingerLimit = time.Second
)

// Side tells the two directions of a conversation apart, so that a frame cannot
// be sent back to where it came from.
type Side byte

// The sides: who listened, and who came.
const (
	HostSide   Side = 'h'
	MemberSide Side = 'm'
)

// Link carries messages of one type over a connection, both ways. One goroutine
// may receive; any may send.
type Link[M any] struct {
	conn     net.Conn
	key      []byte
	in       *bufio.Reader
	from     Side
	received uint64

	mu     sync.Mutex
	queue  chan []byte
	closed bool
	gone   chan struct{} // nothing is written any more
	ended  chan struct{} // the writer has ended
}

// New makes a link of a connection whose two sides have agreed on a key.
func New[M any](conn net.Conn, key []byte, from Side) *Link[M] {
	l := &Link[M]{conn: conn, key: key, in: bufio.NewReader(conn), from: from,
		queue: make(chan []byte, queueLength), gone: make(chan struct{}), ended: make(chan struct{})}
	go l.write()
	return l
}

// seal authenticates a frame: which side sent it, the how manieth it is, and
// what it says.
func (l *Link[M]) seal(from Side, number uint64, body []byte) []byte {
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte{byte(from)})
	mac.Write(binary.BigEndian.AppendUint64(nil, number))
	mac.Write(body)
	return mac.Sum(nil)
}

// Send queues a message and never waits. A link that cannot take it is dead or
// dying, which its reader finds out.
func (l *Link[M]) Send(m M) {
	body, err := json.Marshal(m)
	if err != nil || len(body) > maxFrame {
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

// Await returns when a peer that is slow has taken most of what was sent, or the
// link has ended. Who sends much calls it before each Send.
func (l *Link[M]) Await() {
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
	var sent uint64
	for body := range l.queue {
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
		frame = append(frame, l.seal(l.from, sent, body)...)
		if _, err := l.conn.Write(append(frame, body...)); err != nil {
			close(l.gone)
			l.conn.Close()
			for range l.queue { // until close, so that nobody waits
			}
			return
		}
		sent++
	}
}

// Receive waits for the next message; io.EOF is the peer's orderly end.
func (l *Link[M]) Receive() (m M, err error) {
	var head [4 + sha256.Size]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return m, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return m, fmt.Errorf("a frame of %d bytes is more than the limit of %d", size, maxFrame)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(l.in, body); err != nil {
		return m, err
	}
	peer := HostSide
	if l.from == HostSide {
		peer = MemberSide
	}
	if !hmac.Equal(head[4:], l.seal(peer, l.received, body)) {
		return m, errors.New("a frame that the peer has not sent came in")
	}
	l.received++
	if err := json.Unmarshal(body, &m); err != nil {
		return m, fmt.Errorf("reading a frame: %w", err)
	}
	return m, nil
}

// Finish sends what is queued, says that nothing follows, and gives the peer a
// moment to read it: closing at once could destroy what is on the way. The
// receiving goroutine goes on until the peer closes too.
func (l *Link[M]) Finish() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	close(l.queue)
	l.mu.Unlock()
	l.conn.SetWriteDeadline(time.Now().Add(lingerLimit))
	<-l.ended
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
		l.conn.SetReadDeadline(time.Now().Add(lingerLimit))
		return
	}
	l.conn.Close() // a pipe within the process has no half-open state and loses nothing
}

// Abort ends the link at once, and whatever waits on it.
func (l *Link[M]) Abort() {
	l.conn.Close()
	l.Finish()
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)
}

// Ended reports whether the error of a Receive is the end of the connection, and
// not a fault of its own.
func Ended(err error) bool {
	return isReset(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
