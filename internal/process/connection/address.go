package connection

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// ErrNotLocal means that no network interface of this host has the address.
var ErrNotLocal = errors.New("not an address of this host")

// ListenLocal opens a unix socket in the abstract namespace of Linux. It leaves no file behind, even if the process is
// killed.
func ListenLocal(name string) (net.Listener, error) { return net.Listen("unix", "@"+name) }

// ListenTCP opens a port at host, the name or literal address by which other hosts know this one.
// The error wraps ErrNotLocal if the address belongs to another host.
func ListenTCP(ctx context.Context, host string, port int) (net.Listener, error) {
	bind, err := bindAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	return net.Listen("tcp", net.JoinHostPort(bind, strconv.Itoa(port)))
}

// bindAddr returns the address on which to listen so that other hosts can connect to the given name. "" means every
// interface.
func bindAddr(ctx context.Context, host string) (string, error) {
	addrs, err := Resolve(ctx, host)
	if err != nil {
		return "", err
	}
	own, ok := ownAddr(addrs)
	if !ok {
		return "", fmt.Errorf("%s (%v): %w", host, addrs, ErrNotLocal)
	}
	if _, err := netip.ParseAddr(host); own.IsLoopback() && err != nil && host != "localhost" {
		// Debian maps the host's own name to a loopback address in /etc/hosts. Other hosts resolve the
		// same name to a reachable address, so listen on every interface.
		return "", nil
	}
	return own.String(), nil
}

// Resolve returns the addresses of a host name or of a literal address.
func Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// ownAddr returns the first of the addresses that belongs to this host.
func ownAddr(addrs []netip.Addr) (netip.Addr, bool) {
	nets, _ := net.InterfaceAddrs()
	for _, addr := range addrs {
		for _, n := range nets {
			prefix, err := netip.ParsePrefix(n.String())
			// Every address in 127.0.0.0/8 belongs to this host, although no interface lists them all.
			if err == nil && (prefix.Addr() == addr.WithZone("") || addr.IsLoopback() || addr.IsUnspecified()) {
				return addr, true
			}
		}
	}
	return netip.Addr{}, false
}

// Pipe connects two ends within this process.
func Pipe() (host, member *Conn) {
	a, b := net.Pipe()
	return newConn(a, nil, HostSide), newConn(b, nil, MemberSide)
}

// SocketPair returns two connected unix sockets: one end for this process, and one for a child process to inherit.
func SocketPair() (ours *Conn, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	theirs = os.NewFile(uintptr(pair[1]), "socket pair")
	if ours, err = FromDescriptor(pair[0]); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// FromDescriptor wraps an inherited end of a [SocketPair].
func FromDescriptor(fd int) (*Conn, error) {
	f := os.NewFile(uintptr(fd), "socket pair")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d is not valid", fd)
	}
	defer f.Close() // FileConn duplicates the descriptor
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if _, ok := c.(*net.UnixConn); !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor %d is a %T, not a unix socket", fd, c)
	}
	return Plain(c), nil
}

// PortRange is a range of TCP ports, including both ends. A user sets it to the ports that a firewall leaves open
// between hosts. The zero value means any port.
type PortRange struct{ First, Last int }

// minPorts is the number of ports that a job may need on a host in addition to one per rank: the ports on which ranks
// meet, MASTER_PORT, and the ports above it.
const minPorts = 16

// ParsePortRange parses A-B. "" gives the zero PortRange, any port.
func ParsePortRange(text string) (p PortRange, err error) {
	if text == "" {
		return p, nil
	}
	first, last, ok := strings.Cut(text, "-")
	// Atoi returns 0 or an extreme value for invalid numbers, which the checks below reject.
	p.First, _ = strconv.Atoi(first)
	p.Last, _ = strconv.Atoi(last)
	switch {
	case !ok || p.First < 1 || p.Last > 65535 || p.First > p.Last:
		return PortRange{}, fmt.Errorf("port range %q: want two ports such as 29500-29599, the lower one first", text)
	case p.Last-p.First+1 < minPorts:
		return PortRange{}, fmt.Errorf("port range %s has %d ports: a job needs at least %d, "+
			"and one for every rank of a host",
			text, p.Last-p.First+1, minPorts)
	}
	return p, nil
}

func (p PortRange) String() string {
	if p == (PortRange{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", p.First, p.Last)
}

// PortRangeFromEnv reads the range from the KERNBENCH variable of an environment.
func PortRangeFromEnv(environ []string) (PortRange, error) {
	p, err := ParsePortRange(jobenv.Variable(environ, jobenv.PortsVar))
	if err != nil {
		err = fmt.Errorf("%s: %w", jobenv.PortsVar, err)
	}
	return p, err
}

// Listen opens a free port of the range at an address of this host, "" for all of its addresses.
func (p PortRange) Listen(addr string) (net.Listener, error) {
	if p == (PortRange{}) {
		return net.Listen("tcp", net.JoinHostPort(addr, "0"))
	}
	return p.listenFirstFree(addr, p.Last)
}

// listenFirstFree opens a free port from p.First to last. The search starts at a random port, because otherwise all
// ranks of a host would compete for the first ports.
func (p PortRange) listenFirstFree(addr string, last int) (net.Listener, error) {
	count := last - p.First + 1
	for i, from := 0, rand.N(count); i < count; i++ {
		l, err := net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(p.First+(from+i)%count)))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, fmt.Errorf("all ports from %d to %d are in use at %q: %w", p.First, last, addr, syscall.EADDRINUSE)
}

// FreePort chooses from these ports by default. They are below the kernel's ephemeral range: from that range, an
// outgoing connection of any process could take the port before it is used. They also avoid the default rendezvous
// ports.
const defaultFirstPort, defaultLastPort = 20_000, 28_999

// FreePort returns a port that is free at an address of this host, for another program to listen on. Another process
// may take the port first, so callers should retry a failed bind with another port. The ten ports above the returned
// one are in the range too, because ranks meet there.
func (p PortRange) FreePort(addr string) (int, error) {
	l, err := p.listenFree(addr)
	if err != nil {
		return 0, fmt.Errorf("finding a free port on %s: %w", addr, err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (p PortRange) listenFree(addr string) (net.Listener, error) {
	const above = 10 // ports that ranks may use above the returned one
	if p != (PortRange{}) {
		return p.listenFirstFree(addr, p.Last-above)
	}
	if own, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); firstEphemeralPort(string(own)) > defaultLastPort {
		if l, err := (PortRange{defaultFirstPort, defaultLastPort}).listenFirstFree(addr, defaultLastPort); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", net.JoinHostPort(addr, "0"))
}

// firstEphemeralPort returns the first port that the kernel assigns to outgoing connections, or 0
// if it is unknown.
func firstEphemeralPort(limits string) (first int) {
	fmt.Sscan(limits, &first)
	return first
}

// ListenAt is Listen at the address by which other hosts know this one; see [ListenTCP].
func (p PortRange) ListenAt(ctx context.Context, host string) (net.Listener, error) {
	bind, err := bindAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	return p.Listen(bind)
}

// DescribeInterfaces lists this host's network interfaces and their addresses, for error messages
// about unreachable addresses.
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
		nets, _ := i.Addrs() // the interface may have disappeared
		for _, n := range nets {
			text += " " + n.String()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// InterfaceAddrs lists the addresses by which other hosts may reach this one, on the named network
// interface or, if name is "", on all of them. Loopback addresses are included only if the interface
// was named explicitly.
func InterfaceAddrs(name string) ([]netip.Addr, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var all []networkInterface
	for _, d := range devices {
		nets, err := d.Addrs()
		if err != nil {
			return nil, fmt.Errorf("network interface %s: %w", d.Name, err)
		}
		i := networkInterface{name: d.Name, up: d.Flags&net.FlagUp != 0}
		for _, n := range nets {
			if prefix, err := netip.ParsePrefix(n.String()); err == nil {
				i.addrs = append(i.addrs, prefix.Addr())
			}
		}
		all = append(all, i)
	}
	return reachableAddrs(all, name)
}

type networkInterface struct {
	name  string
	up    bool
	addrs []netip.Addr
}

// reachableAddrs is InterfaceAddrs for the given interfaces.
func reachableAddrs(all []networkInterface, name string) (found []netip.Addr, err error) {
	names := lists.Map(all, func(i networkInterface) string { return i.name })
	for _, i := range all {
		if name != "" && i.name != name || !i.up {
			continue
		}
		for _, a := range i.addrs {
			// Link-local addresses are not valid on other hosts.
			if !a.IsLinkLocalUnicast() && (!a.IsLoopback() || name != "") {
				found = append(found, a)
			}
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case name != "" && !slices.Contains(names, name):
		return nil, fmt.Errorf("no network interface %q: this host has %v", name, names)
	case name != "":
		return nil, fmt.Errorf("network interface %q has no address that other hosts could use", name)
	}
	return nil, fmt.Errorf("no address by which other hosts reach this one (network interfaces %v)", names)
}
