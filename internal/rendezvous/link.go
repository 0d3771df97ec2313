package rendezvous

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
	// maxFrame bounds a frame; the largest real one carries a rank's last lines.
	maxFrame = 1 << 20
	// queueLength is how many frames may wait for a slow network. They are few
	// and small: a peer that far behind is as good as lost.
	queueLength = 256
	// lingerLimit is how long a closing link waits for its peer to hear the end.
	lingerLimit = time.Second
)

// side tells the two directions of a conversation apart, so that a frame cannot
// be sent back to where it came from.
type side byte

const (
	hostSide   side = 'h'
	memberSide side = 'm'
)

// link carries authenticated messages over a connection. One goroutine may
// receive; any may send, which never waits.
type link struct {
	conn     net.Conn
	key      []byte
	in       *bufio.Reader
	from     side
	received uint64

	mu     sync.Mutex
	queue  chan []byte
	closed bool
	ended  chan struct{} // the writer has ended
}

func newLink(conn net.Conn, key []byte, from side) *link {
	l := &link{conn: conn, key: key, in: bufio.NewReader(conn), from: from,
		queue: make(chan []byte, queueLength), ended: make(chan struct{})}
	go l.write()
	return l
}

// seal authenticates a frame: which side sent it, the how manieth it is, and
// what it says.
func (l *link) seal(from side, number uint64, body []byte) []byte {
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte{byte(from)})
	mac.Write(binary.BigEndian.AppendUint64(nil, number))
	mac.Write(body)
	return mac.Sum(nil)
}

// send queues a message. A link that cannot take it is dead or dying, which
// its reader finds out.
func (l *link) send(m message) {
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

func (l *link) write() {
	defer close(l.ended)
	var sent uint64
	for body := range l.queue {
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
		frame = append(frame, l.seal(l.from, sent, body)...)
		if _, err := l.conn.Write(append(frame, body...)); err != nil {
			l.conn.Close()
			for range l.queue { // until close, so that nobody waits
			}
			return
		}
		sent++
	}
}

// receive waits for the next message; io.EOF is the peer's orderly end.
func (l *link) receive() (message, error) {
	var head [4 + sha256.Size]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return message{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return message{}, fmt.Errorf("a frame of %d bytes is more than the limit of %d", size, maxFrame)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(l.in, body); err != nil {
		return message{}, err
	}
	peer := hostSide
	if l.from == hostSide {
		peer = memberSide
	}
	if !hmac.Equal(head[4:], l.seal(peer, l.received, body)) {
		return message{}, errors.New("a frame that the peer has not sent came in")
	}
	l.received++
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return message{}, fmt.Errorf("reading a frame: %w", err)
	}
	return m, nil
}

// finish sends what is queued, says that nothing follows, and gives the peer a
// moment to read it: closing at once could destroy what is on the way. The
// receiving goroutine goes on until the peer closes too.
func (l *link) finish() {
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

// abort ends the link at once, and whatever waits on it.
func (l *link) abort() {
	l.conn.Close()
	l.finish()
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)
}

// describe says in words how a connection ended.
func describe(err error) string {
	if isReset(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return "its launcher ended (connection closed)"
	}
	return fmt.Sprintf("the connection broke: %v", err)
}
