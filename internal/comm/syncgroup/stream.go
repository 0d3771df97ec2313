package syncgroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// stream is one rank's end of a connection to the hub.
type stream struct {
	rank, size int
	link       *connection.Link[frame]
	closed     atomic.Bool

	answers chan frame    // the hub's answers; at most one is in flight
	ended   chan struct{} // closed when verdict has been set
	end     sync.Once
	verdict *AbortedError
}

var _ Group = (*stream)(nil)

// JoinStream joins the group whose hub has the other end of conn, see [ServeHub]. It does not wait for the others. A
// barrier costs a round trip, and the ranks leave it at different times if their latencies to the hub differ: use
// [JoinShm] on one host.
func JoinStream(conn *connection.Conn, rank, size int) (Group, error) {
	if size < 1 || rank < 0 || rank >= size {
		return nil, fmt.Errorf("joining a hub as rank %d of %d: rank must be 0 to %d", rank, size, size-1)
	}
	s := &stream{rank: rank, size: size, answers: make(chan frame, 1), ended: make(chan struct{})}
	s.link = connection.NewLink[frame](conn)
	go s.listen()
	return s, nil
}

func (s *stream) Rank() int { return s.rank }
func (s *stream) Size() int { return s.size }

func (s *stream) listen() {
	for {
		f, err := s.link.Receive()
		switch {
		case err != nil:
			s.finish(&AbortedError{Rank: HubRank, Reason: "connection lost: " + connection.DescribeLoss(err)})
			return
		case f.kind == frameAbort:
			s.finish(decodeAbort(f.payload))
		default:
			select {
			case s.answers <- f:
			case <-s.ended:
			}
		}
	}
}

func (s *stream) finish(verdict *AbortedError) {
	s.end.Do(func() {
		s.verdict = verdict
		close(s.ended)
	})
}

func (s *stream) Barrier(ctx context.Context) error {
	_, err := s.call(ctx, frame{kind: frameBarrier})
	return err
}

func (s *stream) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	if err := checkLength(mine); err != nil {
		s.Abort(err.Error())
		return nil, err
	}
	answer, err := s.call(ctx, frame{kind: frameExchange, payload: mine})
	if err != nil {
		return nil, err
	}
	all, err := decodeGathered(answer.payload, s.size)
	if err != nil {
		err = fmt.Errorf("exchange: the hub's answer: %w", err)
		s.Abort(err.Error())
	}
	return all, err
}

// call sends f and waits for the hub's answer, which has the same kind.
func (s *stream) call(ctx context.Context, f frame) (frame, error) {
	if s.closed.Load() {
		return frame{}, ErrClosed
	}
	select {
	case <-s.ended:
		return frame{}, s.verdict
	default:
	}
	s.link.Send(f)
	select {
	case answer := <-s.answers:
		if answer.kind != f.kind {
			s.Abort(fmt.Sprintf("the hub answered %q to %q", answer.kind, f.kind))
			return frame{}, s.verdict
		}
		return answer, nil
	case <-s.ended:
		return frame{}, s.verdict
	case <-ctx.Done():
		err := fmt.Errorf("waiting for the other ranks of %d: %w", s.size, context.Cause(ctx))
		s.Abort(err.Error())
		return frame{}, err
	}
}

func (s *stream) Abort(reason string) {
	s.link.Send(frame{kind: frameAbort, payload: []byte(reason)})
	s.finish(&AbortedError{Rank: s.rank, Reason: reason})
}

func (s *stream) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.link.Send(frame{kind: frameLeave})
	s.link.Finish()
	s.link.Abort()
	s.finish(&AbortedError{Rank: s.rank, Reason: "closed"})
	return nil
}
