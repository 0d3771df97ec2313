package rankhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/connection"
)

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

	own bool // the rank host is in the process that leads
}

// service is how the ranks open a connection. On one host the kernel says who the other
// is, so that the name is enough of a secret.
func (c Config) service() connection.Service {
	s := connection.Service{Banner: "kernbench rank host 1\n", Secret: c.Secret}
	if c.Local != "" {
		s.Secret = []byte(c.Local)
	}
	return s
}

func (c Config) facts() []connection.Fact {
	return []connection.Fact{{Name: "the command", Value: c.Command}, connection.BuildFact()}
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

// listen opens the address at which rank 0 waits for the others.
func (c Config) listen(ctx context.Context) (net.Listener, error) {
	if c.Local != "" {
		return connection.ListenLocal(c.Local)
	}
	var errs []error
	for _, port := range c.Ports {
		l, err := connection.ListenTCP(ctx, c.Host, port)
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

// find looks for rank 0 until it is there.
func (c Config) find(ctx context.Context) (*connection.Conn, error) {
	network, addresses := "unix", []string{"@" + c.Local}
	if c.Local == "" {
		network = "tcp"
		addresses = lists.Map(c.Ports, func(port int) string { return net.JoinHostPort(c.Host, strconv.Itoa(port)) })
	}
	limited, cancel := context.WithTimeout(ctx, c.JoinTimeout)
	defer cancel()
	conn, err := c.service().DialAny(limited, network, addresses...)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, connection.ErrWrongSecret):
		return nil, fmt.Errorf("refused by rank 0 at %s: %w; every rank needs the same one", c.where(), err)
	case ctx.Err() != nil:
		return nil, ErrInterrupted
	}
	if c.Local == "" {
		err = fmt.Errorf("%w; this host has %s", err, connection.DescribeInterfaces())
	}
	return nil, fmt.Errorf("rank %d found no rank 0 at %s within %v: %w", c.Rank, c.where(), c.JoinTimeout, err)
}

// join is what this rank says of itself to rank 0, which it has reached at the address.
func (c Config) join(reached, own string) *join {
	return &join{connection.Join{Rank: c.Rank, Size: c.Size, Host: c.Name, PID: os.Getpid(), Facts: c.facts()}, reached,
		cores.Allowed(), own}
}
