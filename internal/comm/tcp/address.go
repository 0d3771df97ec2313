package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Machine identifies the machine for shared memory: ranks with the same running kernel and network
// namespace can share memory and find each other's sockets.
func Machine() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("identifying this host: %w", err)
	}
	space, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return "", fmt.Errorf("identifying this host: %w", err)
	}
	return strings.TrimSpace(string(boot)) + " " + space, nil
}

// nearFirst moves addresses in networks of this host to the front, because they are most likely to be reachable.
func nearFirst(addrs []netip.Addr) []netip.Addr {
	nets, _ := net.InterfaceAddrs()
	far := func(a netip.Addr) int {
		for _, n := range nets {
			if prefix, err := netip.ParsePrefix(n.String()); err == nil && prefix.Contains(a) {
				return 0
			}
		}
		return 1
	}
	sorted := slices.Clone(addrs)
	slices.SortStableFunc(sorted, func(a, b netip.Addr) int { return far(a) - far(b) })
	return sorted
}
