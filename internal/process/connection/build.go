package connection

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// BuildFact is a fact of programs that must be the same one: processes of different builds
// may not understand each other, or measure different things.
func BuildFact() Fact {
	return Fact{Name: "the build of the program", Value: buildID(), Advice: "install the same one on every host"}
}

var buildID = sync.OnceValue(func() string { return buildIDOf("/proc/self/exe") })

// buildIDOf names the contents of a program as its linker did; empty if it did not.
func buildIDOf(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	note := f.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	data, err := note.Data()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:12]
}

// DescribeInterfaces lists this host's network interfaces and their addresses, for messages
// about an address that cannot be reached.
func DescribeInterfaces() string {
	all, err := net.Interfaces()
	if err != nil {
		return err.Error()
	}
	var texts []string
	for _, i := range all {
		text := i.Name
		if i.Flags&net.FlagUp == 0 {
			text += " (down)"
		}
		nets, _ := i.Addrs() // an interface may go meanwhile
		for _, n := range nets {
			text += " " + n.String()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// InterfaceAddrs lists those by which other hosts may reach this one, of one network
// interface or, with "", of all. Loopback is not among them.
func InterfaceAddrs(device string) ([]netip.Addr, error) {
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
	switch {
	case len(found) > 0:
		return found, nil
	case device != "" && !slices.Contains(names, device):
		return nil, fmt.Errorf("no network interface %q: this host has %v", device, names)
	case device != "":
		return nil, fmt.Errorf("network interface %q has no address that other hosts could use", device)
	}
	return nil, fmt.Errorf("no address by which other hosts reach this one (network interfaces %v)", names)
}
