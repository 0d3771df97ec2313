package shm

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
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

// Exchange gives every rank what all ranks gave. It is two agreements: nobody reads
// before all have written, and nobody writes again before all have read.
func (a *Agreement) Exchange(what string, mine []byte) ([][]byte, error) {
	if len(mine) > StageBytes-8 {
		return nil, fmt.Errorf("exchanging %d bytes: at most %d", len(mine), StageBytes-8)
	}
	stage := a.Stage(a.Rank())
	binary.LittleEndian.PutUint64(stage, uint64(len(mine)))
	copy(stage[8:], mine)
	if err := a.Agree(NewLabel(what)); err != nil {
		return nil, err
	}
	all := make([][]byte, a.Size())
	for rank := range all {
		stage := a.Stage(rank)
		all[rank] = slices.Clone(stage[8:][:binary.LittleEndian.Uint64(stage)])
	}
	return all, a.Agree(NewLabel(what + " (read)"))
}

// Bereft tells whether a rank has left or died, of which it then tells the others too.
func (a *Agreement) Bereft(doing string) bool {
	for rank := range a.Size() {
		if why, dead := a.Gone(rank); rank != a.Rank() && why != "" {
			_ = a.Lost(rank, dead, why, doing)
			return true
		}
	}
	return false
}

// Alone tells whether all other ranks have left or died, but for those of this process,
// which share what it has.
func (a *Agreement) Alone() bool {
	for rank, pid := range a.Meeting.PIDs {
		if why, _ := a.Gone(rank); rank != a.Rank() && why == "" && pid != os.Getpid() {
			return false
		}
	}
	return true
}

// Close leaves the group.
func (a *Agreement) Close() {
	a.Leave()
	a.Meeting.Close()
	a.Meeting.Segment.Close()
}
