package connection

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// Service describes how two processes connect. Both sides must use the same Banner and Secret.
type Service struct {
	Banner string // names the service and its version; ends in a newline
	Secret []byte
	// From is the local address from which to dial destinations of the same family (IPv4 or IPv6). The zero value
	// means any address.
	From netip.Addr
}

// The handshake has three messages. H is the side that listened, M the side that dialled:
//
//	H: banner, nonce
//	M: nonce, proof
//	H: y, proof   or   n
//
// A proof is an HMAC of both nonces, keyed with the secret. M sends its proof first. Otherwise anyone who connects
// would get a proof from H, against which to test guesses of the secret offline. Both sides derive the key that
// authenticates frames from the same nonces.
const (
	nonceSize = 32
	proofSize = sha256.Size

	accepted, refused = 'y', 'n'
)

var (
	// ErrWrongService means that another service listens at the address.
	ErrWrongService = errors.New("another service")
	// ErrWrongSecret means that the two sides have different secrets.
	ErrWrongSecret = errors.New("the secrets differ")
	// ErrNoAnswer means that a process accepts connections at the address but sends nothing. It may be another
	// service, or the right one if its process is stopped.
	ErrNoAnswer = fmt.Errorf("connected, but nothing was heard for %v: its process may be stopped", HandshakeTimeout)
)

func (s Service) proof(who string, nonces []byte) []byte {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(s.Banner + who + "\n"))
	mac.Write(nonces)
	return mac.Sum(nil)
}

// ServerHandshake performs the handshake for the side that listened. It closes the connection on an
// error.
func (s Service) ServerHandshake(conn net.Conn) (*Conn, error) {
	return s.open(conn, HostSide, s.greet)
}

// ClientHandshake performs the handshake for the side that dialled. It closes the connection on an
// error. If the connection ends before the first byte, the error is not ErrWrongService, because
// the right service may just be starting or ending.
func (s Service) ClientHandshake(conn net.Conn) (*Conn, error) {
	return s.open(conn, MemberSide, s.answer)
}

func (s Service) open(conn net.Conn, side Side, handshake func(net.Conn) ([]byte, error)) (*Conn, error) {
	pid, err := sameUser(conn)
	if err == nil {
		conn.SetDeadline(time.Now().Add(HandshakeTimeout))
		var key []byte
		if key, err = handshake(conn); err == nil {
			conn.SetDeadline(time.Time{})
			c := newConn(conn, key, side)
			c.PID = pid
			return c, nil
		}
	}
	conn.Close()
	return nil, err
}

// greet is the host's side of the handshake. It returns the key that authenticates frames.
func (s Service) greet(conn net.Conn) (key []byte, err error) {
	nonces := make([]byte, 2*nonceSize) // the host's nonce, then the member's
	rand.Read(nonces[:nonceSize])
	if _, err := conn.Write(append([]byte(s.Banner), nonces[:nonceSize]...)); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	answer := make([]byte, nonceSize+proofSize)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, fmt.Errorf("waiting for its proof: %w", err)
	}
	copy(nonces[nonceSize:], answer)
	if !hmac.Equal(answer[nonceSize:], s.proof("member", nonces)) {
		conn.Write([]byte{refused})
		return nil, ErrWrongSecret
	}
	if _, err := conn.Write(append([]byte{accepted}, s.proof("host", nonces)...)); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	return s.proof("key", nonces), nil
}

// answer is the member's side of the handshake. It returns the key that authenticates frames.
func (s Service) answer(conn net.Conn) (key []byte, err error) {
	hello := make([]byte, len(s.Banner)+nonceSize)
	if n, err := io.ReadFull(conn, hello); err != nil || string(hello[:len(s.Banner)]) != s.Banner {
		switch {
		case n == 0 && isReset(err):
			return nil, fmt.Errorf("waiting for its greeting: %w", err)
		case n == 0 && errors.Is(err, os.ErrDeadlineExceeded):
			return nil, ErrNoAnswer
		}
		return nil, ErrWrongService
	}
	nonces := slices.Concat(hello[len(s.Banner):], make([]byte, nonceSize))
	rand.Read(nonces[nonceSize:])
	if _, err := conn.Write(slices.Concat(nonces[nonceSize:], s.proof("member", nonces))); err != nil {
		return nil, fmt.Errorf("sending the proof: %w", err)
	}
	verdict := make([]byte, 1+proofSize)
	n, err := io.ReadFull(conn, verdict)
	switch {
	case n > 0 && verdict[0] == refused:
		return nil, ErrWrongSecret
	case err != nil:
		return nil, fmt.Errorf("waiting for its proof: %w", err)
	case verdict[0] != accepted || !hmac.Equal(verdict[1:], s.proof("host", nonces)):
		return nil, ErrWrongSecret
	}
	return s.proof("key", nonces), nil
}

// sameUser checks that the process at the other end of a unix socket belongs to this user, and
// returns its PID. Any user of the host could have bound the socket's name.
func sameUser(conn net.Conn) (pid int, err error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, nil
	}
	cred, err := hostinfo.Peer(u)
	if err != nil {
		return 0, err
	}
	if int(cred.Uid) != os.Getuid() {
		return 0, fmt.Errorf("process %d belongs to user %d, not %d", cred.Pid, cred.Uid, os.Getuid())
	}
	return int(cred.Pid), nil
}

// Serve accepts connections and performs their handshakes until the listener is closed. For each success it calls
// admit, on a goroutine of its own. For each failure it calls refuse, one at a time; if there are too many failures, it
// skips some. from is the peer's address without the port. Serve returns after all these calls have returned.
func (s Service) Serve(l net.Listener, admit func(*Conn), refuse func(from string, err error)) {
	type refusal struct {
		from string
		err  error
	}
	refusals := make(chan refusal, maxRefusals)
	var reporter sync.WaitGroup
	reporter.Go(func() {
		for r := range refusals {
			refuse(r.from, r.err)
		}
	})
	unproven := newHandshakeLimiter()
	var all sync.WaitGroup
	greet := func(g *pendingConn) {
		c, err := s.ServerHandshake(g.conn)
		unproven.remove(g)
		if err == nil {
			admit(c)
			return
		}
		select {
		case refusals <- refusal{g.from, err}:
		default: // flooded: drop the report
		}
	}
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			all.Wait()
			close(refusals)
			reporter.Wait()
			return
		case err != nil:
			time.Sleep(maxRedialPause) // for example, no descriptors are left; clients dial again
		default:
			g := unproven.add(conn, hostOf(conn.RemoteAddr()))
			all.Go(func() { greet(g) })
		}
	}
}

func hostOf(addr net.Addr) string {
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		return host
	}
	return "a process of this host"
}

// Dial makes one attempt to connect and performs the handshake. Both end when ctx does.
func (s Service) Dial(ctx context.Context, network, address string) (*Conn, error) {
	d := net.Dialer{Timeout: HandshakeTimeout}
	if to, err := netip.ParseAddrPort(address); err == nil && s.From.IsValid() && to.Addr().Is4() == s.From.Is4() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.From, 0))
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c, err := s.ClientHandshake(conn)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return c, nil
}

// DialRetry is Dial for a service that is known to be listening. It retries if the service had no room for another
// connection, closed it because the handshake was too slow, or is stopped.
func (s Service) DialRetry(ctx context.Context, network, address string) (*Conn, error) {
	return Retry(ctx, func() (*Conn, error) {
		c, err := s.Dial(ctx, network, address)
		if err != nil && !IsDisconnect(err) && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, os.ErrDeadlineExceeded) &&
			!errors.Is(err, ErrNoAnswer) {
			err = Permanent(err)
		}
		return c, err
	})
}

// DialAny searches for a service at several addresses in parallel, so that an unresponsive address
// delays none of the others. It returns when the service answers, rejects the secret, or ctx ends.
// If ctx ends, the error says why the attempts failed.
func (s Service) DialAny(ctx context.Context, network string, addresses ...string) (*Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		conn *Conn
		err  error
	}
	answers := make(chan answer, len(addresses))
	for _, address := range addresses {
		go func() {
			c, err := Retry(ctx, func() (*Conn, error) {
				c, err := s.Dial(ctx, network, address)
				if errors.Is(err, ErrWrongSecret) {
					err = Permanent(err)
				}
				return c, err
			})
			answers <- answer{c, err}
		}()
	}
	var found *Conn
	var fault, wrong error
	for range addresses {
		a := <-answers
		switch {
		case a.err == nil && found == nil:
			found = a.conn
			cancel() // end the other searches
		case a.err == nil:
			a.conn.Close()
		case errors.Is(a.err, ErrWrongSecret):
			wrong = a.err
			cancel()
		default:
			fault = errors.Join(fault, a.err)
		}
	}
	cancel()
	switch {
	case found != nil:
		return found, nil
	case wrong != nil:
		return nil, wrong
	}
	return nil, fault
}

// permanentError is an error that ends a Retry.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// Permanent marks an error that ends a [Retry].
func Permanent(err error) error { return &permanentError{err} }

// expired reports whether ctx has ended or its deadline has passed. A dial may notice the deadline
// before ctx does.
func expired(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(end)
}

// Retry repeats an attempt until it succeeds, fails with a [Permanent] error, or ctx ends. It then
// returns the last error that was not merely caused by the end of ctx.
func Retry[T any](ctx context.Context, attempt func() (T, error)) (T, error) {
	last, pause := error(nil), time.Millisecond
	for {
		got, err := attempt()
		var final *permanentError
		switch {
		case err == nil:
			return got, nil
		case errors.As(err, &final):
			return got, err
		case last == nil, !expired(ctx):
			last = err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxRedialPause) // a peer that is late is usually late by little
		case <-ctx.Done():
			return got, last
		}
	}
}

const (
	// maxUnproven limits the connections whose handshake is not complete.
	maxUnproven = 256
	// maxRefusals limits the refusals that wait to be reported.
	maxRefusals = 16
	// handshakeTime is the time that a handshake may take while the limiter is full. A handshake needs only one round
	// trip. A client that is too slow because its machine is busy dials again.
	handshakeTime = 100 * time.Millisecond
)

// handshakeLimiter limits the number of connections with an unfinished handshake. When it is full, it closes the oldest
// connection from the address that has the most. A single host therefore cannot lock out the others, and silent
// connections make room for new ones.
type handshakeLimiter struct {
	mu      sync.Mutex     // guards pending
	pending []*pendingConn // in order of arrival
	freed   chan struct{}  // receives a value after a connection has been removed
}

type pendingConn struct {
	conn  net.Conn
	from  string
	since time.Time
}

func newHandshakeLimiter() *handshakeLimiter { return &handshakeLimiter{freed: make(chan struct{}, 1)} }

// add registers a connection whose handshake is about to start, after waiting for a free place.
func (d *handshakeLimiter) add(conn net.Conn, from string) *pendingConn {
	for {
		wait, full := d.makeRoom()
		if !full {
			break
		}
		select {
		case <-d.freed:
		case <-time.After(wait):
		}
	}
	g := &pendingConn{conn, from, time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, g)
	return g
}

// makeRoom reports whether the limiter is full. If it is, makeRoom closes a connection that has had handshakeTime, and
// returns how long to wait before the next attempt.
func (d *handshakeLimiter) makeRoom() (wait time.Duration, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) < maxUnproven {
		return 0, false
	}
	number := map[string]int{}
	for _, g := range d.pending {
		number[g.from]++
	}
	oldest := d.pending[0]
	for _, g := range d.pending {
		if number[g.from] > number[oldest.from] {
			oldest = g
		}
	}
	if wait = handshakeTime - time.Since(oldest.since); wait <= 0 {
		oldest.conn.Close() // its handshake fails, which calls remove
		wait = handshakeTime
	}
	return wait, true
}

// remove unregisters a connection whose handshake is over.
func (d *handshakeLimiter) remove(g *pendingConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.pending, g); i >= 0 {
		d.pending = slices.Delete(d.pending, i, i+1)
	}
	select {
	case d.freed <- struct{}{}:
	default:
	}
}
