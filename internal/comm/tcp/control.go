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

// End says how a control connection has ended.
type End uint8

// The ends.
const (
	Open   End = iota
	Left       // the peer has left
	Closed     // the process of the peer ended without leaving
	Cut        // the network is broken
)

// frame is a message on a control connection.
type frame struct {
	Fail *shm.Failure `json:",omitempty"`
	Bye  bool         `json:",omitempty"`
	Ask  *question    `json:",omitempty"`
	Tell *answer      `json:",omitempty"`
}

type question struct{ ID, Call uint64 }

type answer struct {
	ID    uint64
	Calls uint64 // number of calls that the rank has begun
	Text  string // of the requested call; "" if that is not one of the last two
}

// Handler holds the functions that handle the messages of a peer. They are called on the goroutine of the connection.
type Handler struct {
	// Failed is called when the peer reports a failure of the group.
	Failed func(shm.Failure)
	// Calls returns the number of calls that this rank has begun, and the text of the given call, or "" if it is not
	// known.
	Calls func(call uint64) (calls uint64, text string)
}

// Control is the connection on which two ranks exchange messages about the group itself.
type Control struct {
	link    *connection.Link[frame]
	handler Handler

	mu           sync.Mutex // guards the fields below, except ended
	end          End
	why          error // the error that ended the connection
	lastQuestion uint64
	answers      map[uint64]chan answer // by question: where Ask waits
	ended        chan struct{}          // closed when the connection has ended
}

// NewControl takes over a TCP connection. The connection counts as cut if the peer's kernel does not respond for the
// time silence.
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

// probe makes the kernel check every second whether the peer's kernel responds, and close the connection after the
// given time without a response.
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
			calls, text := c.handler.Calls(f.Ask.Call)
			c.link.Send(frame{Tell: &answer{ID: f.Ask.ID, Calls: calls, Text: text}})
		case f.Tell != nil:
			c.mu.Lock()
			if to := c.answers[f.Tell.ID]; to != nil {
				to <- *f.Tell // never blocks: the channel has room for the only answer
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

// Fail reports to the peer that the group has failed.
func (c *Control) Fail(f shm.Failure) { c.link.Send(frame{Fail: &f}) }

// Ask asks the peer how many calls it has begun, and for the text of one of them. ok is false if there is no answer
// within the limit.
func (c *Control) Ask(call uint64, limit time.Duration) (calls uint64, text string, ok bool) {
	c.mu.Lock()
	c.lastQuestion++
	id, to := c.lastQuestion, make(chan answer, 1)
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

// End returns how the connection ended, or Open, and the error that ended it.
func (c *Control) End() (End, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end, c.why
}

// AwaitEnd waits until the connection ends, for at most limit.
func (c *Control) AwaitEnd(limit time.Duration) {
	select {
	case <-c.ended:
	case <-time.After(limit):
	}
}

// Close announces that this rank leaves. The connection continues to be read in the background,
// because closing it with unread data would reset it and lose the announcement.
func (c *Control) Close() {
	c.link.Send(frame{Bye: true})
	c.link.Finish()
}
