package tcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// Place says where a rank may be reached.
type Place struct {
	Host      string // its name in messages
	Interface string // the network interface; "": all of them
	Alone     bool   // all ranks are on this machine, so that nobody else need reach it
}

// Endpoint is where a rank's connections come in.
type Endpoint struct {
	Host      string
	Addresses []netip.Addr
	Port      int
	Fault     string // instead: why there is none
}

// Mesh is how ranks connect with each other: this rank's listener, and where those of
// all others are.
type Mesh struct {
	*Listener
	endpoints []Endpoint
	key       []byte
}

// Open opens this rank's listener and exchanges with the others where it is. On one
// machine, or with an interface, it is closed to every other.
func (at Place) Open(ctx context.Context, exchange Exchange, size int, key []byte) (*Mesh, error) {
	l, mine := at.listen(key)
	all, err := Swap(ctx, exchange, size, mine)
	for r, e := range all {
		if e.Fault != "" {
			err = errors.Join(err, fmt.Errorf("rank %d (host %s): %s", r, e.Host, e.Fault))
		}
	}
	if err != nil {
		if l != nil {
			l.Close()
		}
		return nil, err
	}
	return &Mesh{l, all, key}, nil
}

func (at Place) listen(key []byte) (l *Listener, e Endpoint) {
	e.Host = at.Host
	bind, err := netip.Addr{}, error(nil)
	if at.Alone && at.Interface == "" {
		bind = netip.MustParseAddr("127.0.0.1")
		e.Addresses = []netip.Addr{bind}
	} else {
		e.Addresses, err = Addresses(at.Interface)
		if err == nil && at.Interface != "" { // and no other: one address, IPv4 before IPv6
			slices.SortStableFunc(e.Addresses, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
			bind, e.Addresses = e.Addresses[0], e.Addresses[:1]
		}
	}
	if err == nil {
		l, err = Listen(bind, key)
	}
	if err != nil {
		e.Fault = err.Error()
		return nil, e
	}
	e.Port = l.Port()
	return l, e
}

// Connect connects this rank with a peer, in a group that has numbers of its own for
// both; at is the peer's in the mesh. Of two ranks the later one dials.
func (m *Mesh) Connect(ctx context.Context, group [16]byte, rank, peer, at int, use Use) (*connection.Conn, error) {
	if peer > rank {
		return m.Accept(ctx, Ticket{Group: group, Rank: uint32(peer), Use: use})
	}
	e := m.endpoints[at]
	return Dial(ctx, e.Addresses, e.Port, m.key, Ticket{Group: group, Rank: uint32(rank), Use: use})
}
