package tcp

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// End is how a control connection ended.
type End uint8

// The ends.
const (
	Open   End = iota
	Left       // the peer said so
	Closed     // without notice: its process ended
	Cut        // the network gave up
)

// frame is what control connections carry.
type frame struct {
	Fail *shm.Failure `json:",omitempty"`
	Bye  bool         `json:",omitempty"`
	Ask  *question    `json:",omitempty"`
	Tell *answer      `json:",omitempty"`
	Note []byte       `json:",omitempty"`
}

type question struct{ ID, Call uint64 }

type answer struct {
	ID    uint64
	Calls uint64 // begun by the rank
	Text  string // of the call asked for, "" if it is another
}

// Handler is what a rank does about the messages of its peers, on goroutines of
// their connections.
type Handler struct {
	// Failed is told of a failure of the group.
	Failed func(shm.Failure)
	// Said tells how many calls this rank has begun, and what one of them says.
	Said func(call uint64) (calls uint64, text string)
	// Noted is told what the peer publishes.
	Noted func(text []byte)
}

// Control is the connection on which two ranks talk about the group itself.
type Control struct {
	link    *connection.Link[frame]
	handler Handler

	mu      sync.Mutex
	end     End
	why     error
	asked   uint64
	answers map[uint64]chan answer
	ended   chan struct{}
}

// NewControl takes over a TCP connection. A peer of which nothing is heard for the
// given time, not even by its kernel, is cut off.
func NewControl(conn *connection.Conn, silence time.Duration, h Handler) (*Control, error) {
	if err := probe(conn.Conn.(*net.TCPConn), silence); err != nil {
		conn.Close()
		return nil, err
	}
	c := &Control{link: connection.NewLink[frame](conn), handler: h, answers: map[uint64]chan answer{},
		ended: make(chan struct{})}
	go c.listen()
	return c, nil
}

// probe lets the kernel ask every second whether the peer is still there, and give
// the connection up after the given time.
func probe(conn *net.TCPConn, silence time.Duration) error {
	err := conn.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: time.Second, Interval: time.Second, Count: max(1, int(silence/time.Second)),
	})
	raw, rawErr := conn.SyscallConn()
	if err = errors.Join(err, rawErr); err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		inner = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(err, inner)
}

func (c *Control) listen() {
	for {
		f, err := c.link.Receive()
		if err != nil {
			c.finish(err)
			return
		}
		switch {
		case f.Fail != nil:
			c.handler.Failed(*f.Fail)
		case f.Bye:
			c.mu.Lock()
			c.end = Left
			c.mu.Unlock()
		case f.Ask != nil:
			calls, text := c.handler.Said(f.Ask.Call)
			c.link.Send(frame{Tell: &answer{ID: f.Ask.ID, Calls: calls, Text: text}})
		case f.Note != nil:
			c.handler.Noted(f.Note)
		case f.Tell != nil:
			c.mu.Lock()
			if to := c.answers[f.Tell.ID]; to != nil {
				to <- *f.Tell // has room for the one answer there is
				delete(c.answers, f.Tell.ID)
			}
			c.mu.Unlock()
		}
	}
}

func (c *Control) finish(err error) {
	c.mu.Lock()
	c.why = err
	switch {
	case c.end == Left:
	case connection.IsDisconnect(err) && !errors.Is(err, syscall.ETIMEDOUT):
		c.end = Closed
	default:
		c.end = Cut
	}
	c.mu.Unlock()
	close(c.ended)
	c.link.Abort()
}

// Fail tells the peer that the group has failed.
func (c *Control) Fail(f shm.Failure) { c.link.Send(frame{Fail: &f}) }

// Publish tells the peer a text. It also works in a group that has failed.
func (c *Control) Publish(text []byte) { c.link.Send(frame{Note: text}) }

// Ask asks the peer how many calls it has begun and what it says of one of them.
// Without an answer within the limit, ok is false.
func (c *Control) Ask(call uint64, limit time.Duration) (calls uint64, text string, ok bool) {
	c.mu.Lock()
	c.asked++
	id, to := c.asked, make(chan answer, 1)
	c.answers[id] = to
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.answers, id)
		c.mu.Unlock()
	}()
	c.link.Send(frame{Ask: &question{id, call}})
	select {
	case a := <-to:
		return a.Calls, a.Text, true
	case <-c.ended:
	case <-time.After(limit):
	}
	return 0, "", false
}

// End tells how the connection ended, Open while it has not, and the error that
// said so.
func (c *Control) End() (End, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end, c.why
}

// AwaitEnd waits for the end, at most so long.
func (c *Control) AwaitEnd(limit time.Duration) {
	select {
	case <-c.ended:
	case <-time.After(limit):
	}
}

// Close tells the peer that this rank leaves. What the peer still sends is read, so
// that the message arrives, but nobody waits for it.
func (c *Control) Close() {
	c.link.Send(frame{Bye: true})
	c.link.Finish()
}
