package rankhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// banner names this service and its version.
const banner = "kernbench station 1\n"

const redialTime = 50 * time.Millisecond

type link = connection.Link[message]

// Config is what a rank knows before it meets the others.
type Config struct {
	Rank, Size           int
	LocalRank, LocalSize int // on this host
	// Local, if set, is a name that the ranks of the job, all on this host, have in
	// common: they meet at a socket of that name.
	Local string
	// Else they meet at rank 0's host, at the first of the ports that is free there,
	// and prove to each other that they know the secret.
	Host   string
	Ports  []int
	Secret []byte

	Command     string // what this rank was told to do; must be the same everywhere
	JoinTimeout time.Duration
	Name        string   // this host's, for messages
	Environ     []string // of this process
}

// secret is what the ranks prove to each other. On one host the kernel says who
// the other is, so that the name is enough.
func (c Config) secret() []byte {
	if c.Local != "" {
		return []byte(c.Local)
	}
	return c.Secret
}

func (c Config) where() string {
	if c.Local != "" {
		return "this host"
	}
	if len(c.Ports) == 1 {
		return net.JoinHostPort(c.Host, strconv.Itoa(c.Ports[0]))
	}
	return fmt.Sprintf("%s, ports %d and following", c.Host, c.Ports[0])
}

// listen opens the meeting place at rank 0.
func (c Config) listen(ctx context.Context) (net.Listener, error) {
	if c.Local != "" {
		return net.Listen("unix", "@"+c.Local)
	}
	var errs []error
	for _, port := range c.Ports {
		l, err := listenOn(ctx, c.Host, port)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, syscall.EADDRINUSE) {
			break // another port would not help
		}
	}
	return nil, errors.Join(errs...)
}

func listenOn(ctx context.Context, host string, port int) (net.Listener, error) {
	addrs := []netip.Addr{}
	if literal, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, literal)
	} else {
		if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
		if host != "localhost" && addrs[0].Unmap().IsLoopback() {
			// The host's own name stands for loopback in its hosts file, as Debian sets
			// it up; the other hosts resolve it to an address that works.
			return net.Listen("tcp", fmt.Sprintf(":%d", port))
		}
	}
	var last error
	for _, a := range addrs {
		l, err := net.Listen("tcp", netip.AddrPortFrom(a.Unmap(), uint16(port)).String())
		if err == nil {
			return l, nil
		}
		if last = err; errors.Is(err, syscall.EADDRNOTAVAIL) {
			last = fmt.Errorf("%s (%s) is no address of the host of rank 0: %w", host, a, err)
		}
	}
	return nil, last
}

// dial tries once to reach rank 0 at an address.
func (c Config) dial(ctx context.Context, network, address string) (*link, error) {
	d := net.Dialer{Timeout: connection.HandshakeLimit}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	return c.greet(conn)
}

// greet proves to rank 0 that this is one of its ranks, and demands the same.
func (c Config) greet(conn net.Conn) (*link, error) {
	found, err := c.service().Answer(conn)
	if err != nil {
		return nil, err
	}
	return connection.NewLink[message](found), nil
}

func (c Config) service() connection.Service {
	return connection.Service{Banner: banner, Secret: c.secret()}
}

// meet keeps looking for rank 0 until it is there. Every place where it may be is
// looked at for itself: a service that says nothing must not hold up the search.
func (c Config) meet(ctx context.Context) (*link, error) {
	network, addresses := "unix", []string{"@" + c.Local}
	if c.Local == "" {
		network, addresses = "tcp", nil
		for _, port := range c.Ports {
			addresses = append(addresses, net.JoinHostPort(c.Host, strconv.Itoa(port)))
		}
	}
	limited, cancel := context.WithTimeout(ctx, c.JoinTimeout)
	defer cancel()
	type found struct {
		link *link
		err  error
	}
	answers := make(chan found, len(addresses))
	for _, address := range addresses {
		go func() {
			l, err := c.persist(limited, network, address)
			answers <- found{l, err}
		}()
	}
	var errs []error
	for range addresses {
		f := <-answers
		switch {
		case f.err == nil:
			return f.link, nil
		case errors.Is(f.err, connection.ErrSecret):
			return nil, fmt.Errorf("rank 0 at %s turned this one away: %w; every rank needs the same one", c.where(), f.err)
		}
		errs = append(errs, f.err)
	}
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	return nil, fmt.Errorf("rank %d found no rank 0 at %s within %v: %w", c.Rank, c.where(), c.JoinTimeout, errors.Join(errs...))
}

// persist tries one address until it is rank 0's, or the time is over.
func (c Config) persist(ctx context.Context, network, address string) (*link, error) {
	for last := error(nil); ; {
		l, err := c.dial(ctx, network, address)
		switch {
		case err == nil || errors.Is(err, connection.ErrSecret):
			return l, err
		case ctx.Err() == nil || last == nil:
			last = err // what is said after the end of time is only about that
		}
		select {
		case <-time.After(redialTime):
		case <-ctx.Done():
			return nil, last
		}
	}
}
