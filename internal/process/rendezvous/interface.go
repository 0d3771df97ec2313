package rendezvous

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// InterfaceAddr gives the address of a network interface by which other nodes
// reach this one: of the endpoint's family where that is known, IPv4 before IPv6
// otherwise.
func InterfaceAddr(name, endpoint string) (string, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		all, _ := net.Interfaces()
		names := lists.Map(all, func(other net.Interface) string { return other.Name })
		return "", fmt.Errorf("no network interface %q: this host has %v", name, names)
	}
	nets, err := iface.Addrs()
	if err != nil {
		return "", fmt.Errorf("network interface %q: %w", name, err)
	}
	six := false
	if host, _, err := SplitEndpoint(endpoint); err == nil {
		six = literal(host).Is6()
	}
	var other string
	for _, n := range nets {
		prefix, err := netip.ParsePrefix(n.String())
		if err != nil || prefix.Addr().IsLinkLocalUnicast() {
			continue // a link-local address means nothing on another host
		}
		if prefix.Addr().Is6() == six {
			return prefix.Addr().String(), nil
		}
		if other == "" {
			other = prefix.Addr().String()
		}
	}
	if other == "" {
		return "", fmt.Errorf("network interface %q has no address that other hosts could use", name)
	}
	return other, nil
}
