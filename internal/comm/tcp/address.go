package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Machine names what ranks must have in common to share memory: the running
// kernel and the network namespace, within which they find each other.
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

// Addresses lists those by which other hosts may reach this one, of one network
// interface or, with "", of all. Loopback is not among them.
func Addresses(device string) ([]netip.Addr, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var found []netip.Addr
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
		if device != "" && d.Name != device || d.Flags&net.FlagUp == 0 {
			continue
		}
		nets, err := d.Addrs()
		if err != nil {
			return nil, fmt.Errorf("network interface %s: %w", d.Name, err)
		}
		for _, n := range nets {
			prefix, err := netip.ParsePrefix(n.String())
			if err != nil {
				continue
			}
			// A link-local address means nothing elsewhere.
			if a := prefix.Addr(); !a.IsLinkLocalUnicast() && (!a.IsLoopback() || device != "") {
				found = append(found, a)
			}
		}
	}
	if device != "" && !slices.Contains(names, device) {
		return nil, fmt.Errorf("no network interface %q: there are %v", device, names)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no address by which other hosts reach this one (network interfaces %v)", names)
	}
	return found, nil
}

// nearFirst puts the addresses first that are in a network of this host: they
// are the most likely to be reached.
func nearFirst(addrs []netip.Addr) []netip.Addr {
	nets, _ := net.InterfaceAddrs()
	near := func(a netip.Addr) bool {
		return slices.ContainsFunc(nets, func(n net.Addr) bool {
			prefix, err := netip.ParsePrefix(n.String())
			return err == nil && prefix.Contains(a)
		})
	}
	sorted := slices.Clone(addrs)
	slices.SortStableFunc(sorted, func(a, b netip.Addr) int {
		switch x, y := near(a), near(b); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	return sorted
}
