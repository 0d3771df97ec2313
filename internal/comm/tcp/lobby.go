package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

const (
	banner = "kernbench wire 1\n"
	// maxStrangers bounds the connections that have not yet proved anything.
	maxStrangers = 256
	// dialLimit is how long one of a peer's addresses may take before the next is
	// tried as well.
	dialLimit = 3 * time.Second
)

// Use says what a connection is for.
type Use uint32

// The uses.
const (
	ForCollectives Use = iota
	ForProgram
	ForControl
)

// Ticket names one connection: of which group, from whom, and for what.
type Ticket struct {
	Group [16]byte
	Rank  uint32
	Use   Use
}

const ticketBytes = 24

// Conn is a connection whose two ends have proved that they know the key, and
// what they know in common since.
type Conn struct {
	*net.TCPConn
	frames *connection.Conn
}

// Lobby is where a rank's connections come in, whatever group they are for: the
// peer may be earlier than this rank.
type Lobby struct {
	listener *net.TCPListener
	key      []byte

	mu       sync.Mutex
	closed   bool
	refs     int
	guests   map[Ticket]chan *Conn
	rejected string // the last one who was turned away
}

// OpenLobby listens on the address, on all of them if it is not valid.
func OpenLobby(addr netip.Addr, key []byte) (*Lobby, error) {
	at := &net.TCPAddr{}
	if addr.IsValid() {
		at = net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0))
	}
	listener, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("opening a port for the other hosts: %w", err)
	}
	l := &Lobby{listener: listener, key: key, refs: 1, guests: map[Ticket]chan *Conn{}}
	go l.accept()
	return l, nil
}

// Port is where the lobby listens.
func (l *Lobby) Port() int { return l.listener.Addr().(*net.TCPAddr).Port }

// Keep makes one more Close necessary.
func (l *Lobby) Keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refs++
}

// Close lets nobody in any more.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refs--; l.refs > 0 || l.closed {
		return
	}
	l.closed = true
	l.listener.Close()
	for _, c := range l.guests {
		select {
		case conn := <-c:
			conn.Close()
		default:
		}
	}
}

func (l *Lobby) accept() {
	strangers := make(chan struct{}, maxStrangers)
	for {
		conn, err := l.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // out of descriptors, say; the dialling side is patient
			continue
		}
		strangers <- struct{}{}
		go func() {
			defer func() { <-strangers }()
			l.admit(conn)
		}()
	}
}

func (l *Lobby) admit(conn *net.TCPConn) {
	c, err := connection.Service{Banner: banner, Secret: l.key}.Greet(conn)
	var ticket [ticketBytes]byte
	if err == nil {
		conn.SetDeadline(time.Now().Add(connection.HandshakeLimit))
		_, err = io.ReadFull(conn, ticket[:])
		conn.SetDeadline(time.Time{})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || l.closed {
		if errors.Is(err, connection.ErrSecret) {
			l.rejected = fmt.Sprintf("; %v was turned away: %v", conn.RemoteAddr(), err)
		}
		conn.Close()
		return
	}
	t := Ticket{Group: [16]byte(ticket[:16]), Rank: binary.BigEndian.Uint32(ticket[16:]), Use: Use(binary.BigEndian.Uint32(ticket[20:]))}
	select {
	case l.guest(t) <- &Conn{TCPConn: conn, frames: c}:
	default:
		conn.Close() // the second of its kind
	}
}

// guest is where the connection of a ticket is waited for. The lock is held.
func (l *Lobby) guest(t Ticket) chan *Conn {
	if l.guests[t] == nil {
		l.guests[t] = make(chan *Conn, 1)
	}
	return l.guests[t]
}

// Take waits for the connection of a ticket.
func (l *Lobby) Take(ctx context.Context, t Ticket) (*Conn, error) {
	l.mu.Lock()
	guest := l.guest(t)
	l.mu.Unlock()
	select {
	case conn := <-guest:
		l.mu.Lock()
		delete(l.guests, t)
		l.mu.Unlock()
		return conn, nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, fmt.Errorf("it has not connected to port %d%s: %w", l.Port(), l.rejected, context.Cause(ctx))
	}
}

// Dial connects to a peer's lobby by the first of its addresses that works.
func Dial(ctx context.Context, addrs []netip.Addr, port int, key []byte, t Ticket) (*Conn, error) {
	var faults []error
	for _, addr := range nearFirst(addrs) {
		conn, err := dial(ctx, addr, port, key, t)
		if err == nil {
			return conn, nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(faults) == 0 {
		return nil, errors.New("it has told no address")
	}
	return nil, errors.Join(faults...)
}

func dial(ctx context.Context, addr netip.Addr, port int, key []byte, t Ticket) (*Conn, error) {
	at := net.JoinHostPort(addr.String(), strconv.Itoa(port))
	d := net.Dialer{Timeout: dialLimit}
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	conn := c.(*net.TCPConn) // what the network "tcp" gives
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	frames, err := connection.Service{Banner: banner, Secret: key}.Answer(conn)
	if err == nil {
		var b [ticketBytes]byte
		copy(b[:], t.Group[:])
		binary.BigEndian.PutUint32(b[16:], t.Rank)
		binary.BigEndian.PutUint32(b[20:], uint32(t.Use))
		_, err = conn.Write(b[:])
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return &Conn{TCPConn: conn, frames: frames}, nil
}
