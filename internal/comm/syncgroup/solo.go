package syncgroup

import (
	"context"
	"sync/atomic"
)

// solo is the group of a single rank: it never waits.
type solo struct {
	aborted atomic.Pointer[AbortedError]
	closed  atomic.Bool
	result  [1][]int64
}

var _ Group = (*solo)(nil)

// Solo returns a group of one rank.
func Solo() Group { return new(solo) }

func (s *solo) Rank() int { return 0 }
func (s *solo) Size() int { return 1 }

func (s *solo) Barrier(context.Context) error { return s.usable() }

func (s *solo) Exchange(_ context.Context, mine []int64) ([][]int64, error) {
	if err := checkLength(mine); err != nil {
		s.Abort(err.Error())
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	s.result[0] = append(s.result[0][:0], mine...)
	return s.result[:], nil
}

func (s *solo) usable() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.aborted.Load(); err != nil {
		return err
	}
	return nil
}

func (s *solo) Abort(reason string) {
	s.aborted.CompareAndSwap(nil, &AbortedError{Rank: 0, Reason: reason})
}

func (s *solo) Close() error {
	s.closed.Store(true)
	return nil
}
