package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// Bootstrap provides an exchange for ranks that know only an address, at which rank 0 listens, and a secret.
type Bootstrap struct {
	Endpoint string // host:port
	Rank     int
	Size     int
	Secret   []byte
	// SameBuild requires that all ranks run the same executable.
	SameBuild bool

	mu       sync.Mutex                        // held during an exchange: exchanges run one at a time
	arrivals <-chan connection.Arrival[[]byte] // connections to rank 0, once it listens
	round    int                               // number of exchanges begun; the ranks must agree on it
}

// Exchange returns the data of all ranks, in rank order. ctx limits the waiting.
func (b *Bootstrap) Exchange(ctx context.Context, mine []byte) (all [][]byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.round++
	if b.Rank == 0 {
		all, err = b.gather(ctx, mine)
	} else {
		all, err = b.contribute(ctx, mine)
	}
	if err != nil {
		return nil, fmt.Errorf("meeting at %s: %w", b.Endpoint, err)
	}
	return all, nil
}

func (b *Bootstrap) service() connection.Service {
	return connection.Service{Banner: "kernbench bootstrap 2\n", Secret: b.Secret}
}

func (b *Bootstrap) join() connection.Join {
	host, _ := os.Hostname()
	return connection.Join{Rank: b.Rank, Size: b.Size, Host: host, PID: os.Getpid(), Facts: b.facts()}
}

func (b *Bootstrap) facts() []connection.Fact {
	facts := []connection.Fact{{Name: "exchange", Value: strconv.Itoa(b.round),
		Advice: "every rank must make the same calls"}}
	if b.SameBuild {
		facts = append(facts, connection.BuildFact(false))
	}
	return facts
}

// gather is rank 0's part of Exchange. It collects the data of all ranks and sends all of it to every rank.
func (b *Bootstrap) gather(ctx context.Context, mine []byte) ([][]byte, error) {
	if err := b.listen(); err != nil {
		return nil, err
	}
	g := &connection.Group{Noun: "rank", Size: b.Size, Facts: b.facts()}
	g.Admit(connection.SelfPeer, b.join())
	ranks, err := connection.Collect(ctx, b.arrivals, g)
	if err != nil {
		return nil, err
	}
	all := make([][]byte, b.Size)
	all[0] = mine
	for r, a := range ranks[1:] {
		all[r+1] = a.Payload
	}
	// Answer all ranks concurrently, so that several unreachable ones take only one timeout.
	faults := make([]error, b.Size)
	var answers sync.WaitGroup
	for r, a := range ranks[1:] {
		answers.Go(func() {
			if err := connection.Welcome(a, all); err != nil {
				faults[r] = fmt.Errorf("answering %s: %w", g.Name(a.Join), err)
			}
		})
	}
	answers.Wait()
	return all, errors.Join(faults...)
}

// listen opens the endpoint on first use and keeps it open, because other ranks may start the next exchange before rank
// 0 does.
func (b *Bootstrap) listen() error {
	if b.arrivals != nil {
		return nil
	}
	l, err := net.Listen("tcp", b.bindAddress())
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("the port is in use: choose another one (%w)", err)
	}
	if err != nil {
		return err
	}
	b.arrivals = connection.Arrivals[[]byte](l, b.service())
	return nil
}

// bindAddress returns the address that rank 0 listens on. If the endpoint is a host name, that is every
// address, because a host's own name may resolve to a loopback address, as on Debian.
func (b *Bootstrap) bindAddress() string {
	host, port, err := net.SplitHostPort(b.Endpoint)
	if _, notLiteral := netip.ParseAddr(host); err == nil && notLiteral != nil && host != "localhost" {
		return ":" + port
	}
	return b.Endpoint
}

// contribute is the other ranks' part of Exchange. It retries until rank 0 listens, because rank 0 may start later.
func (b *Bootstrap) contribute(ctx context.Context, mine []byte) ([][]byte, error) {
	return connection.Retry(ctx, func() ([][]byte, error) {
		c, err := b.service().Dial(ctx, "tcp", b.Endpoint)
		if errors.Is(err, connection.ErrWrongSecret) || errors.Is(err, connection.ErrWrongService) {
			err = connection.Permanent(err)
		}
		if err != nil {
			return nil, err
		}
		defer c.Close()
		all, err := connection.JoinOnce[[][]byte](ctx, c, b.join(), mine)
		if _, is := errors.AsType[*connection.RefusedError](err); is {
			err = connection.Permanent(err)
		}
		return all, err
	})
}
