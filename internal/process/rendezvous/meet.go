package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
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
	DefaultHeartbeat   = connection.SilenceLimit

	// AnyNode lets the rendezvous choose a node's rank.
	AnyNode = connection.AnyRank
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
	Heartbeat   time.Duration        // who is silent for longer is lost
	Grace       time.Duration        // that a failed round may take to end
	Host        string               // this node's name in messages
	Program     []string             // what the ranks run
	LocalAddr   string               // where other nodes reach this one; empty to find out
	Ports       connection.PortRange // that the ranks may use
}

// service is how nodes open a connection.
func (c Config) service() connection.Service {
	return connection.Service{Banner: "kernbench rendezvous 2\n", Secret: c.Secret}
}

// facts are what all nodes must have in common, each repeated by every node, so that a
// command that differs is noticed.
func (c Config) facts() []connection.Fact {
	return []connection.Fact{
		{Name: "--rdzv-id", Value: c.ID, Advice: "give each job its own --rdzv-id and port"},
		{Name: "--nnodes", Value: strconv.Itoa(c.Nodes)},
		{Name: "--nproc-per-node", Value: strconv.Itoa(c.Procs)},
		{Name: "--max-restarts", Value: strconv.Itoa(c.MaxRestarts)},
		{Name: "the program", Value: strings.Join(c.Program, " ")},
		connection.BuildFact(),
	}
}

func (c Config) join(addr string) join {
	return join{connection.Join{Rank: c.Node, Size: c.Nodes, Host: c.Host, PID: os.Getpid(), Facts: c.facts()}, addr}
}

// validate returns every fault.
func (c Config) validate() error {
	var errs []error
	if c.Nodes < 1 || c.Procs < 1 || c.MaxRestarts < 0 {
		errs = append(errs, fmt.Errorf("%d nodes with %d processes each and %d restarts: want at least 1, 1 and 0",
			c.Nodes, c.Procs, c.MaxRestarts))
	}
	if c.Node != AnyNode && (c.Node < 0 || c.Node >= c.Nodes) {
		errs = append(errs, fmt.Errorf("node rank %d does not exist: it must be 0 to %d", c.Node, c.Nodes-1))
	}
	if c.Heartbeat < 2*connection.HeartbeatInterval {
		errs = append(errs, fmt.Errorf("a heartbeat limit of %v is too short: at least %v, since a beat is sent every %v",
			c.Heartbeat, 2*connection.HeartbeatInterval, connection.HeartbeatInterval))
	}
	if c.Nodes > 1 && len(c.Secret) < MinSecret {
		errs = append(errs, fmt.Errorf("a secret of %d bytes is too short: at least %d", len(c.Secret), MinSecret))
	}
	return errors.Join(errs...)
}

// Join joins the group, as its host where the endpoint is this node's own. It
// returns as soon as this node is in contact; the first event is a Start or a
// refusal.
func Join(ctx context.Context, cfg Config) (*Member, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Nodes == 1 {
		return cfg.hostGroup(nil, "127.0.0.1"), nil
	}
	name, port, err := SplitEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	at := net.JoinHostPort(name, port)
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.JoinTimeout, errTime)
	defer cancel()
	m, err := connection.Retry(ctx, func() (*Member, error) { return cfg.attempt(ctx, name, port) })
	switch {
	case err == nil:
		return m, nil
	case ctx.Err() == nil:
		return nil, fmt.Errorf("meeting at %s: %w", at, err)
	case !errors.Is(context.Cause(ctx), errTime):
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("no rendezvous at %s within %v: is the same command running on that host, and is the port "+
		"open? (%w; this host has %s)",
		at, cfg.JoinTimeout, err, connection.DescribeInterfaces())
}

var (
	errTime         = errors.New("the time to join is over")
	errNoRendezvous = errors.New("what listens there is not a kernbench rendezvous of this version")
)

// attempt tries once to become host, or else to reach it.
func (c Config) attempt(ctx context.Context, name, port string) (*Member, error) {
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, connection.Permanent(err)
	}
	listener, err := connection.ListenTCP(ctx, name, number)
	inUse := errors.Is(err, syscall.EADDRINUSE) // another node on the same host may be the rendezvous already
	var unresolved *net.DNSError
	switch {
	case err == nil:
		addr := name
		if own := listener.Addr().(*net.TCPAddr).AddrPort().Addr().Unmap(); !own.IsUnspecified() {
			addr = own.String()
		}
		return c.hostGroup(listener, addr), nil
	case errors.As(err, &unresolved):
		return nil, err
	case !inUse && !errors.Is(err, connection.ErrNotLocal):
		return nil, connection.Permanent(fmt.Errorf("listening: %w", err))
	}
	conn, err := c.service().Dial(ctx, "tcp", net.JoinHostPort(name, port))
	switch {
	case errors.Is(err, connection.ErrWrongService) && inUse:
		return nil, connection.Permanent(fmt.Errorf("the port is in use: %w; choose another port", errNoRendezvous))
	case errors.Is(err, connection.ErrWrongService):
		return nil, connection.Permanent(errNoRendezvous)
	case errors.Is(err, connection.ErrWrongSecret):
		return nil, connection.Permanent(fmt.Errorf("refused: %w; every node needs the same one", connection.ErrWrongSecret))
	case err != nil:
		return nil, err
	}
	addr := c.LocalAddr
	if addr == "" {
		addr, _, _ = net.SplitHostPort(conn.LocalAddr().String())
	}
	return newMember(connection.NewLink[message](conn), c.join(addr), c.Ports, c.Heartbeat), nil
}

// hostGroup makes this node the host, and its own first member.
func (c Config) hostGroup(listener net.Listener, addr string) *Member {
	if c.LocalAddr != "" {
		addr = c.LocalAddr
	}
	h := connection.NewHost(newCoordinator(c))
	m := newMember(h.SelfLink(), c.join(addr), c.Ports, 0) // a process does not wait in vain for itself, however slow it is
	m.host = h
	if listener != nil {
		h.Serve(listener, c.service())
	}
	return m
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
		return "", "", fmt.Errorf("endpoint %q: want HOST:PORT, such as node0:%s or [fd00::1]:%s", endpoint, DefaultPort,
			DefaultPort)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "0" {
		return "", "", fmt.Errorf("endpoint %q: port %q is not 1 to 65535: every node must know it beforehand", endpoint,
			port)
	}
	return name, port, nil
}

func literal(text string) netip.Addr {
	addr, _ := netip.ParseAddr(text)
	return addr
}
