package rendezvous

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

const (
	// DefaultPort is the rendezvous' port when the endpoint names none, as torchrun's.
	DefaultPort = "29400"
	// MinSecret is the least length of a secret in bytes: shorter ones can be guessed.
	MinSecret = 16

	DefaultJoinTimeout = time.Minute
	DefaultHeartbeat   = 5 * time.Second

	redialTime = 100 * time.Millisecond
)

// Config is what a node knows before it meets the others. All but Node, Host and
// LocalAddr are the same on every node.
type Config struct {
	Endpoint    string // host:port; unused for a single node
	ID          string // of the job
	Nodes       int
	Procs       int // ranks on each node
	Node        int // the rank this node insists on, or AnyNode
	MaxRestarts int
	Secret      []byte // unused for a single node
	JoinTimeout time.Duration
	Heartbeat   time.Duration // who is silent for longer is lost
	Host        string        // this node's name in messages
	LocalAddr   string        // where other nodes reach this one; empty to find out
}

func (c Config) join(addr string) join {
	return join{ID: c.ID, Nodes: c.Nodes, Procs: c.Procs, MaxRestarts: c.MaxRestarts, Node: c.Node, Host: c.Host, PID: os.Getpid(), Addr: addr}
}

// validate returns every fault.
func (c Config) validate() error {
	var errs []error
	if c.Nodes < 1 || c.Procs < 1 || c.MaxRestarts < 0 {
		errs = append(errs, fmt.Errorf("%d nodes with %d processes each and %d restarts: want at least 1, 1 and 0", c.Nodes, c.Procs, c.MaxRestarts))
	}
	if c.Node != AnyNode && (c.Node < 0 || c.Node >= c.Nodes) {
		errs = append(errs, fmt.Errorf("node rank %d does not exist: it must be 0 to %d", c.Node, c.Nodes-1))
	}
	if c.Heartbeat < 2*beatTime {
		errs = append(errs, fmt.Errorf("a heartbeat limit of %v is too short: at least %v, since a beat is sent every %v", c.Heartbeat, 2*beatTime, beatTime))
	}
	if c.Nodes > 1 && len(c.Secret) < MinSecret {
		errs = append(errs, fmt.Errorf("a secret of %d bytes is too short: at least %d", len(c.Secret), MinSecret))
	}
	return errors.Join(errs...)
}

// Meet joins the group, as its host where the endpoint is this node's own. It
// returns as soon as this node is in contact; the first event is a Start or a
// refusal.
func Meet(ctx context.Context, cfg Config) (*Member, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Nodes == 1 {
		cfg.Secret = []byte(rand.Text()) // the one member is told directly
		return cfg.hostGroup(nil, "127.0.0.1"), nil
	}
	name, port, err := SplitEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.JoinTimeout, errTime)
	defer cancel()
	for last := error(nil); ; {
		m, err := cfg.attempt(ctx, name, port)
		var final *finalError
		switch {
		case err == nil:
			return m, nil
		case errors.As(err, &final):
			return nil, fmt.Errorf("meeting at %s: %w", net.JoinHostPort(name, port), err)
		case ctx.Err() == nil || last == nil:
			last = err // what is said after the end of time is only about that
		}
		select {
		case <-time.After(redialTime):
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), errTime) {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("no rendezvous at %s within %v: is the same command running on that host, and is the port open? (%w)",
				net.JoinHostPort(name, port), cfg.JoinTimeout, last)
		}
	}
}

var errTime = errors.New("the time to join is over")

// finalError is not worth another try.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// attempt tries once to become host, or else to reach it.
func (c Config) attempt(ctx context.Context, name, port string) (*Member, error) {
	addrs, err := resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	own, ours := ownAddr(addrs)
	inUse := false
	if ours {
		bind := own.String()
		if own.IsLoopback() && !slices.Contains(addrs, literal(name)) && name != "localhost" {
			// The host's own name stands for loopback in its hosts file, as Debian sets
			// it up; the other nodes resolve it to an address that works.
			bind, own = "", netip.Addr{}
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(bind, port))
		if err == nil {
			addr := name
			if own.IsValid() {
				addr = own.String()
			}
			return c.hostGroup(listener, addr), nil
		}
		// Another node on the same host may be the rendezvous already.
		if inUse = errors.Is(err, syscall.EADDRINUSE); !inUse {
			return nil, &finalError{fmt.Errorf("listening: %w", err)}
		}
	}
	conn, err := dial(ctx, addrs, port)
	if err != nil {
		return nil, err
	}
	l, err := greetHost(conn, c.Secret)
	if err != nil {
		conn.Close()
		switch {
		case errors.Is(err, errNoRendezvous) && inUse:
			err = &finalError{fmt.Errorf("the port is in use: %w; choose another port", err)}
		case errors.Is(err, errNoRendezvous):
			err = &finalError{err}
		case errors.Is(err, connection.ErrSecret):
			err = &finalError{fmt.Errorf("turned away: %w; every node needs the same one", err)}
		}
		return nil, err
	}
	addr := c.LocalAddr
	if addr == "" {
		addr, _, _ = net.SplitHostPort(conn.LocalAddr().String())
	}
	return newMember(l, c.join(addr), c.Heartbeat), nil
}

// hostGroup makes this node the host, and its own first member. The two talk
// over a pipe as they would over the network.
func (c Config) hostGroup(listener net.Listener, addr string) *Member {
	if c.LocalAddr != "" {
		addr = c.LocalAddr
	}
	h := newHost(listener, c)
	theirs, ours := net.Pipe()
	greeted := make(chan *link, 1)
	go func() {
		l, _ := greetMember(theirs, c.Secret) // the same secret, and no network: it cannot fail
		greeted <- l
	}()
	l, _ := greetHost(ours, c.Secret)
	h.tell(heard{peer: hostPeer, link: <-greeted})
	m := newMember(l, c.join(addr), 0) // a process does not wait in vain for itself, however slow it is
	m.host = h
	return m
}

// dial reaches the first address that answers.
func dial(ctx context.Context, addrs []netip.Addr, port string) (net.Conn, error) {
	var errs []error
	for _, addr := range addrs {
		d := net.Dialer{Timeout: connection.HandshakeLimit}
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// SplitEndpoint reads HOST:PORT, HOST, or an IPv6 address with or without brackets.
func SplitEndpoint(endpoint string) (name, port string, err error) {
	if literal(endpoint).IsValid() { // an IPv6 address without brackets has colons of its own
		return endpoint, DefaultPort, nil
	}
	if name, port, err = net.SplitHostPort(endpoint); err != nil && !strings.Contains(endpoint, ":") {
		name, port, err = endpoint, DefaultPort, nil
	}
	if err != nil || name == "" {
		return "", "", fmt.Errorf("endpoint %q: want HOST:PORT, such as node0:%s or [fd00::1]:%s", endpoint, DefaultPort, DefaultPort)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "0" {
		return "", "", fmt.Errorf("endpoint %q: port %q is not 1 to 65535: every node must know it beforehand", endpoint, port)
	}
	return name, port, nil
}

func literal(text string) netip.Addr {
	addr, _ := netip.ParseAddr(text)
	return addr
}

func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if addr := literal(name); addr.IsValid() {
		return []netip.Addr{addr}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// ownAddr finds the first of the addresses that this host has.
func ownAddr(addrs []netip.Addr) (netip.Addr, bool) {
	nets, _ := net.InterfaceAddrs()
	for _, addr := range addrs {
		for _, n := range nets {
			prefix, err := netip.ParsePrefix(n.String())
			// The whole of 127.0.0.0/8 is the host itself.
			if err == nil && (prefix.Addr() == addr.WithZone("") || addr.IsLoopback()) {
				return addr, true
			}
		}
	}
	return netip.Addr{}, false
}
