package connection

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// PortRange are those on which processes may listen for other hosts, as a firewall lets
// them through. The zero value is any port.
type PortRange struct{ First, Last int }

// minPorts is how many a job may need on one host besides those of its ranks: where
// ranks meet, MASTER_PORT and those that follow it.
const minPorts = 16

// ParsePortRange reads A-B; "" is any port.
func ParsePortRange(text string) (p PortRange, err error) {
	if text == "" {
		return p, nil
	}
	first, last, ok := strings.Cut(text, "-")
	p.First, err = strconv.Atoi(first)
	last1, err1 := strconv.Atoi(last)
	p.Last = last1
	switch {
	case !ok || err != nil || err1 != nil || p.First < 1 || p.Last > 65535 || p.First > p.Last:
		return PortRange{}, fmt.Errorf("port range %q: want two ports such as 29500-29599, the lower one first", text)
	case p.Last-p.First+1 < minPorts:
		return PortRange{}, fmt.Errorf("port range %s has %d ports: a job needs at least %d, and one for every rank of a host",
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

// PortRangeFromEnv reads them from an environment.
func PortRangeFromEnv(environ []string) (PortRange, error) {
	p, err := ParsePortRange(jobenv.Variable(environ, jobenv.PortsVar))
	if err != nil {
		err = fmt.Errorf("%s: %w", jobenv.PortsVar, err)
	}
	return p, err
}

// Listen opens one of them at an address of this host, "" for all of its addresses.
func (p PortRange) Listen(addr string) (net.Listener, error) {
	if p == (PortRange{}) {
		return net.Listen("tcp", net.JoinHostPort(addr, "0"))
	}
	return p.listenFirstFree(addr, p.Last)
}

// listenFirstFree opens the first that is free up to the last, from anywhere on: ranks of one
// host would otherwise all try the same ones.
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

// The ports to choose from: below those that the kernel hands out, of which any connection of anybody could take one in
// between, and away from the ones where rendezvous are by default.
const defaultFirstPort, defaultLastPort = 20_000, 28_999

// FreePort returns one that was free a moment ago at an address of this host, for a program to listen on. Another may take
// it before, so a failed bind is worth a second try with another port. The few ports above it are in the range too:
// ranks meet there.
func (p PortRange) FreePort(addr string) (int, error) {
	l, err := p.listenFree(addr)
	if err != nil {
		return 0, fmt.Errorf("finding a free port on %s: %w", addr, err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (p PortRange) listenFree(addr string) (net.Listener, error) {
	const above = 10
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

// firstEphemeralPort is the first port that the kernel hands out, 0 if that is not known.
func firstEphemeralPort(limits string) (first int) {
	fmt.Sscan(limits, &first)
	return first
}

// ListenAt is Listen at the address by which the other hosts know this one: see
// [ListenTCP].
func (p PortRange) ListenAt(ctx context.Context, host string) (net.Listener, error) {
	bind, err := bindAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	return p.Listen(bind)
}
