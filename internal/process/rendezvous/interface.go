package rendezvous

import (
	"net/netip"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// InterfaceAddr gives the address of a network interface by which other nodes
// reach this one: of the endpoint's family where that is known, IPv4 before IPv6
// otherwise.
func InterfaceAddr(name, endpoint string) (string, error) {
	addrs, err := connection.InterfaceAddrs(name)
	if err != nil {
		return "", err
	}
	host, _, _ := SplitEndpoint(endpoint)
	addr, ok := lists.First(addrs, func(a netip.Addr) bool { return a.Is6() == literal(host).Is6() })
	if !ok {
		addr = addrs[0]
	}
	return addr.String(), nil
}
