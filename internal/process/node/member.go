package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/process/connection"
)

const (
	// DefaultPort is used if the endpoint names no port. torchrun has the same default.
	DefaultPort = "29400"
	// MinSecret is the minimum length of a secret in bytes. Shorter ones can be guessed.
	MinSecret = 16

	DefaultJoinTimeout = time.Minute
	DefaultHeartbeat   = connection.SilenceLimit

	// localhost is the address of the ranks of a single node, as torchrun has it.
	localhost = "localhost"

	// AnyNode lets the rendezvous choose a node's rank.
	AnyNode = connection.AnyRank
)

// Config holds the settings with which a node joins the rendezvous. All fields except Node, Host and
// LocalAddr must be the same on every node.
type Config struct {
	Endpoint    string // host:port; unused for a single node
	ID          string // job ID
	Nodes       int
	Procs       int // ranks on each node
	Node        int // requested node rank, or AnyNode
	MaxRestarts int
	Secret      []byte // unused for a single node
	JoinTimeout time.Duration
	Heartbeat   time.Duration        // silence after which a node is lost
	Grace       time.Duration        // time to end a failed round
	Host        string               // this node's name in messages
	Program     []string             // command line of the ranks
	LocalAddr   string               // the address of this node for other nodes; "" to detect it
	Ports       connection.PortRange // for the ranks to listen on
	// AllowOtherBuild makes the host accept nodes that run another executable.
	AllowOtherBuild bool
}

// service describes the connection between nodes.
func (c Config) service() connection.Service {
	return connection.Service{Banner: "kernbench rendezvous 3\n", Secret: c.Secret}
}

// facts are the values that all nodes must agree on. Every node sends its own, so that a command
// that differs is detected.
func (c Config) facts() []connection.Fact {
	facts := []connection.Fact{
		{Name: "--rdzv-id", Value: c.ID, Advice: "give each job its own --rdzv-id and port"},
		{Name: "--nnodes", Value: strconv.Itoa(c.Nodes)},
		{Name: "--nproc-per-node", Value: strconv.Itoa(c.Procs)},
		{Name: "--max-restarts", Value: strconv.Itoa(c.MaxRestarts)},
		{Name: "the program", Value: strings.Join(c.Program, " ")},
	}
	if c.Nodes == 1 { // no one to compare with
		return facts
	}
	return append(facts, connection.BuildFact(c.AllowOtherBuild))
}

func (c Config) join(addr string) join {
	return join{connection.NewJoin(c.Node, c.Nodes, c.Host, c.facts()), addr}
}

// meet joins the group, as its host if the endpoint is an address of this node. It returns once
// this node is in contact. The first event is a Start or a refusal.
func meet(ctx context.Context, cfg Config) (*member, error) {
	if cfg.Heartbeat < 2*connection.HeartbeatInterval {
		return nil, fmt.Errorf("heartbeat limit %v: must be at least %v, because heartbeats are sent every %v",
			cfg.Heartbeat, 2*connection.HeartbeatInterval, connection.HeartbeatInterval)
	}
	if cfg.Nodes == 1 {
		return cfg.hostGroup(nil, localhost), nil
	}
	name, port, err := SplitEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	at := net.JoinHostPort(name, port)
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.JoinTimeout, errTime)
	defer cancel()
	m, err := connection.Retry(ctx, func() (*member, error) { return cfg.attempt(ctx, name, port) })
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
	errNoRendezvous = errors.New("the service at this port is not a kernbench rendezvous of this version")
)

// attempt tries once to become the host, or else to reach it.
func (c Config) attempt(ctx context.Context, name, port string) (*member, error) {
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, connection.Permanent(err)
	}
	listener, err := connection.ListenTCP(ctx, name, number)
	inUse := errors.Is(err, syscall.EADDRINUSE) // perhaps by another node on this host, which is the rendezvous
	var unresolved *net.DNSError
	switch {
	case err == nil:
		addr := name
		if own := listener.Addr().(*net.TCPAddr).AddrPort().Addr().Unmap(); !own.IsUnspecified() && name != localhost {
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
func (c Config) hostGroup(listener net.Listener, addr string) *member {
	if c.LocalAddr != "" {
		addr = c.LocalAddr
	}
	core := newCoordinator(c)
	h := connection.NewUntimedHost(core)
	h.Watch(&core.group, &core.pause)
	// No silence limit, because a process cannot lose the connection to itself, however slow it is.
	m := newMember(h.SelfLink(), c.join(addr), c.Ports, 0)
	m.host = h
	if listener != nil {
		h.Serve(listener, c.service())
	}
	return m
}

// SplitEndpoint parses HOST:PORT, HOST, or an IPv6 address with or without brackets.
func SplitEndpoint(endpoint string) (name, port string, err error) {
	if parseLiteral(endpoint).IsValid() { // an IPv6 address without brackets contains colons
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
		return "", "", fmt.Errorf("endpoint %q: port %q: want 1 to 65535, the same on every node", endpoint, port)
	}
	return name, port, nil
}

func parseLiteral(text string) netip.Addr {
	addr, _ := netip.ParseAddr(text)
	return addr
}

// member is a node's end of the rendezvous. Only leave blocks.
type member struct {
	link  *connection.Link[message]
	addr  string                    // where other nodes reach this one
	ports connection.PortRange      // of the ranks
	host  *connection.Host[message] // nil unless this node is the host
	// events must be received until the group ends, with Finished, Refused, Lost, or a Stop without Restarts.
	events chan Event
	quit   chan struct{}
	closed sync.Once
}

// newMember joins the group over a link to the host. The host counts as lost if it is silent for longer than the limit;
// 0 disables the check.
func newMember(l *connection.Link[message], j join, ports connection.PortRange, silence time.Duration) *member {
	m := &member{link: l, addr: j.Addr, ports: ports, events: make(chan Event), quit: make(chan struct{})}
	l.Send(message{Join: &j})
	go m.run(silence)
	return m
}

// ready reports that the previous round has ended on this node. It also offers a free port, for the case that rank 0 of
// the next round runs here.
func (m *member) ready() error {
	addr := m.addr
	if addr == localhost { // which a container may not be able to look up
		addr = "127.0.0.1"
	}
	port, err := m.ports.FreePort(addr)
	if err != nil {
		return err
	}
	m.link.Send(message{Ready: &readyNode{port}})
	return nil
}

// leave leaves the rendezvous. The others treat this as a failure unless the group has ended. On the host, leave waits
// until the last messages to the other nodes have been sent.
func (m *member) leave() {
	m.closed.Do(func() {
		close(m.quit)
		m.link.Finish()
		m.link.Abort()
		if m.host != nil {
			<-m.host.Ended()
		}
	})
}

func (m *member) run(silence time.Duration) {
	defer m.link.Finish() // lets the host close without waiting for this node's caller
	tell := func(e Event) {
		select {
		case m.events <- e:
		case <-m.quit:
		}
	}
	err := m.link.Run(silence, func(msg message) (more bool) {
		if msg.Event == (Event{}) { // a heartbeat
			return true
		}
		tell(msg.Event)
		return msg.Start != nil || msg.Stop != nil && msg.Stop.Restarts > 0
	})
	if err != nil {
		tell(Event{Lost: connection.DescribeLoss(err)})
	}
}

// InterfaceAddr returns the address of a network interface by which other nodes reach this one. It
// prefers the endpoint's address family if the endpoint is a literal address, else IPv4.
func InterfaceAddr(name, endpoint string) (string, error) {
	addrs, err := connection.InterfaceAddrs(name)
	if err != nil {
		return "", err
	}
	host, _, _ := SplitEndpoint(endpoint)
	addr, ok := lists.First(addrs, func(a netip.Addr) bool { return a.Is6() == parseLiteral(host).Is6() })
	if !ok {
		addr = addrs[0]
	}
	return addr.String(), nil
}
