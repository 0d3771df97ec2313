package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrNotLocal says that an address is not one of this host.
var ErrNotLocal = errors.New("not an address of this host")

// ListenLocal opens a unix socket in the abstract name space: no file is left
// behind, however the process ends.
func ListenLocal(name string) (net.Listener, error) { return net.Listen("unix", "@"+name) }

// ListenTCP opens a port at the address by which the other hosts know this one, a
// name or a literal. The error is ErrNotOwn when the address is
// another host's.
func ListenTCP(ctx context.Context, host string, port int) (net.Listener, error) {
	bind, err := bindAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	return net.Listen("tcp", net.JoinHostPort(bind, strconv.Itoa(port)))
}

// bindAddr is where to listen to be reached at the address, "" for everywhere.
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
		// The host's own name stands for loopback in its hosts file, as Debian sets it
		// up; the other hosts resolve it to an address that works.
		return "", nil
	}
	return own.String(), nil
}

// Resolve gives the addresses of a name, or of a literal.
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

// ownAddr finds the first of the addresses that this host has.
func ownAddr(addrs []netip.Addr) (netip.Addr, bool) {
	nets, _ := net.InterfaceAddrs()
	for _, addr := range addrs {
		for _, n := range nets {
			prefix, err := netip.ParsePrefix(n.String())
			// The whole of 127.0.0.0/8 is the host itself.
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

// LoopbackPair connects two TCP sockets of this process. Whoever else comes to the port
// meanwhile is turned away.
func LoopbackPair() (dialled, accepted *net.TCPConn, err error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if dialled, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr)); err != nil {
		return nil, nil, err
	}
	for {
		if accepted, err = l.AcceptTCP(); err != nil {
			dialled.Close()
			return nil, nil, err
		}
		if accepted.RemoteAddr().String() == dialled.LocalAddr().String() {
			return dialled, accepted, nil
		}
		accepted.Close()
	}
}

// SocketPair makes a socket pair: one end for this process, the other for a child.
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

// FromDescriptor takes over the descriptor of a [Pair] that this process was started with.
func FromDescriptor(fd int) (*Conn, error) {
	f := os.NewFile(uintptr(fd), "socket pair")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d is not valid", fd)
	}
	defer f.Close() // FileConn works on a copy
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
