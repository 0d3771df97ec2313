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

// Service is what the two sides of a connection have in common before it exists.
type Service struct {
	Banner string // names the service and its version; ends in a newline
	Secret []byte
	// From is the address of this host to dial others of its family from; not valid: any.
	From netip.Addr
}

// The handshake, H the side that listened and M the one that dialled:
//
//	H: banner, nonce
//	M: nonce, proof
//	H: y, proof   or   n
//
// A proof is a keyed hash of both nonces. M proves first, so that nobody who merely
// connects is given something to try guesses on. Both sides derive the key of the
// connection from the same nonces.
const (
	nonceSize = 32
	proofSize = sha256.Size

	accepted, refused = 'y', 'n'
)

var (
	// ErrWrongService says that what listens there is another service.
	ErrWrongService = errors.New("another service")
	// ErrWrongSecret says that the two sides do not know the same secret.
	ErrWrongSecret = errors.New("the secrets differ")
)

func (s Service) proof(who string, nonces []byte) []byte {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(s.Banner + who + "\n"))
	mac.Write(nonces)
	return mac.Sum(nil)
}

// ServerHandshake makes the handshake for the side that listened. On an error it closes the
// connection.
func (s Service) ServerHandshake(conn net.Conn) (*Conn, error) {
	return s.open(conn, HostSide, s.greet)
}

// ClientHandshake makes the handshake for the side that dialled. On an error it closes the
// connection. One that ends before the first byte gives that error, not
// ErrOtherService: the other side may be just ending, or just starting.
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

func (s Service) greet(conn net.Conn) (key []byte, err error) {
	nonces := make([]byte, 2*nonceSize) // the listener's, then the other's
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

func (s Service) answer(conn net.Conn) (key []byte, err error) {
	hello := make([]byte, len(s.Banner)+nonceSize)
	if n, err := io.ReadFull(conn, hello); err != nil || string(hello[:len(s.Banner)]) != s.Banner {
		if n == 0 && isReset(err) {
			return nil, fmt.Errorf("waiting for its greeting: %w", err)
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

// sameUser asks the kernel who is at the other end of a unix socket, whose name any
// user of this host could have taken.
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

// Serve lets in whoever comes and makes the handshake. admit is called on goroutines of
// their own. refuse is called for one at a time, and not for all when they are many; from
// is the other host's address, without a port. When the listener is closed, Serve waits
// for them and returns.
func (s Service) Serve(l net.Listener, admit func(*Conn), refuse func(from string, err error)) {
	type refusal struct {
		from string
		err  error
	}
	refusals := make(chan refusal, maxRefusals)
	told := make(chan struct{})
	go func() {
		defer close(told)
		for r := range refusals {
			refuse(r.from, r.err)
		}
	}()
	unproven := newDoor()
	var all sync.WaitGroup
	greet := func(g *guest) {
		c, err := s.ServerHandshake(g.conn)
		unproven.leave(g)
		if err == nil {
			admit(c)
			return
		}
		select {
		case refusals <- refusal{g.from, err}:
		default: // a flood
		}
	}
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			all.Wait()
			close(refusals)
			<-told
			return
		case err != nil:
			time.Sleep(maxRedialPause) // out of descriptors, say; who dials has patience
		default:
			g := unproven.enter(conn, hostOf(conn.RemoteAddr()))
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

// Dial tries once to reach a service and makes the handshake. The end of ctx ends
// both.
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

// DialRetry is Dial for a service that is certainly there: it comes again where a door that
// strangers crowd had no room, or let go of one that was slow.
func (s Service) DialRetry(ctx context.Context, network, address string) (*Conn, error) {
	return Retry(ctx, func() (*Conn, error) {
		c, err := s.Dial(ctx, network, address)
		if err != nil && !IsDisconnect(err) && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, os.ErrDeadlineExceeded) {
			err = Permanent(err)
		}
		return c, err
	})
}

// DialAny looks for a service at several addresses, at all of them at once, until it is
// at one of them, turns this process away for its secret, or ctx ends. A service that
// says nothing does not hold up the search elsewhere. Then the error is the last one
// that is not merely about the end of ctx.
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
			cancel() // and with it the search elsewhere
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

// finalError is not worth another try.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// Permanent marks an error that ends a [Retry].
func Permanent(err error) error { return &finalError{err} }

// over reports whether ctx has ended, or is about to: a dial may notice its deadline first.
func over(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(end)
}

// Retry repeats an attempt until it succeeds, its error is [Final], or ctx ends. It
// then returns the last error that is not merely about that end.
func Retry[T any](ctx context.Context, attempt func() (T, error)) (T, error) {
	last, pause := error(nil), time.Millisecond
	for {
		got, err := attempt()
		var final *finalError
		switch {
		case err == nil:
			return got, nil
		case errors.As(err, &final):
			return got, err
		case last == nil, !over(ctx):
			last = err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxRedialPause) // who is late is mostly so by little
		case <-ctx.Done():
			return got, last
		}
	}
}
