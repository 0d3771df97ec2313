package cpu

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// chat is a send or a receive of the program, to or from another host. The
// two halves of a link may be at work at once, each with its own waiting.
type chat struct {
	s       *spanning
	link    *tcp.Link
	receive bool
	mem     []byte
	header  tcp.Header
	wait    waiting
	sleeper tcp.Sleeper
}

func (s *spanning) chat(p dist.Plan) func() error {
	c := &chat{s: s, link: s.chats[p.Peer], receive: p.Op == dist.Recv, mem: p.In.Bytes()}
	if c.receive {
		c.mem = p.Out.Bytes()
	}
	// Both ends count elements, whose type is the signature.
	c.header = tcp.Header{Call: uint64(p.Count), Sign: uint64(p.DType), Bytes: uint64(len(c.mem))}
	c.wait = waiting{s: s, sleeper: &c.sleeper, peer: p.Peer, doing: p.String()}
	return c.run
}

func (c *chat) run() error {
	if c.s.member.Failed() {
		return c.s.member.Failure()
	}
	if c.receive {
		c.link.In.ExpectHeader(c.header)
		c.link.In.Expect(c.mem)
	} else {
		c.link.Out.PostHeader(c.header)
		c.link.Out.Post(c.mem)
	}
	for c.wait.moved(); ; {
		moved, pending, err := c.progress()
		switch {
		case err != nil:
			return c.broken(err)
		case !pending:
			return nil
		case moved:
			c.wait.moved()
			continue
		}
		awake, err := c.wait.awake()
		if err != nil {
			return err
		}
		if !awake {
			c.sleeper.SleepOn(remotePatience, c.link, c.receive)
		}
	}
}

func (c *chat) progress() (moved, pending bool, err error) {
	if c.receive {
		moved, err = c.link.In.Progress()
		return moved, c.link.In.Pending(), err
	}
	moved, err = c.link.Out.Progress()
	return moved, c.link.Out.Pending(), err
}

func (c *chat) broken(err error) error {
	var other *tcp.MismatchError
	if !errors.As(err, &other) {
		return c.s.broken(c.link, err, c.wait.doing)
	}
	note := func(h tcp.Header) string {
		return describe(shm.Note{Type: h.Sign, Count: h.Call, Bytes: h.Bytes})
	}
	return c.s.member.Disagree(fmt.Sprintf("rank %d sends %s to rank %d, which receives %s", c.link.Peer, note(other.Got), c.s.rank, note(other.Want)))
}
