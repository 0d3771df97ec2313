package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/kernbench/kernbench/internal/process/connection"
)

func service(key []byte) connection.Service {
	return connection.Service{Banner: "kernbench tcp 2\n", Secret: key}
}

// Use is the purpose of a connection.
type Use uint32

// The uses.
const (
	ForCollectives Use = iota
	ForProgram
	ForControl
)

// Ticket identifies one connection: its group, its ranks and its use.
type Ticket struct {
	Group [16]byte
	Rank  uint32
	Use   Use
}

// Listener accepts the connections of a rank, for all its groups, because a peer may connect before this rank expects
// it. It refuses peers that do not know the key.
type Listener struct {
	listener net.Listener

	mu      sync.Mutex // guards the fields below
	closed  bool
	refs    int
	arrived map[Ticket]chan *connection.Conn // of connections that have come or are awaited
	refused string                           // the last refused peer, and why
}

// Listen listens on a free port of the range at the address, or at all addresses if it is not valid.
func Listen(addr netip.Addr, ports connection.PortRange, key []byte) (*Listener, error) {
	at := ""
	if addr.IsValid() {
		at = addr.String()
	}
	listener, err := ports.Listen(at)
	if err != nil {
		return nil, fmt.Errorf("opening a port for the other hosts: %w", err)
	}
	l := &Listener{listener: listener, refs: 1, arrived: map[Ticket]chan *connection.Conn{}}
	go service(key).Serve(listener, l.admit, l.refuse)
	return l, nil
}

// Port returns the port of the listener.
func (l *Listener) Port() int { return l.listener.Addr().(*net.TCPAddr).Port }

// Keep adds a reference, so that one more Close is needed.
func (l *Listener) Keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refs++
}

// Close drops a reference and stops listening with the last one.
func (l *Listener) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refs--; l.refs > 0 || l.closed {
		return
	}
	l.closed = true
	l.listener.Close()
	for _, c := range l.arrived {
		select {
		case conn := <-c:
			conn.Close()
		default:
		}
	}
}

func (l *Listener) refuse(from string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, connection.ErrWrongSecret) {
		l.refused = fmt.Sprintf("; refused: %s: %v", from, err)
	}
}

func (l *Listener) admit(c *connection.Conn) {
	var t Ticket
	err := c.ReceiveFirst(&t)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && !l.closed {
		select {
		case l.awaited(t) <- c:
			return
		default: // a duplicate
		}
	}
	c.Close()
}

// awaited returns the channel that receives the connection of a ticket. The caller holds the lock.
func (l *Listener) awaited(t Ticket) chan *connection.Conn {
	if l.arrived[t] == nil {
		l.arrived[t] = make(chan *connection.Conn, 1)
	}
	return l.arrived[t]
}

// Accept waits for the connection of a ticket.
func (l *Listener) Accept(ctx context.Context, t Ticket) (*connection.Conn, error) {
	l.mu.Lock()
	arrived := l.awaited(t)
	l.mu.Unlock()
	select {
	case conn := <-arrived:
		l.mu.Lock()
		delete(l.arrived, t)
		l.mu.Unlock()
		return conn, nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, fmt.Errorf("it has not connected to port %d%s: %w", l.Port(), l.refused, context.Cause(ctx))
	}
}

// Dial connects to a peer's listener, at the first of its addresses that works. It connects from the local address
// from, or from any address if from is not valid.
func Dial(ctx context.Context, from netip.Addr, addrs []netip.Addr, port int, key []byte, t Ticket) (*connection.Conn,
	error) {
	var faults []error
	for _, addr := range nearFirst(addrs) {
		conn, err := dial(ctx, from, net.JoinHostPort(addr.String(), strconv.Itoa(port)), key, t)
		if err == nil {
			return conn, nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(faults) == 0 {
		return nil, errors.New("it has no address")
	}
	return nil, fmt.Errorf("%w; this host has %s", errors.Join(faults...), connection.DescribeInterfaces())
}

func dial(ctx context.Context, from netip.Addr, at string, key []byte, t Ticket) (*connection.Conn, error) {
	s := service(key)
	s.From = from
	conn, err := s.DialRetry(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	if err := conn.Send(t); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return conn, nil
}
