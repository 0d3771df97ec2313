package connection

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"time"
)

// Arrival is a member that has come to a group that meets once, and what it brings;
// or why somebody who came is none.
type Arrival[P any] struct {
	*Conn
	Join    Join
	Payload P

	from string
	err  error
}

// opening is the first frame, and reply the answer to it.
type opening[P any] struct {
	Join    Join `json:"join"`
	Payload P    `json:"payload"`
}

type reply[A any] struct {
	Refused string `json:"refused,omitempty"`
	Payload A      `json:"payload"`
}

// Arrivals lets members in until the listener is closed. They may come before anybody
// waits for them, and must all be taken, by [Collect] or [RefuseLate].
func Arrivals[P any](l net.Listener, s Service) <-chan Arrival[P] {
	arrivals := make(chan Arrival[P])
	admit := func(c *Conn) {
		var o opening[P]
		a := Arrival[P]{Conn: c, from: hostOf(c.RemoteAddr())}
		if a.err = c.ReceiveFirst(&o); a.err != nil {
			c.Close()
		}
		if a.Join, a.Payload = o.Join, o.Payload; c.PID != 0 {
			a.Join.PID = c.PID // the kernel's word
		}
		arrivals <- a
	}
	refuse := func(from string, err error) { arrivals <- Arrival[P]{from: from, err: err} }
	go func() {
		s.Serve(l, admit, refuse)
		close(arrivals)
	}()
	return arrivals
}

// RefuseLatecomers answers those who come when the group is complete, or was given up, until
// the listener is closed.
func RefuseLatecomers[P any](arrivals <-chan Arrival[P], g *Group) {
	for a := range arrivals {
		if a.err != nil {
			continue
		}
		why := g.refusal(a.Join)
		a.Refuse(cmp.Or(why, "the group was given up"))
	}
}

// Collect waits until every member of the group is there, and returns them by rank;
// those that g has already are nil. It ends with ctx. A member that does not fit is
// told so and is an error for all, because it stands for one that does. On an error
// those who have come are told it.
func Collect[P any](ctx context.Context, arrivals <-chan Arrival[P], g *Group) ([]*Arrival[P], error) {
	begin := time.Now()
	members := make([]*Arrival[P], g.Size)
	for !g.Complete() {
		var fault error
		select {
		case a, open := <-arrivals:
			if !open {
				return nil, net.ErrClosed
			}
			if a.err != nil {
				g.Refuse(a.from, a.err.Error())
				continue
			}
			refusal := "a rank must be given"
			if a.Join.Rank != AnyRank {
				refusal = g.Admit(0, a.Join)
			}
			if refusal == "" {
				members[a.Join.Rank] = &a
				continue
			}
			a.Refuse(refusal)
			fault = fmt.Errorf("%s (pid %d): %s", a.from, a.Join.PID, refusal)
		case <-ctx.Done():
			fault = fmt.Errorf("%s (%w)", g.Missing(time.Since(begin).Round(time.Millisecond)), context.Cause(ctx))
		}
		for _, m := range members {
			if m != nil {
				m.Refuse(fault.Error())
			}
		}
		return nil, fault
	}
	return members, nil
}

// Refuse tells a member why it cannot join, and ends its connection.
func (a *Arrival[P]) Refuse(why string) {
	a.SetWriteDeadline(time.Now().Add(lingerTimeout))
	a.Send(reply[any]{Refused: why}) // one that cannot be told is gone, or going
	a.Close()
}

// Welcome answers a member that was admitted, with files if that is possible, and ends
// its connection.
func Welcome[P, A any](a *Arrival[P], answer A, files ...*os.File) error {
	a.SetWriteDeadline(time.Now().Add(lingerTimeout))
	err := a.Send(reply[A]{Payload: answer}, files...)
	a.Close()
	return err
}

// RefusedError is why a member was not admitted, in the words of the host.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return "refused: " + e.Why }

// JoinOnce joins a group that meets once, with files if that is possible, and waits for its
// answer. When ctx ends, the host is given a second more to say who is missing, which it
// knows better.
func JoinOnce[A, P any](ctx context.Context, c *Conn, j Join, payload P, files ...*os.File) (answer A, err error) {
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Now().Add(lingerTimeout)) })()
	if err := c.Send(opening[P]{j, payload}, files...); err != nil {
		return answer, err
	}
	var r reply[A]
	switch err := c.Receive(&r); {
	case err != nil && ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case err != nil:
		return answer, fmt.Errorf("waiting for the others: %w", err)
	case r.Refused != "":
		return answer, &RefusedError{r.Refused}
	}
	return r.Payload, nil
}
