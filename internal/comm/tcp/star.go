package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// Star is an exchange for ranks that know nothing of each other but an address
// at which rank 0 listens, and a secret.
type Star struct {
	Endpoint string // host:port
	Rank     int
	Size     int
	Secret   []byte

	mu       sync.Mutex
	arrivals chan arrival // at rank 0, once it listens
	round    int
}

const (
	starBanner = "kernbench star 1\n"
	redial     = 50 * time.Millisecond
)

// starMessage is a rank's part, or all ranks' parts.
type starMessage struct {
	Round, Rank, Size int
	Mine              []byte   `json:",omitempty"`
	All               [][]byte `json:",omitempty"`
	Refused           string   `json:",omitempty"`
}

type starLink = connection.Link[starMessage]

// Exchange gives every rank what all ranks gave. It waits as long as ctx lasts.
func (s *Star) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	if s.Rank == 0 {
		return s.gather(ctx, mine)
	}
	return s.visit(ctx, mine)
}

// arrival is a rank that has come, or why it is of no use.
type arrival struct {
	link    *starLink
	message starMessage
	err     error
	from    string
}

// gather is the part of rank 0.
func (s *Star) gather(ctx context.Context, mine []byte) ([][]byte, error) {
	if err := s.listen(); err != nil {
		return nil, fmt.Errorf("meeting at %s: %w", s.Endpoint, err)
	}
	all, links := make([][]byte, s.Size), make([]*starLink, s.Size)
	all[0] = mine
	err := s.receive(ctx, all, links)
	answer := starMessage{All: all}
	if err != nil {
		answer = starMessage{Refused: err.Error()}
	}
	var told sync.WaitGroup
	for _, l := range links {
		if l != nil {
			told.Go(func() {
				l.Send(answer)
				l.Finish()
				l.Receive() // the peer closes when it has read
				l.Abort()
			})
		}
	}
	told.Wait()
	if err != nil {
		return nil, err
	}
	return all, nil
}

// listen opens the endpoint once, for as long as the process lives: ranks may
// come to the next exchange before rank 0 does.
func (s *Star) listen() error {
	if s.arrivals != nil {
		return nil
	}
	l, err := net.Listen("tcp", s.bindTo())
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("the port is in use: choose another one (%w)", err)
	}
	if err != nil {
		return err
	}
	s.arrivals = make(chan arrival)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				time.Sleep(redial) // out of descriptors, say
				continue
			}
			go func() { s.arrivals <- s.greet(conn) }()
		}
	}()
	return nil
}

func (s *Star) service() connection.Service {
	return connection.Service{Banner: starBanner, Secret: s.Secret}
}

// bindTo is the endpoint as rank 0 opens it. A host's own name may stand for a
// loopback address there, as Debian sets it up, so a name means every address.
func (s *Star) bindTo() string {
	host, port, err := net.SplitHostPort(s.Endpoint)
	if _, notLiteral := netip.ParseAddr(host); err == nil && notLiteral != nil && host != "localhost" {
		return ":" + port
	}
	return s.Endpoint
}

func (s *Star) greet(conn net.Conn) arrival {
	a := arrival{from: conn.RemoteAddr().String()}
	c, err := s.service().Greet(conn)
	if a.err = err; err != nil {
		return a
	}
	a.link = connection.NewLink[starMessage](c)
	conn.SetReadDeadline(time.Now().Add(connection.HandshakeLimit))
	if a.message, a.err = a.link.Receive(); a.err != nil {
		a.link.Abort()
	}
	conn.SetReadDeadline(time.Time{})
	return a
}

func (s *Star) receive(ctx context.Context, all [][]byte, links []*starLink) error {
	begun := time.Now()
	rejected := ""
	for missing := s.Size - 1; missing > 0; {
		select {
		case a := <-s.arrivals:
			m := a.message
			switch {
			case a.err != nil:
				rejected = fmt.Sprintf("; %s was turned away: %v", a.from, a.err)
				continue
			case m.Size != s.Size || m.Rank < 1 || m.Rank >= s.Size || m.Round != s.round || links[m.Rank] != nil:
				fault := fmt.Errorf("%s comes as rank %d of %d in round %d: here are %d ranks in round %d, and each comes once", a.from, m.Rank, m.Size, m.Round, s.Size, s.round)
				a.link.Send(starMessage{Refused: fault.Error()})
				a.link.Finish()
				return fault
			}
			all[m.Rank], links[m.Rank] = m.Mine, a.link
			if all[m.Rank] == nil {
				all[m.Rank] = []byte{}
			}
			missing--
		case <-ctx.Done():
			var absent []int
			for r, l := range links {
				if r > 0 && l == nil {
					absent = append(absent, r)
				}
			}
			return fmt.Errorf("ranks %v of %d have not come to %s within %v%s: %w",
				absent, s.Size, s.Endpoint, time.Since(begun).Round(time.Millisecond), rejected, context.Cause(ctx))
		}
	}
	return nil
}

// visit is the part of the other ranks.
func (s *Star) visit(ctx context.Context, mine []byte) ([][]byte, error) {
	for {
		all, err := s.call(ctx, mine)
		var final *refusal
		switch {
		case err == nil:
			return all, nil
		case errors.As(err, &final), errors.Is(err, connection.ErrSecret), errors.Is(err, connection.ErrOtherService):
			return nil, fmt.Errorf("meeting at %s: %w", s.Endpoint, err)
		}
		select {
		case <-time.After(redial):
		case <-ctx.Done():
			return nil, fmt.Errorf("no rank 0 at %s: %w (%w)", s.Endpoint, err, context.Cause(ctx))
		}
	}
}

// refusal is rank 0's word.
type refusal struct{ text string }

func (r *refusal) Error() string { return "rank 0: " + r.text }

func (s *Star) call(ctx context.Context, mine []byte) ([][]byte, error) {
	d := net.Dialer{Timeout: dialLimit}
	conn, err := d.DialContext(ctx, "tcp", s.Endpoint)
	if err != nil {
		return nil, err
	}
	c, err := s.service().Answer(conn)
	if err != nil {
		return nil, err
	}
	l := connection.NewLink[starMessage](c)
	defer l.Abort()
	// Rank 0 knows better who is missing: it gets a moment to say so.
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now().Add(time.Second)) })
	defer stop()
	l.Send(starMessage{Round: s.round, Rank: s.Rank, Size: s.Size, Mine: mine})
	m, err := l.Receive()
	switch {
	case err != nil:
		return nil, fmt.Errorf("waiting for the other ranks: %w", err)
	case m.Refused != "":
		return nil, &refusal{m.Refused}
	}
	return m.All, nil
}
