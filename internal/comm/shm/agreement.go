package shm

import (
	"context"
	"os"
)

// Agreement is how the ranks of a host make sure that they make the same calls, and
// tell each other when they cannot, for backends whose data goes another way.
type Agreement struct {
	*Member
	Meeting *Meeting
}

// MeetToAgree finds the other ranks of the group on this host, and returns once all
// have come.
func MeetToAgree(ctx context.Context, id Identity) (*Agreement, error) {
	id.Claim = id.Rank
	met, err := Meet(ctx, id, func() (*os.File, error) { return NewFile(BoardBytes(id.Size)) })
	if err != nil {
		return nil, err
	}
	ranks := make([]int, id.Size)
	for r := range ranks {
		ranks[r] = r
	}
	a := &Agreement{Meeting: met, Member: Join(Membership{
		Segment: met.Segment, Board: BoardAt(met.Segment, 0, id.Size), Rank: id.Rank, PIDs: met.PIDs, World: ranks, Crowded: met.Crowded, Timeout: id.Timeout,
	})}
	// Nobody goes on before all have made their claims: from here on a rank
	// without one is dead.
	if err := a.Agree(NewLabel("init")); err != nil {
		a.Close()
		return nil, err
	}
	a.CountFromHere()
	return a, nil
}

// Agree returns once all ranks are known to make this call.
func (a *Agreement) Agree(l *Label) error {
	if err := a.Begin(l, 1); err != nil {
		return err
	}
	epoch := a.Next()
	a.Signal()
	return a.AwaitAll(epoch)
}

// Close leaves the group.
func (a *Agreement) Close() {
	a.Leave()
	a.Meeting.Close()
	a.Meeting.Segment.Close()
}
