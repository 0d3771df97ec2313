package tcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// Place describes where a rank can be reached.
type Place struct {
	Host      string // name of the host in errors
	Interface string // the network interface; "": all of them
	Alone     bool   // all ranks are on this machine, so accept no connections from others
	Ports     connection.PortRange
}

// Endpoint is the address at which a rank accepts connections.
type Endpoint struct {
	Host      string
	Addresses []netip.Addr
	Port      int
	Fault     string // the reason why there is no endpoint; "" if there is one
}

// Mesh connects this rank with others. It holds this rank's listener and the endpoints of all ranks.
type Mesh struct {
	*Listener
	endpoints []Endpoint
	key       []byte
	from      netip.Addr // address of the chosen interface, if any
}

// Open opens this rank's listener and exchanges its address with the others. On one machine, or with an interface, it
// accepts no connections from elsewhere.
func (at Place) Open(ctx context.Context, exchange Exchange, size int, key []byte) (*Mesh, error) {
	l, bind, mine := at.openListener(key)
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
	if at.Interface == "" {
		bind = netip.Addr{}
	}
	return &Mesh{l, all, key, bind}, nil
}

func (at Place) openListener(key []byte) (l *Listener, bind netip.Addr, e Endpoint) {
	e.Host = at.Host
	var err error
	if at.Alone && at.Interface == "" {
		bind = netip.MustParseAddr("127.0.0.1")
		e.Addresses = []netip.Addr{bind}
	} else {
		e.Addresses, err = connection.InterfaceAddrs(at.Interface)
		if err == nil && at.Interface != "" { // only this interface: one address, IPv4 before IPv6
			slices.SortStableFunc(e.Addresses, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
			bind, e.Addresses = e.Addresses[0], e.Addresses[:1]
			if bind.IsLoopback() && !at.Alone {
				err = fmt.Errorf("network interface %q is loopback, which no other host reaches; this host has %s", at.Interface,
					connection.DescribeInterfaces())
			}
		}
	}
	if err == nil {
		l, err = Listen(bind, at.Ports, key)
	}
	if err != nil {
		e.Fault = err.Error()
		return nil, bind, e
	}
	e.Port = l.Port()
	return l, bind, e
}

// Connect connects this rank with a peer, from the chosen interface. rank and peer are the numbers of the two in the
// group, and at is the number of the peer in the mesh. The rank with the higher number dials.
func (m *Mesh) Connect(ctx context.Context, group [16]byte, rank, peer, at int, use Use) (*connection.Conn, error) {
	if peer > rank {
		return m.Accept(ctx, Ticket{Group: group, Rank: uint32(peer), Use: use})
	}
	e := m.endpoints[at]
	return Dial(ctx, m.from, e.Addresses, e.Port, m.key, Ticket{Group: group, Rank: uint32(rank), Use: use})
}
